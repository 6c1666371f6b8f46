// Merges the loop trees of two kernels: loops with equal extents become one where no iteration of the second part needs
// what a later iteration of the first part writes.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

// Appends b's body to `into` (a copy of the earlier kernel). False, with the reason: nothing may be shared.
bool merge_into(Kernel& into, const Kernel& b, const LoopProgram& program, const RangeEnv& ranges, std::string& reason);

}  // namespace kiln::loops
