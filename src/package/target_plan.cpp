#include "package/target_plan.h"

#include "base/cpu_levels.h"
#include "base/error.h"

namespace kiln {

TargetPlan plan_for_this_machine(const format::Plan& plan) {
  TargetPlan out;
  if (plan.code.empty()) return out;
  std::vector<std::string> targets;
  for (const format::CodeObject& object : plan.code) targets.push_back(object.target);
  try {
    out.target = choose_allowed_target(targets, processor_features());
    out.runs_here = true;
  } catch (const Error&) {
    // None of them runs here: the first is looked at all the same.
  }
  out.name = targets[out.target];
  if (!plan.code[out.target].plan.empty()) out.entry = plan.code[out.target].plan;
  return out;
}

std::string debug_entry(const TargetPlan& target, const std::string& name) {
  return target.target == 0 ? "debug/" + name : str("debug/", target.name, "/", name);
}

}  // namespace kiln
