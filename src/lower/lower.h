// Graph → Loops: a small driver. What an operator lowers to stands with the operator (ops/); this file makes buffers
// for values, walks nodes in order, and lowers what is structure rather than arithmetic: inputs and outputs, mutation
// write-backs, control flow, symbols read from data, calls of library kernels and custom operators.
//
// Needs a functional program (after graph_passes/functionalize): no node writes to an argument.
#pragma once
#include "graph/graph.h"
#include "loops/loops.h"

namespace kiln {

loops::LoopProgram lower(const Program& program);

// Strides for a buffer that holds values of this type: eager's where they are dense (every element its own place, no
// gaps), else dense in the same order, as PyTorch's clone has it. A view's strides (0 of an expand, gaps of a slice)
// describe its base, not a buffer of its own.
std::vector<Expr> storage_strides(const TensorType& type, const std::map<std::string, SymbolInfo>& symbols);
// Whether no two elements share a place, whatever values the symbols take: only such a layout can be copied into.
bool elements_apart(const TensorType& type, const std::map<std::string, SymbolInfo>& symbols, const RangeEnv& ranges);

}  // namespace kiln
