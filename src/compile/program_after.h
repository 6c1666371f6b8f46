// The program as a pass over the graph leaves it, to be written or looked at.
#pragma once
#include <string>

#include "graph/graph.h"

namespace kiln {

// Runs the passes up to this one. Operators that Kiln does not have are taken for custom ones: no pass looks into them.
// Throws K0221 when there is no such pass, or when it makes loops. Sample inputs stay the program's.
Program program_after(const Program& program, const std::string& pass);

}  // namespace kiln
