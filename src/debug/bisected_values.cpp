// The values that a step computes: against the fp64 reference of its operators given the same inputs, or against its
// own loops; and which operator is at fault.
#include "debug/bisect_checks.h"
#include "debug/bisected_call.h"
#include "debug/step_copy.h"
#include "debug/written_parts.h"
#include "package/plan_builder.h"

namespace kiln {

// A value that is rounded to whole steps (a quantised one) and lies between two of them may go either way, and with it
// all that is computed from it: samples of what rounding does to them count as well. Where many elements differ and
// most are in none of the first samples, it is not that.
std::optional<Difference> BisectedCall::differs(const Tensor& value, const Truth& truth,
                                                const TruthRequest& request) const {
  constexpr int samples = 16;
  constexpr size_t first_samples = 6;
  constexpr int64_t few = 100;  // one of so many
  const DifferenceOptions& tolerance = options_.tolerance;
  std::optional<Difference> difference = find_difference(value, truth.fp64, truth.nominal, tolerance);
  if (!difference || tolerance.rtol || tolerance.atol) return difference;
  const bool many = difference->count > std::max<int64_t>(1, difference->of / few);
  std::optional<Difference> difference_left = difference;
  std::vector<Tensor> rounded;
  for (int sample = 0; sample < samples; ++sample) {
    std::optional<Tensor> one;
    try {
      one = truth_.compute_rounded(request, truth, sample);
    } catch (const Error&) {
      return difference;  // what is off by rounding the reference may refuse
    }
    if (!one || one->sizes != truth.fp64.sizes) return difference;
    rounded.push_back(*one);
    const auto left = find_difference(value, truth.fp64, truth.nominal, tolerance, rounded);
    if (!left) return std::nullopt;
    if (many && rounded.size() >= first_samples && 2 * left->count > difference->count) return difference;
    difference_left = left;
  }
  return difference_left;
}

std::optional<Truth> BisectedCall::truth_of(const TruthRequest& request, const Tensor& value) const {
  try {
    std::optional<Truth> truth = truth_.compute(request);
    return truth && truth->fp64.sizes == value.sizes ? std::move(truth) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // the reference refuses what the program itself would have refused
  }
}

// A buffer whose last writer is done holds the last of the values that live there; an earlier one only if this step
// has nothing to do with that. Nothing: as after any other step.
std::optional<bool> BisectedCall::check_complete(const kiln_step& step, const std::string& buffer, const Tensor& value,
                                                 const std::vector<std::string>& candidates) {
  if (!complete(step, buffer)) return std::nullopt;
  for (size_t i = candidates.size(); i-- > 0;) {
    const TruthRequest request{candidates[i], known_, symbols_of(step), 0, iterations_of(step)};
    const auto truth = truth_of(request, value);
    if (!truth) continue;
    if (!differs(value, *truth, request)) {
      names_.hold(step, buffer, candidates[i], value);
      stored_[candidates[i]] = value;
      return true;
    }
    if (names_.of_kernel(step, candidates[i]) && blame_part(step, buffer, candidates[i], value, *truth, request))
      return true;
  }
  return std::nullopt;
}

// False: what it should be cannot be told.
bool BisectedCall::check_against_graph(const kiln_step& step, const std::string& buffer, const Tensor& value) {
  if (const auto told = check_slice(step, buffer, value)) return *told;
  if (const auto told = check_joined(step, buffer, value)) return *told;
  const std::vector<std::string> candidates = names_.candidates(buffer, step.loop_depth > 0);
  std::optional<Difference> first;
  std::string first_value;
  Truth first_truth;
  // A custom operator's update of what it was given: nobody but its library can compute that.
  const auto by_custom = [&](const std::string& candidate) {
    const Node* node = truth_.producer(candidate);
    return node && !node->op && node->target == step.name;
  };
  if (!candidates.empty() && by_custom(candidates.back())) {
    names_.hold(step, buffer, candidates.back(), value);
    return false;
  }
  if (const auto told = check_complete(step, buffer, value, candidates)) return *told;
  for (const std::string& candidate : candidates) {
    if (by_custom(candidate)) {
      names_.hold(step, buffer, candidate, value);
      return false;
    }
    const TruthRequest request{candidate, known_, symbols_of(step), 0, iterations_of(step)};
    std::optional<Truth> truth = truth_of(request, value);
    if (!truth) continue;
    if (partly_.count(buffer)) only_written(buffer, value, *truth);
    auto difference = differs(value, *truth, request);
    if (!difference) {
      if (!partly_.count(buffer) || writers_left_[buffer] <= 0) names_.hold(step, buffer, candidate, value);
      stored_[candidate] = value;
      return true;
    }
    if (!first || (!names_.of_kernel(step, first_value) && names_.of_kernel(step, candidate)))
      first = difference, first_value = candidate, first_truth = std::move(*truth);
  }
  if (!first) return false;
  // The value that it writes here cannot be computed, and the other one that lives here is not its own.
  if (names_.holds_several(buffer) && package_.steps().kernel(step.name) && !names_.of_kernel(step, first_value))
    return false;
  // On its way from one value of the graph to another: only its own loops can judge this step.
  if (partly_.count(buffer) && writers_left_[buffer] > 0) return false;
  stored_[first_value] = value;
  // Of several outputs that are wrong the one that the others may have been computed from.
  if (!wrong_ || truth_.order(first_value) < truth_.order(wrong_->value))
    wrong_ = Wrong{buffer, first_value, *first, std::move(first_truth), std::nullopt};
  return true;
}

// A step of a scan's or a map's body writes the slice of its iteration. Nothing: this buffer is none of that kind.
std::optional<bool> BisectedCall::check_slice(const kiln_step& step, const std::string& buffer, const Tensor& value) {
  const GraphTruth::Stacked* stacked = names_.stacked_in(buffer);
  const auto row = stacked ? stacked->slice(iterations_of(step)) : std::nullopt;
  if (!row || value.sizes.empty() || *row < 0 || *row >= value.sizes[0]) return std::nullopt;
  const TruthRequest request{stacked->value, known_, symbols_of(step), 0, iterations_of(step)};
  std::optional<Truth> truth;
  try {
    truth = truth_.compute(request);
  } catch (const Error&) {
    return false;  // the reference refuses what the program itself would have refused
  }
  names_.see(stacked->result, value);  // complete after the last iteration
  const Tensor slice = row_of(value, *row);
  if (!truth || truth->fp64.sizes != slice.sizes) return false;
  const auto difference = differs(slice, *truth, request);
  if (difference && (!wrong_ || truth_.order(stacked->value) < truth_.order(wrong_->value)))
    wrong_ = Wrong{buffer, stacked->value, *difference, std::move(*truth), row};
  return true;
}

// Products that were joined write their values side by side, each under a name of its own. Nothing: this buffer is none
// of that kind.
std::optional<bool> BisectedCall::check_joined(const kiln_step& step, const std::string& buffer, const Tensor& value) {
  const loops::Kernel* kernel = package_.steps().kernel(step.name);
  const loops::Stmt* store = nullptr;
  if (!kernel || truth_.has(buffer) || step.loop_depth > 0) return std::nullopt;
  loops::for_each_stmt(kernel->body, [&](const loops::Stmt& stmt) {
    if (stmt.kind == loops::StmtKind::store &&
        package_.steps().program().buffers[static_cast<size_t>(stmt.buffer)].name == buffer)
      store = &stmt;
  });
  if (!store) return std::nullopt;
  bool told = false;
  for (const loops::NamedValue& named : kernel->named) {
    if (named.value != store->args[0] || named.mask != loops::no_value || !truth_.has(named.name) ||
        named.index.size() != value.sizes.size())
      continue;
    const TruthRequest request{named.name, known_, symbols_of(step), 0, iterations_of(step)};
    std::optional<Truth> truth;
    try {
      truth = truth_.compute(request);
    } catch (const Error&) {
      continue;  // the reference refuses what the program itself would have refused
    }
    if (!truth || truth->fp64.sizes.size() != value.sizes.size()) continue;
    Tensor part = value;
    part.sizes = truth->fp64.sizes;
    bool inside = true;
    for (size_t d = 0; d < value.sizes.size() && inside; ++d) {
      const Expr begin = store->index[d] - named.index[d];
      inside = begin.is_constant() && begin.value() >= 0 && begin.value() + part.sizes[d] <= value.sizes[d];
      if (inside) part.offset += begin.value() * value.strides[d];
    }
    if (!inside) continue;
    told = true;
    const auto difference = differs(part, *truth, request);
    names_.see(named.name, part);
    stored_[named.name] = part;
    if (difference && (!wrong_ || truth_.order(named.name) < truth_.order(wrong_->value)))
      wrong_ = Wrong{buffer, named.name, *difference, std::move(*truth), std::nullopt};
  }
  return told ? std::optional(true) : std::nullopt;
}

// The last of several steps that write the buffer has done so.
bool BisectedCall::complete(const kiln_step& step, const std::string& buffer) const {
  const auto left = writers_left_.find(buffer);
  return partly_.count(buffer) && step.loop_depth == 0 && left != writers_left_.end() && left->second == 0;
}

// Of a buffer that is complete and wrong: the step that gave the first wrong element its value, unless it is this
// one.
bool BisectedCall::blame_part(const kiln_step& step, const std::string& buffer, const std::string& value_name,
                              const Tensor& value, const Truth& truth, const TruthRequest& request) {
  const auto difference = differs(value, truth, request);
  if (!difference) return false;
  int64_t linear = 0;
  for (size_t d = 0; d < difference->index.size(); ++d) linear = linear * value.sizes[d] + difference->index[d];
  const std::vector<Part>& parts = parts_[buffer];
  size_t by = 0;
  for (size_t p = 1; p < parts.size(); ++p)
    if (parts[p].value.sizes != value.sizes || !same_bits(parts[p].value, parts[p - 1].value, linear)) by = p;
  if (parts.empty() || parts[by].step == step.name) return false;
  const KernelBlame found = look_inside_part(parts[by], buffer, value_name);
  std::string text = str("first divergence: kernel ", parts[by].step, " (step ", parts[by].number,
                         call_ > 1 ? str(", call ", call_) : "", ")\n  its part of ", buffer, " ", difference->text(),
                         "; expected: fp64 reference given the same inputs; seen when ", step.name, at(step),
                         " had completed it", found.notes);
  name_operator(found, text);
  result_.difference = difference;
  blame(found.fault, step, buffer, text);
  result_.text = text + "\n  the kernel:" + package_.origin_text(parts[by].number);
  result_.step = parts[by].step;
  return true;
}

// The step is over, and others have been since: it is run again on what it was given.
KernelBlame BisectedCall::look_inside_part(const Part& part, const std::string& buffer, const std::string& value_name) {
  KernelBlame none;
  none.op = truth_.producer(value_name);
  if (!part.copy) return none;
  const kiln_step& step = part.copy->step();
  std::optional<Truth> truth;
  try {
    truth = truth_.compute({value_name, part.known, symbols_of(step), 0, {}});
  } catch (const Error&) {
    return none;  // the reference refuses what the program itself would have refused
  }
  if (!truth || truth->fp64.sizes != part.value.sizes) return none;
  const auto before = part.inputs.find(buffer);
  const Tensor* was = before == part.inputs.end() ? nullptr : &before->second;
  for (Tensor* expected : {&truth->fp64, &truth->nominal}) *expected = with_unchanged(*expected, part.value, was, {});
  const std::map<std::string, Tensor> stored = {{value_name, part.value}};
  KernelBlame found =
      blame_kernel({package_, truth_, step, part.inputs, part.internal, part.known, stored, buffer, *truth,
                    options_.tolerance, options_.rebuilt_source, options_.compiler, call_, std::nullopt, true});
  // The reference is of the whole buffer: operators of its other parts are not this step's.
  std::vector<const Node*> own = found.candidates;
  std::erase_if(own, [&](const Node* node) { return !names_.of_kernel(step, node->name); });
  if (own.size() == 1) found.op = own[0], found.candidates.clear(), found.method.clear();
  if (own.size() > 1) found.candidates = own;
  return found;
}

// Where several steps write one buffer, each answers for the elements that it changed.
// Before the last one they may also hold what the buffer is to be updated from.
void BisectedCall::only_written(const std::string& buffer, const Tensor& value, Truth& truth) const {
  const auto before = inputs_.find(buffer);
  std::vector<Tensor> others;
  const auto left = writers_left_.find(buffer);
  if (left != writers_left_.end() && left->second > 0)
    for (const auto& [name, tensor] : known_)
      if (tensor.sizes == value.sizes && tensor.dtype == value.dtype) others.push_back(tensor);
  const Tensor* was = before == inputs_.end() ? nullptr : &before->second;
  for (Tensor* expected : {&truth.fp64, &truth.nominal}) *expected = with_unchanged(*expected, value, was, others);
}

void BisectedCall::blame_wrong(const kiln_step& step) {
  KernelBlame found;
  found.fault = FaultClass::kernel;
  run_.progress.looks_inside = options_.inside;
  if (options_.inside)
    found = blame_kernel({package_, truth_, step, inputs_, internal_, known_, stored_, wrong_->buffer, wrong_->truth,
                          options_.tolerance, options_.rebuilt_source, options_.compiler, call_, wrong_->row});
  std::string text = str("first divergence: kernel ", step.name, at(step), "\n  output ", wrong_->buffer,
                         wrong_->row ? str("[", *wrong_->row, "]") : "", " ", wrong_->difference.text(),
                         "; expected: fp64 reference given the same inputs", found.notes);
  name_operator(found, text);
  result_.difference = wrong_->difference;
  blame(found.fault, step, wrong_->buffer, text + "\n  the kernel:");
}

void BisectedCall::check_against_loops(const kiln_step& step) {
  StepCopy copy(step, inputs_);
  package_.steps().run(copy.step());
  ++result_.against_loops;
  for (const auto& [buffer, value] : outputs_) {
    const auto difference = find_difference(value, copy.output(buffer), {}, options_.tolerance);
    if (!difference) continue;
    result_.difference = difference;
    std::string notes;
    const std::string name =
        options_.inside ? first_differing_value(package_, step, inputs_, options_.tolerance, options_.compiler, notes)
                        : "";
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

// The step is known to end the process, never to end, or to write where it must not: what can be said without
// running it.
void BisectedCall::look_inside(const kiln_step& step) {
  Truth most;  // of what it writes: the value that most of its operators are there for
  const Node* near = nullptr;
  for (size_t i = 0; i < step.arg_count; ++i) {
    if (!(step.args[i].access & 2)) continue;
    for (const std::string& candidate : names_.candidates(step.args[i].name, step.loop_depth > 0)) {
      if (step.args[i].name == run_.suspect && !near) near = truth_.producer(candidate);
      std::optional<Truth> truth;
      try {
        truth = truth_.compute({candidate, known_, symbols_of(step), 0, iterations_of(step)});
      } catch (const Error&) {
        continue;  // the reference refuses what the program itself would have refused
      }
      if (truth && truth->nodes.size() > most.nodes.size()) most = std::move(*truth);
    }
  }
  const std::string none;
  const KernelBlame found =
      blame_without_result({package_, truth_, step, inputs_, internal_, known_, stored_, none, most, options_.tolerance,
                            options_.rebuilt_source, options_.compiler, call_},
                           near);
  std::string text = found.notes;
  name_operator(found, text);
  blame(found.fault, step, run_.suspect, text + "\n  the kernel:");
}

void BisectedCall::name_operator(const KernelBlame& found, std::string& text) {
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

}  // namespace kiln
