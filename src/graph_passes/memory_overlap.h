// Whether two views of one storage have no element in common.
#pragma once
#include "graph/graph.h"

namespace kiln {

// True only where it is certain: one ends before the other begins, or (sizes known) no element is in both.
bool disjoint(const TensorType& a, const TensorType& b, const RangeEnv& ranges);

}  // namespace kiln
