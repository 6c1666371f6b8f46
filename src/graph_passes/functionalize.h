// Removes mutation. Every tensor is tracked as an alias: a chain of views over a base (an input or a node's fresh
// result). A write through an alias becomes a new value of the base; whatever reads another alias afterwards reads it
// through its views of the new base.
//
//   %a: f32[4] = aten.select.int(self=%x, dim=0, index=1)
//   %b: f32[4] = aten.add_.Tensor(self=%a, other=1)
//   output %x
// becomes
//   %a: f32[4] = aten.select.int(self=%x, dim=0, index=1)
//   %add: f32[4] = aten.add.Tensor(self=%a, other=1)
//   %select_scatter: f32[3, 4] = aten.select_scatter.default(self=%x, src=%add, dim=0, index=1)
//   output %select_scatter = user_input_mutation "x"
//   output %select_scatter
//
// Afterwards every node is pure. Inputs, buffers and parameters that were written get an output of kind …_mutation,
// before the others. A write is put back through slice, select and views that only rename dimensions by their inverses;
// through anything else by as_strided_scatter into the base.
#pragma once
#include "graph_passes/pass.h"

namespace kiln {

bool functionalize(Program& program, PassContext& context);

}  // namespace kiln
