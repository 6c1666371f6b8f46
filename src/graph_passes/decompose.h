// Replaces operators by the calls their records decompose them into, until none is left that has a decomposition:
//
//   %y: f32[2, 3] = aten.softmax.int(self=%x, dim=1)
// becomes
//   %amax: f32[2, 1] = aten.amax.default(self=%x, dim=[1], keepdim=true)
//   %sub: f32[2, 3] = aten.sub.Tensor(self=%x, other=%amax)
//   …
// The new nodes inherit the node's origins. What replaces a result keeps the strides that the file says.
#pragma once
#include "graph_passes/pass.h"

namespace kiln {

bool decompose(Program& program, PassContext& context);

// The same for operators that write to several arguments (batch_norm and its running statistics): what they become
// writes by copy_, which functionalize knows. It runs before that.
bool expand_writes(Program& program, PassContext& context);

}  // namespace kiln
