// For tests only: mistakes in the lowering of one operator. Each kind changes the body of a kernel as it was lowered,
// before any pass has looked at it, in one place. Nothing of this is known to bisect.
#pragma once
#include <string>
#include <vector>

#include "loops/loops.h"

namespace kiln::seeded {

struct Mutation {
  const char* name;
  // False: the kernel has nothing that it could be done to.
  bool (*apply)(loops::LoopProgram& program, loops::Kernel& kernel);
};
const std::vector<Mutation>& mutations();

}  // namespace kiln::seeded
