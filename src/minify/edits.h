// Small changes that may make a program simpler without losing its failure. An edit finds its place by name, so that
// many can be applied one after the other to one copy; it says whether it applied.
#pragma once
#include <functional>

#include "minify/recorded_values.h"

namespace kiln::minify {

struct Edit {
  std::string what;                     // for people: "bypass relu_3"
  std::function<bool(Program&)> apply;  // on a copy; false: does not apply (any more)
};

// An operator replaced by one of its arguments that has the same type; in subgraphs also by an input of the subgraph.
std::vector<Edit> bypass_edits(const Program& program);
// cond replaced by the branch that ran; while_loop, map and scan by one round of their body.
std::vector<Edit> inline_edits(const Program& program, const RecordedValues& recorded);
// A subgraph as the whole program, on the inputs that it had in its first round. `recorded` must outlive the edits.
std::vector<Edit> subgraph_edits(const Program& program, const RecordedValues& recorded);
// Inside subgraphs: a value made an operand of the operator; operands and results that nobody needs dropped.
std::vector<Edit> branch_edits(const Program& program, const RecordedValues& recorded);
// Constants as zeros, ones, or seeded random numbers: the first edit of a group that keeps the failure wins.
std::vector<std::vector<Edit>> constant_edits(const Program& program);
// Floats of other widths as f32, integers as i64.
std::vector<Edit> dtype_edits(const Program& program);
// Inputs laid out row by row.
std::vector<Edit> layout_edits(const Program& program);

// Sizes of inputs, and arguments that repeat them: all that are `from` become `to`. The types of all results follow.
// Throws what the operators' rules throw.
void resize(Program& program, int64_t from, int64_t to);
// The inputs with a dynamic size made smaller; the program stays as it is. Throws where an input would have to grow.
void resize_symbol(Program& program, const SymbolValues& values, const std::string& symbol, int64_t to);
// The sizes that the inputs have, largest first; 1 and 0 are not among them.
std::vector<int64_t> input_sizes(const Program& program);

}  // namespace kiln::minify
