#include "pt2/sympy_functions.h"

#include <array>

#include "base/error.h"

namespace kiln {
namespace {

using Args = std::vector<Expr>;

Expr fold(ExprOp op, Args args) {
  Expr out = args[0];
  for (size_t i = 1; i < args.size(); ++i) out = Expr::make(op, {out, args[i]});
  return out;
}
Expr to_float(const Expr& a) { return a.is_float() ? a : Expr::make(ExprOp::to_float, {a}); }
Expr negate(const Expr& a) { return Expr::make(ExprOp::logical_not, {a}); }
Expr to_int(ExprOp op, const Expr& a) { return a.is_float() ? Expr::make(op, {a}) : a; }
// Division that is known to be exact, and division that rounds down, are the same where both are defined.
Expr floor_division(const Args& a) { return floordiv(a[0], a[1]); }

struct Function {
  std::string_view name;
  size_t fewest, most;  // arguments
  Expr (*make)(const Args&);
};

constexpr size_t many = SIZE_MAX;

constexpr std::array<Function, 48> functions = {{
    {"Add", 1, many, [](const Args& a) { return fold(ExprOp::add, a); }},
    {"Mul", 1, many, [](const Args& a) { return fold(ExprOp::mul, a); }},
    {"Pow", 2, 2, [](const Args& a) { return power(a[0], a[1]); }},
    {"PowByNatural", 2, 2, [](const Args& a) { return power(a[0], a[1]); }},
    {"FloatPow", 2, 2, [](const Args& a) { return power(to_float(a[0]), a[1]); }},
    {"Max", 1, many, [](const Args& a) { return fold(ExprOp::max, a); }},
    {"Min", 1, many, [](const Args& a) { return fold(ExprOp::min, a); }},
    {"max", 1, many, [](const Args& a) { return fold(ExprOp::max, a); }},
    {"min", 1, many, [](const Args& a) { return fold(ExprOp::min, a); }},
    {"sym_max", 2, 2, [](const Args& a) { return fold(ExprOp::max, a); }},
    {"sym_min", 2, 2, [](const Args& a) { return fold(ExprOp::min, a); }},
    {"FloorDiv", 2, 2, floor_division},
    {"CleanDiv", 2, 2, floor_division},
    {"CeilDiv", 2, 2, [](const Args& a) { return ceildiv(a[0], a[1]); }},
    {"Mod", 2, 2, [](const Args& a) { return mod(a[0], a[1]); }},
    {"PythonMod", 2, 2, [](const Args& a) { return mod(a[0], a[1]); }},
    {"ModularIndexing", 3, 3, [](const Args& a) { return mod(floordiv(a[0], a[1]), a[2]); }},
    {"IntTrueDiv", 2, 2, [](const Args& a) { return true_division(a[0], a[1]); }},
    {"FloatTrueDiv", 2, 2, [](const Args& a) { return true_division(a[0], a[1]); }},
    {"Rational", 2, 2, [](const Args& a) { return true_division(a[0], a[1]); }},
    {"ToFloat", 1, 1, [](const Args& a) { return to_float(a[0]); }},
    {"sym_float", 1, 1, [](const Args& a) { return to_float(a[0]); }},
    {"float", 1, 1, [](const Args& a) { return to_float(a[0]); }},
    {"TruncToInt", 1, 1, [](const Args& a) { return to_int(ExprOp::to_int, a[0]); }},
    {"sym_int", 1, 1, [](const Args& a) { return to_int(ExprOp::to_int, a[0]); }},
    {"int", 1, 1, [](const Args& a) { return to_int(ExprOp::to_int, a[0]); }},
    {"trunc", 1, 1, [](const Args& a) { return to_int(ExprOp::to_int, a[0]); }},
    {"FloorToInt", 1, 1, [](const Args& a) { return to_int(ExprOp::floor_to_int, a[0]); }},
    {"floor", 1, 1, [](const Args& a) { return to_int(ExprOp::floor_to_int, a[0]); }},
    {"CeilToInt", 1, 1, [](const Args& a) { return to_int(ExprOp::ceil_to_int, a[0]); }},
    {"ceil", 1, 1, [](const Args& a) { return to_int(ExprOp::ceil_to_int, a[0]); }},
    {"ceiling", 1, 1, [](const Args& a) { return to_int(ExprOp::ceil_to_int, a[0]); }},
    {"OpaqueUnaryFn_sqrt", 1, 1, [](const Args& a) { return Expr::make(ExprOp::sqrt, {to_float(a[0])}); }},
    {"sqrt", 1, 1, [](const Args& a) { return Expr::make(ExprOp::sqrt, {to_float(a[0])}); }},
    {"_sym_sqrt", 1, 1, [](const Args& a) { return Expr::make(ExprOp::sqrt, {to_float(a[0])}); }},
    {"Equality", 2, 2, [](const Args& a) { return compare_eq(a[0], a[1]); }},
    {"Eq", 2, 2, [](const Args& a) { return compare_eq(a[0], a[1]); }},
    {"Unequality", 2, 2, [](const Args& a) { return compare_ne(a[0], a[1]); }},
    {"Ne", 2, 2, [](const Args& a) { return compare_ne(a[0], a[1]); }},
    {"GreaterThan", 2, 2, [](const Args& a) { return compare_le(a[1], a[0]); }},
    {"LessThan", 2, 2, [](const Args& a) { return compare_le(a[0], a[1]); }},
    {"StrictGreaterThan", 2, 2, [](const Args& a) { return compare_lt(a[1], a[0]); }},
    {"StrictLessThan", 2, 2, [](const Args& a) { return compare_lt(a[0], a[1]); }},
    {"And", 1, many, [](const Args& a) { return fold(ExprOp::logical_and, a); }},
    {"Or", 1, many, [](const Args& a) { return fold(ExprOp::logical_or, a); }},
    {"Not", 1, 1, [](const Args& a) { return negate(a[0]); }},
    {"Where", 3, 3, [](const Args& a) { return Expr::make(ExprOp::ite, {a[0], a[1], a[2]}); }},
    {"sym_ite", 3, 3, [](const Args& a) { return Expr::make(ExprOp::ite, {a[0], a[1], a[2]}); }},
}};

}  // namespace

Expr true_division(const Expr& a, const Expr& b) { return Expr::make(ExprOp::truediv, {a, b}); }

Expr power(const Expr& base, const Expr& exponent) {
  // sympy writes a division as a power with a negative exponent.
  if (exponent.is_constant() && exponent.value() < 0 && exponent.value() > -64)
    return true_division(Expr(1), power(base, Expr(-exponent.value())));
  return Expr::make(ExprOp::pow, {base, exponent});
}

Expr apply_sympy_function(std::string_view name, std::vector<Expr> args) {
  const size_t dot = name.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  for (const Function& function : functions) {
    if (function.name != last) continue;
    if (args.size() < function.fewest || args.size() > function.most)
      fail_user("K0175", str("the function ", last, " of a symbolic expression has ", args.size(), " arguments"));
    return function.make(args);
  }
  fail_unsupported("K0176", str("symbolic sizes with the function ", name, " are not supported"));
}

}  // namespace kiln
