// Weights that are tensor subclasses made of others (torchao's quantised weights, exported as they are). The graph
// takes such a weight as one input and its parts by `export.access_subclass_inner_tensor(weight, "qdata")`; here each
// part that is taken becomes an input of its own, a parameter named "<weight>.<part>", and the whole goes.
#pragma once
#include <map>
#include <string>

#include "graph/graph.h"

namespace kiln {

// `wrappers`: name of the weight -> its class. K0254 where a node uses such a weight as a whole, or takes a part that
// it does not have.
void unwrap_weights(Program& program, const std::map<std::string, std::string>& wrappers);

}  // namespace kiln
