// Inside a fused kernel: the first operator whose value is wrong. The kernel's loops are executed statement by
// statement on the inputs it was given, and every value that any statement computes is looked up among the values that
// the operators should have had. An operator none of whose readers found its value either, while its own inputs were
// there, is the first that went wrong.
#pragma once
#include <functional>
#include <vector>

#include "debug/graph_truth.h"
#include "loops/kernel_code.h"

namespace kiln {

// `run` executes the kernel and reports every value to the trace it is given. nullptr: no operator could be singled
// out.
const Node* first_wrong_operator(const std::vector<TruthNode>& nodes, const std::string& wanted,
                                 const std::function<void(const loops::ValueTrace&)>& run,
                                 const std::vector<DType>& value_types);

}  // namespace kiln
