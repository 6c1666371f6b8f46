// Removes nodes whose results nobody uses:
//
//   %a: f32[2] = aten.relu.default(self=%x)      (gone when %a is unused)
//
// A node stays when it has an effect (it asserts, writes, or is a custom operator), and when it gives a symbol its
// value (u0, the size of a nonzero's result) that something still mentions.
#pragma once
#include "graph_passes/pass.h"

namespace kiln {

bool dead_code(Program& program, PassContext& context);

}  // namespace kiln
