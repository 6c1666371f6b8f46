// Calls of custom operators that the export has made functional. The second form says everything by names:
//
//   auto_functionalized_v2("torch.ops.mylib.inc_.default", k=2, _x_base_index=0, _x_slice_dim=0, _x_slice_start=1,
//                          _x_slice_end=3, _all_bases=[%b]) -> the operator's results (None where it has none), new %b
//
// becomes
//
//   %new = aten.clone(%b);  %x = aten.slice(%new, 0, 1, 3);  mylib.inc_.default(x=%x, k=2, _kiln_writes=["x"])
//
// The first form (up to PyTorch 2.6) has the written arguments under their own names, and only the schema knows which
// they are. functionalize then makes the call functional again, together with all other writes.
#pragma once
#include "graph/graph.h"

namespace kiln {

// Replaces the call by what it stands for: copies of the bases, views of them, and the operator that writes to these.
void expand_auto_functionalized(Graph& graph, Node& call, const RangeEnv& ranges);

}  // namespace kiln
