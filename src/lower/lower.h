// Graph → Loops: a small driver. What an operator lowers to stands with the operator (ops/); this file makes buffers
// for values, walks nodes in order, and lowers what is structure rather than arithmetic: inputs and outputs, mutation
// write-backs, control flow, symbols read from data, calls of library kernels and custom operators.
//
// Needs a functional program (after graph_passes/functionalize): no node writes to an argument.
#pragma once
#include "graph/graph.h"
#include "loops/loops.h"

namespace kiln {

// `names`, where it is given: the buffer that was made for each value. (Values of subgraphs that are bound to others
// have none of their own.)
loops::LoopProgram lower(const Program& program, std::map<const Value*, std::string>* names = nullptr);

// Whether the sizes of a tensor say what this stride of it is. An example that is a part of a larger tensor may have
// strides that are symbols of their own.
bool follows_sizes(const Expr& stride, const std::vector<Expr>& sizes);

// Strides for a buffer that holds values of this type: eager's where they are dense (every element its own place, no
// gaps), else dense in the same order, as PyTorch's clone has it. A view's strides (0 of an expand, gaps of a slice)
// describe its base, not a buffer of its own.
std::vector<Expr> storage_strides(const TensorType& type, const std::map<std::string, SymbolInfo>& symbols);

}  // namespace kiln
