// Symbolic numbers as nodes. Kiln's passes let an argument be an expression (2*s0 + 1); in a .pt2 it must be the result
// of a node. Before the node that needs it, this adds aten.sym_size.int and Python's operators on symbols.
#pragma once
#include "graph/graph.h"

namespace kiln {

// Afterwards no argument and no output of the graph, or of its subgraphs, is an Expr. Throws K0167 for a symbol that
// nothing in the graph gives.
void make_symbolic_nodes(Graph& graph);

}  // namespace kiln
