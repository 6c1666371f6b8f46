// Symbols replaced by numbers, in the whole program.
#pragma once
#include "graph/graph.h"

namespace kiln::minify {

// Replaces the symbols in types, expressions and arguments, subgraphs included; symbolic numbers that become constant
// are passed as constants, and the nodes that only computed them go.
void specialise(Program& program, const SymbolValues& values);

// Symbols that types, expressions or arguments mention, subgraphs included.
std::set<std::string> used_symbols(const Program& program);
// Of these, the ones that neither an input nor a node gives a value.
std::set<std::string> unbound_symbols(const Program& program);

}  // namespace kiln::minify
