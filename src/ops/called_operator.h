// Higher-order calls that name an operator and call it: higher_order.auto_functionalized, out_dtype, with_effects. They
// are expanded by graph_passes/inline_wrappers.h; until then the operator they call must be known all the same.
#pragma once
#include "graph/graph.h"

namespace kiln {

bool is_auto_functionalized(const Node& node);  // auto_functionalized and auto_functionalized_v2
bool is_out_dtype(const Node& node);
bool is_with_effects(const Node& node);
std::string functionalized_target(const Node& node);  // the operator that the first two call
std::string effect_target(const Node& node);          // the operator that with_effects calls
std::string called_operator(const Node& node);        // of any node: the operator itself, or the one that it calls

}  // namespace kiln
