// The watched launch: observers before and after, the step marked for the fault handlers, a bundle when it fails. None
// of this runs unless a hook is set or a setting asked for it.
#include <signal.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "runtime/element.h"
#include "runtime/fault_signals.h"
#include "runtime/guarded_launch.h"
#include "runtime/model.h"
#include "runtime/run.h"
#include "runtime/step_text.h"

namespace kiln::runtime {

using format::StepKind;

namespace {

const char* kind_name(StepKind kind) {
  switch (kind) {
    case StepKind::kernel:
      return "kernel";
    case StepKind::library:
      return "library";
    default:
      return "custom";
  }
}

std::string address_text(const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", address);
  return text;
}

int64_t tensor_span(const DLTensor& tensor) {
  int64_t last = 0;
  for (int32_t d = 0; d < tensor.ndim; ++d) {
    if (tensor.shape[d] == 0) return 0;
    last += (tensor.shape[d] - 1) * tensor.strides[d];
  }
  auto dtype = dtype_of(tensor.dtype);
  return dtype ? (last + 1) * dtype_bytes(*dtype) : 0;
}

}  // namespace

// The current step of a run that nobody observes: what there is to say was prepared when the model was loaded.
class Run::NamedStep : public RunningStep {
 public:
  explicit NamedStep(Run& run) : run_(run) {}
  std::string_view text() const override {
    if (run_.position_ < 0) return "a run, between its steps";
    return run_.model_.watch().place(static_cast<size_t>(run_.position_));
  }
  void report(int signal, const void* address) const override {
    const PreparedStep* step = run_.position_ < 0 ? nullptr : &run_.program_.steps[static_cast<size_t>(run_.position_)];
    run_.crashed(step, signal, address, text());
  }

 private:
  Run& run_;
};

void Run::run_named(const std::vector<int32_t>& steps) {
  install_fault_handlers();
  if (!named_) named_ = std::make_shared<NamedStep>(*this);
  const StepMark mark(named_.get());
  struct Ended {
    Run& run;
    ~Ended() { run.running_ = nullptr, run.position_ = -1; }
  } const ended{*this};
  running_ = named_.get();
  block<false>(steps);
}

// Which argument the address belongs to, or is just outside of.
std::string Run::near(const PreparedStep& prepared, const void* address) {
  const auto at = reinterpret_cast<intptr_t>(address);
  const int64_t close = model_.options().debug.separate_buffers ? GuardRegion::guard_bytes : 1 << 16;
  std::string best;
  int64_t best_distance = close;
  for (const format::KernelArg& used : buffers_used(*prepared.step)) {
    if (!buffer_known(used.buffer)) continue;
    const DLTensor tensor = view(used.buffer);
    const auto begin = reinterpret_cast<intptr_t>(tensor.data), end = begin + tensor_span(tensor);
    const int64_t distance = at < begin ? begin - at : at >= end ? at - end + 1 : 0;
    if (distance >= best_distance) continue;
    best_distance = distance;
    std::string relation = "inside";
    if (at < begin) relation = str(distance, " bytes before the start of");
    if (at >= end) relation = at == end ? "right behind the end of" : str(at - end, " bytes past the end of");
    best = str("  address ", address_text(address), " is ", relation, " buffer ", program_.buffer(used.buffer).name,
               " (", tensor_text(tensor), ")");
  }
  return best;
}

// On the reporting thread, while the faulting one waits.
void Run::crashed(const PreparedStep* prepared, int signal, const void* address, std::string_view text) {
  // Of an arithmetic fault and of an unknown instruction the address is the instruction's.
  const std::string where = signal == SIGFPE || signal == SIGILL || !prepared ? "" : near(*prepared, address);
  if (!where.empty()) model_.log().write(KILN_LOG_ERROR, where);
  const CallInputs call{call_inputs_, call_input_count_};
  if (const auto& tell = model_.options().debug.crashed)
    tell(str(signal_name(signal), " inside ", text, where.empty() ? "" : "\n", where), in_call_ ? &call : nullptr);
}

// A step as observers see it. Lives as long as the launch; its kiln_step points into it.
class Run::ObservedStep : public RunningStep {
 public:
  ObservedStep(Run& run, const PreparedStep& prepared, const BoundStep& bound)
      : run_(run), prepared_(prepared), bound_(bound), iterations_(run.iterations_) {
    text_ = str("kernel ", prepared.step->name, " (step ", prepared.step->number, ", run ", run.run_number_,
                iterations_text(iterations_.data(), iterations_.size()), ")",
                run.model_.origin_text(prepared.step->number));
  }

  std::string_view text() const override { return text_; }

  const kiln_step& view() {
    args_.clear(), buffers_.clear(), hosts_.clear(), names_.clear(), values_.clear();
    run_.forget_host_copies();
    for (const format::KernelArg& used : buffers_used(*prepared_.step)) {
      // Sizes that the step itself will find are not there yet.
      if (!run_.buffer_known(used.buffer)) continue;
      const format::Buffer& buffer = run_.program_.buffer(used.buffer);
      kiln_step_arg arg{};
      arg.name = buffer.name.c_str(), arg.tensor = run_.view(used.buffer),
      arg.access = static_cast<int32_t>(used.access);
      arg.is_output = buffer.role == format::BufferRole::output, arg.role = static_cast<int32_t>(buffer.role);
      arg.producer = run_.writer_name(used.buffer);
      args_.push_back(arg), buffers_.push_back(used.buffer);
    }
    hosts_.resize(args_.size());
    const auto& symbols = run_.program_.plan.symbols;
    for (size_t s = 0; s < symbols.size(); ++s) {
      if (run_.program_.has_late ? !run_.defined_[s] : run_.program_.symbol_late[s] != 0) continue;
      names_.push_back(symbols[s].name.c_str());
      values_.push_back(run_.symbols_[s]);
    }
    const std::vector<kiln_origin>& origins = run_.model_.origins(prepared_.step->number);
    step_ = {};
    step_.struct_size = sizeof step_;
    step_.name = prepared_.step->name.c_str(), step_.number = prepared_.step->number;
    step_.kind = kind_name(prepared_.step->kind);
    step_.iteration = run_.iteration_, step_.items = bound_.items;
    step_.args = args_.data(), step_.arg_count = args_.size();
    step_.origins = origins.data(), step_.origin_count = origins.size();
    step_.run = run_.run_number_, step_.seed = run_.step_seed(prepared_);
    step_.iterations = iterations_.data(), step_.loop_depth = iterations_.size();
    step_.symbol_names = names_.data(), step_.symbol_values = values_.data(), step_.symbol_count = names_.size();
    step_.host_context = this;
    step_.seconds = run_.seconds_;
    step_.host = [](void* self, size_t arg) { return static_cast<ObservedStep*>(self)->host(arg); };
    return step_;
  }

  // Arguments that the step changes, as they were: a bundle has to begin where the step began.
  void keep_arguments() {
    view();
    for (size_t i = 0; i < args_.size(); ++i) {
      if (args_[i].access != 3) continue;
      const auto* begin = static_cast<const std::byte*>(run_.host_pointer(buffers_[i]));
      kept_[args_[i].name] = std::vector<std::byte>(begin, begin + tensor_span(args_[i].tensor));
    }
    run_.forget_host_copies();
  }

  void write_bundle(const std::string& message) {
    const FaultWriter* faults = run_.model_.watch().faults();
    if (!faults) return;
    view();
    try {
      for (size_t i = 0; i < args_.size(); ++i)
        if (auto kept = kept_.find(args_[i].name); kept != kept_.end() && host(i))
          hosts_[i]->data = kept->second.data();
      run_.model_.log().write(KILN_LOG_ERROR, str("fault bundle written to ", faults->write(step_, message)));
    } catch (const Error& error) {
      run_.model_.log().write(KILN_LOG_ERROR, str("no fault bundle: ", error.message()));
    }
  }

  void report(int signal, const void* address) const override {
    run_.crashed(&prepared_, signal, address, text_);
    const std::string where = signal == SIGFPE || signal == SIGILL ? "" : run_.near(prepared_, address);
    auto& self = const_cast<ObservedStep&>(*this);  // the run will not go on
    self.write_bundle(str(signal_name(signal), " inside ", text_, where.empty() ? "" : "\n", where));
  }

  // What an observer asks for; nullptr: it cannot be had.
  const DLTensor* host(size_t arg) noexcept {
    if (arg >= args_.size()) return nullptr;
    try {
      if (!hosts_[arg]) hosts_[arg] = run_.host_view(buffers_[arg]);
      return &*hosts_[arg];
    } catch (const std::exception&) {
      return nullptr;
    }
  }

 private:
  Run& run_;
  const PreparedStep& prepared_;
  const BoundStep& bound_;
  std::vector<int64_t> iterations_;
  std::vector<kiln_step_arg> args_;
  std::vector<int32_t> buffers_;                // of args_
  std::vector<std::optional<DLTensor>> hosts_;  // of args_, where somebody has asked
  std::vector<const char*> names_;
  std::vector<int64_t> values_;
  std::map<std::string_view, std::vector<std::byte>> kept_;
  std::string text_;
  kiln_step step_{};
};

void Run::start_watching(uint64_t number) {
  run_number_ = number;
  if (model_.watch().any()) install_fault_handlers();  // a recovered fault used one up; a fork has lost the reporter
  writers_.assign(program_.plan.buffers.size(), format::none);
  iterations_.clear();
}

const char* Run::writer_name(int32_t buffer) const {
  const int32_t by = writers_[static_cast<size_t>(program_.owner[static_cast<size_t>(buffer)])];
  return by == format::none ? "" : program_.steps[static_cast<size_t>(by)].step->name.c_str();
}

void Run::launch_observed(const PreparedStep& prepared, const BoundStep& bound) {
  const char* name = prepared.step->name.c_str();
  const Watch& watch = model_.watch();
  const bool wanted = (hook_ && hook_->wants(name)) || watch.wants(name);
  ObservedStep observed(*this, prepared, bound);
  if (watch.faults()) observed.keep_arguments();
  try {
    // Copies of the arguments as they are now: the loops come first, because they say more of what they find.
    const void* const checked = watch.checked_code(prepared);
    std::optional<GuardedArguments> copies;
    if (checked) copies.emplace(*this, prepared, GuardRegion::Flush::end);
    seconds_ = 0;
    const bool replaced = wanted && notify(KILN_BEFORE_STEP, prepared, observed);
    const bool timed = !host_ && !replaced && wanted && prepared.kernel;
    {
      StepMark mark(watch.any() ? &observed : nullptr);
      running_ = watch.any() ? &observed : nullptr;
      if (copies) launch_checked_code(prepared, bound, *copies, checked);
      if (timed) queue_->mark(false);
      if (!replaced && model_.options().debug.separate_buffers && host_)
        launch_guarded(prepared, bound);
      else if (!replaced)
        launch(prepared, bound);
      if (timed) queue_->mark(true);
      synchronise();
      if (timed) seconds_ = queue_->seconds();
    }
    running_ = nullptr;
    for (const format::KernelArg& used : buffers_used(*prepared.step))
      if (writes(used.access))
        writers_[static_cast<size_t>(program_.owner[static_cast<size_t>(used.buffer)])] = prepared.index;
    if (wanted) notify(KILN_AFTER_STEP, prepared, observed);
  } catch (const Error& error) {
    running_ = nullptr;
    if (error.code() != "K0636") observed.write_bundle(error.what());
    throw;
  }
}

bool Run::notify(kiln_hook_when when, const PreparedStep& prepared, ObservedStep& observed) {
  const kiln_step& step = observed.view();
  bool replaced = false, written = false;
  auto ask = [&](StepObserver& observer) {
    if (!observer.wants(step.name)) return;
    const kiln_hook_answer answer = observer.observe(when, step);
    if (answer == KILN_HOOK_STOP) fail_step("K0636", prepared, "a hook stopped the run");
    replaced = replaced || answer == KILN_HOOK_REPLACE;
    written = written || answer == KILN_HOOK_WRITTEN;
  };
  for (const auto& observer : model_.watch().observers()) ask(*observer);
  if (hook_) ask(*hook_);
  if (replaced || written) keep_host_copies(*prepared.step);
  forget_host_copies();
  return replaced;
}

}  // namespace kiln::runtime
