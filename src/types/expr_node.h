// Inside of types/expr*.cpp: the node behind an Expr. Nodes are immutable and shared; the hash is computed once.
#pragma once
#include "base/error.h"
#include "types/expr.h"

namespace kiln {

struct Expr::Node {
  ExprOp op = ExprOp::constant;
  bool is_float = false, is_boolean = false;
  size_t hash = 0;
  int64_t value = 0;  // constant
  double number = 0;  // float_constant
  std::string name;   // symbol
  std::vector<Expr> args;

  // A node exactly as given, without normalising; for code that has normalised already.
  static Expr raw(ExprOp op, std::vector<Expr> args);
  // -1, 0, 1: the order in which terms and factors are kept.
  static int compare(const Expr& a, const Expr& b);
};

// Normalising constructors of integer division, in expr_divide.cpp.
Expr normal_floordiv(const Expr& a, const Expr& b);
Expr normal_mod(const Expr& a, const Expr& b);

// prove_le and prove_lt for those who ask for yes alone: half of the work where the answer is another one.
bool surely_le(const Expr& a, const Expr& b, const RangeEnv& env);
bool surely_lt(const Expr& a, const Expr& b, const RangeEnv& env);

// One operator on float operands (some may be integers); false: the result is not a number to fold (division by zero).
bool fold_float(ExprOp op, const std::vector<double>& args, double& result);

}  // namespace kiln
