// torch.vmap in an export that was not decomposed. The file keeps the calls with which functorch enters and leaves it;
// between them, types are those of one element, without the dimension that is mapped over:
//
//   torch._functorch.predispatch._vmap_increment_nesting(4, "error")
//   %a: f32[3] = torch._functorch.predispatch._add_batch_dim(%x, 0, 1)            (tensor, dimension, level)
//   %b: f32[3] = aten.mul.Tensor(self=%a, other=%w)
//   %y: f32[4, 3] = torch._functorch.predispatch._remove_batch_dim(%b, 1, 4, 0)   (tensor, level, size, dimension)
//   torch._functorch.predispatch._vmap_decrement_nesting()
//
// That is a map over the first dimension, and becomes one: higher_order.map_impl with a subgraph of what stands
// between. Regions inside regions become maps inside maps. What leaves a region without _remove_batch_dim is refused
// (K0236).
#pragma once
#include "graph/graph.h"

namespace kiln {

bool has_vmap_regions(const Graph& graph);
// Returns whether anything changed. Operators must be resolved. Subgraphs of other operators are not looked into.
bool expand_vmap_regions(Graph& graph, const RangeEnv& ranges);

}  // namespace kiln
