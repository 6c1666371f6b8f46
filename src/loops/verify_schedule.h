// Inside of verify.cpp: what a kernel's schedule promises.
#pragma once
#include "loops/loops.h"

// The text is made where the condition fails: programs are verified after every pass.
#define KILN_VERIFY(condition, what) ((condition) ? void() : fail(what))

namespace kiln::loops {

// Tiles, lanes and grids fit the loops and the scratch that they speak of. Fails as a bug.
void verify_schedule(const LoopProgram& program, const Kernel& kernel);

}  // namespace kiln::loops
