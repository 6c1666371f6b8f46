// Makes the packed copy of a constant operand: a derived buffer, a kernel in the init section that fills it, and the
// load that reads it instead.
#pragma once
#include "schedule/template.h"

namespace kiln::loops {

void pack(LoopProgram& program, Kernel& kernel, const Packing& packing);

// How a GPU's tiles would have a constant right factor lie: terms below one another, columns side by side.
std::optional<Packing> gpu_packing(const ContractionNest& nest, const Stmt* load, const LoopProgram& program);

}  // namespace kiln::loops
