// Innermost loops whose reads go along memory in pieces become a loop for each piece (of collapse_loops).
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

bool split_pieces(Kernel& kernel, const LoopProgram& program);

}  // namespace kiln::loops
