// Calls that only wrap a subgraph (wrap_with_set_grad_enabled, wrap_with_autocast, strict_mode, …): the subgraph's
// nodes take the call's place. Autocast changes dtypes while running: the casts that it makes are written out as
// aten._to_copy nodes, by the operators' autocast classes (ops/op_facts.h), and for operators made of listed ones by
// the dtype that the file gives. Calls of custom operators that the export made functional (custom_ops.h), out_dtype
// (out_dtype.h) and what vmap leaves behind (vmap_regions.h) are expanded on the way.
#pragma once
#include "graph/graph.h"

namespace kiln {

bool is_wrapper(const Node& node);
bool has_wrappers(const Graph& graph);
// Returns whether anything changed. Operators must be resolved. Subgraphs of other operators are done too.
bool inline_wrapper_calls(Graph& graph, const RangeEnv& ranges);

}  // namespace kiln
