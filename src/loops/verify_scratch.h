// Inside of verify.cpp: what scratch buffers promise.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

// Every element of scratch that the kernel reads was written before in the same item, and iterations that may run at
// once do not write one element. Fails as a bug.
void verify_scratch(const LoopProgram& program, const Kernel& kernel);
// Each scratch buffer is one kernel's, and nobody else's.
void verify_scratch_users(const LoopProgram& program);

}  // namespace kiln::loops
