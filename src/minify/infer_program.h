// The types of all results of a program again, from the types of its inputs, after an edit that changed those.
#pragma once
#include "graph/graph.h"

namespace kiln::minify {

// Subgraphs get the types of their operands. Throws K0681 where an operator has no rule or a loop's body gives back
// another type than it takes, and what the operators' rules throw.
void infer_program(Program& program);

}  // namespace kiln::minify
