// Where the elements of a tensor lie, as far as its symbolic sizes and strides say it.
#pragma once
#include "graph/graph.h"

namespace kiln {

// True only where it is certain that no two elements share a place, whatever values the symbols have. A stride of 0,
// overlapping windows, and strides that were wide enough for the export's sizes alone are not.
bool elements_apart(const TensorType& type, const RangeEnv& ranges);

}  // namespace kiln
