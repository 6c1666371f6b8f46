// Checks a call's inputs against what a program says of them and finds the values of its symbols from their sizes: for
// the reference interpreter and for the loops, each of which lists its inputs as rules. The runtime does the same with
// the numbers of a plan; order, arithmetic and messages are shared (base/input_messages.h), and
// executable/input_refusals_test.cpp gives the same inputs to all three.
#pragma once
#include "graph/graph.h"

namespace kiln {

struct InputRule {
  enum class Kind : uint8_t { tensor, integer, number /* of any kind, bound to nothing */, list, constant, anything };
  std::string name;
  Kind kind = Kind::anything;
  DType dtype = DType::f32;                  // tensor
  DeviceType device = DeviceType::cpu;       // tensor
  const std::vector<Expr>* sizes = nullptr;  // tensor
  Expr number = 0;                           // integer: what it is of the program's symbols
  Argument constant;                         // constant: what it must be
};

struct InputRules {
  std::vector<InputRule> inputs;
  const std::map<std::string, SymbolInfo>* symbols = nullptr;
  const std::vector<Guard>* guards = nullptr;
};

// Values of the symbols that these inputs determine. Throws K0610 … K0619 when an input does not fit.
SymbolValues bind_inputs(const InputRules& rules, const std::vector<Datum>& inputs);

}  // namespace kiln
