// What needs ranges: divisions and remainders of bounded operands, min and max, decided conditions; and putting
// x // c * c + x % c together again.
#include <numeric>

#include "types/expr_node.h"
#include "types/polynomial.h"

namespace kiln {

namespace {

// 0 <= x and x < b.
bool within(const Expr& x, const Expr& b, const RangeEnv& env) { return surely_le(0, x, env) && surely_lt(x, b, env); }

// a = multiple + rest with `divisor` dividing every term of `multiple` and 0 <= rest < divisor: then
// a // (divisor*n) = (multiple/divisor) // n and a % (divisor*n) = (multiple/divisor % n)*divisor + rest, for n > 0.
struct Split {
  Expr divisor, n;
  Polynomial quotient, rest;
};

// What both terms have in common.
Term common_part(const Term& a, const Term& b) {
  Term out{std::gcd(a.coefficient, b.coefficient), {}};
  std::set_intersection(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(), std::back_inserter(out.atoms));
  return out;
}

Expr expr_of(const Term& term) { return Polynomial{{term}}.expr(); }

std::optional<Split> split_small_rest(const Polynomial& a, const Term& b, const RangeEnv& env) {
  std::vector<Term> candidates;  // the largest first
  for (const Term& term : a.terms)
    if (term.coefficient != INT64_MIN)
      if (Term g = common_part(term, b); g.coefficient > 1 || !g.atoms.empty()) candidates.push_back(std::move(g));
  std::sort(candidates.begin(), candidates.end(), [](const Term& x, const Term& y) {
    if (x.atoms.size() != y.atoms.size()) return x.atoms.size() > y.atoms.size();
    if (x.coefficient != y.coefficient) return x.coefficient > y.coefficient;
    return compare_atoms(x.atoms, y.atoms) < 0;
  });
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Term& g = candidates[i];
    if (i > 0 && g.coefficient == candidates[i - 1].coefficient && g.atoms == candidates[i - 1].atoms) continue;
    std::vector<Expr> left;
    remove_atoms(b.atoms, g.atoms, left);
    Split split{expr_of(g), expr_of({b.coefficient / g.coefficient, left}), {}, {}};
    for (const Term& term : a.terms) {
      if (term.coefficient % g.coefficient == 0 && remove_atoms(term.atoms, g.atoms, left))
        split.quotient.terms.push_back({term.coefficient / g.coefficient, left});
      else
        split.rest.terms.push_back(term);
    }
    // The constant may stand on either side: the rest takes what the multiple does not need.
    if (split.rest.is_zero() || split.quotient.is_zero()) continue;
    if (!within(split.rest.expr(), split.divisor, env) || prove_le(1, split.n, env) != Proof::yes) continue;
    split.quotient = Polynomial::collect(std::move(split.quotient.terms));
    return split;
  }
  return {};
}

// The one term of a divisor that is a product, of sizes and a positive number.
std::optional<Term> as_term(const Expr& divisor) {
  Polynomial p = Polynomial::of(divisor);
  if (p.terms.size() != 1 || p.terms[0].coefficient <= 0) return {};
  return p.terms[0];
}

Expr simplify_floordiv(const Expr& a, const Expr& b, const RangeEnv& env) {
  Expr plain = floordiv(a, b);
  if (plain.op() != ExprOp::floordiv) return simplify(plain, env);
  const Expr &x = plain.args()[0], &c = plain.args()[1];
  if (within(x, c, env)) return 0;
  if (const Interval r = range_of(plain, env); r.low == r.high) return r.low;
  const auto term = as_term(c);
  if (!term) return plain;
  if (auto split = split_small_rest(Polynomial::of(x), *term, env))
    return simplify_floordiv(split->quotient.expr(), split->n, env);
  return plain;
}

Expr simplify_mod(const Expr& a, const Expr& b, const RangeEnv& env) {
  Expr plain = mod(a, b);
  if (plain.op() != ExprOp::mod) return simplify(plain, env);
  const Expr &x = plain.args()[0], &c = plain.args()[1];
  if (within(x, c, env)) return x;
  if (const Interval quotient = range_of(floordiv(x, c), env); quotient.low == quotient.high)
    return x - Expr(quotient.low) * c;
  const auto term = as_term(c);
  if (!term) return plain;
  if (auto split = split_small_rest(Polynomial::of(x), *term, env)) {
    Expr inner = simplify_mod(split->quotient.expr(), split->n, env);
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
  // What the simpler operands made of it may have parts of its own: (a*s + b) // s is a + b // s.
  if (plain.op() != expr.op() && !plain.args().empty()) return simplify(plain, env);
  try {
    return simplify_node(plain, env);
  } catch (const Error&) {  // a rewrite whose constants would leave int64 is not made
    return plain;
  }
}

Expr settle(const Expr& expr, const RangeEnv& env) {
  if (expr.args().empty()) return expr;
  if (!expr.is_float())
    if (const Interval range = range_of(expr, env); range.low == range.high) return range.low;
  std::vector<Expr> args;
  bool changed = false;
  for (const Expr& arg : expr.args()) {
    args.push_back(settle(arg, env));
    changed = changed || !args.back().same(arg);
  }
  return changed ? Expr::make(expr.op(), std::move(args)) : expr;
}

}  // namespace kiln
