// What a search of a large program starts from: the operators that `kiln bisect` blames. It looks at the whole program
// once; halves of a program that takes many seconds to compile, run and compare would cost minutes.
//
// Suspects are no verdict: each group is cut out with the values that the reference has there, and counts only if it
// fails by itself.
#pragma once
#include "minify/probe.h"

namespace kiln::minify {

struct Suspects {
  std::string what;                              // for people: "aten.relu.default (node relu_3)"; empty: none found
  std::vector<std::vector<std::string>> groups;  // names of nodes of the program, the smallest group first
};

// Compiles the program and bisects the package. Runs in a child process, as probe() does; enters the stages compile and
// bisect. Throws what compiling and bisecting throw.
Suspects find_suspects(const Program& program, const ProbeOptions& options, const StageEntered& entering);

// As one line, from the child to its parent.
std::string suspects_text(const Suspects& suspects);
Suspects read_suspects(const std::string& text);

// The nodes to keep for each group, by position: the groups themselves, then the last one with its neighbours and with
// what stands around it, for faults that need the company of other operators. No set twice, none that is everything.
std::vector<std::vector<bool>> suspected_parts(const Program& program, const Suspects& suspects);

}  // namespace kiln::minify
