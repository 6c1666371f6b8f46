// Values of expressions. Integers are overflow-checked; floats are doubles with Python's floor division and remainder.
#include <bit>
#include <cmath>

#include "types/checked.h"
#include "types/expr_node.h"

namespace kiln {

static int64_t float_to_checked_int(double value) {
  // 2^63 is exact as a double; everything below it fits.
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0))
    fail_user("K0211", str("a symbolic float of ", value, " does not fit an integer"));
  return static_cast<int64_t>(value);
}

static double python_mod(double a, double b) {
  double r = std::fmod(a, b);
  if (r != 0) return (r < 0) != (b < 0) ? r + b : r;
  return std::copysign(0.0, b);
}

static double python_floordiv(double a, double b) {
  double q = std::floor((a - python_mod(a, b)) / b + 0.5);
  return std::isfinite(q) || !std::isfinite(a) ? q : std::floor(a / b);
}

static double apply_float(ExprOp op, double a, double b) {
  switch (op) {
    case ExprOp::add:
      return a + b;
    case ExprOp::mul:
      return a * b;
    case ExprOp::truediv:
      return a / b;
    case ExprOp::floordiv:
      return python_floordiv(a, b);
    case ExprOp::mod:
      return python_mod(a, b);
    case ExprOp::pow:
      return std::pow(a, b);
    case ExprOp::min:
      return b < a ? b : a;
    case ExprOp::max:
      return b > a ? b : a;
    default:
      fail_bug("apply_float: not a float operator");
  }
}

static bool divides(ExprOp op) { return op == ExprOp::truediv || op == ExprOp::floordiv || op == ExprOp::mod; }

bool fold_float(ExprOp op, const std::vector<double>& args, double& result) {
  switch (op) {
    case ExprOp::to_float:
      result = args[0];
      return true;
    case ExprOp::sqrt:
      result = std::sqrt(args[0]);
      return args[0] >= 0;
    case ExprOp::to_int:
      result = std::trunc(args[0]);
      break;
    case ExprOp::floor_to_int:
      result = std::floor(args[0]);
      break;
    case ExprOp::ceil_to_int:
      result = std::ceil(args[0]);
      break;
    default:
      if (divides(op) && args[1] == 0) return false;
      result = apply_float(op, args[0], args[1]);
      return true;
  }
  return result >= -9223372036854775808.0 && result < 9223372036854775808.0;
}

static bool truth(const Expr& expr, const SymbolValues& values) {
  return expr.is_float() ? evaluate_float(expr, values) != 0 : evaluate(expr, values) != 0;
}

static bool relation(const Expr& expr, const SymbolValues& values) {
  const Expr &a = expr.args()[0], &b = expr.args()[1];
  auto compare = [&](auto x, auto y) {
    switch (expr.op()) {
      case ExprOp::eq:
        return x == y;
      case ExprOp::ne:
        return x != y;
      case ExprOp::lt:
        return x < y;
      default:
        return x <= y;
    }
  };
  if (a.is_float() || b.is_float()) return compare(evaluate_float(a, values), evaluate_float(b, values));
  return compare(evaluate(a, values), evaluate(b, values));
}

static int64_t fold_args(const Expr& expr, const SymbolValues& values, int64_t (*f)(int64_t, int64_t)) {
  int64_t out = evaluate(expr.args()[0], values);
  for (size_t i = 1; i < expr.args().size(); ++i) out = f(out, evaluate(expr.args()[i], values));
  return out;
}

static int64_t symbol_value(const Expr& expr, const SymbolValues& values) {
  auto found = values.find(expr.name());
  if (found == values.end()) fail_user("K0211", str("the value of symbol ", expr.name(), " is not known"));
  return found->second;
}

int64_t evaluate(const Expr& expr, const SymbolValues& values) {
  if (expr.is_float()) fail_user("K0211", str("an integer is needed but ", expr.text(), " is a float"));
  const auto& args = expr.args();
  switch (expr.op()) {
    case ExprOp::constant:
      return expr.value();
    case ExprOp::symbol:
      return symbol_value(expr, values);
    case ExprOp::add:
      return fold_args(expr, values, checked::add);
    case ExprOp::mul:
      return fold_args(expr, values, checked::mul);
    case ExprOp::floordiv:
      return fold_args(expr, values, checked::floordiv);
    case ExprOp::mod:
      return fold_args(expr, values, checked::mod);
    case ExprOp::pow:
      return fold_args(expr, values, checked::pow);
    case ExprOp::min:
      return fold_args(expr, values, [](int64_t a, int64_t b) { return std::min(a, b); });
    case ExprOp::max:
      return fold_args(expr, values, [](int64_t a, int64_t b) { return std::max(a, b); });
    case ExprOp::eq:
    case ExprOp::ne:
    case ExprOp::lt:
    case ExprOp::le:
      return relation(expr, values);
    case ExprOp::logical_and:
      return std::all_of(args.begin(), args.end(), [&](const Expr& a) { return truth(a, values); });
    case ExprOp::logical_or:
      return std::any_of(args.begin(), args.end(), [&](const Expr& a) { return truth(a, values); });
    case ExprOp::logical_not:
      return !truth(args[0], values);
    case ExprOp::ite:
      return evaluate(truth(args[0], values) ? args[1] : args[2], values);
    case ExprOp::to_int:
      return float_to_checked_int(std::trunc(evaluate_float(args[0], values)));
    case ExprOp::floor_to_int:
      return float_to_checked_int(std::floor(evaluate_float(args[0], values)));
    case ExprOp::ceil_to_int:
      return float_to_checked_int(std::ceil(evaluate_float(args[0], values)));
    default:
      fail_bug(str("evaluate: ", expr.text(), " is not an integer"));
  }
}

double evaluate_float(const Expr& expr, const SymbolValues& values) {
  if (!expr.is_float()) return static_cast<double>(evaluate(expr, values));
  const auto& args = expr.args();
  switch (expr.op()) {
    case ExprOp::float_constant:
      return expr.float_value();
    case ExprOp::symbol:
      return std::bit_cast<double>(symbol_value(expr, values));
    case ExprOp::to_float:
      return evaluate_float(args[0], values);
    case ExprOp::ite:
      return evaluate_float(truth(args[0], values) ? args[1] : args[2], values);
    case ExprOp::sqrt: {
      double x = evaluate_float(args[0], values);
      if (x < 0) fail_user("K0211", str("square root of ", x, " in ", expr.text()));
      return std::sqrt(x);
    }
    default:
      break;
  }
  double out = evaluate_float(args[0], values);
  for (size_t i = 1; i < args.size(); ++i) {
    double next = evaluate_float(args[i], values);
    if (divides(expr.op()) && next == 0) fail_user("K0211", str("division by zero in ", expr.text()));
    out = apply_float(expr.op(), out, next);
  }
  return out;
}

}  // namespace kiln
