// Arithmetic on sizes becomes expressions over the program's symbols, and what is proven need not be asserted:
//
//   %n: int {s0} = aten.sym_size.int(self=%x, dim=0)
//   %m: int {s0*2} = _operator.mul(a=%n, b=2)
//   %y: f32[s0*2] = aten.full.default(size=[%m], fill_value=0)
//   aten._assert_scalar.default(self=%ge, assert_msg="s0 >= 0")
// becomes
//   %y: f32[s0*2] = aten.full.default(size=[{s0*2}], fill_value=0)
//
// An assertion about sizes of inputs only becomes a guard of the program. One about a number that is known only while
// running (u0, from .item() or nonzero) stays, with the nodes that compute its condition, and so does the node that
// gives such a number.
#pragma once
#include "graph_passes/pass.h"

namespace kiln {

bool remove_symbolic(Program& program, PassContext& context);

}  // namespace kiln
