// What needs ranges: divisions and remainders of bounded operands, min and max, decided conditions; and putting
// x // c * c + x % c together again.
#include <numeric>

#include "types/expr_node.h"
#include "types/polynomial.h"

namespace kiln {

namespace {

// 0 <= x and x < b.
bool within(const Expr& x, const Expr& b, const RangeEnv& env) { return surely_le(0, x, env) && surely_lt(x, b, env); }

// a = multiple + rest with `divisor` dividing every coefficient of `multiple` and 0 <= rest < divisor: then
// a // (divisor*n) = (multiple/divisor) // n and a % (divisor*n) = (multiple/divisor % n)*divisor + rest.
struct Split {
  int64_t divisor;
  Polynomial quotient, rest;
};
std::optional<Split> split_small_rest(const Polynomial& a, int64_t b, const RangeEnv& env) {
  std::set<int64_t> candidates;
  for (const Term& term : a.terms)
    if (term.coefficient != INT64_MIN)
      if (int64_t g = std::gcd(term.coefficient, b); g > 1) candidates.insert(g);
  for (auto g = candidates.rbegin(); g != candidates.rend(); ++g) {
    Split split{*g, {}, {}};
    for (const Term& term : a.terms) {
      if (term.coefficient % *g == 0)
        split.quotient.terms.push_back({term.coefficient / *g, term.atoms});
      else
        split.rest.terms.push_back(term);
    }
    // The constant may stand on either side: the rest takes what the multiple does not need.
    if (split.rest.is_zero() || split.quotient.is_zero()) continue;
    if (within(split.rest.expr(), *g, env)) return split;
  }
  return {};
}

Expr simplify_floordiv(const Expr& a, const Expr& b, const RangeEnv& env) {
  Expr plain = floordiv(a, b);
  if (plain.op() != ExprOp::floordiv) return plain;
  const Expr &x = plain.args()[0], &c = plain.args()[1];
  if (within(x, c, env)) return 0;
  if (!c.is_constant() || c.value() <= 0) return plain;
  Interval r = range_of(plain, env);
  if (r.low == r.high) return r.low;
  if (auto split = split_small_rest(Polynomial::of(x), c.value(), env))
    return simplify_floordiv(split->quotient.expr(), c.value() / split->divisor, env);
  return plain;
}

Expr simplify_mod(const Expr& a, const Expr& b, const RangeEnv& env) {
  Expr plain = mod(a, b);
  if (plain.op() != ExprOp::mod) return plain;
  const Expr &x = plain.args()[0], &c = plain.args()[1];
  if (within(x, c, env)) return x;
  if (!c.is_constant() || c.value() <= 0) return plain;
  Interval quotient = range_of(floordiv(x, c), env);
  if (quotient.low == quotient.high) return x - Expr(quotient.low) * c;
  if (auto split = split_small_rest(Polynomial::of(x), c.value(), env)) {
    Expr inner = simplify_mod(split->quotient.expr(), c.value() / split->divisor, env);
    return inner * split->divisor + split->rest.expr();
  }
  return plain;
}

// T*(x % m) + T*m*(x // m) = T*x.
Expr recombine(const Expr& sum) {
  const auto is_mod = [](const Expr& e) { return e.op() == ExprOp::mod; };
  const auto has_mod = [&](const Expr& term) {
    return is_mod(term) || (term.op() == ExprOp::mul && std::ranges::any_of(term.args(), is_mod));
  };
  if (std::ranges::none_of(sum.args(), has_mod)) return sum;  // most sums, and cheaper than their polynomial
  Polynomial whole = Polynomial::of(sum);
  for (const Term& term : whole.terms)
    for (size_t j = 0; j < term.atoms.size(); ++j) {
      const Expr atom = term.atoms[j];
      if (atom.op() != ExprOp::mod || atom.is_float()) continue;
      Polynomial factor;
      factor.terms.push_back({term.coefficient, term.atoms});
      factor.terms[0].atoms.erase(factor.terms[0].atoms.begin() + static_cast<std::ptrdiff_t>(j));
      const Expr &x = atom.args()[0], &m = atom.args()[1];
      Polynomial other = factor * (Polynomial::of(m) * Polynomial::of(floordiv(x, m)));
      Polynomial without = whole - other;
      if (without.terms.size() + other.terms.size() > whole.terms.size()) continue;
      Polynomial mod_term;
      mod_term.terms.push_back(term);
      return recombine((without - mod_term + factor * Polynomial::of(x)).expr());
    }
  return sum;
}

Expr simplify_min_max(const Expr& expr, const RangeEnv& env) {
  if (expr.op() != ExprOp::min && expr.op() != ExprOp::max) return expr;
  bool is_min = expr.op() == ExprOp::min;
  std::vector<Expr> kept;
  for (const Expr& candidate : expr.args()) {
    bool useless = false;
    std::vector<Expr> next;
    for (const Expr& k : kept) {
      if (useless) {
        next.push_back(k);
        continue;
      }
      bool k_wins = is_min ? surely_le(k, candidate, env) : surely_le(candidate, k, env);
      bool candidate_wins = !k_wins && (is_min ? surely_le(candidate, k, env) : surely_le(k, candidate, env));
      useless = k_wins;
      if (!candidate_wins) next.push_back(k);
    }
    kept = std::move(next);
    if (!useless) kept.push_back(candidate);
  }
  return Expr::make(expr.op(), std::move(kept));
}

Expr decided(const Expr& expr, const RangeEnv& env) {
  if (!expr.is_boolean()) return expr;
  Proof p = prove(expr, env);
  return p == Proof::yes ? Expr(1) : p == Proof::no ? Expr(0) : expr;
}

Expr simplify_node(const Expr& expr, const RangeEnv& env) {
  switch (expr.op()) {
    case ExprOp::floordiv:
      return expr.is_float() ? expr : simplify_floordiv(expr.args()[0], expr.args()[1], env);
    case ExprOp::mod:
      return expr.is_float() ? expr : simplify_mod(expr.args()[0], expr.args()[1], env);
    case ExprOp::min:
    case ExprOp::max:
      return expr.is_float() ? expr : simplify_min_max(expr, env);
    case ExprOp::add:
      return expr.is_float() ? expr : recombine(expr);
    default:
      return decided(expr, env);
  }
}

}  // namespace

Expr simplify(const Expr& expr, const RangeEnv& env) {
  if (expr.args().empty()) {
    if (!expr.is_symbol()) return expr;
    Interval r = range_of(expr, env);
    return r.low == r.high ? Expr(r.low) : expr;
  }
  std::vector<Expr> args;
  args.reserve(expr.args().size());
  bool changed = false;
  for (const Expr& arg : expr.args()) {
    args.push_back(simplify(arg, env));
    changed = changed || !args.back().same(arg);
  }
  Expr plain = changed ? Expr::make(expr.op(), std::move(args)) : expr;
  try {
    return simplify_node(plain, env);
  } catch (const Error&) {  // a rewrite whose constants would leave int64 is not made
    return plain;
  }
}

}  // namespace kiln
