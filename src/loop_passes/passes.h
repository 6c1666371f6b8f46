// The passes over Loops of the stage `loops`; those of the stage `schedule` stand in schedule/. Each returns whether it
// changed anything; compile/pipeline.cpp lists them in order and says why. `log` receives each decision with its reason
// (decisions.h).
#pragma once
#include "loop_passes/decisions.h"
#include "loops/loops.h"

namespace kiln::loops {

// Notes where each value of the graph is computed (Kernel::named): afterwards its store may go.
bool name_values(LoopProgram& program, Log& log);

// base_new = copy(base); base_new[part] = …; base <- base_new   becomes   base[part] = …
// Where nothing needs the old value any more, an update happens in its place.
bool update_in_place(LoopProgram& program, Log& log);

// t = f(x); y = g(t)   becomes   y = g(f(x))     for producers that are one pointwise nest.
bool inline_producers(LoopProgram& program, Log& log);

// Equal statements of one scope are computed once; unused ones are removed; casts of casts, selects of constants
// folded.
bool simplify_bodies(LoopProgram& program, Log& log);
bool simplify_body(LoopProgram& program, Kernel& kernel);  // of one kernel

// Kernels whose results nobody reads are removed, and buffers that nobody mentions are dropped.
bool remove_dead_kernels(LoopProgram& program, Log& log);

}  // namespace kiln::loops
