// Computes at compile time what depends on constants only, where the result is small (at most 64 kB):
//
//   input %c: i64[3] = constant_tensor "c"
//   %m: i64[3] = aten.mul.Tensor(self=%c, other=2)
//   %y: f32[3] = aten.index.Tensor(self=%x, indices=[%m])
// becomes
//   input %m: i64[3] = constant_tensor "_folded_0"
//   %y: f32[3] = aten.index.Tensor(self=%x, indices=[%m])
//
// Parameters and buffers are not folded: they may be updated after compiling. A result with all elements equal becomes
// aten.full, which costs nothing when fused. Random operators stay.
#pragma once
#include "graph_passes/pass.h"

namespace kiln {

bool fold_constants(Program& program, PassContext& context);

}  // namespace kiln
