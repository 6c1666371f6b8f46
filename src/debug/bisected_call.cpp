#include "debug/bisected_call.h"

#include <algorithm>

#include "check/rounding_noise.h"
#include "custom/dlpack.h"
#include "debug/bisect_checks.h"
#include "interp/interp.h"
#include "package/step_plan.h"

namespace kiln {

BisectedCall::BisectedCall(PackageDebug& package, const std::vector<Datum>& inputs, const BisectOptions& options,
                           const BisectionRun& run, int call, const std::map<std::string, Tensor>& state)
    : package_(package),
      given_(inputs),
      state_(state),
      options_(options),
      run_(run),
      call_(call),
      truth_(package.graph(), package.constants(), package.buffers_of_values()),
      names_(package, truth_),
      control_(package.steps().program()),
      constants_(package, truth_, options.tolerance),
      writes_(run.watched) {
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
void BisectedCall::find_parts(const std::vector<format::Step>& block) {
  std::map<std::string, int> writers;
  for (const format::Step& step : block) {
    for (const format::KernelArg& used : format::buffers_used(step)) {
      const std::string& name = package_.plan().buffers[static_cast<size_t>(used.buffer)].name;
      if (!writes(used.access)) continue;
      ++writers_left_[name];
      if (++writers[name] > 1) partly_.insert(name);
    }
    for (const auto& inner : step.blocks) find_parts(inner);
  }
}

kiln_hook_answer BisectedCall::hook(void* user, kiln_hook_when when, const kiln_step* step) {
  auto* self = static_cast<BisectedCall*>(user);
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
      self->blame_loops(*step, error.message());
    else
      self->problem_ = error.what();
    return KILN_HOOK_STOP;
  }
  if (self->result_.fault != FaultClass::none) return KILN_HOOK_STOP;
  return when == KILN_BEFORE_STEP ? KILN_HOOK_WRITTEN : KILN_HOOK_CONTINUE;  // what was poisoned
}

void BisectedCall::before(const kiln_step& step) {
  current_ = step.name;
  ++result_.steps;
  if (!run_.compare) return;
  inputs_.clear(), internal_.clear(), reads_unwritten_.clear();
  check_plan(step);
  for (size_t i = 0; i < step.arg_count; ++i) {
    const kiln_step_arg& arg = step.args[i];
    // Nothing of it has been computed yet.
    const bool own = arg.role == KILN_ROLE_TEMP || arg.role == KILN_ROLE_OUTPUT;
    if (arg.access == 2 && own && !writes_.find(arg.name)) continue;
    Tensor value = value_of(step, i);
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
    if (writes_.find(name)) unfinished.insert(name);
  known_ = names_.known(step, read, unfinished);
  if (result_.fault == FaultClass::none && run_.stop_at == run_.progress.launches + 1) return look_inside(step);
  poison(step);
}

void BisectedCall::after(const kiln_step& step) {
  if (!run_.compare) return;
  check_watched(step);
  outputs_.clear();
  for (size_t i = 0; i < step.arg_count; ++i) {
    const kiln_step_arg& arg = step.args[i];
    Tensor value = value_of(step, i);
    if (!(arg.access & 2)) {
      check_unchanged(step, arg, value);
      continue;
    }
    control_.wrote(arg.name, value);
    writes_.note(step, arg, value);
    --writers_left_[arg.name];
    outputs_.emplace_back(arg.name, value);
    if (partly_.count(arg.name)) {
      Part part{step.name, step.number, value, nullptr, {}, {}, {}};
      if (options_.inside && step.loop_depth == 0)
        part.copy = std::make_shared<StepCopy>(step, inputs_), part.inputs = inputs_, part.known = known_,
        part.internal = internal_;
      parts_[arg.name].push_back(std::move(part));
    }
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
    check_against_loops(step), note(result_.by_loops, step);
  else
    note(result_.untold, step);
  // Its results do not show it, or nobody can tell: it is wrong all the same.
  if (result_.fault == FaultClass::none && !reads_unwritten_.empty())
    blame(FaultClass::uninitialised, step, reads_unwritten_,
          str("first divergence: kernel ", step.name, at(step), " reads ", reads_unwritten_,
              " before it writes it, and nobody else does\n  the kernel:"));
}

void BisectedCall::note(std::vector<std::string>& names, const kiln_step& step) {
  if (std::find(names.begin(), names.end(), step.name) == names.end()) names.emplace_back(step.name);
  unclear_.emplace(step.number, str(step.name, " (step ", step.number, ")"));
}

void BisectedCall::finish(const std::vector<Datum>& outputs) {
  if (result_.fault != FaultClass::none) return;
  check_outputs(outputs);
  if (result_.fault != FaultClass::none) return;
  auto fault = control_.at_end();
  if (!fault) fault = control_.missing_step(package_.plan());
  if (!fault) return check_program(outputs);
  result_.fault = FaultClass::control_flow;
  result_.step = fault->step.empty() ? current_ : fault->step, result_.buffer = fault->buffer;
  result_.text = str("plan fault (control flow): ", fault->what);
}

void BisectedCall::check_outputs(const std::vector<Datum>& outputs) {
  const loops::LoopProgram& program = package_.steps().program();
  for (size_t i = 0; i < outputs.size() && i < program.outputs.size(); ++i) {
    const auto* id = std::get_if<loops::BufferId>(&program.outputs[i].what);
    if (!id || !outputs[i].is_tensor()) continue;
    const std::string& name = program.buffers[static_cast<size_t>(*id)].name;
    const Write* written = writes_.find(name);
    if (!written || written->sum == checksum(outputs[i].tensor())) continue;
    const int32_t given = i < package_.plan().outputs.size() ? package_.plan().outputs[i].buffer : format::none;
    const bool other = given != format::none && package_.plan().buffers[static_cast<size_t>(given)].name != name;
    result_.fault = other ? FaultClass::layout : FaultClass::overlap;
    result_.step = written->step, result_.buffer = name;
    result_.text = other ? str("plan fault (wrong output): output ", i, " is given from ",
                               package_.plan().buffers[static_cast<size_t>(given)].name, " where the loops say ", name)
                         : str("plan fault (overlapping lifetimes): output ", i, ", ", name, ", was written by ",
                               written->step, " and had changed when the run gave it back");
    return;
  }
}

static std::vector<Value*> user_inputs(const Program& program) {
  std::vector<Value*> out;
  for (size_t i = 0; i < program.graph.inputs.size() && i < program.input_specs.size(); ++i)
    if (program.input_specs[i].kind == InputKind::user || program.input_specs[i].kind == InputKind::constant_value)
      out.push_back(program.graph.inputs[i]);
  return out;
}

// Where every step is what its operators give, so are the outputs. Where some could only be held against their own
// loops, the whole program is: wrong outputs then come from one of those steps, though nobody can say which.
void BisectedCall::check_program(const std::vector<Datum>& outputs) {
  if (unclear_.empty() || package_.plan().uses_random) return;
  Program program = package_.graph().clone();
  for (auto& [name, tensor] : program.constants) {
    const auto now = state_.find(name), stored = package_.constants().find(name);
    if (stored != package_.constants().end()) tensor = stored->second;
    if (now != state_.end()) tensor = now->second;
  }
  std::vector<Datum> truth[2];
  NearMatrices near(program.graph);
  try {
    for (const bool fp64 : {true, false}) {
      InterpretOptions options;
      options.fp64 = fp64;
      std::vector<Datum> inputs = given_;
      if (!fp64) {
        near.disturb_inputs(user_inputs(program), inputs);
        options.after_node = [&](const Node& node, const std::vector<Datum>& made) {
          near.disturb_results(node, made);
        };
      }
      truth[fp64 ? 0 : 1] = Interpreter(program, options).run(inputs).outputs;
    }
  } catch (const Error&) {
    return;  // an operator that only its library can compute: the steps are listed as they are
  }
  for (size_t i = 0; i < outputs.size() && i < truth[0].size() && i < truth[1].size(); ++i) {
    if (!outputs[i].is_tensor() || !truth[0][i].is_tensor() || !truth[1][i].is_tensor()) continue;
    const Tensor& nominal = truth[1][i].tensor();
    // Sizes found in data that rounding decides are those of the program's own dtypes.
    const Tensor& fp64 = truth[0][i].tensor().sizes == nominal.sizes ? truth[0][i].tensor() : nominal;
    const auto difference = find_difference(outputs[i].tensor(), fp64, nominal, options_.tolerance);
    if (!difference) continue;
    result_.fault = FaultClass::uncertain, result_.difference = difference;
    result_.text = str("uncertain: output ", i, " ", difference->text(), call_ > 1 ? str(", call ", call_) : "",
                       "; expected: fp64 reference of the whole program\n  no step differs from what it could be "
                       "compared with; which of those that have no reference is wrong cannot be told; one of:");
    for (const auto& [number, text] : unclear_) {
      result_.text += str("\n  ", text, package_.origin_text(number));
      result_.candidates.push_back(text.substr(0, text.find(" (")));
    }
    return;
  }
}

void BisectedCall::blame_write_outside(const std::string& message) {
  result_.fault = FaultClass::outside;
  result_.step = current_, result_.buffer = buffer_in(message, "outside of buffer ");
  result_.text = str("first divergence: ", message, call_ > 1 ? str(" (call ", call_, ")") : "");
}

// Loops that leave a buffer. What makes no value of the graph (a copy in another layout) serves the operators that are
// computed from it.
void BisectedCall::blame_loops(const kiln_step& step, const std::string& message) {
  KernelBlame found;
  for (const std::string& value : values_made_of(package_.steps(), step.name))
    if (const Node* op = truth_.producer(value);
        op && std::count(found.candidates.begin(), found.candidates.end(), op) == 0)
      found.candidates.push_back(op);
  if (found.candidates.size() == 1) found.op = found.candidates[0], found.candidates.clear();
  std::string text = str("first divergence: kernel ", step.name, at(step), "\n  ", message);
  name_operator(found, text);
  blame(FaultClass::out_of_bounds, step, "", text + "\n  the kernel:");
}

void BisectedCall::blame(FaultClass fault, const kiln_step& step, const std::string& buffer,
                         const std::string& message) {
  result_.fault = fault;
  result_.step = step.name;
  result_.buffer = buffer;
  const std::string origins = package_.origin_text(step.number);
  // A message that ends in a heading for them does without it where there are none.
  const bool heading = origins.empty() && ends_with(message, ":");
  result_.text = (heading ? message.substr(0, message.rfind('\n')) : message) + origins;
  unclear_.erase(step.number);
  if (fault == FaultClass::kernel && !unclear_.empty())
    result_.text += str("\n  uncertain whether it is the first: before it, without a reference, ",
                        join_map(unclear_, ", ", [](const auto& one) { return one.second; }));
}

std::string BisectedCall::at(const kiln_step& step) const {
  std::string text = str(" (step ", step.number);
  if (step.loop_depth > 0)
    text += ", iteration " + join_map(iterations_of(step), ".", [](int64_t i) { return std::to_string(i); });
  return str(text, call_ > 1 ? str(", call ", call_) : "", ")");
}

}  // namespace kiln
