// Where the value of each symbol of a program comes from when it runs.
#pragma once
#include "loops/loops.h"
#include "package/format.h"

namespace kiln {

struct SymbolSourceInfo {
  std::string name;
  format::SymbolSource source = format::SymbolSource::input_size;
  int32_t input = format::none, dim = format::none;
  Interval range;
  int64_t scale = 1;  // size == scale * symbol + rest
  Expr rest = 0;      // mentions only symbols that stand earlier in the list
};

// In an order in which each can be computed from those before it. Throws K0506 for a symbol that nothing gives a value.
std::vector<SymbolSourceInfo> symbol_sources(const loops::LoopProgram& program);

}  // namespace kiln
