// A kernel before merging: parallel loops around sums.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

struct SingleNest {
  std::vector<const Loop*> parallel, sums;
  std::vector<const Stmt*> loads;
  const Stmt* store = nullptr;
};

// Nothing: the kernel is no such nest.
std::optional<SingleNest> single_nest(const Kernel& kernel);

bool mentions_any(const Stmt& access, const std::string& var);  // in some index

}  // namespace kiln::loops
