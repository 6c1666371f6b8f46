#include "types/expr.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "base/error.h"

namespace kiln {
namespace {

Expr sym(const char* name) { return Expr::symbol(name); }
Expr p(const char* text) { return parse_expr(text); }

TEST(Expr, CollectsLikeTermsAndSorts) {
  Expr a = sym("a"), b = sym("b");
  EXPECT_EQ((b + a * 2 + 1 + a).text(), "a*3 + b + 1");
  EXPECT_EQ((a - a).text(), "0");
  EXPECT_EQ((Expr(2) * (a + b) - b * 2).text(), "a*2");
  EXPECT_EQ((a * b - b * a).text(), "0");
  EXPECT_EQ(((a + 1) * (a - 1)).text(), "a*a - 1");
  EXPECT_EQ((sym("s10") + sym("s2")).text(), "s2 + s10");
  EXPECT_EQ(Expr::make(ExprOp::pow, {a, 2}).text(), "a*a");
}

TEST(Expr, DivisionsHaveOneForm) {
  EXPECT_EQ(p("(a*8 + b) // 8").text(), "a + b // 8");
  EXPECT_EQ(p("(a*8 + b) % 8").text(), "b % 8");
  EXPECT_EQ(p("(s0 - 1) // 2 + 1"), p("(s0 + 1) // 2"));
  EXPECT_EQ(p("(4*x + 5) // 8"), p("(x + 1) // 2"));
  EXPECT_EQ(p("(4*x + 5) % 8"), p("4*((x + 1) % 2) + 1"));
  EXPECT_EQ(p("(x // 4) // 8"), p("x // 32"));
  EXPECT_EQ(p("(x // 256 + y*16) // 56"), p("(x + y*4096) // 14336"));
  EXPECT_EQ(p("(x // 4 + y // 3) // 8").text(), p("(x // 4 + y // 3) // 8").text());  // of two quotients none goes
  EXPECT_EQ(p("(i*s + j) // s"), p("i + j // s"));
  EXPECT_EQ(p("i*s % (s*4)"), p("s*(i % 4)"));
  EXPECT_EQ(p("(s0 + 1)*512 // (s0 + 1)"), p("512"));
  EXPECT_EQ(p("(i*(s0 + 1) + j) // (s0 + 1)"), p("i + j // (s0 + 1)"));
  EXPECT_EQ(p("-x // -8"), p("x // 8"));
  EXPECT_EQ(ceildiv(sym("x"), 8), p("(x + 7) // 8"));
  EXPECT_EQ(p("(x % 16 + y) % 8"), p("(x + y) % 8"));
}

TEST(Expr, MinMaxAndRelationsFold) {
  EXPECT_EQ(p("min(a, a + 3, 7, 5)"), p("min(5, a)"));
  EXPECT_EQ(p("max(a + 1, a)"), p("a + 1"));
  EXPECT_TRUE(p("a < a + 1").is_constant(1));
  EXPECT_TRUE(p("a == a + 1").is_constant(0));
  EXPECT_EQ(p("not a < b"), p("b <= a"));
  EXPECT_EQ(p("a == b"), p("b == a"));
  EXPECT_EQ(p("0 < a < 4"), p("0 < a and a < 4"));
  EXPECT_TRUE(p("a < b and 0").is_constant(0));
}

TEST(Expr, Evaluates) {
  SymbolValues v{{"a", -7}, {"b", 2}};
  EXPECT_EQ(evaluate(p("a // b"), v), -4);
  EXPECT_EQ(evaluate(p("a % b"), v), 1);
  EXPECT_EQ(evaluate(p("ite(a < b, a**3, 0)"), v), -343);
  EXPECT_EQ(evaluate(p("trunc(a / b)"), v), -3);
  EXPECT_EQ(evaluate(p("floor(a / b)"), v), -4);
  EXPECT_EQ(evaluate(p("ceil(float(a) / b)"), v), -3);
  EXPECT_DOUBLE_EQ(evaluate_float(p("sqrt(b) * 2.5"), v), std::sqrt(2.0) * 2.5);
  EXPECT_EQ(evaluate(p("a < b or a == 3"), v), 1);
}

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return "";
}

TEST(Expr, EvaluationErrors) {
  SymbolValues v{{"a", INT64_MAX}, {"z", 0}};
  EXPECT_EQ(code_of([&] { evaluate(p("a + 1"), v); }), "K0211");
  EXPECT_EQ(code_of([&] { evaluate(p("a*a"), v); }), "K0211");
  EXPECT_EQ(code_of([&] { evaluate(p("a // z"), v); }), "K0211");
  EXPECT_EQ(code_of([&] { evaluate(p("a % z"), v); }), "K0211");
  EXPECT_EQ(code_of([&] { evaluate(p("nothere"), v); }), "K0211");
  EXPECT_EQ(code_of([&] { evaluate(p("2**a"), v); }), "K0211");
  EXPECT_EQ(code_of([&] { evaluate(p("1.5*a"), v); }), "K0211");
  EXPECT_EQ(code_of([&] { p("9223372036854775807 + 1"); }), "K0211");
}

TEST(Expr, ParseErrors) {
  for (const char* bad : {"", "a +", "(a", "a b", "min()", "9223372036854775808", "\"x", "1.5.2", "min", "a..b", "@"})
    EXPECT_EQ(code_of([&] { p(bad); }), "K0210") << bad;
  EXPECT_EQ(code_of([&] { parse_expr(std::string(5000, '(')); }), "K0210");
}

TEST(Expr, TextRoundTrips) {
  for (const char* text : {"-9223372036854775808",
                           "a*-9223372036854775808 + b",
                           "-a",
                           "-a*2 - b + 3",
                           "1.5",
                           "-0.0",
                           "inf",
                           "-inf",
                           "nan",
                           "\"odd name\" + \"min\"",
                           "(a + b) // (c + 1)",
                           "a*(b // 3)",
                           "(a % 4)*(b % 4)*7",
                           "not (a < b or c == d)",
                           "a < b and (c == d or e != 3)",
                           "float(a)*1.5 + (2.5*b)",
                           "a + (b + 1.5)",
                           "x**9",
                           "2**x",
                           "(-2)**x",
                           "ite(a < b, a, b)",
                           "(a < b) + 1",
                           "max(a, b, min(c, 3))",
                           "a / b / c",
                           "a / (b / c)",
                           "1e+300*x",
                           "1e-05"}) {
    Expr e = p(text);
    EXPECT_EQ(parse_expr(e.text()).text(), e.text()) << text;
    EXPECT_EQ(parse_expr(e.text()), e) << text << " -> " << e.text();
  }
}

TEST(Expr, Affine) {
  auto a = affine_in(p("i*s*4 + j + 3"), "i");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->coefficient, p("s*4"));
  EXPECT_EQ(a->rest, p("j + 3"));
  EXPECT_FALSE(affine_in(p("i*i"), "i"));
  EXPECT_FALSE(affine_in(p("i // 2 + i"), "i"));
  EXPECT_TRUE(affine_in(p("j"), "i")->coefficient.is_constant(0));
}

RangeEnv env_of(std::map<std::string, Interval, std::less<>> ranges,
                std::map<std::string, Expr, std::less<>> upper = {}) {
  return RangeEnv{std::move(ranges), std::move(upper)};
}

TEST(ExprRange, Ranges) {
  RangeEnv env = env_of({{"i", {0, 63}}, {"s", {2, INT64_MAX}}});
  EXPECT_EQ(range_of(p("i*4 - 1"), env), (Interval{-1, 251}));
  EXPECT_EQ(range_of(p("i % 8"), env), (Interval{0, 7}));
  EXPECT_EQ(range_of(p("(i + 64) // 16"), env), (Interval{4, 7}));
  EXPECT_EQ(range_of(p("-i"), env), (Interval{-63, 0}));
  EXPECT_EQ(range_of(p("s*i"), env), (Interval{0, INT64_MAX}));
  EXPECT_EQ(range_of(p("s + 1"), env).low, 3);
  EXPECT_EQ(range_of(p("unknown*unknown"), env).low, 0);
  EXPECT_EQ(range_of(p("min(s, 5)"), env), (Interval{2, 5}));
}

TEST(ExprRange, Simplifies) {
  RangeEnv env = env_of({{"i", {0, 63}}, {"j", {0, 7}}, {"k", {0, 1000}}});
  EXPECT_EQ(simplify(p("i % 64"), env), p("i"));
  EXPECT_EQ(simplify(p("i // 64"), env), p("0"));
  EXPECT_EQ(simplify(p("(63 - i) % 64"), env), p("63 - i"));
  EXPECT_EQ(simplify(p("(k*64 + i) // 128"), env), p("k // 2"));
  EXPECT_EQ(simplify(p("(k*64 + i) % 128"), env), p("(k % 2)*64 + i"));
  EXPECT_EQ(simplify(p("k // 8*8 + k % 8"), env), p("k"));
  EXPECT_EQ(simplify(p("k // 32*32 + (k // 4) % 8*4 + k % 4"), env), p("k"));
  EXPECT_EQ(simplify(p("x // s*s*t + x % s*t"), env), p("x*t"));
  EXPECT_EQ(simplify(p("min(i, 100)"), env), p("i"));
  EXPECT_EQ(simplify(p("max(i - 70, j)"), env), p("j"));
  EXPECT_EQ(simplify(p("i < 64 and k < 5"), env), p("k < 5"));
  EXPECT_EQ(simplify(p("(i*8 + j) // 8 % 64"), env), p("i"));
}

TEST(ExprRange, PartsOfOneValueSettle) {
  RangeEnv env;
  env.ranges["n"] = {4, 7}, env.ranges["m"] = {8, 11};
  const auto settled = [&](const char* text) { return settle(parse_expr(text), env).text(); };
  EXPECT_EQ(settled("n//4"), "1");
  EXPECT_EQ(settled("m//n"), "m // n");
  EXPECT_EQ(settled("m//8 + n"), "n + 1");
  EXPECT_EQ(settled("3*(n//4)"), "3");
  EXPECT_EQ(settled("max(n//4, 1)"), "1");
  EXPECT_EQ(settled("n//3"), "n // 3");
  EXPECT_EQ(settled("n"), "n");
  const Expr n = Expr::symbol("n"), quarter = Expr::make(ExprOp::truediv, {n, Expr(4)});
  EXPECT_EQ(settle(Expr::make(ExprOp::to_int, {quarter}), env).text(), "1");
  EXPECT_EQ(settle(Expr::make(ExprOp::floor_to_int, {quarter * Expr(2)}), env).text(),
            Expr::make(ExprOp::floor_to_int, {quarter * Expr(2)}).text());
  EXPECT_EQ(range_of(Expr::make(ExprOp::ceil_to_int, {quarter}), env), (Interval{1, 2}));
  EXPECT_EQ(settle(parse_expr("n"), {{{"n", {4, 4}}}, {}}).text(), "n");  // a symbol is the program's own
  env.ranges["k"] = {4, 5};
  EXPECT_EQ(simplify(parse_expr("m//k"), env).text(), parse_expr("m//k").text());
  env.ranges["k"] = {6, 7}, env.ranges["m"] = {8, 11};
  EXPECT_EQ(simplify(parse_expr("m//k"), env).text(), "1");
  EXPECT_EQ(simplify(parse_expr("m%k"), env).text(), parse_expr("m - k").text());
}

TEST(ExprRange, SymbolicBounds) {
  RangeEnv env = env_of({{"i", {0, INT64_MAX}}, {"j", {0, INT64_MAX}}, {"s0", {0, INT64_MAX}}, {"s1", {2, INT64_MAX}}},
                        {{"i", p("s0 - 1")}, {"j", p("s1 - 1")}});
  EXPECT_EQ(prove_lt(p("i*s1 + j"), p("s0*s1"), env), Proof::yes);
  EXPECT_EQ(prove_lt(p("i*s1 + j + 1"), p("s0*s1"), env), Proof::unknown);
  EXPECT_EQ(prove_le(p("s0*s1"), p("i*s1 + j"), env), Proof::no);
  EXPECT_EQ(simplify(p("(i*s1 + j) // s1"), env), p("i"));
  EXPECT_EQ(simplify(p("(i*s1 + j) % s1"), env), p("j"));
  EXPECT_EQ(simplify(p("min(i, s0 - 1)"), env), p("i"));
  EXPECT_EQ(prove_eq(p("s1"), p("1"), env), Proof::no);
  EXPECT_EQ(prove_eq(p("s0"), p("1"), env), Proof::unknown);
  EXPECT_EQ(prove_eq(p("i"), p("s0"), env), Proof::no);
}

// A reshape of a picture whose lines and points are not known: channels of groups, told apart without a division.
TEST(ExprRange, SimplifiesDivisionsBySizes) {
  RangeEnv env = env_of({{"c", {0, 23}},
                         {"i", {0, INT64_MAX}},
                         {"j", {0, INT64_MAX}},
                         {"h", {1, INT64_MAX}},
                         {"w", {1, INT64_MAX}},
                         {"z", {0, INT64_MAX}}},
                        {{"i", p("h - 1")}, {"j", p("w - 1")}});
  EXPECT_EQ(simplify(p("(c*h*w + i*w + j) // (h*w*6)"), env), p("c // 6"));
  EXPECT_EQ(simplify(p("(c*h*w + i*w + j) % (h*w*6)"), env), p("(c % 6)*h*w + i*w + j"));
  EXPECT_EQ(simplify(p("((c*h*w + i*w + j) % (h*w*6)) // (h*w)"), env), p("c % 6"));
  EXPECT_EQ(simplify(p("(((c*h*w + i*w + j) % (h*w*6)) // w) % h"), env), p("i"));
  EXPECT_EQ(simplify(p("((c*h*w + i*w + j) % (h*w*6)) % w"), env), p("j"));
  // The rest is not known to be smaller, or the size may be nothing.
  EXPECT_EQ(simplify(p("(c*h*w + i*w + j + 1) // (h*w*6)"), env), p("(c*h*w + i*w + j + 1) // (h*w*6)"));
  EXPECT_EQ(simplify(p("(c*w + j) // (z*w)"), env), p("(c*w + j) // (z*w)"));
}

TEST(ExprRange, ProofsThroughMinAndDivision) {
  // An axis of n cut into chunks of 4096: o < ceildiv(n, 4096), i < min(4096, n - o*4096).
  RangeEnv env = env_of({{"i", {0, INT64_MAX}}, {"o", {0, INT64_MAX}}, {"n", {1, INT64_MAX}}, {"k", {0, 9}}},
                        {{"i", p("min(4096, n - o*4096) - 1")}, {"o", p("(n + 4095) // 4096 - 1")}});
  EXPECT_EQ(prove_lt(p("o*4096 + i"), p("n"), env), Proof::yes);
  EXPECT_EQ(prove_lt(p("o*4096"), p("n"), env), Proof::yes);
  EXPECT_EQ(prove_lt(p("o*4096 + 1"), p("n"), env), Proof::unknown);
  EXPECT_EQ(prove_le(p("k"), p("max(n, 9)"), env), Proof::yes);
  EXPECT_EQ(prove_le(p("min(n, 3)"), p("n"), env), Proof::yes);
  EXPECT_EQ(prove_le(p("n // 8*8"), p("n"), env), Proof::yes);
  EXPECT_EQ(prove_lt(p("n // 8*8 + 7"), p("n"), env), Proof::no);
  EXPECT_EQ(prove_lt(p("n // 8*8 + 6"), p("n"), env), Proof::unknown);
}

TEST(Expr, Shapes) {
  EXPECT_EQ(shape_text(contiguous_strides(std::vector<Expr>{p("s0"), 3, 4})), "12, 4, 1");
  EXPECT_EQ(shape_text(contiguous_strides(std::vector<Expr>{3, p("s0"), 4})), "s0*4, 4, 1");
  EXPECT_EQ(shape_text(contiguous_strides(std::vector<Expr>{2, 0, 4})), "4, 4, 1");
  EXPECT_EQ(product({p("s0"), 2, p("s0")}).text(), "s0*s0*2");
}

// Random expressions: normalising, substituting, simplifying and reading back the text keep the value.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  // Text, so that the value can be computed without Expr's constructors.
  struct Tree {
    char op = 'c';
    int64_t value = 0;
    std::vector<Tree> args;
  };
  Tree tree(int depth) {
    if (depth == 0 || number(0, 5) == 0)
      return number(0, 2) ? Tree{'s', number(0, 3), {}} : Tree{'c', number(-9, 9), {}};
    static const char ops[] = "+++-**//%%mM<=?";
    Tree t{ops[number(0, sizeof(ops) - 2)], 0, {}};
    int count = t.op == '?' ? 3 : 2;
    for (int i = 0; i < count; ++i) t.args.push_back(tree(depth - 1));
    if ((t.op == '/' || t.op == '%') && number(0, 3)) t.args[1] = Tree{'c', number(-2, 16), {}};
    return t;
  }

 private:
  std::mt19937 engine_;
};

Expr build(const Random::Tree& t) {
  std::vector<Expr> a;
  for (const auto& arg : t.args) a.push_back(build(arg));
  switch (t.op) {
    case 'c':
      return t.value;
    case 's':
      return Expr::symbol("s" + std::to_string(t.value));
    case '+':
      return a[0] + a[1];
    case '-':
      return a[0] - a[1];
    case '*':
      return a[0] * a[1];
    case '/':
      return floordiv(a[0], a[1]);
    case '%':
      return mod(a[0], a[1]);
    case 'm':
      return min_expr(a[0], a[1]);
    case 'M':
      return max_expr(a[0], a[1]);
    case '<':
      return compare_lt(a[0], a[1]);
    case '=':
      return compare_eq(a[0], a[1]);
    default:
      return Expr::make(ExprOp::ite, a);
  }
}

// Nothing: undefined (division by zero somewhere, or too large).
std::optional<__int128> direct(const Random::Tree& t, const int64_t* symbols) {
  std::vector<__int128> a;
  for (const auto& arg : t.args) {
    auto v = direct(arg, symbols);
    if (!v) return {};
    a.push_back(*v);
  }
  auto floor_div = [](__int128 x, __int128 y) { return x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0); };
  __int128 out = 0;
  switch (t.op) {
    case 'c':
      out = t.value;
      break;
    case 's':
      out = symbols[t.value];
      break;
    case '+':
      out = a[0] + a[1];
      break;
    case '-':
      out = a[0] - a[1];
      break;
    case '*':
      out = a[0] * a[1];
      break;
    case '/':
    case '%':
      if (a[1] == 0) return {};
      out = t.op == '/' ? floor_div(a[0], a[1]) : a[0] - a[1] * floor_div(a[0], a[1]);
      break;
    case 'm':
      out = std::min(a[0], a[1]);
      break;
    case 'M':
      out = std::max(a[0], a[1]);
      break;
    case '<':
      out = a[0] < a[1];
      break;
    case '=':
      out = a[0] == a[1];
      break;
    default:
      out = a[0] != 0 ? a[1] : a[2];
  }
  if (out > 1000000000 || out < -1000000000) return {};
  return out;
}

TEST(ExprProperty, RandomExpressionsKeepTheirValue) {
  Random random(1234);
  int compared = 0;
  for (int round = 0; round < 3000; ++round) {
    auto tree = random.tree(static_cast<int>(random.number(1, 5)));
    std::map<std::string, Interval, std::less<>> ranges;
    for (int s = 0; s < 4; ++s) {
      int64_t low = random.number(-6, 6);
      ranges["s" + std::to_string(s)] = {low, low + random.number(0, 20)};
    }
    RangeEnv env = env_of(ranges);
    Expr e, simple;
    try {
      e = build(tree);
      simple = simplify(e, env);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), "K0211");
      continue;
    }
    ASSERT_EQ(parse_expr(e.text()).text(), e.text());
    ASSERT_EQ(parse_expr(e.text()), e);
    ASSERT_EQ(parse_expr(simple.text()).text(), simple.text());
    Interval range = range_of(e, env);
    for (int sample = 0; sample < 6; ++sample) {
      int64_t symbols[4];
      SymbolValues values;
      for (int s = 0; s < 4; ++s) {
        auto& r = ranges["s" + std::to_string(s)];
        symbols[s] = random.number(r.low, r.high);
        values["s" + std::to_string(s)] = symbols[s];
      }
      auto expected = direct(tree, symbols);
      if (!expected) continue;
      auto want = static_cast<int64_t>(*expected);
      try {
        ASSERT_EQ(evaluate(e, values), want) << e.text();
        ASSERT_EQ(evaluate(simple, values), want) << e.text() << "  ->  " << simple.text();
        ++compared;
      } catch (const Error& error) {
        FAIL() << error.what() << " in " << e.text() << " -> " << simple.text();
      }
      ASSERT_TRUE(range.contains(want)) << e.text();
    }
  }
  EXPECT_GT(compared, 4000);
}

}  // namespace
// zuf0 is a float that .item() read: its value is kept as the bits of a double.
TEST(Expr, FloatSymbols) {
  EXPECT_TRUE(Expr::symbol("zuf0").is_float());
  EXPECT_TRUE(Expr::symbol("zf12").is_float());
  for (const char* name : {"zuf", "zf", "zufo1", "u0", "s0", "z1", ""}) EXPECT_FALSE(Expr::symbol(name).is_float());
  SymbolValues values = {{"zuf0", std::bit_cast<int64_t>(-2.5)}, {"s0", 3}};
  EXPECT_DOUBLE_EQ(evaluate_float(Expr::symbol("zuf0") * Expr(2) + Expr::symbol("s0"), values), -2.0);
  EXPECT_EQ(evaluate(Expr::make(ExprOp::floor_to_int, {Expr::symbol("zuf0")}), values), -3);
  EXPECT_EQ(evaluate(compare_lt(Expr::symbol("zuf0"), Expr::symbol("s0")), values), 1);
  EXPECT_THROW(evaluate(Expr::symbol("zuf0"), values), Error);
  EXPECT_TRUE(parse_expr((Expr::symbol("zuf0") + Expr(1)).text()).is_float());
}

}  // namespace kiln
