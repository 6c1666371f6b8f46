// A Graph as Python: what PyTorch users read (fx_graph_readable.py, fx_graph_transformed.py) and what runs under
// PyTorch (fx_graph_runnable.py). Names are those of the exported file wherever they are Python names.
#pragma once
#include <string>

#include "graph/graph.h"

namespace kiln {

// class GraphModule(torch.nn.Module) with types as annotations and the user's source lines as comments.
std::string readable_python(const Program& program);

// A complete script. It loads weights and sample inputs from `values_file`, which stands beside it, and runs on them or
// on --inputs F; -o OUT saves the outputs. `heading` becomes comments at the top. The graph must be as it was read: its
// sizes are computed by its own nodes.
std::string runnable_python(const Program& program, const std::string& values_file, const std::string& heading);

// Writes that file: {"weights/<name>": tensor, "inputs/<i>": value}.
void write_runnable_values(const Program& program, const std::string& path);

// One line per node: name, operator, arguments; for the log `graph`.
std::string node_table(const Graph& graph);

}  // namespace kiln
