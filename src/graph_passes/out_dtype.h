// higher_order.out_dtype(operator, dtype, arguments…): the operator computed in a type that has room for its result's,
// as products of int8 that add up in int32.
#pragma once
#include "graph/graph.h"

namespace kiln {

void expand_out_dtype(Graph& graph, Node& call, const RangeEnv& ranges);

}  // namespace kiln
