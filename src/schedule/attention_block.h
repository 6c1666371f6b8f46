// Attention on a GPU (attention_template.cpp): a block of threads has some rows, whose scores stay in registers.
#pragma once
#include "loops/loops.h"
#include "schedule/target.h"

namespace kiln::loops {

// Gives the kernel, which is an AttentionNest, its block; the weights were stored in this type. The empty text, or why
// not.
std::string use_attention_block(Kernel& kernel, DType weights, const LoopProgram& program, const Target& target);

}  // namespace kiln::loops
