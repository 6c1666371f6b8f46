#include "pt2/sympy_text.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln {
namespace {

Expr s(const char* name) { return Expr::symbol(name); }

int64_t value(std::string_view srepr, int64_t s0 = 0) { return evaluate(parse_srepr(srepr), {{"s0", s0}}); }

constexpr const char* s0 = "Symbol('s0', positive=True, integer=True)";

TEST(Srepr, SymbolsAndArithmetic) {
  EXPECT_EQ(parse_srepr("Symbol('s40', positive=True, integer=True)"), s("s40"));
  EXPECT_EQ(parse_srepr("Integer(-3)"), Expr(-3));
  EXPECT_EQ(parse_srepr("Add(Mul(Integer(2), Symbol('s40', positive=True, integer=True)), Integer(1))"),
            Expr(2) * s("s40") + 1);
  EXPECT_EQ(value(str("FloorDiv(Add(", s0, ", Integer(1)), Integer(2))"), 6), 3);
  EXPECT_EQ(value(str("Mod(", s0, ", Integer(4))"), 6), 2);
  EXPECT_EQ(value(str("Max(Integer(1), ", s0, ", Integer(5))"), 3), 5);
  EXPECT_EQ(value(str("Min(Integer(1), ", s0, ")"), 3), 1);
  EXPECT_EQ(value(str("Pow(", s0, ", Integer(2))"), 7), 49);
  EXPECT_EQ(value(str("TruncToInt(IntTrueDiv(", s0, ", Integer(2)))"), 7), 3);
  EXPECT_EQ(value(str("CeilToInt(IntTrueDiv(", s0, ", Integer(2)))"), 7), 4);
  EXPECT_EQ(value(str("torch.utils._sympy.functions.FloorDiv(", s0, ", Integer(2))"), 7), 3);
}

TEST(Srepr, Floats) {
  const Expr expr = parse_srepr(str("Mul(Float('1.5', precision=53), ToFloat(", s0, "))"));
  EXPECT_TRUE(expr.is_float());
  EXPECT_EQ(evaluate_float(expr, {{"s0", 3}}), 4.5);
}

TEST(Srepr, Conditions) {
  EXPECT_EQ(value(str("GreaterThan(", s0, ", Integer(3))"), 3), 1);
  EXPECT_EQ(value(str("StrictGreaterThan(", s0, ", Integer(3))"), 3), 0);
  EXPECT_EQ(value(str("LessThan(", s0, ", Integer(3))"), 3), 1);
  EXPECT_EQ(value(str("StrictLessThan(", s0, ", Integer(3))"), 3), 0);
  EXPECT_EQ(value(str("Equality(", s0, ", Integer(3))"), 3), 1);
  EXPECT_EQ(value(str("Unequality(", s0, ", Integer(3))"), 3), 0);
  EXPECT_EQ(value(str("And(Equality(", s0, ", Integer(3)), Not(Equality(", s0, ", Integer(4))))"), 3), 1);
  EXPECT_EQ(value(str("Piecewise(ExprCondPair(Integer(10), Equality(", s0,
                      ", Integer(3))), ExprCondPair(Integer(20), true))"),
                  3),
            10);
}

TEST(Srepr, DamageIsAnError) {
  for (const char* bad :
       {"", "Integer(", "Integer(1", "Integer(99999999999999999999)", "Symbol('s0'", "Symbol('')", "Add()",
        "Integer(1) x", "Mod(Integer(1))", "Float('x', precision=53)", "Nonsense(Integer(1))"})
    EXPECT_THROW(parse_srepr(bad), Error) << bad;
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "Add(";
  EXPECT_THROW(parse_srepr(deep), Error);
}

Expr resolve_by_name(const InputPath& path) {
  std::string name = path.base;
  for (const std::string& step : path.steps) name += "_" + step;
  if (path.asks == InputPath::Asks::size) name += "_size" + std::to_string(*path.dim);
  if (path.asks == InputPath::Asks::stride) name += "_stride" + std::to_string(*path.dim);
  return Expr::symbol(name);
}

TEST(PythonExpr, Guards) {
  auto parse = [](std::string_view text) { return parse_python_expr(text, resolve_by_name); };
  EXPECT_EQ(parse("L['x'].size()[0] == L['y'].size()[1]"), compare_eq(s("x_size0"), s("y_size1")));
  EXPECT_EQ(parse("L['ts'][2].size()[0] <= 5"), compare_le(s("ts_2_size0"), 5));
  EXPECT_EQ(parse("L['inputs']['x_torch.float32'].stride()[1] != 1"),
            compare_ne(s("inputs_x_torch.float32_stride1"), 1));
  EXPECT_EQ(parse("L['m']*L['n'] >= 2"), compare_le(Expr(2), s("m") * s("n")));
  EXPECT_EQ(parse("torch.sym_max(1, (-2) + L['m']) == ((-2) + L['m'])"),
            compare_eq(max_expr(Expr(1), s("m") - 2), s("m") - 2));
  EXPECT_EQ(parse("2 + ((L['a'].size()[0] + ((-1)*L['b'].size()[0])) // 3) > 1"),
            compare_lt(Expr(1), Expr(2) + floordiv(s("a_size0") - s("b_size0"), 3)));
  const Expr end = parse("(-1) + n <= 9223372036854775808 + ((-1)*n)");  // beyond 64 bits, and so are sums near them
  EXPECT_EQ(evaluate(end, {{"n", 7}}), 1);
  EXPECT_EQ(evaluate(parse("n < 9223372036854775807 + 2"), {{"n", 7}}), 1);
  EXPECT_EQ(evaluate(parse("n > 9223372036854775807 + 2"), {{"n", 7}}), 0);
  const Expr chain = parse("1 < n <= 5");
  EXPECT_EQ(evaluate(chain, {{"n", 5}}), 1);
  EXPECT_EQ(evaluate(chain, {{"n", 6}}), 0);
  EXPECT_EQ(evaluate(parse("not n == 3 or n == 3 and n > 2"), {{"n", 3}}), 1);
}

TEST(PythonExpr, RangeKeys) {
  auto parse = [](std::string_view text) { return parse_python_expr(text, resolve_by_name); };
  EXPECT_EQ(parse("s33 + 2*s56 + 1"), s("s33") + Expr(2) * s("s56") + 1);
  EXPECT_EQ(evaluate(parse("-s0**2 + 7 % 4 - 3//2"), {{"s0", 3}}), -9 + 3 - 1);
  EXPECT_EQ(evaluate(parse("Max(1, FloorDiv(s0, 2))"), {{"s0", 9}}), 4);
}

TEST(PythonExpr, DamageIsAnError) {
  for (const char* bad :
       {"", "1 +", "(1", "L['x'", "L['x'].size()", "L['x'].size()[a]", "1 2", "== 1", "f(1)", "99999999999999999999"})
    EXPECT_THROW(parse_python_expr(bad, resolve_by_name), Error) << bad;
  EXPECT_THROW(parse_python_expr(std::string(100000, '('), resolve_by_name), Error);
  EXPECT_THROW(parse_python_expr(std::string(100000, '-'), resolve_by_name), Error);
}

TEST(SympyText, OlderFilesHoldInfix) {
  const Expr s = Expr::symbol("s40");
  EXPECT_EQ(parse_sympy("s40"), s);
  EXPECT_EQ(parse_sympy("2*s40 + 1"), Expr(2) * s + Expr(1));
  EXPECT_EQ(parse_sympy("((s40//2))"), floordiv(s, Expr(2)));
  EXPECT_EQ(parse_sympy("Max(1, s40)"), max_expr(Expr(1), s));
  EXPECT_EQ(parse_sympy("Eq(s40, 3)"), compare_eq(s, Expr(3)));
  EXPECT_EQ(parse_sympy("Symbol('s40', positive=True, integer=True)"), s);
  EXPECT_THROW(parse_sympy("L['x'].size()[0]"), Error);
  EXPECT_THROW(parse_sympy("s40 +"), Error);
}

}  // namespace
}  // namespace kiln
