// Symbolic integers (and the few symbolic floats and booleans that exported programs use): sizes, strides, index
// expressions of loop bodies, guards. An Expr is an immutable value; two equal expressions print alike.
//
// Constructors normalise: sums and products are flat and sorted, constants are folded, integer constants are
// distributed over sums, like terms are collected. What needs ranges (x // 8 * 8 + x % 8 == x, x % 8 where 0 <= x < 8)
// is done by `simplify` with an environment. All arithmetic on constants is overflow-checked: an expression that
// leaves int64 when evaluated is an error, not a wrapped number.
//
// Meaning: `//` is floor division and `%` takes the divisor's sign, as in Python. Dividing by zero is an error.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

enum class ExprOp : uint8_t {
  constant,
  symbol,
  add,
  mul,
  floordiv,
  mod,
  pow,
  min,
  max,
  eq,
  ne,
  lt,
  le,
  logical_and,
  logical_or,
  logical_not,
  ite,
  float_constant,
  to_float,
  truediv,
  to_int /* truncates */,
  floor_to_int,
  ceil_to_int,
  sqrt,
};

class Expr {
 public:
  struct Node;
  Expr() : Expr(int64_t{0}) {}
  Expr(int64_t value);
  Expr(int value) : Expr(int64_t{value}) {}
  static Expr symbol(std::string name);
  static Expr float_constant(double value);
  static Expr make(ExprOp op, std::vector<Expr> args);  // normalises

  ExprOp op() const;
  int64_t value() const;            // of a constant
  double float_value() const;       // of a float_constant
  const std::string& name() const;  // of a symbol
  const std::vector<Expr>& args() const;
  size_t hash() const;
  bool is_constant() const { return op() == ExprOp::constant; }
  bool is_constant(int64_t v) const { return is_constant() && value() == v; }
  bool is_symbol() const { return op() == ExprOp::symbol; }
  bool is_float() const;    // gives a float
  bool is_boolean() const;  // relation or logical operator

  std::string text() const;            // infix: "s0*2 + i1 // 8", reads back through parse_expr
  bool same(const Expr& other) const;  // structurally equal after normalisation
  bool operator==(const Expr& other) const { return same(other); }
  bool operator<(const Expr& other) const;  // any total order, stable across runs

 private:
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
};

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);
Expr operator*(const Expr& a, const Expr& b);
Expr floordiv(const Expr& a, const Expr& b);
Expr ceildiv(const Expr& a, const Expr& b);
Expr mod(const Expr& a, const Expr& b);
Expr min_expr(const Expr& a, const Expr& b);
Expr max_expr(const Expr& a, const Expr& b);
Expr compare_eq(const Expr& a, const Expr& b);
Expr compare_ne(const Expr& a, const Expr& b);
Expr compare_lt(const Expr& a, const Expr& b);
Expr compare_le(const Expr& a, const Expr& b);

// The text form of Kiln's IRs (infix). Throws Error K0210 on bad text.
Expr parse_expr(std::string_view text);

using SymbolValues = std::map<std::string, int64_t, std::less<>>;
using Substitution = std::map<std::string, Expr, std::less<>>;

// Throws K0211 for an unknown symbol, overflow, division by zero.
int64_t evaluate(const Expr& expr, const SymbolValues& values);
double evaluate_float(const Expr& expr, const SymbolValues& values);
Expr substitute(const Expr& expr, const Substitution& map);
void collect_symbols(const Expr& expr, std::set<std::string>& out);
bool mentions(const Expr& expr, std::string_view symbol);

// Inclusive range; the extremes of int64 mean unbounded.
struct Interval {
  int64_t low = INT64_MIN, high = INT64_MAX;
  bool contains(int64_t v) const { return low <= v && v <= high; }
  bool operator==(const Interval&) const = default;
};

// Ranges of symbols known at some place: size symbols from the file, loop variables from their extents.
struct RangeEnv {
  std::map<std::string, Interval, std::less<>> ranges;
  // Upper bounds that are expressions (i0 <= s0 - 1): loop variables over dynamic extents.
  std::map<std::string, Expr, std::less<>> upper;
};

Interval range_of(const Expr& expr, const RangeEnv& env);
Expr simplify(const Expr& expr, const RangeEnv& env);
// Each part that has one value over the ranges is that value: n // 4 of an n from 4 to 7 is 1. Everything else stays as
// it is written.
Expr settle(const Expr& expr, const RangeEnv& env);
enum class Proof { yes, no, unknown };
Proof prove_eq(const Expr& a, const Expr& b, const RangeEnv& env);
Proof prove_le(const Expr& a, const Expr& b, const RangeEnv& env);
Proof prove_lt(const Expr& a, const Expr& b, const RangeEnv& env);
// Of a boolean expression.
Proof prove(const Expr& condition, const RangeEnv& env);

// If expr == coefficient * symbol + rest with neither mentioning the symbol, gives both; otherwise nothing.
struct Affine {
  Expr coefficient, rest;
};
std::optional<Affine> affine_in(const Expr& expr, std::string_view symbol);

// A size symbol of a program: where its value comes from and what is known of it.
struct SymbolInfo {
  std::string name;
  Interval range;               // from range_constraints
  std::optional<int64_t> hint;  // value at export
  bool unbacked = false;        // computed from data while running (u0), not from an input's size
};

std::vector<Expr> contiguous_strides(const std::vector<Expr>& sizes);
Expr product(const std::vector<Expr>& factors);
std::string shape_text(const std::vector<Expr>& sizes);  // "s0, 16"

}  // namespace kiln
