// Side effects in an export. A decomposed one orders them by tokens, empty tensors that go in and out:
//
//   %t1: f32[0], %r: f32[2] = higher_order.with_effects(%t0, "torch.ops.mylib.log.default", %x)
//
// Kiln runs nodes in their order, so the tokens are dropped, from the signature too, and the operator is called as it
// is. higher_order.print has no result and prints nothing here: a package has nowhere to print to.
#pragma once
#include "graph/graph.h"

namespace kiln {

bool has_effect_call(const Node& node);  // with_effects or print
// Returns whether anything changed. Operators must be resolved.
bool drop_effect_tokens(Program& program);

}  // namespace kiln
