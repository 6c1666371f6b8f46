#include "debug/value_names.h"

#include <algorithm>

#include "debug/bisect_checks.h"

namespace kiln {

ValueNames::ValueNames(PackageDebug& package, const GraphTruth& truth) : package_(package), truth_(truth) {
  for (const auto& [value, buffer] : package.merged()) values_in_[resolve(buffer)].push_back(value);
  for (const std::string& result : truth_.control_flow_results())
    for (const std::string& value : truth_.given_to(result)) values_in_[resolve(result)].push_back(value);
  for (auto& [buffer, values] : values_in_)
    std::stable_sort(values.begin(), values.end(),
                     [&](const std::string& a, const std::string& b) { return truth_.order(a) < truth_.order(b); });
}

std::string ValueNames::resolve(std::string buffer) const {
  for (size_t hops = 0; hops < 64; ++hops) {
    const auto found = package_.merged().find(buffer);
    if (found == package_.merged().end()) break;
    buffer = found->second;
  }
  return buffer;
}

bool ValueNames::is_input(const std::string& name) const {
  const auto& inputs = package_.graph().graph.inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](const Value* v) { return v->name == name; });
}

std::vector<std::string> ValueNames::candidates(const std::string& buffer, bool in_loop) const {
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

const GraphTruth::Stacked* ValueNames::stacked_in(const std::string& buffer) const {
  for (const GraphTruth::Stacked& stacked : truth_.stacked())
    if (resolve(stacked.result) == buffer) return &stacked;
  return nullptr;
}

bool ValueNames::of_kernel(const kiln_step& step, const std::string& value) const {
  const loops::Kernel* kernel = package_.steps().kernel(step.name);
  const Node* node = truth_.producer(value);
  if (!kernel || !node) return false;
  const std::vector<std::string> parts = split(node->target, '.');
  return parts.size() > 1 && std::count(kernel->op_names.begin(), kernel->op_names.end(), parts[1]) > 0;
}

void ValueNames::hold(const kiln_step& step, const std::string& buffer, const std::string& value_name,
                      const Tensor& value) {
  holds_[buffer] = {value_name, iterations_of(step)};
  if (step.loop_depth > 0) return;
  seen_[value_name] = value;
  for (const GraphTruth::Target& target : truth_.targets(value_name))
    if (!target.start && resolve(target.result) == buffer) seen_[target.result] = value;
}

std::map<std::string, Tensor> ValueNames::known(const kiln_step& step, const std::map<std::string, Tensor>& inputs,
                                                const std::set<std::string>& unfinished) const {
  std::map<std::string, Tensor> known = seen_;
  for (const auto& [buffer, tensor] : inputs) {
    const auto held = holds_.find(buffer);
    if (held == holds_.end()) {
      if (step.loop_depth > 0 || !unfinished.count(buffer)) known[buffer] = tensor;
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
std::vector<std::string> ValueNames::results_in(const std::string& value, const std::string& buffer) const {
  std::vector<std::string> out;
  for (const GraphTruth::Target& target : truth_.targets(value))
    if (resolve(target.result) == buffer) out.push_back(target.result);
  return out;
}

}  // namespace kiln
