// Ranges of expressions and proofs about them. The extremes of int64 stand for "unbounded": every computation here goes
// through 128 bits and is clamped, so that nothing wraps.
#include <algorithm>
#include <cmath>

#include "types/expr_node.h"
#include "types/polynomial.h"

namespace kiln {

namespace {

using Wide = __int128;

int64_t clamp(Wide v) {
  if (v <= INT64_MIN) return INT64_MIN;
  if (v >= INT64_MAX) return INT64_MAX;
  return static_cast<int64_t>(v);
}
bool bounded_low(const Interval& r) { return r.low != INT64_MIN; }
bool bounded_high(const Interval& r) { return r.high != INT64_MAX; }

Interval add(const Interval& a, const Interval& b) {
  return {bounded_low(a) && bounded_low(b) ? clamp(Wide{a.low} + b.low) : INT64_MIN,
          bounded_high(a) && bounded_high(b) ? clamp(Wide{a.high} + b.high) : INT64_MAX};
}

// Unbounded times zero is zero: the other factor really is zero.
int64_t times(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  bool infinite = a == INT64_MIN || a == INT64_MAX || b == INT64_MIN || b == INT64_MAX;
  if (infinite) return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
  return clamp(Wide{a} * b);
}

Interval multiply(const Interval& a, const Interval& b) {
  int64_t c[4] = {times(a.low, b.low), times(a.low, b.high), times(a.high, b.low), times(a.high, b.high)};
  return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
}

int64_t floor_bound(int64_t a, int64_t b) {  // b > 0; infinite stays infinite
  if (a == INT64_MIN || a == INT64_MAX) return a;
  if (b == INT64_MAX) return a < 0 ? -1 : 0;
  return a / b - (a % b != 0 && a < 0 ? 1 : 0);
}

Interval floordiv_range(const Interval& a, const Interval& b) {
  if (b.low <= 0) return {};
  int64_t c[4] = {floor_bound(a.low, b.low), floor_bound(a.low, b.high), floor_bound(a.high, b.low),
                  floor_bound(a.high, b.high)};
  return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
}

Interval mod_range(const Interval& a, const Interval& b) {
  if (b.low <= 0) return {};
  if (a.low >= 0 && a.high < b.low) return a;
  Interval out{0, b.high == INT64_MAX ? INT64_MAX : b.high - 1};
  if (b.low == b.high && bounded_low(a) && bounded_high(a) && floor_bound(a.low, b.low) == floor_bound(a.high, b.low)) {
    int64_t base = clamp(Wide{floor_bound(a.low, b.low)} * b.low);
    return {a.low - base, a.high - base};
  }
  if (a.low >= 0) out.high = std::min(out.high, a.high);
  return out;
}

Interval sum_range(const Expr& expr, const RangeEnv& env) {
  Interval out{0, 0};
  for (const Expr& arg : expr.args()) out = add(out, range_of(arg, env));
  return out;
}

// x*x is not the product of two independent ranges: equal atoms are raised together.
Interval product_range(const Expr& expr, const RangeEnv& env) {
  Interval out{1, 1};
  const auto& args = expr.args();
  for (size_t i = 0; i < args.size();) {
    size_t same = i + 1;
    while (same < args.size() && args[same] == args[i]) ++same;
    Interval one = range_of(args[i], env), power = one;
    for (size_t k = i + 1; k < same; ++k) power = multiply(power, one);
    if ((same - i) % 2 == 0) power.low = std::max<int64_t>(power.low, 0);
    out = multiply(out, power);
    i = same;
  }
  return out;
}

Interval intersect(const Interval& a, const Interval& b) {
  Interval out{std::max(a.low, b.low), std::min(a.high, b.high)};
  return out.low <= out.high ? out : a;  // contradictory knowledge (an empty loop): nothing useful to say
}

struct FloatInterval {
  double low = -HUGE_VAL, high = HUGE_VAL;
};

// Rounding keeps the order of numbers, so what is computed of the ends bounds what is computed between them.
FloatInterval float_range(const Expr& expr, const RangeEnv& env) {
  const auto& args = expr.args();
  if (!expr.is_float()) {
    const Interval r = range_of(expr, env);
    FloatInterval out;
    if (bounded_low(r)) out.low = static_cast<double>(r.low);
    if (bounded_high(r)) out.high = static_cast<double>(r.high);
    return out;
  }
  const auto of_pairs = [&](const auto& apply) {
    const FloatInterval a = float_range(args[0], env), b = float_range(args[1], env);
    const double c[4] = {apply(a.low, b.low), apply(a.low, b.high), apply(a.high, b.low), apply(a.high, b.high)};
    if (std::any_of(c, c + 4, [](double v) { return std::isnan(v); })) return FloatInterval{};
    return FloatInterval{*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
  };
  switch (expr.op()) {
    case ExprOp::float_constant:
      return std::isnan(expr.float_value()) ? FloatInterval{} : FloatInterval{expr.float_value(), expr.float_value()};
    case ExprOp::to_float:
      return float_range(args[0], env);
    case ExprOp::mul:
      return args.size() == 2 ? of_pairs([](double a, double b) { return a * b; }) : FloatInterval{};
    case ExprOp::truediv:
      if (float_range(args[1], env).low <= 0) return {};
      return of_pairs([](double a, double b) { return a / b; });
    default:
      return {};
  }
}

int64_t rounded_bound(ExprOp op, double bound) {
  const double whole = op == ExprOp::floor_to_int  ? std::floor(bound)
                       : op == ExprOp::ceil_to_int ? std::ceil(bound)
                                                   : std::trunc(bound);
  return whole <= -0x1p63 ? INT64_MIN : whole >= 0x1p63 ? INT64_MAX : static_cast<int64_t>(whole);
}

Interval symbol_range(const std::string& name, const RangeEnv& env) {
  Interval out;
  if (auto found = env.ranges.find(name); found != env.ranges.end()) out = found->second;
  if (auto found = env.upper.find(name); found != env.upper.end() && !mentions(found->second, name))
    out = intersect(out, {INT64_MIN, range_of(found->second, env).high});
  return out;
}

}  // namespace

Interval range_of(const Expr& expr, const RangeEnv& env) {
  const auto& args = expr.args();
  if (expr.is_boolean()) {
    Proof p = prove(expr, env);
    return p == Proof::yes ? Interval{1, 1} : p == Proof::no ? Interval{0, 0} : Interval{0, 1};
  }
  if (expr.is_float()) return {};
  switch (expr.op()) {
    case ExprOp::constant:
      return {expr.value(), expr.value()};
    case ExprOp::symbol:
      return symbol_range(expr.name(), env);
    case ExprOp::add:
      return sum_range(expr, env);
    case ExprOp::mul:
      return product_range(expr, env);
    case ExprOp::floordiv:
      return floordiv_range(range_of(args[0], env), range_of(args[1], env));
    case ExprOp::mod:
      return mod_range(range_of(args[0], env), range_of(args[1], env));
    case ExprOp::min:
    case ExprOp::max: {
      bool is_min = expr.op() == ExprOp::min;
      Interval out = range_of(args[0], env);
      for (size_t i = 1; i < args.size(); ++i) {
        Interval next = range_of(args[i], env);
        out.low = is_min ? std::min(out.low, next.low) : std::max(out.low, next.low);
        out.high = is_min ? std::min(out.high, next.high) : std::max(out.high, next.high);
      }
      return out;
    }
    case ExprOp::ite: {
      Interval a = range_of(args[1], env), b = range_of(args[2], env);
      return {std::min(a.low, b.low), std::max(a.high, b.high)};
    }
    case ExprOp::to_int:
    case ExprOp::floor_to_int:
    case ExprOp::ceil_to_int: {
      const FloatInterval r = float_range(args[0], env);
      return {rounded_bound(expr.op(), r.low), rounded_bound(expr.op(), r.high)};
    }
    case ExprOp::pow: {
      Interval base = range_of(args[0], env);
      if (base.low >= 1) return {1, INT64_MAX};
      return {};
    }
    default:
      return {};
  }
}

// ---- Proofs --------------------------------------------------------------------------------------------------------

namespace {

// Replaces a variable that has a symbolic upper bound by the end of its range that makes the expression smallest, where
// the sign of its coefficient is known. Inner variables come first: their bounds may mention outer ones.
bool lower_one(Expr& expr, const RangeEnv& env) {
  std::set<std::string> symbols;
  collect_symbols(expr, symbols);
  std::erase_if(symbols, [&](const std::string& name) { return !env.upper.count(name); });
  auto outer = [&](const std::string& name) {
    return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& other) {
      return other != name && mentions(env.upper.find(other)->second, name);
    });
  };
  for (const std::string& name : symbols) {
    const Expr& upper = env.upper.find(name)->second;
    if (mentions(upper, name) || outer(name)) continue;
    auto affine = affine_in(expr, name);
    if (!affine) continue;
    Interval sign = range_of(affine->coefficient, env);
    int64_t low = symbol_range(name, env).low;
    if (sign.high <= 0)
      expr = affine->coefficient * upper + affine->rest;
    else if (sign.low >= 0 && low != INT64_MIN)
      expr = affine->coefficient * low + affine->rest;
    else
      continue;
    return true;
  }
  return false;
}

Expr lower_bound(Expr expr, const RangeEnv& env) {
  for (size_t round = 0; round <= env.upper.size() && lower_one(expr, env); ++round) {
  }
  return expr;
}

// Lower bounds of an expression that replace one atom by something simpler:
//   k*min(a, b) with k < 0 and k*max(a, b) with k > 0 are at least k*a, and at least k*b   (one that works is enough)
//   k*min(a, b) with k > 0 and k*max(a, b) with k < 0 are k*a or k*b                       (all must work)
//   c*(x // c) lies between x - c + 1 and x
struct Opened {
  std::vector<Expr> bounds;
  bool all = false;
};
std::optional<Opened> open_atom(const Expr& expr) {
  for (const Term& term : Polynomial::of(expr).terms) {
    if (term.atoms.size() != 1) continue;
    const Expr& atom = term.atoms[0];
    const int64_t k = term.coefficient;
    Opened out;
    if (atom.op() == ExprOp::min || atom.op() == ExprOp::max) {
      const Expr rest = expr - atom * k;
      out.all = (atom.op() == ExprOp::min) == (k > 0);
      for (const Expr& arg : atom.args()) out.bounds.push_back(rest + arg * k);
      return out;
    }
    if (atom.op() != ExprOp::floordiv) continue;
    const Expr &x = atom.args()[0], &c = atom.args()[1];
    if (!c.is_constant() || c.value() <= 0 || k % c.value() != 0) continue;
    const Expr rest = expr - atom * k;
    out.bounds.push_back(rest + (k < 0 ? x : x - c + 1) * (k / c.value()));
    return out;
  }
  return {};
}

// `budget` bounds the work: proofs are asked for often, and those that succeed are short.
constexpr int proof_budget = 8;
bool never_negative(const Expr& expr, const RangeEnv& env, int& budget) {
  if (range_of(expr, env).low >= 0) return true;
  const Expr bound = lower_bound(expr, env);
  const bool bounded = !(bound == expr);
  if (bounded && range_of(bound, env).low >= 0) return true;
  if (--budget < 0) return false;
  for (const Expr& candidate : {bound, expr}) {
    auto opened = open_atom(candidate);
    auto fine = [&](const Expr& e) { return never_negative(e, env, budget); };
    if (opened && (opened->all ? std::all_of(opened->bounds.begin(), opened->bounds.end(), fine)
                               : std::any_of(opened->bounds.begin(), opened->bounds.end(), fine)))
      return true;
    if (!bounded) break;
  }
  return false;
}

// Sign of a difference: yes when always >= 0, no when always < 0.
Proof prove_not_negative(const Expr& difference, const RangeEnv& env) {
  int budget = proof_budget;
  if (never_negative(difference, env, budget)) return Proof::yes;
  budget = proof_budget;
  return never_negative(-difference - 1, env, budget) ? Proof::no : Proof::unknown;
}

bool has_float(const Expr& a, const Expr& b) { return a.is_float() || b.is_float(); }

// Differences of large constants may leave int64; then nothing is proved.
std::optional<Expr> difference(const Expr& a, const Expr& b) {
  try {
    return a - b;
  } catch (const Error&) {
    return {};
  }
}

template <class F>
Proof guarded(F f) {
  try {
    return f();
  } catch (const Error&) {
    return Proof::unknown;
  }
}

// The half of a proof that ends with yes.
bool surely_not_negative(const std::optional<Expr>& difference, const RangeEnv& env) {
  if (!difference) return false;
  try {
    int budget = proof_budget;
    return never_negative(*difference, env, budget);
  } catch (const Error&) {
    return false;
  }
}

Proof negated(Proof p) { return p == Proof::yes ? Proof::no : p == Proof::no ? Proof::yes : Proof::unknown; }

}  // namespace

Proof prove_le(const Expr& a, const Expr& b, const RangeEnv& env) {
  if (has_float(a, b)) return Proof::unknown;
  auto d = difference(b, a);
  if (!d) return Proof::unknown;
  return guarded([&] { return prove_not_negative(*d, env); });
}

bool surely_le(const Expr& a, const Expr& b, const RangeEnv& env) {
  return !has_float(a, b) && surely_not_negative(difference(b, a), env);
}

bool surely_lt(const Expr& a, const Expr& b, const RangeEnv& env) {
  if (has_float(a, b)) return false;
  auto d = difference(b, a);
  if (d) d = difference(*d, 1);
  return surely_not_negative(d, env);
}

Proof prove_lt(const Expr& a, const Expr& b, const RangeEnv& env) {
  if (has_float(a, b)) return Proof::unknown;
  auto d = difference(b, a);
  if (d) d = difference(*d, 1);
  if (!d) return Proof::unknown;
  return guarded([&] { return prove_not_negative(*d, env); });
}

Proof prove_eq(const Expr& a, const Expr& b, const RangeEnv& env) {
  if (a == b) return a.is_float() ? Proof::unknown : Proof::yes;  // a float may be NaN
  if (has_float(a, b)) return Proof::unknown;
  auto d = difference(a, b);
  if (!d) return Proof::unknown;
  if (d->is_constant()) return d->is_constant(0) ? Proof::yes : Proof::no;
  return guarded([&] {
    Interval r = range_of(*d, env);
    if (r.low == 0 && r.high == 0) return Proof::yes;
    if (!r.contains(0)) return Proof::no;
    if (prove_not_negative(*d - 1, env) == Proof::yes || prove_not_negative(*d, env) == Proof::no) return Proof::no;
    Expr simple = simplify(*d, env);
    if (simple.is_constant()) return simple.is_constant(0) ? Proof::yes : Proof::no;
    return Proof::unknown;
  });
}

Proof prove(const Expr& condition, const RangeEnv& env) {
  const auto& args = condition.args();
  switch (condition.op()) {
    case ExprOp::constant:
      return condition.value() != 0 ? Proof::yes : Proof::no;
    case ExprOp::eq:
      return prove_eq(args[0], args[1], env);
    case ExprOp::ne:
      return negated(prove_eq(args[0], args[1], env));
    case ExprOp::lt:
      return prove_lt(args[0], args[1], env);
    case ExprOp::le:
      return prove_le(args[0], args[1], env);
    case ExprOp::logical_not:
      return negated(prove(args[0], env));
    case ExprOp::logical_and:
    case ExprOp::logical_or: {
      Proof decides = condition.op() == ExprOp::logical_and ? Proof::no : Proof::yes;
      Proof out = negated(decides);
      for (const Expr& arg : args) {
        Proof p = prove(arg, env);
        if (p == decides) return decides;
        if (p == Proof::unknown) out = Proof::unknown;
      }
      return out;
    }
    default:
      if (condition.is_float() || condition.is_boolean()) return Proof::unknown;
      return negated(prove_eq(condition, 0, env));
  }
}

}  // namespace kiln
