// Computes equal things once. Needs a functional graph:
//
//   %a: f32[2] = aten.relu.default(self=%x)
//   %b: f32[2] = aten.relu.default(self=%x)      (gone; %a takes its place and its origins)
#pragma once
#include "graph_passes/pass.h"

namespace kiln {

bool common_subexpressions(Program& program, PassContext& context);

}  // namespace kiln
