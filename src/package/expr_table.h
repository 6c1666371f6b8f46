// Expressions of a plan: symbolic expressions compiled to stack code, equal ones stored once.
#pragma once
#include "package/format.h"
#include "types/expr.h"

namespace kiln {

class ExprTable {
 public:
  // Symbols must have their slots before an expression that mentions them is added.
  void define_symbol(const std::string& name, int slot) { slots_[name] = slot; }
  bool knows(const std::string& name) const { return slots_.count(name) > 0; }
  int slot(const std::string& name) const;
  format::ExprIndex add(const Expr& expr);
  std::vector<format::ExprIndex> add_all(const std::vector<Expr>& exprs);
  std::vector<format::ExprProgram> take() { return std::move(programs_); }

 private:
  void compile(const Expr& expr, std::vector<format::ExprInstruction>& code);
  std::map<std::string, int> slots_;
  std::map<std::string, format::ExprIndex> by_text_;
  std::vector<format::ExprProgram> programs_;
};

}  // namespace kiln
