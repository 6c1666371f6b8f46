#include "debug/bisect.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "debug/control_watch.h"
#include "debug/graph_truth.h"
#include "debug/kernel_blame.h"
#include "debug/package_debug.h"
#include "debug/step_copy.h"
#include "driver/executable_dlpack.h"
#include "driver/executable_package.h"
#include "graph/graph_text.h"
#include "package/plan_builder.h"
#include "package/step_plan.h"

namespace kiln {
namespace {

uint64_t checksum(const Tensor& tensor) {
  uint64_t state = 0x243f6a8885a308d3u;
  const Tensor dense = tensor.as_contiguous();
  const auto bytes = static_cast<size_t>(dense.numel() * dtype_bytes(dense.dtype));
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, dense.data() + i, std::min<size_t>(8, bytes - i));
    state = (state ^ word) * 0x9e3779b97f4a7c15u;
    state ^= state >> 32;
  }
  return state;
}

// Whether the kernel's first access to the buffer is a store: then what was there before is not its input. (A store
// to a part of it keeps the rest; who cares about that looks at the values merged into the buffer.)
bool writes_first(const StepInterpreter& steps, const loops::Kernel& kernel, std::string_view name) {
  std::optional<bool> store;
  loops::for_each_stmt(kernel.body, [&](const loops::Stmt& s) {
    if (store || s.buffer == loops::no_buffer) return;
    if (steps.program().buffers[static_cast<size_t>(s.buffer)].name == name)
      store = s.kind == loops::StmtKind::store && s.mode == loops::StoreMode::plain;
  });
  return store.value_or(false);
}

bool draws_random_numbers(const loops::Kernel& kernel) {
  bool found = false;
  loops::for_each_stmt(kernel.body, [&](const loops::Stmt& s) { found |= s.kind == loops::StmtKind::random; });
  return found;
}

// The constant whose elements the init section puts into the buffer, changing nothing but their order.
std::string packed_from(const StepInterpreter& steps, const std::string& buffer) {
  const loops::LoopProgram& program = steps.program();
  for (const loops::Item& item : program.init) {
    const auto* kernel = std::get_if<loops::Kernel>(&item.what);
    if (!kernel) continue;
    std::string from;
    bool writes = false, moves = true;
    loops::for_each_stmt(kernel->body, [&](const loops::Stmt& stmt) {
      const bool access = stmt.kind == loops::StmtKind::load || stmt.kind == loops::StmtKind::store;
      moves &= access ? stmt.mask == loops::no_value : stmt.kind == loops::StmtKind::loop;
      if (!access) return;
      const loops::Buffer& b = program.buffers[static_cast<size_t>(stmt.buffer)];
      if (stmt.kind == loops::StmtKind::store)
        writes |= b.name == buffer;
      else
        moves &= from.empty() || from == b.constant, from = b.constant;
    });
    if (writes) return moves ? from : std::string();
  }
  return "";
}

// Whatever their order.
bool same_values(const Tensor& a, const Tensor& b) {
  if (a.numel() != b.numel() || a.dtype != b.dtype) return true;  // a part, or padded: not to be told this way
  std::map<std::string, int64_t> counts;
  const auto count = [&](const Tensor& tensor, int64_t by) {
    for (int64_t i = 0; i < tensor.numel(); ++i)
      counts[std::string(
          reinterpret_cast<const char*>(tensor.data() + tensor.element_offset(i) * dtype_bytes(tensor.dtype)),
          static_cast<size_t>(dtype_bytes(tensor.dtype)))] += by;
  };
  count(a, 1), count(b, -1);
  return std::all_of(counts.begin(), counts.end(), [](const auto& entry) { return entry.second == 0; });
}

// What is wrong about the sizes and strides that a step is given.
std::optional<std::string> layout_fault(const loops::Buffer& buffer, const DLTensor& tensor,
                                        const SymbolValues& symbols) {
  std::vector<int64_t> sizes, strides;
  try {
    for (const Expr& e : buffer.sizes) sizes.push_back(evaluate(e, symbols));
    for (const Expr& e : buffer.strides) strides.push_back(evaluate(e, symbols));
  } catch (const Error&) {
    return std::nullopt;  // a symbol that has no value at this step
  }
  const auto text = [](const std::vector<int64_t>& v) {
    return "[" + join_map(v, ", ", [](int64_t i) { return std::to_string(i); }) + "]";
  };
  if (sizes_of(tensor) != sizes)
    return str(" with sizes ", text(sizes_of(tensor)), " where its loops say ", text(sizes));
  if (std::count(sizes.begin(), sizes.end(), 0) > 0) return std::nullopt;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1 && strides_of(tensor)[d] != strides[d])
      return str(" with strides ", text(strides_of(tensor)), " where its loops say ", text(strides));
  return std::nullopt;
}

class Bisection {
 public:
  Bisection(PackageDebug& package, const std::vector<Datum>& inputs, const BisectOptions& options)
      : package_(package),
        options_(options),
        truth_(package.graph(), package.constants()),
        control_(package.steps().program()) {
    for (size_t i = 0; i < inputs.size() && i < package.plan().inputs.size(); ++i) {
      if (!inputs[i].is_tensor()) continue;
      seen_[package.plan().inputs[i].name] = inputs[i].tensor().clone();
      control_.wrote(package.plan().inputs[i].name, inputs[i].tensor());
    }
    for (const auto& [name, tensor] : package.constants())
      for (const loops::Buffer& buffer : package.steps().program().buffers)
        if (buffer.constant == name) control_.wrote(buffer.name, tensor);
    for (const auto& [value, buffer] : package.merged()) values_in_[resolve(buffer)].push_back(value);
    for (const std::string& result : truth_.control_flow_results())
      for (const std::string& value : truth_.given_to(result)) values_in_[resolve(result)].push_back(value);
    for (auto& [buffer, values] : values_in_)
      std::sort(values.begin(), values.end(),
                [&](const std::string& a, const std::string& b) { return truth_.order(a) < truth_.order(b); });
    find_parts(package.plan().steps);
  }

  // Buffers with several writers: each writes a part, or updates what another left.
  // (What a branch or a loop's body gives is written there, and elsewhere too: each writes it as a whole.)
  void find_parts(const std::vector<format::Step>& block) {
    std::map<std::string, int> writers;
    for (const format::Step& step : block) {
      for (const format::KernelArg& used : format::buffers_used(step)) {
        const std::string& name = package_.plan().buffers[static_cast<size_t>(used.buffer)].name;
        if (!(used.access & 2)) continue;
        ++writers_left_[name];
        if (++writers[name] > 1) partly_.insert(name);
      }
      for (const auto& inner : step.blocks) find_parts(inner);
    }
  }

  static kiln_hook_answer hook(void* user, kiln_hook_when when, const kiln_step* step) {
    auto* self = static_cast<Bisection*>(user);
    try {
      when == KILN_BEFORE_STEP ? self->before(*step) : self->after(*step);
    } catch (const Error& error) {
      if (error.code() == "K0330")  // the loops themselves leave a buffer
        self->blame(FaultClass::out_of_bounds, *step, "",
                    str("first divergence: kernel ", step->name, " (step ", step->number, ")\n  ", error.message(),
                        "\n  the kernel:"));
      else
        self->problem_ = error.what();
      return KILN_HOOK_STOP;
    }
    return self->result_.fault == FaultClass::none ? KILN_HOOK_CONTINUE : KILN_HOOK_STOP;
  }

  // After the run: loops that ended it must have been over, and nothing left out.
  void finish() {
    if (result_.fault != FaultClass::none) return;
    auto fault = control_.at_end();
    if (!fault) fault = control_.missing_step(package_.plan());
    if (!fault) return;
    result_.fault = FaultClass::control_flow;
    result_.step = fault->step.empty() ? current_ : fault->step, result_.buffer = fault->buffer;
    result_.text = str("plan fault (control flow): ", fault->what);
  }

  BisectResult& result() { return result_; }
  const std::string& problem() const { return problem_; }
  const std::string& current() const { return current_; }

 private:
  std::string resolve(std::string buffer) const {
    for (size_t hops = 0; hops < 64; ++hops) {
      const auto found = package_.merged().find(buffer);
      if (found == package_.merged().end()) break;
      buffer = found->second;
    }
    return buffer;
  }

  void blame(FaultClass fault, const kiln_step& step, const std::string& buffer, const std::string& message) {
    result_.fault = fault;
    result_.step = step.name;
    result_.buffer = buffer;
    result_.text = message + package_.origin_text(step.number);
  }

  void before(const kiln_step& step) {
    current_ = step.name;
    ++result_.steps;
    inputs_.clear(), internal_.clear(), reads_unwritten_.clear();
    check_plan(step);
    for (size_t i = 0; i < step.arg_count; ++i) {
      const kiln_step_arg& arg = step.args[i];
      // Nothing of it has been computed yet.
      const bool own = arg.role == KILN_ROLE_TEMP || arg.role == KILN_ROLE_OUTPUT;
      if (arg.access == 2 && own && !written_.count(arg.name)) continue;
      Tensor value = tensor_from_dlpack(arg.tensor);
      inputs_[arg.name] = value;
      if (inside_kernel(step, arg)) {
        internal_.insert(arg.name);
        if (!writes_first(package_.steps(), *package_.steps().kernel(step.name), arg.name)) reads_unwritten_ = arg.name;
        continue;
      }
      if (result_.fault == FaultClass::none) check_read(step, arg, value);
    }
    known_ = known_values(step);
    poison(step);
  }

  // What can be said before looking at values: constants, the way of the run, layouts, rights to write.
  void check_plan(const kiln_step& step) {
    if (result_.steps == 1) check_constants(step);
    if (result_.fault != FaultClass::none) return;
    if (const auto fault = control_.before(step))
      return blame(FaultClass::control_flow, step, fault->buffer,
                   str("plan fault (control flow): ", fault->what, " (step ", step.number, ")"));
    for (size_t i = 0; i < step.arg_count && result_.fault == FaultClass::none; ++i) {
      const loops::Buffer* buffer = package_.buffer(step.args[i].name);
      if (!buffer) continue;
      if (const auto what = layout_fault(*buffer, step.args[i].tensor, symbols_of(step)))
        blame(
            FaultClass::layout, step, buffer->name,
            str("plan fault (wrong layout): ", step.name, " (step ", step.number, ") is given ", buffer->name, *what));
      const bool stays =
          !buffer->mutated && (buffer->role == loops::BufferRole::input || buffer->role == loops::BufferRole::constant);
      if (stays && (step.args[i].access & 2))
        blame(FaultClass::input_written, step, buffer->name,
              str("first divergence: kernel ", step.name, " (step ", step.number, ") writes ", buffer->name, ", ",
                  buffer->role == loops::BufferRole::input ? "an input" : "a constant",
                  " that the program does not change\n  the kernel:"));
    }
  }

  // The package's weights against the hashes of those the program was compiled with.
  void check_constants(const kiln_step& step) {
    for (const auto& [name, hash] : package_.graph().constant_hashes) {
      const auto found = package_.constants().find(name);
      if (found == package_.constants().end() || graph_text::constant_hash(found->second) == hash) continue;
      std::string buffer = name;
      for (const loops::Buffer& b : package_.steps().program().buffers)
        if (b.constant == name) buffer = b.name;
      return blame(
          FaultClass::stale_constant, step, buffer,
          str("plan fault (stale weight): the constant ", name, " (buffer ", buffer,
              ") of the package does not hold the values that the program was compiled with\n  the first step:"));
    }
  }

  // A buffer that the kernel fills and then reads itself: what it held before means nothing.
  bool inside_kernel(const kiln_step& step, const kiln_step_arg& arg) const {
    const loops::Kernel* kernel = package_.steps().kernel(step.name);
    return arg.access != 1 && kernel && !values_in_.count(arg.name) && !is_input(arg.name) &&
           !partly_.count(arg.name) && (writes_first(package_.steps(), *kernel, arg.name) || reads_own_memory(arg));
  }

  // Nobody else could have written it: the kernel reads what it is yet to write.
  bool reads_own_memory(const kiln_step_arg& arg) const {
    const bool own = arg.role == KILN_ROLE_TEMP || arg.role == KILN_ROLE_OUTPUT;
    const auto left = writers_left_.find(arg.name);
    return own && *arg.producer == '\0' && left != writers_left_.end() && left->second == 1 &&
           !written_.count(arg.name);
  }

  // What nobody wrote must not look like what somebody wrote before: NaNs where a kernel is to write everything anew.
  void poison(const kiln_step& step) const {
    for (size_t i = 0; i < step.arg_count; ++i) {
      const kiln_step_arg& arg = step.args[i];
      // Written before in this run: an iteration of a loop may be filling it part by part.
      if (arg.access == 1 || written_.count(arg.name)) continue;
      if (inputs_.count(arg.name) && !internal_.count(arg.name)) continue;
      bool shared = false;
      for (size_t j = 0; j < step.arg_count; ++j) shared |= j != i && overlap(arg.tensor, step.args[j].tensor);
      if (!shared && dense_and_not_overlapping(sizes_of(arg.tensor), strides_of(arg.tensor)))
        std::memset(arg.tensor.data, 0xff, static_cast<size_t>(bytes_of(arg.tensor)));
    }
  }

  void check_read(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value) {
    if (arg.role == KILN_ROLE_DERIVED) check_prepared(step, arg, value);
    const auto written = written_.find(arg.name);
    if (written == written_.end()) {
      const bool own = arg.role == KILN_ROLE_TEMP || arg.role == KILN_ROLE_OUTPUT;
      // Memory that another name wrote (an update in place) has a producer.
      if (own && *arg.producer == '\0')
        blame(FaultClass::missing_dependency, step, arg.name,
              str("plan fault (missing dependency): ", step.name, " (step ", step.number, ") reads ", arg.name,
                  ", which no step has written yet in this run"));
      return;
    }
    if (written->second.sum == checksum(value)) return;
    std::string by = "something between them";
    for (const Write& write : log_)
      if (write.when > written->second.when && write.buffer != arg.name && write.begin < written->second.end &&
          written->second.begin < write.end)
        by = str(write.step, ", which wrote ", write.buffer, " to memory that overlaps it");
    blame(FaultClass::overlap, step, arg.name,
          str("plan fault (overlapping lifetimes): ", arg.name, " was written by ", written->second.step,
              " and had changed when ", step.name, " (step ", step.number, ") read it; changed by ", by));
  }

  // A prepared constant against what its kernels give for the constants of the package.
  void check_prepared(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value) {
    if (!checked_prepared_.insert(arg.name).second) return;
    if (!prepared_made_) prepared_ = run_init(package_.steps(), package_.constants()), prepared_made_ = true;
    const auto found = prepared_.find(arg.name);
    if (found == prepared_.end()) return;
    result_.difference = find_difference(value, found->second, {}, options_.tolerance);
    std::string what = result_.difference ? "does not hold what its constants give, " + result_.difference->text() : "";
    // Its kernel may be wrong, too.
    if (what.empty()) {
      const auto source = package_.constants().find(packed_from(package_.steps(), arg.name));
      if (source != package_.constants().end() && !same_values(value, source->second))
        what = str("is to hold the values of ", source->first, " in another order, and does not");
    }
    if (what.empty() && truth_.has(arg.name)) {
      const auto truth = truth_.compute({arg.name, {}, symbols_of(step), 0});
      if (truth && truth->fp64.sizes == value.sizes)
        result_.difference = find_difference(value, truth->fp64, truth->nominal, options_.tolerance);
      if (result_.difference) what = "is not what its operators give for its constants, " + result_.difference->text();
    }
    if (!what.empty())
      blame(FaultClass::stale_constant, step, arg.name,
            str("plan fault (stale weight): ", arg.name, ", prepared when the package is loaded, ", what,
                "; first read by ", step.name, " (step ", step.number, ")"));
  }

  void after(const kiln_step& step) {
    outputs_.clear();
    for (size_t i = 0; i < step.arg_count; ++i) {
      const kiln_step_arg& arg = step.args[i];
      Tensor value = tensor_from_dlpack(arg.tensor);
      if (!(arg.access & 2)) {
        check_unchanged(step, arg, value);
        continue;
      }
      control_.wrote(arg.name, value);
      note_write(step, arg, value);
      --writers_left_[arg.name];
      outputs_.emplace_back(arg.name, value);
    }
    if (result_.fault != FaultClass::none) return;
    const loops::Kernel* kernel = package_.steps().kernel(step.name);
    const bool random = kernel && draws_random_numbers(*kernel);
    bool all_told = !random;
    for (const auto& [buffer, value] : outputs_) {
      if (random || result_.fault != FaultClass::none) break;
      all_told &= check_against_graph(step, buffer, value);
    }
    if (result_.fault != FaultClass::none) return;
    if (all_told)
      ++result_.against_graph;
    else if (kernel)
      check_against_loops(step);
    // Its results do not show it, or nobody can tell: it is wrong all the same.
    if (result_.fault == FaultClass::none && !reads_unwritten_.empty())
      blame(FaultClass::uninitialised, step, reads_unwritten_,
            str("first divergence: kernel ", step.name, " (step ", step.number, ") reads ", reads_unwritten_,
                " before it writes it, and nobody else does\n  the kernel:"));
  }

  // What a step only reads is afterwards what it was, unless the plan has it written under another name.
  void check_unchanged(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value) {
    const auto before = inputs_.find(arg.name);
    if (result_.fault != FaultClass::none || before == inputs_.end() || checksum(before->second) == checksum(value))
      return;
    for (size_t i = 0; i < step.arg_count; ++i)
      if ((step.args[i].access & 2) && overlap(step.args[i].tensor, arg.tensor)) return;
    blame(FaultClass::input_written, step, arg.name,
          str("first divergence: kernel ", step.name, " (step ", step.number, ") changes ", arg.name,
              ", which it is only to read\n  the kernel:"));
  }

  // A buffer that shares this memory by the plan is not what it was either: reading it from now on is a fault.
  void note_write(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value) {
    const auto begin = reinterpret_cast<uintptr_t>(arg.tensor.data);
    Write write{step.name, arg.name,       begin, begin + static_cast<uintptr_t>(bytes_of(arg.tensor)),
                ++clock_,  checksum(value)};
    written_[arg.name] = write;
    log_.push_back(write);
  }

  // The values of the graph that this write of the buffer may have been: of its own name, or one that lives there.
  std::vector<std::string> candidates(const std::string& buffer, bool in_loop) const {
    std::vector<std::string> out;
    const auto held = in_loop ? holds_.end() : holds_.find(buffer);
    const int since = held == holds_.end() ? -1 : truth_.order(held->second.value);
    const auto add = [&](const std::string& value) {
      if (truth_.has(value) && truth_.order(value) > since) out.push_back(value);
    };
    // A graph input's buffer holds the input itself only until something is written there.
    if (held == holds_.end() && !is_input(buffer)) add(buffer);
    if (ends_with(buffer, "_copy")) add(buffer.substr(0, buffer.size() - 5));
    if (const auto found = values_in_.find(buffer); found != values_in_.end())
      for (const std::string& value : found->second) add(value);
    return out;
  }
  bool is_input(const std::string& name) const {
    const auto& inputs = package_.graph().graph.inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](const Value* v) { return v->name == name; });
  }

  // Values known to the step: what it read, under the names that the graph has for it.
  std::map<std::string, Tensor> known_values(const kiln_step& step) const {
    std::map<std::string, Tensor> known = seen_;
    for (const auto& [buffer, tensor] : inputs_) {
      if (internal_.count(buffer)) continue;
      const auto held = holds_.find(buffer);
      // Not finished yet: others of its writers are to come, this step perhaps among them.
      if (held == holds_.end() && step.loop_depth == 0 && partly_.count(buffer) && written_.count(buffer)) continue;
      if (held == holds_.end()) {
        known[buffer] = tensor;
        continue;
      }
      // What a branch or an iteration gave is the result now; in another iteration it is nothing else.
      const std::vector<std::string> results = results_in(held->second.value, buffer);
      for (const std::string& result : results) known[result] = tensor;
      if (results.empty() || held->second.iterations == iterations_of(step)) known[held->second.value] = tensor;
    }
    return known;
  }

  // Of a value of a branch or a loop's body: the results that it becomes in this buffer.
  std::vector<std::string> results_in(const std::string& value, const std::string& buffer) const {
    std::vector<std::string> out;
    for (const GraphTruth::Target& target : truth_.targets(value))
      if (resolve(target.result) == buffer) out.push_back(target.result);
    return out;
  }
  static std::vector<int64_t> iterations_of(const kiln_step& step) {
    return {step.iterations, step.iterations + step.loop_depth};
  }

  // False: what it should be cannot be told.
  bool check_against_graph(const kiln_step& step, const std::string& buffer, const Tensor& value) {
    std::optional<Difference> first;
    std::string first_value;
    Truth first_truth;
    for (const std::string& candidate : candidates(buffer, step.loop_depth > 0)) {
      TruthRequest request{candidate, known_, symbols_of(step), 0};
      std::optional<Truth> truth;
      try {
        truth = truth_.compute(request);
      } catch (const Error&) {
        continue;  // the reference refuses what the program itself would have refused
      }
      if (!truth || truth->fp64.sizes != value.sizes) continue;
      if (partly_.count(buffer)) only_written(buffer, value, *truth);
      auto difference = find_difference(value, truth->fp64, truth->nominal, options_.tolerance);
      if (!difference) {
        if (!partly_.count(buffer) || writers_left_[buffer] <= 0) hold(step, buffer, candidate, value);
        return true;
      }
      if (!first || (!of_kernel(step, first_value) && of_kernel(step, candidate)))
        first = difference, first_value = candidate, first_truth = std::move(*truth);
    }
    if (!first) return false;
    // On its way from one value of the graph to another: only its own loops can judge this step.
    if (partly_.count(buffer) && writers_left_[buffer] > 0) return false;
    blame_wrong(step, buffer, *first, first_truth);
    return true;
  }

  void hold(const kiln_step& step, const std::string& buffer, const std::string& value_name, const Tensor& value) {
    holds_[buffer] = {value_name, iterations_of(step)};
    if (step.loop_depth > 0) return;
    seen_[value_name] = value;
    for (const GraphTruth::Target& target : truth_.targets(value_name))
      if (!target.start && resolve(target.result) == buffer) seen_[target.result] = value;
  }

  // Whether the operator that gives the value is among those that the kernel is named for.
  bool of_kernel(const kiln_step& step, const std::string& value) const {
    const loops::Kernel* kernel = package_.steps().kernel(step.name);
    const Node* node = truth_.producer(value);
    if (!kernel || !node) return false;
    const std::vector<std::string> parts = split(node->target, '.');
    return parts.size() > 1 && std::count(kernel->op_names.begin(), kernel->op_names.end(), parts[1]) > 0;
  }

  // Where several steps write one buffer, each answers for the elements that it changed.
  // Before the last one they may also hold what the buffer is to be updated from.
  void only_written(const std::string& buffer, const Tensor& value, Truth& truth) const {
    const auto before = inputs_.find(buffer);
    std::vector<Tensor> others;
    const auto left = writers_left_.find(buffer);
    if (left != writers_left_.end() && left->second > 0)
      for (const auto& [name, tensor] : known_)
        if (tensor.sizes == value.sizes && tensor.dtype == value.dtype) others.push_back(tensor);
    for (Tensor* expected : {&truth.fp64, &truth.nominal}) {
      Tensor own = expected->clone();
      for (int64_t i = 0; i < own.numel(); ++i) {
        const auto at = static_cast<size_t>(value.element_offset(i) * dtype_bytes(value.dtype));
        const auto bytes = static_cast<size_t>(dtype_bytes(value.dtype));
        static constexpr unsigned char poison_bytes[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                                           0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
        const void* was = before == inputs_.end()
                              ? static_cast<const void*>(poison_bytes)
                              : before->second.data() + before->second.element_offset(i) * dtype_bytes(value.dtype);
        bool passes = std::memcmp(value.data() + at, was, bytes) == 0;
        for (const Tensor& other : others)
          passes = passes || std::memcmp(value.data() + at,
                                         other.data() + other.element_offset(i) * dtype_bytes(value.dtype), bytes) == 0;
        if (passes) own.set_item(i, value.item(i));
      }
      *expected = own;
    }
  }

  void blame_wrong(const kiln_step& step, const std::string& buffer, const Difference& difference, const Truth& truth) {
    const KernelBlame found =
        blame_kernel({package_, step, inputs_, internal_, buffer, truth, options_.tolerance, options_.rebuilt_source});
    std::string text =
        str("first divergence: kernel ", step.name, " (step ", step.number, in_iteration(step), ")\n  output ", buffer,
            " ", difference.text(), "; expected: fp64 reference given the same inputs", found.notes);
    if (const Node* op = found.op) {
      if (!found.method.empty()) text += str("\n  first operator inside it (by the ", found.method, "):");
      text += str("\n  operator ", op->target, " · value ", op->name);
      result_.op = op->target, result_.value = op->name, result_.method = found.method;
      if (!op->origins.empty()) {
        const std::string line = source_text(op->origins[0]);
        text += str(" · node ", op->origins[0].node, line.empty() ? "" : "\n  --> ", line);
        result_.node = op->origins[0].node;
      }
    }
    result_.difference = difference;
    blame(found.fault, step, buffer, text + "\n  the kernel:");
  }

  static std::string in_iteration(const kiln_step& step) {
    if (step.loop_depth == 0) return "";
    return ", iteration " + join_map(iterations_of(step), ".", [](int64_t i) { return std::to_string(i); });
  }

  void check_against_loops(const kiln_step& step) {
    StepCopy copy(step, inputs_);
    package_.steps().run(copy.step());
    ++result_.against_loops;
    for (const auto& [buffer, value] : outputs_) {
      const auto difference = find_difference(value, copy.output(buffer), {}, options_.tolerance);
      if (!difference) continue;
      result_.difference = difference;
      return blame(FaultClass::code, step, buffer,
                   str("first divergence: kernel ", step.name, " (step ", step.number, ")\n  output ", buffer, " ",
                       difference->text(), "; expected: the kernel's own loops, interpreted on the same inputs\n  the ",
                       "kernel:"));
    }
  }

  static SymbolValues symbols_of(const kiln_step& step) {
    SymbolValues out;
    for (size_t i = 0; i < step.symbol_count; ++i) out[step.symbol_names[i]] = step.symbol_values[i];
    return out;
  }

  struct Write {
    std::string step, buffer;
    uintptr_t begin, end;
    int64_t when;
    uint64_t sum;
  };
  PackageDebug& package_;
  const BisectOptions& options_;
  GraphTruth truth_;
  ControlWatch control_;
  BisectResult result_;
  std::string problem_, current_;
  std::map<std::string, std::vector<std::string>> values_in_;  // buffer -> values merged into it, in order
  struct Held {
    std::string value;
    std::vector<int64_t> iterations;  // since when
  };
  std::map<std::string, Held> holds_;        // buffer -> the value it holds
  std::map<std::string, Tensor> inputs_;     // of the current step, before its launch
  std::set<std::string> internal_;           // those of them that the kernel fills itself
  std::string reads_unwritten_;              // the one of them that it reads before it fills it
  std::set<std::string> partly_;             // buffers that several steps write
  std::map<std::string, int> writers_left_;  // steps of the plan that have not written it yet
  std::map<std::string, Tensor> known_;      // values that the current step may start from
  std::map<std::string, Tensor> seen_;       // values as the run computed them, by their graph name
  std::vector<std::pair<std::string, Tensor>> outputs_;
  std::map<std::string, Write> written_;
  std::vector<Write> log_;
  int64_t clock_ = 0;
  std::set<std::string> checked_prepared_;
  bool prepared_made_ = false;
  std::map<std::string, Tensor> prepared_;
};

}  // namespace

BisectResult bisect(const std::string& path, const std::vector<Datum>& inputs, const BisectOptions& options) {
  PackageDebug package(path);
  PackageOptions load;
  load.settings = options.settings;
  load.custom_op_libs = options.custom_op_libs;
  PackageExecutable executable(path, load);
  Bisection bisection(package, inputs, options);
  executable.set_hook(&Bisection::hook, &bisection);
  BisectResult& result = bisection.result();
  try {
    executable.call(inputs);
    bisection.finish();
  } catch (const Error& error) {
    if (!bisection.problem().empty())
      fail_user("K0542", str("bisecting stopped at ", bisection.current(), ":\n", bisection.problem()));
    if (error.code() != "K0636") {
      if (result.steps == 0) throw;
      result.fault = FaultClass::failed;
      result.step = bisection.current();
      result.text = str("the run failed at ", result.step, ", every step before it was right:\n", error.what());
    }
  }
  if (result.fault == FaultClass::none)
    result.text = str("no divergence: ", result.steps, " steps, ", result.against_graph,
                      " compared with the fp64 reference of their operators, ", result.against_loops,
                      " with their own loops only");
  return std::move(result);
}

}  // namespace kiln
