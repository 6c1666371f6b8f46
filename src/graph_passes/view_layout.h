// Whether a call of a view operator really shares memory with its argument. Most always do; reshape, contiguous and
// `to` copy when they must, and PyTorch decides by sizes and strides.
#pragma once
#include "graph/graph.h"

namespace kiln {

// yes: the result is an alias; no: it is a copy; unknown: it depends on sizes that the program leaves open.
// layout_open: the argument's strides are not what they will be when running, so that a copy made because of them is
// not certain.
Proof shares_memory(const Node& node, const RangeEnv& ranges, bool layout_open = false);

// Whether a tensor with these sizes and strides can be seen with other sizes without a copy.
Proof can_view(const std::vector<Expr>& sizes, const std::vector<Expr>& strides, const std::vector<Expr>& new_sizes,
               const RangeEnv& ranges);

}  // namespace kiln
