#include "debug/bisection.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "debug/bisect_checks.h"
#include "debug/control_watch.h"
#include "debug/graph_truth.h"
#include "debug/kernel_blame.h"
#include "debug/package_debug.h"
#include "debug/step_copy.h"
#include "debug/value_names.h"
#include "debug/written_parts.h"
#include "driver/executable_dlpack.h"
#include "driver/executable_package.h"
#include "graph/graph_text.h"
#include "package/plan_builder.h"
#include "package/step_plan.h"

namespace kiln {
namespace {

class Bisection {
 public:
  Bisection(PackageDebug& package, const std::vector<Datum>& inputs, const BisectOptions& options,
            const BisectionRun& run, int call, const std::map<std::string, Tensor>& state)
      : package_(package),
        options_(options),
        run_(run),
        call_(call),
        truth_(package.graph(), package.constants()),
        names_(package, truth_),
        control_(package.steps().program()) {
    for (size_t i = 0; i < inputs.size() && i < package.plan().inputs.size(); ++i) {
      if (!inputs[i].is_tensor()) continue;
      names_.see(package.plan().inputs[i].name, inputs[i].tensor().clone());
      control_.wrote(package.plan().inputs[i].name, inputs[i].tensor());
    }
    for (const auto& [name, tensor] : package.constants())
      for (const loops::Buffer& buffer : package.steps().program().buffers)
        if (buffer.constant == name) {
          const Tensor& now = state.count(name) ? state.at(name) : tensor;  // as the last call left it
          control_.wrote(buffer.name, now);
          if (buffer.mutated) names_.see(buffer.name, now.clone());
        }
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
      if (when == KILN_BEFORE_STEP) {
        self->before(*step);
        if (self->result_.fault == FaultClass::none) self->run_.progress.enter(*step);
      } else {
        self->run_.progress.leave();
        self->after(*step);
      }
    } catch (const Error& error) {
      if (error.code() == "K0330")  // the loops themselves leave a buffer
        self->blame(
            FaultClass::out_of_bounds, *step, "",
            str("first divergence: kernel ", step->name, self->at(*step), "\n  ", error.message(), "\n  the kernel:"));
      else
        self->problem_ = error.what();
      return KILN_HOOK_STOP;
    }
    return self->result_.fault == FaultClass::none ? KILN_HOOK_CONTINUE : KILN_HOOK_STOP;
  }

  // After the run: loops that ended it must have been over, nothing left out, and given back what was computed.
  void finish(const std::vector<Datum>& outputs) {
    if (result_.fault != FaultClass::none) return;
    check_outputs(outputs);
    if (result_.fault != FaultClass::none) return;
    auto fault = control_.at_end();
    if (!fault) fault = control_.missing_step(package_.plan());
    if (!fault) return;
    result_.fault = FaultClass::control_flow;
    result_.step = fault->step.empty() ? current_ : fault->step, result_.buffer = fault->buffer;
    result_.text = str("plan fault (control flow): ", fault->what);
  }

  void check_outputs(const std::vector<Datum>& outputs) {
    const loops::LoopProgram& program = package_.steps().program();
    for (size_t i = 0; i < outputs.size() && i < program.outputs.size(); ++i) {
      const auto* id = std::get_if<loops::BufferId>(&program.outputs[i].what);
      if (!id || !outputs[i].is_tensor()) continue;
      const std::string& name = program.buffers[static_cast<size_t>(*id)].name;
      const auto written = written_.find(name);
      if (written == written_.end() || written->second.sum == checksum(outputs[i].tensor())) continue;
      const int32_t given = i < package_.plan().outputs.size() ? package_.plan().outputs[i].buffer : format::none;
      const bool other = given != format::none && package_.plan().buffers[static_cast<size_t>(given)].name != name;
      result_.fault = other ? FaultClass::layout : FaultClass::overlap;
      result_.step = written->second.step, result_.buffer = name;
      result_.text = other
                         ? str("plan fault (wrong output): output ", i, " is given from ",
                               package_.plan().buffers[static_cast<size_t>(given)].name, " where the loops say ", name)
                         : str("plan fault (overlapping lifetimes): output ", i, ", ", name, ", was written by ",
                               written->second.step, " and had changed when the run gave it back");
      return;
    }
  }

  // The runtime has found that the step wrote beside one of its arguments: "… outside of buffer NAME (…".
  void blame_write_outside(const std::string& message) {
    result_.fault = FaultClass::outside;
    result_.step = current_, result_.buffer = buffer_in(message, "outside of buffer ");
    result_.text = str("first divergence: ", message, call_ > 1 ? str(" (call ", call_, ")") : "");
  }

  BisectResult& result() { return result_; }
  const std::string& problem() const { return problem_; }
  const std::string& current() const { return current_; }

 private:
  void blame(FaultClass fault, const kiln_step& step, const std::string& buffer, const std::string& message) {
    result_.fault = fault;
    result_.step = step.name;
    result_.buffer = buffer;
    const std::string origins = package_.origin_text(step.number);
    // A message that ends in a heading for them does without it where there are none.
    const bool heading = origins.empty() && ends_with(message, ":");
    result_.text = (heading ? message.substr(0, message.rfind('\n')) : message) + origins;
  }

  void before(const kiln_step& step) {
    current_ = step.name;
    ++result_.steps;
    if (!run_.compare) return;
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
    std::map<std::string, Tensor> read = inputs_;
    for (const std::string& name : internal_) read.erase(name);
    // What the step fills first and then reads holds, before it, whatever was there: no value of the graph.
    for (size_t i = 0; i < step.arg_count; ++i)
      if (fills_itself(step, step.args[i])) read.erase(step.args[i].name);
    std::set<std::string> unfinished;  // others of its writers are to come, this step perhaps among them
    for (const std::string& name : partly_)
      if (written_.count(name)) unfinished.insert(name);
    known_ = names_.known(step, read, unfinished);
    if (result_.fault == FaultClass::none && run_.stop_at == run_.progress.launches + 1) return look_inside(step);
    poison(step);
  }

  // The step is known to end the process, never to end, or to write where it must not: what can be said without
  // running it.
  void look_inside(const kiln_step& step) {
    Truth most;  // of what it writes: the value that most of its operators are there for
    const Node* near = nullptr;
    for (size_t i = 0; i < step.arg_count; ++i) {
      if (!(step.args[i].access & 2)) continue;
      for (const std::string& candidate : names_.candidates(step.args[i].name, step.loop_depth > 0)) {
        if (step.args[i].name == run_.suspect && !near) near = truth_.producer(candidate);
        std::optional<Truth> truth;
        try {
          truth = truth_.compute({candidate, known_, symbols_of(step), 0});
        } catch (const Error&) {
          continue;  // the reference refuses what the program itself would have refused
        }
        if (truth && truth->nodes.size() > most.nodes.size()) most = std::move(*truth);
      }
    }
    const std::string none;
    const KernelBlame found =
        blame_without_result({package_, truth_, step, inputs_, internal_, known_, stored_, none, most,
                              options_.tolerance, options_.rebuilt_source, options_.compiler, call_},
                             near);
    std::string text = found.notes;
    name_operator(found, text);
    blame(found.fault, step, run_.suspect, text + "\n  the kernel:");
  }

  // What can be said before looking at values: constants, the way of the run, layouts, rights to write.
  void check_plan(const kiln_step& step) {
    if (result_.steps == 1) check_constants(step);
    if (result_.fault != FaultClass::none) return;
    if (const auto fault = control_.before(step))
      return blame(FaultClass::control_flow, step, fault->buffer,
                   str("plan fault (control flow): ", fault->what, at(step)));
    for (size_t i = 0; i < step.arg_count && result_.fault == FaultClass::none; ++i) {
      const loops::Buffer* buffer = package_.buffer(step.args[i].name);
      if (!buffer) continue;
      if (const auto what = layout_fault(*buffer, step.args[i].tensor, symbols_of(step)))
        blame(FaultClass::layout, step, buffer->name,
              str("plan fault (wrong layout): ", step.name, at(step), " is given ", buffer->name, *what));
      const bool stays =
          !buffer->mutated && (buffer->role == loops::BufferRole::input || buffer->role == loops::BufferRole::constant);
      if (stays && (step.args[i].access & 2))
        blame(FaultClass::input_written, step, buffer->name,
              str("first divergence: kernel ", step.name, at(step), " writes ", buffer->name, ", ",
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
    return arg.access != 1 && kernel && !names_.holds_several(arg.name) && !names_.is_input(arg.name) &&
           !partly_.count(arg.name) && (writes_first(package_.steps(), *kernel, arg.name) || reads_own_memory(arg));
  }

  // Nobody else could have written it: the kernel reads what it is yet to write.
  bool reads_own_memory(const kiln_step_arg& arg) const {
    const auto left = writers_left_.find(arg.name);
    return unwritten(arg) && left != writers_left_.end() && left->second == 1;
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
        std::memset(arg.tensor.data, poison_byte, static_cast<size_t>(bytes_of(arg.tensor)));
    }
  }

  // Nobody has written it in this run, also not under another name (an update in place has a producer).
  bool unwritten(const kiln_step_arg& arg) const {
    const bool own = arg.role == KILN_ROLE_TEMP || arg.role == KILN_ROLE_OUTPUT;
    return own && *arg.producer == '\0' && !written_.count(arg.name);
  }

  bool fills_itself(const kiln_step& step, const kiln_step_arg& arg) const {
    const loops::Kernel* kernel = package_.steps().kernel(step.name);
    return kernel && arg.access != 1 && unwritten(arg) && writes_first(package_.steps(), *kernel, arg.name);
  }

  void check_read(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value) {
    if (arg.role == KILN_ROLE_DERIVED) check_prepared(step, arg, value);
    const auto written = written_.find(arg.name);
    if (written == written_.end()) {
      if (unwritten(arg) && !fills_itself(step, arg))
        blame(FaultClass::missing_dependency, step, arg.name,
              str("plan fault (missing dependency): ", step.name, at(step), " reads ", arg.name,
                  ", which no step has written yet in this run"));
      return;
    }
    if (written->second.sum == checksum(value)) return;
    std::string by = "something between them";
    for (const Write& write : log_)
      if (write.when > written->second.when && write.buffer != arg.name && write.begin < written->second.end &&
          written->second.begin < write.end)
        by = str(write.step, ", which wrote ", write.buffer, " to memory that overlaps it");
    result_.unexplained = by == "something between them";
    blame(FaultClass::overlap, step, arg.name,
          str("plan fault (overlapping lifetimes): ", arg.name, " was written by ", written->second.step,
              " and had changed when ", step.name, at(step), " read it; changed by ", by));
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
                "; first read by ", step.name, at(step)));
  }

  void after(const kiln_step& step) {
    if (!run_.compare) return;
    check_watched(step);
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
      if (partly_.count(arg.name)) parts_[arg.name].push_back({step.name, step.number, value});
    }
    if (result_.fault != FaultClass::none) return;
    const loops::Kernel* kernel = package_.steps().kernel(step.name);
    const bool random = kernel && draws_random_numbers(*kernel);
    bool all_told = !random;
    stored_.clear(), wrong_.reset();
    for (const auto& [buffer, value] : outputs_) {
      if (random) break;
      all_told &= check_against_graph(step, buffer, value);
    }
    if (result_.fault != FaultClass::none) return;
    if (wrong_) return blame_wrong(step);
    if (all_told)
      ++result_.against_graph;
    else if (kernel)
      check_against_loops(step);
    else if (std::find(result_.untold.begin(), result_.untold.end(), step.name) == result_.untold.end())
      result_.untold.push_back(step.name);
    // Its results do not show it, or nobody can tell: it is wrong all the same.
    if (result_.fault == FaultClass::none && !reads_unwritten_.empty())
      blame(FaultClass::uninitialised, step, reads_unwritten_,
            str("first divergence: kernel ", step.name, at(step), " reads ", reads_unwritten_,
                " before it writes it, and nobody else does\n  the kernel:"));
  }

  // Who changes a buffer that is not its own to write.
  void check_watched(const kiln_step& step) {
    if (run_.watched.empty()) return;
    const auto written = written_.find(run_.watched);
    if (written == written_.end()) return;
    for (size_t i = 0; i < step.arg_count; ++i) {
      const auto begin = reinterpret_cast<uintptr_t>(step.args[i].tensor.data);
      const uintptr_t end = begin + static_cast<uintptr_t>(bytes_of(step.args[i].tensor));
      if ((step.args[i].access & 2) && begin < written->second.end && written->second.begin < end) return;
    }
    if (memory_sum(written->second) == watched_sum_) return;
    blame(FaultClass::outside, step, run_.watched,
          str("first divergence: kernel ", step.name, at(step), " writes outside of its buffers: it changes ",
              run_.watched, ", which it is not given to write"));
  }

  // What a step only reads is afterwards what it was, unless the plan has it written under another name.
  void check_unchanged(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value) {
    const auto before = inputs_.find(arg.name);
    if (result_.fault != FaultClass::none || before == inputs_.end() || checksum(before->second) == checksum(value))
      return;
    for (size_t i = 0; i < step.arg_count; ++i)
      if ((step.args[i].access & 2) && overlap(step.args[i].tensor, arg.tensor)) return;
    blame(FaultClass::input_written, step, arg.name,
          str("first divergence: kernel ", step.name, at(step), " changes ", arg.name,
              ", which it is only to read\n  the kernel:"));
  }

  // A buffer that shares this memory by the plan is not what it was either: reading it from now on is a fault.
  void note_write(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value) {
    const auto begin = reinterpret_cast<uintptr_t>(arg.tensor.data);
    Write write{step.name, arg.name,       begin, begin + static_cast<uintptr_t>(bytes_of(arg.tensor)),
                ++clock_,  checksum(value)};
    written_[arg.name] = write;
    if (run_.watched == arg.name) watched_sum_ = memory_sum(write);
    log_.push_back(write);
  }

  // False: what it should be cannot be told.
  bool check_against_graph(const kiln_step& step, const std::string& buffer, const Tensor& value) {
    std::optional<Difference> first;
    std::string first_value;
    Truth first_truth;
    for (const std::string& candidate : names_.candidates(buffer, step.loop_depth > 0)) {
      // A custom operator's update of what it was given: nobody but its library can compute that.
      if (const Node* node = truth_.producer(candidate); node && !node->op && node->target == step.name) {
        names_.hold(step, buffer, candidate, value);
        return false;
      }
      TruthRequest request{candidate, known_, symbols_of(step), 0};
      std::optional<Truth> truth;
      try {
        truth = truth_.compute(request);
      } catch (const Error&) {
        continue;  // the reference refuses what the program itself would have refused
      }
      if (!truth || truth->fp64.sizes != value.sizes) continue;
      if (complete(step, buffer) && blame_part(step, buffer, candidate, value, *truth)) return true;
      if (partly_.count(buffer)) only_written(buffer, value, *truth);
      auto difference = find_difference(value, truth->fp64, truth->nominal, options_.tolerance);
      if (!difference) {
        if (!partly_.count(buffer) || writers_left_[buffer] <= 0) names_.hold(step, buffer, candidate, value);
        stored_[candidate] = value;
        return true;
      }
      if (!first || (!names_.of_kernel(step, first_value) && names_.of_kernel(step, candidate)))
        first = difference, first_value = candidate, first_truth = std::move(*truth);
    }
    if (!first) return false;
    // On its way from one value of the graph to another: only its own loops can judge this step.
    if (partly_.count(buffer) && writers_left_[buffer] > 0) return false;
    stored_[first_value] = value;
    // Of several outputs that are wrong the one that the others may have been computed from.
    if (!wrong_ || truth_.order(first_value) < truth_.order(wrong_->value))
      wrong_ = Wrong{buffer, first_value, *first, std::move(first_truth)};
    return true;
  }

  // The last of several steps that write the buffer has done so.
  bool complete(const kiln_step& step, const std::string& buffer) const {
    const auto left = writers_left_.find(buffer);
    return partly_.count(buffer) && step.loop_depth == 0 && left != writers_left_.end() && left->second == 0;
  }

  // Of a buffer that is complete and wrong: the step that gave the first wrong element its value, unless it is this
  // one.
  bool blame_part(const kiln_step& step, const std::string& buffer, const std::string& value_name, const Tensor& value,
                  const Truth& truth) {
    const auto difference = find_difference(value, truth.fp64, truth.nominal, options_.tolerance);
    if (!difference) return false;
    int64_t linear = 0;
    for (size_t d = 0; d < difference->index.size(); ++d) linear = linear * value.sizes[d] + difference->index[d];
    const std::vector<Part>& parts = parts_[buffer];
    size_t by = 0;
    for (size_t p = 1; p < parts.size(); ++p)
      if (parts[p].value.sizes != value.sizes || !same_bits(parts[p].value, parts[p - 1].value, linear)) by = p;
    if (parts.empty() || parts[by].step == step.name) return false;
    std::string text =
        str("first divergence: kernel ", parts[by].step, " (step ", parts[by].number,
            call_ > 1 ? str(", call ", call_) : "", ")\n  its part of ", buffer, " ", difference->text(),
            "; expected: fp64 reference given the same inputs; seen when ", step.name, at(step), " had completed it");
    KernelBlame found;
    found.op = truth_.producer(value_name);
    if (found.op) name_operator(found, text);
    result_.difference = difference;
    blame(FaultClass::kernel, step, buffer, text);
    result_.text = text + "\n  the kernel:" + package_.origin_text(parts[by].number);
    result_.step = parts[by].step;
    return true;
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
    const Tensor* was = before == inputs_.end() ? nullptr : &before->second;
    for (Tensor* expected : {&truth.fp64, &truth.nominal}) *expected = with_unchanged(*expected, value, was, others);
  }

  void blame_wrong(const kiln_step& step) {
    const KernelBlame found =
        blame_kernel({package_, truth_, step, inputs_, internal_, known_, stored_, wrong_->buffer, wrong_->truth,
                      options_.tolerance, options_.rebuilt_source, options_.compiler, call_});
    std::string text = str("first divergence: kernel ", step.name, at(step), "\n  output ", wrong_->buffer, " ",
                           wrong_->difference.text(), "; expected: fp64 reference given the same inputs", found.notes);
    name_operator(found, text);
    result_.difference = wrong_->difference;
    blame(found.fault, step, wrong_->buffer, text + "\n  the kernel:");
  }

  void name_operator(const KernelBlame& found, std::string& text) {
    const auto line_of = [](const Node& op) {
      std::string line = str("operator ", op.target, " · value ", op.name);
      if (op.origins.empty()) return line;
      const std::string at = source_text(op.origins[0]);
      return str(line, " · node ", op.origins[0].node, at.empty() ? "" : "\n  --> ", at);
    };
    if (const Node* op = found.op) {
      if (!found.method.empty()) text += str("\n  first operator inside it (by the ", found.method, "):");
      text += "\n  " + line_of(*op);
      result_.op = op->target, result_.value = op->name, result_.method = found.method;
      if (!op->origins.empty()) result_.node = op->origins[0].node;
    } else if (!found.candidates.empty()) {
      text += "\n  which operator inside it is uncertain; one of:";
      for (const Node* candidate : found.candidates) {
        text += "\n  " + line_of(*candidate);
        result_.candidates.push_back(candidate->name);
      }
    }
  }

  // " (step 3, iteration 1.2, call 2)"
  std::string at(const kiln_step& step) const {
    std::string text = str(" (step ", step.number);
    if (step.loop_depth > 0)
      text += ", iteration " + join_map(iterations_of(step), ".", [](int64_t i) { return std::to_string(i); });
    return str(text, call_ > 1 ? str(", call ", call_) : "", ")");
  }

  void check_against_loops(const kiln_step& step) {
    StepCopy copy(step, inputs_);
    package_.steps().run(copy.step());
    ++result_.against_loops;
    for (const auto& [buffer, value] : outputs_) {
      const auto difference = find_difference(value, copy.output(buffer), {}, options_.tolerance);
      if (!difference) continue;
      result_.difference = difference;
      std::string notes;
      const std::string name =
          first_differing_value(package_, step, inputs_, options_.tolerance, options_.compiler, notes);
      if (const Node* op = name.empty() ? nullptr : truth_.producer(name)) {
        KernelBlame found;
        found.op = op, found.method = "instrumented rebuild";
        name_operator(found, notes);
      }
      return blame(FaultClass::code, step, buffer,
                   str("first divergence: kernel ", step.name, at(step), "\n  output ", buffer, " ", difference->text(),
                       "; expected: the kernel's own loops, interpreted on the same inputs", notes, "\n  the kernel:"));
    }
  }

  struct Write {
    std::string step, buffer;
    uintptr_t begin, end;
    int64_t when;
    uint64_t sum;
  };
  static uint64_t memory_sum(const Write& write) {
    Tensor bytes = Tensor::empty(DType::u8, {static_cast<int64_t>(write.end - write.begin)});
    std::memcpy(bytes.data(), reinterpret_cast<const void*>(write.begin), write.end - write.begin);
    return checksum(bytes);
  }
  PackageDebug& package_;
  const BisectOptions& options_;
  const BisectionRun& run_;
  int call_;
  GraphTruth truth_;
  ValueNames names_;
  ControlWatch control_;
  BisectResult result_;
  std::string problem_, current_;
  std::map<std::string, Tensor> inputs_;     // of the current step, before its launch
  std::set<std::string> internal_;           // those of them that the kernel fills itself
  std::string reads_unwritten_;              // the one of them that it reads before it fills it
  std::set<std::string> partly_;             // buffers that several steps write
  std::map<std::string, int> writers_left_;  // steps of the plan that have not written it yet
  std::map<std::string, Tensor> known_;      // values that the current step may start from
  std::vector<std::pair<std::string, Tensor>> outputs_;
  std::map<std::string, Tensor> stored_;  // values of the graph that the current step has left in them
  struct Wrong {
    std::string buffer, value;
    Difference difference;
    Truth truth;
  };
  std::optional<Wrong> wrong_;
  struct Part {
    std::string step;
    int32_t number;
    Tensor value;  // of the whole buffer, after it
  };
  std::map<std::string, std::vector<Part>> parts_;  // of buffers that several steps write
  std::map<std::string, Write> written_;
  std::vector<Write> log_;
  int64_t clock_ = 0;
  uint64_t watched_sum_ = 0;
  std::set<std::string> checked_prepared_;
  bool prepared_made_ = false;
  std::map<std::string, Tensor> prepared_;
};

std::vector<uint64_t> sums_of(const std::vector<Datum>& outputs) {
  std::vector<uint64_t> sums;
  for (const Datum& output : outputs) sums.push_back(output.is_tensor() ? checksum(output.tensor()) : 0);
  return sums;
}

// One call. False: it is the last.
bool bisect_call(Bisection& bisection, PackageExecutable& executable, const std::vector<Datum>& inputs,
                 const BisectionRun& run, std::map<std::string, Tensor>& state, std::vector<std::vector<Datum>>& kept,
                 std::string& failure) {
  BisectResult& result = bisection.result();
  try {
    CallResult called = executable.call(inputs);
    if (run.compare) bisection.finish(called.outputs);
    state = std::move(called.state);
    kept.push_back(std::move(called.inputs));
    result.output_sums.push_back(sums_of(called.outputs));
  } catch (const Error& error) {
    if (!bisection.problem().empty())
      fail_user("K0542", str("bisecting stopped at ", bisection.current(), ":\n", bisection.problem()));
    if (error.code() != "K0636") {
      if (result.steps == 0) throw;
      if (error.code() == "K0643")
        bisection.blame_write_outside(error.message());
      else
        failure = error.what();
    }
  }
  return result.fault == FaultClass::none && failure.empty();
}

}  // namespace

BisectResult run_bisection(PackageDebug& package, const std::string& path, const std::vector<Datum>& inputs,
                           const BisectOptions& options, const BisectionRun& run) {
  PackageOptions load;
  load.settings = options.settings;
  load.custom_op_libs = options.custom_op_libs;
  if (run.guarded) load.settings.push_back("PYTORCH_NO_CUDA_MEMORY_CACHING=1");
  PackageExecutable executable(path, load);
  std::map<std::string, Tensor> state;
  std::vector<std::vector<Datum>> kept;  // inputs of all calls: no call is to find its own where the last one's were
  BisectResult whole;
  for (int call = 1; call <= options.calls; ++call) {
    run.progress.call = call;
    Bisection bisection(package, inputs, options, run, call, state);
    executable.set_hook(&Bisection::hook, &bisection);
    std::string failure;
    const bool more = bisect_call(bisection, executable, inputs, run, state, kept, failure);
    executable.set_hook(nullptr, nullptr);
    BisectResult& result = bisection.result();
    result.steps += whole.steps, result.against_graph += whole.against_graph;
    result.against_loops += whole.against_loops;
    for (const std::string& name : whole.untold)
      if (std::find(result.untold.begin(), result.untold.end(), name) == result.untold.end())
        result.untold.push_back(name);
    result.output_sums.insert(result.output_sums.begin(), whole.output_sums.begin(), whole.output_sums.end());
    whole = std::move(result);
    if (!failure.empty()) {
      whole.fault = FaultClass::failed;
      whole.step = bisection.current();
      whole.text = str("the run failed at ", whole.step, call > 1 ? str(" (call ", call, ")") : "",
                       ", every step before it was right:\n", failure);
    }
    if (!more) break;
  }
  return whole;
}

}  // namespace kiln
