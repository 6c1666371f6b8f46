// What a file says of the memory of its values, before anybody allocates or points by it.
#pragma once
#include "graph/graph.h"

namespace kiln {

// Every tensor of the program, subgraphs included, must have sizes, strides and an offset that a tensor can have: none
// is negative for every value that its symbols may take (K0116), and what is fixed stays within 64 bits (K0240).
void check_extents(const Program& program);

}  // namespace kiln
