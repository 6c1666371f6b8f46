// Programs that are part of another: some of its nodes, with inputs in place of what the others computed.
//
// A cut keeps names: a value that becomes an input is called as before. Its sample inputs are the recorded values, so a
// cut computes what the whole program computes at the same places.
#pragma once
#include <optional>

#include "minify/recorded_values.h"

namespace kiln::minify {

// Whether the input has one of the program's sample inputs.
inline bool takes_sample(const InputSpec& spec) {
  return spec.kind == InputKind::user || spec.kind == InputKind::constant_value;
}

// `keep`: by the node's position. Kept values that dropped nodes use become outputs, beside the outputs that are kept.
// Nothing: no such program (no node or nothing to give back, a list or an object would have to be an input).
std::optional<Program> cut(const Program& program, const std::vector<bool>& keep, const RecordedValues& recorded);

// Without one node (by position): its results become inputs. Of a single node nothing is left but inputs that are
// handed through.
std::optional<Program> without_node(const Program& program, size_t position, const RecordedValues& recorded);

// Only these outputs (by position), and of the nodes only what they and side effects need.
std::optional<Program> keep_outputs(const Program& program, const std::vector<bool>& keep,
                                    const RecordedValues& recorded);

// Nodes that some output needs, or that do something beside giving a result.
std::vector<bool> needed_nodes(const Program& program, const std::vector<bool>& outputs);

// The size symbols replaced by their values; symbols computed from data while running stay.
Program make_static(const Program& program, const SymbolValues& values);

// After an edit: inputs that nothing uses are dropped with their sample values and constants; symbols that no input and
// no node gives any more get their recorded values; unused symbols and guards go.
void tidy(Program& program, const SymbolValues& values);

// Placeholders, nodes (of subgraphs too) and the output, as PyTorch counts a graph's nodes.
int count_nodes(const Program& program);
// Calls of operators only, of subgraphs too.
int count_calls(const Graph& graph);

}  // namespace kiln::minify
