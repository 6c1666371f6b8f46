// Where a node comes from, as torch.export's metadata say it, both ways.
#pragma once
#include "base/json.h"
#include "graph/graph.h"

namespace kiln {

// "File "model.py", line 42, in forward\n    y = …" -> frames, outermost first. Frames inside PyTorch
// are left out, unless there are no others.
std::vector<SourceLine> parse_stack_trace(std::string_view text);
// "L__self__,,Model;L__self___mlp,layers.3.mlp,MLP" -> "layers.3.mlp"
std::string parse_module_path(std::string_view text);

// stack_trace and nn_module_stack of the node's first origin. Classes of modules are not known and written as Module.
Json node_metadata_json(const Node& node);

}  // namespace kiln
