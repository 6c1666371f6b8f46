// Calls that only wrap a subgraph (wrap_with_set_grad_enabled, wrap_with_autocast, strict_mode, …): the subgraph's
// nodes take the call's place. Autocast changes dtypes while running; the file's types say what it did, and the casts
// that it made are written out as aten._to_copy nodes. Calls of custom operators that the export made functional
// (custom_ops.h) and what vmap leaves behind (vmap_regions.h) are expanded on the way.
#pragma once
#include "graph/graph.h"

namespace kiln {

bool has_wrappers(const Graph& graph);
// Returns whether anything changed. Operators must be resolved. Subgraphs of other operators are done too.
bool inline_wrapper_calls(Graph& graph, const RangeEnv& ranges);

}  // namespace kiln
