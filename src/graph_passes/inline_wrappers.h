// Removes calls that only wrap a subgraph:
//
//   %y: f32[2] = higher_order.wrap_with_set_grad_enabled(false, graph g { input %a: f32[2]
//                                                                         %b: f32[2] = aten.relu.default(self=%a)
//                                                                         output %b }, %x)
// becomes
//   %b: f32[2] = aten.relu.default(self=%x)
//
// Under autocast, the casts that it makes while running are written out as aten._to_copy nodes (wrappers.h).
#pragma once
#include "graph_passes/pass.h"

namespace kiln {

bool inline_wrappers(Program& program, PassContext& context);

}  // namespace kiln
