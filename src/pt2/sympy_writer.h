// Symbolic expressions written as sympy's srepr, the form torch.export keeps them in; the inverse of parse_srepr.
//
// sympy compares symbols by name *and* assumptions, so each symbol must be written the same way everywhere in a file:
// one SympyWriter writes one program.
#pragma once
#include <optional>
#include <set>
#include <string>

#include "base/json.h"
#include "graph/graph.h"

namespace kiln {

class SympyWriter {
 public:
  explicit SympyWriter(const Program& program);
  std::string srepr(const Expr& expr) const;
  // {"as_int": 2} or {"as_expr": {"expr_str": …, "hint": …}}; likewise as_float and as_bool.
  Json sym_int(const Expr& expr) const;
  Json sym_float(const Expr& expr) const;
  Json sym_bool(const Expr& expr) const;

 private:
  std::string symbol(const std::string& name) const;
  std::string call(const char* function, const Expr& expr) const;
  std::string division(const Expr& expr) const;
  Json expression(const Expr& expr) const;
  std::set<std::string> positive_;  // sizes of inputs
  SymbolValues hints_;              // values at export
  RangeEnv ranges_;
};

}  // namespace kiln
