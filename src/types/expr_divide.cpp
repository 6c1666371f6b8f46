// Normal forms of a // b and a % b for integers. Every rule holds for all values with b != 0, so no ranges are needed:
//   (a*c + b) // c      = a + b // c             (a*c + b) % c      = b % c
//   (4*x + 5) // 8      = (x + 1) // 2           (4*x + 5) % 8      = 4*((x + 1) % 2) + 1
//   (x*s) // (y*s)      = x // y                 (x*s) % (y*s)      = s*(x % y)
//   (x // 4 + y) // 8   = (x + 4*y) // 32        (y + x % 16) % 8   = (x + y) % 8
#include <numeric>

#include "types/checked.h"
#include "types/expr_node.h"
#include "types/polynomial.h"

namespace kiln {

// The atoms that all terms of both have in common.
static std::vector<Expr> common_atoms(const Polynomial& a, const Polynomial& b) {
  std::vector<Expr> common = b.terms[0].atoms;
  auto keep = [&](const Polynomial& p) {
    for (const Term& term : p.terms) {
      std::vector<Expr> both;
      std::set_intersection(common.begin(), common.end(), term.atoms.begin(), term.atoms.end(),
                            std::back_inserter(both));
      common = std::move(both);
    }
  };
  keep(b);
  keep(a);
  return common;
}

static Polynomial without_atoms(const Polynomial& p, const std::vector<Expr>& atoms) {
  std::vector<Term> out;
  std::vector<Expr> rest;
  for (const Term& term : p.terms) {
    remove_atoms(term.atoms, atoms, rest);
    out.push_back({term.coefficient, rest});
  }
  return Polynomial::collect(std::move(out));
}

// The largest factor of all coefficients; the constant term counts only if `with_constant`.
static int64_t common_factor(const Polynomial& p, int64_t start, bool with_constant) {
  int64_t g = start == INT64_MIN ? 1 : start;
  for (const Term& term : p.terms) {
    if (term.atoms.empty() && !with_constant) continue;
    if (term.coefficient == INT64_MIN) return 1;
    g = std::gcd(g, term.coefficient);
  }
  return g;
}

static Polynomial floor_divided(const Polynomial& p, int64_t g) {
  std::vector<Term> out = p.terms;
  for (Term& term : out) term.coefficient = checked::floordiv(term.coefficient, g);
  return Polynomial::collect(std::move(out));
}

static bool small_constant(const Expr& e, int64_t limit) {
  return e.is_constant() && e.value() > -limit && e.value() < limit;
}

// (x // c + r) // b = (x + r*c) // (c*b) for positive constants, whatever whole number r is. There may be one quotient.
static std::optional<Expr> merge_nested(const Polynomial& a, const Expr& b) {
  constexpr int64_t limit = int64_t{1} << 30;  // keeps the products far from overflow
  if (!small_constant(b, limit)) return {};
  const auto is_quotient = [](const Expr& atom) { return atom.op() == ExprOp::floordiv && !atom.is_float(); };
  size_t found = a.terms.size();
  for (size_t i = 0; i < a.terms.size(); ++i) {
    const Term& term = a.terms[i];
    if (term.coefficient <= -limit || term.coefficient >= limit) return {};
    if (std::ranges::none_of(term.atoms, is_quotient)) continue;
    if (found < a.terms.size() || term.coefficient != 1 || term.atoms.size() != 1) return {};
    found = i;
  }
  if (found == a.terms.size()) return {};
  const Expr inner = a.terms[found].atoms[0];
  const Expr& c = inner.args()[1];
  if (!small_constant(c, limit) || c.value() <= 0) return {};
  Polynomial rest = a;
  rest.terms.erase(rest.terms.begin() + static_cast<std::ptrdiff_t>(found));
  return normal_floordiv(inner.args()[0] + rest.expr() * c, c * b);
}

Expr normal_floordiv(const Expr& a, const Expr& b) {
  if (b.is_constant(0) || b.is_constant(INT64_MIN)) return Expr::Node::raw(ExprOp::floordiv, {a, b});
  if (a.is_constant() && b.is_constant()) return checked::floordiv(a.value(), b.value());
  if (b.is_constant(1)) return a;
  if (b.is_constant() && b.value() < 0) return normal_floordiv(-a, -b);
  if (a.is_constant(0)) return 0;
  Polynomial p = Polynomial::of(a), q = Polynomial::of(b);
  if (auto common = common_atoms(p, q); !common.empty())
    return normal_floordiv(without_atoms(p, common).expr(), without_atoms(q, common).expr());
  PolynomialDivision division = divide(p, q);
  if (!division.quotient.is_zero())
    return Expr::make(ExprOp::add, {division.quotient.expr(), normal_floordiv(division.remainder.expr(), b)});
  // For a constant divisor the constant term may be floored; otherwise the factor must divide everything.
  int64_t g = common_factor(p, common_factor(q, 0, true), !b.is_constant());
  if (g > 1) return normal_floordiv(floor_divided(p, g).expr(), floor_divided(q, g).expr());
  if (b.is_constant())
    if (auto merged = merge_nested(p, b)) return *merged;
  return Expr::Node::raw(ExprOp::floordiv, {a, b});
}

// Terms k*(x % m) with b dividing k*m lose their inner remainder.
static std::optional<Expr> drop_inner_mod(const Polynomial& a, int64_t b) {
  for (size_t i = 0; i < a.terms.size(); ++i) {
    const Term& term = a.terms[i];
    for (size_t j = 0; j < term.atoms.size(); ++j) {
      const Expr& atom = term.atoms[j];
      if (atom.op() != ExprOp::mod || atom.is_float() || !atom.args()[1].is_constant()) continue;
      int64_t period = 0;
      if (__builtin_mul_overflow(term.coefficient, atom.args()[1].value(), &period) || period % b != 0) continue;
      Polynomial rest = a;
      rest.terms.erase(rest.terms.begin() + static_cast<std::ptrdiff_t>(i));
      std::vector<Expr> factors = term.atoms;
      factors[j] = atom.args()[0];
      factors.push_back(term.coefficient);
      return rest.expr() + Expr::make(ExprOp::mul, std::move(factors));
    }
  }
  return {};
}

Expr normal_mod(const Expr& a, const Expr& b) {
  if (b.is_constant(0) || b.is_constant(INT64_MIN)) return Expr::Node::raw(ExprOp::mod, {a, b});
  if (a.is_constant() && b.is_constant()) return checked::mod(a.value(), b.value());
  if (b.is_constant(1) || a.is_constant(0)) return 0;
  if (b.is_constant() && b.value() < 0) return -normal_mod(-a, -b);
  Polynomial p = Polynomial::of(a), q = Polynomial::of(b);
  if (auto common = common_atoms(p, q); !common.empty()) {
    std::vector<Expr> factors = common;
    factors.push_back(normal_mod(without_atoms(p, common).expr(), without_atoms(q, common).expr()));
    return Expr::make(ExprOp::mul, std::move(factors));
  }
  PolynomialDivision division = divide(p, q);
  if (!division.quotient.is_zero()) return normal_mod(division.remainder.expr(), b);
  int64_t g = common_factor(p, common_factor(q, 0, true), !b.is_constant());
  if (g > 1) {
    int64_t left = b.is_constant() ? checked::mod(p.constant_part(), g) : 0;
    return Expr(g) * normal_mod(floor_divided(p, g).expr(), floor_divided(q, g).expr()) + left;
  }
  if (b.is_constant())
    if (auto plain = drop_inner_mod(p, b.value())) return normal_mod(*plain, b);
  return Expr::Node::raw(ExprOp::mod, {a, b});
}

}  // namespace kiln
