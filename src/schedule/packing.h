// Makes the packed copy of a constant operand: a derived buffer, a kernel in the init section that fills it, and the
// load that reads it instead.
#pragma once
#include "schedule/template.h"

namespace kiln::loops {

void pack(LoopProgram& program, Kernel& kernel, const Packing& packing);

}  // namespace kiln::loops
