// Of a package with code for several targets: which of them this machine runs, and where its plan is.
#pragma once
#include "package/format.h"

namespace kiln {

struct TargetPlan {
  size_t target = 0;           // among Plan::code
  std::string name;            // of the target; empty: the package has no code of its own (library kernels alone)
  std::string entry = "plan";  // its whole name, or in the package's folder
  bool runs_here = false;      // false: none of them does, and this is the first; of a GPU's nothing is asked
};

// `plan` is any of the package's.
TargetPlan plan_for_this_machine(const format::Plan& plan);

// The entry of the debug section that is this target's own: the first one's lie in the section itself, another's in a
// folder of its own.
std::string debug_entry(const TargetPlan& target, const std::string& name);

}  // namespace kiln
