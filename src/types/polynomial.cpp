#include "types/polynomial.h"

#include "types/checked.h"
#include "types/expr_node.h"

namespace kiln {

// Lexicographic on atoms, the longer one first where one is a prefix of the other: the usual lexicographic order of
// monomials, which division below relies on (it is compatible with multiplication).
int compare_atoms(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (int c = Expr::Node::compare(a[i], b[i])) return c;
  return a.size() == b.size() ? 0 : a.size() > b.size() ? -1 : 1;
}

bool remove_atoms(const std::vector<Expr>& whole, const std::vector<Expr>& part, std::vector<Expr>& rest) {
  rest.clear();
  size_t p = 0;
  for (const Expr& atom : whole) {
    if (p < part.size() && atom == part[p])
      ++p;
    else
      rest.push_back(atom);
  }
  return p == part.size();
}

static Term term_of(const Expr& expr) {
  if (expr.is_constant()) return {expr.value(), {}};
  if (expr.op() != ExprOp::mul || expr.is_float()) return {1, {expr}};
  Term term{1, expr.args()};
  if (term.atoms.back().is_constant()) {
    term.coefficient = term.atoms.back().value();
    term.atoms.pop_back();
  }
  return term;
}

Polynomial Polynomial::of(const Expr& expr) {
  Polynomial out;
  if (expr.op() == ExprOp::add && !expr.is_float()) {
    for (const Expr& arg : expr.args()) out.terms.push_back(term_of(arg));
  } else if (!expr.is_constant(0)) {
    out.terms.push_back(term_of(expr));
  }
  return out;
}

Polynomial Polynomial::collect(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return compare_atoms(a.atoms, b.atoms) < 0; });
  Polynomial out;
  for (Term& term : terms) {
    if (!out.terms.empty() && compare_atoms(out.terms.back().atoms, term.atoms) == 0)
      out.terms.back().coefficient = checked::add(out.terms.back().coefficient, term.coefficient);
    else
      out.terms.push_back(std::move(term));
  }
  std::erase_if(out.terms, [](const Term& t) { return t.coefficient == 0; });
  return out;
}

static Expr term_expr(const Term& term) {
  if (term.atoms.empty()) return term.coefficient;
  if (term.atoms.size() == 1 && term.coefficient == 1) return term.atoms[0];
  std::vector<Expr> factors = term.atoms;
  if (term.coefficient != 1) factors.push_back(term.coefficient);
  return Expr::Node::raw(ExprOp::mul, std::move(factors));
}

static bool is_sum(const Expr& expr) { return expr.op() == ExprOp::add && !expr.is_float(); }

bool expandable(const std::vector<Expr>& factors) {
  constexpr size_t term_limit = 64;  // beyond it a product of sums stays a product
  size_t sums = 0, terms = 1;
  for (const Expr& factor : factors)
    if (is_sum(factor)) {
      ++sums;
      terms = std::min(terms * factor.args().size(), term_limit + 1);
    }
  return sums <= 1 || terms <= term_limit;
}

static bool holds_sum(const Term& term) { return std::any_of(term.atoms.begin(), term.atoms.end(), is_sum); }

Expr Polynomial::expr() const {
  // A sum among the atoms was kept because its product was too large; division may have made the product small again.
  if (std::any_of(terms.begin(), terms.end(), [](const Term& t) { return holds_sum(t) && expandable(t.atoms); })) {
    std::vector<Expr> parts;
    for (const Term& term : terms) {
      std::vector<Expr> factors = term.atoms;
      factors.push_back(term.coefficient);
      parts.push_back(Expr::make(ExprOp::mul, std::move(factors)));
    }
    return Expr::make(ExprOp::add, std::move(parts));
  }
  if (terms.empty()) return 0;
  if (terms.size() == 1) return term_expr(terms[0]);
  std::vector<Expr> args;
  args.reserve(terms.size());
  for (const Term& term : terms) args.push_back(term_expr(term));
  return Expr::Node::raw(ExprOp::add, std::move(args));
}

Polynomial operator+(const Polynomial& a, const Polynomial& b) {
  std::vector<Term> terms = a.terms;
  terms.insert(terms.end(), b.terms.begin(), b.terms.end());
  return Polynomial::collect(std::move(terms));
}

Polynomial scaled(const Polynomial& a, int64_t factor) {
  if (factor == 0) return {};
  Polynomial out = a;
  for (Term& term : out.terms) term.coefficient = checked::mul(term.coefficient, factor);
  return out;
}

Polynomial operator*(const Polynomial& a, const Polynomial& b) {
  std::vector<Term> terms;
  terms.reserve(a.terms.size() * b.terms.size());
  for (const Term& x : a.terms)
    for (const Term& y : b.terms) {
      Term term{checked::mul(x.coefficient, y.coefficient), {}};
      std::merge(x.atoms.begin(), x.atoms.end(), y.atoms.begin(), y.atoms.end(), std::back_inserter(term.atoms));
      terms.push_back(std::move(term));
    }
  return Polynomial::collect(std::move(terms));
}

// Division by one term: from every term that contains the divisor's atoms, the whole multiples are taken. Coefficients
// are truncated, so that -x // 8 stays as it is; the constant is floored, so that (s0 - 1) // 2 + 1 and (s0 + 1) // 2
// become the same.
static PolynomialDivision divide_by_term(const Polynomial& a, const Term& b) {
  std::vector<Term> quotient, remainder;
  std::vector<Expr> rest;
  for (const Term& term : a.terms) {
    int64_t q = 0, r = term.coefficient;
    bool by_constant = b.atoms.empty();
    if (remove_atoms(term.atoms, b.atoms, rest) && !(term.coefficient == INT64_MIN && b.coefficient == -1)) {
      bool floor = term.atoms.empty() && by_constant;
      q = floor ? checked::floordiv(term.coefficient, b.coefficient) : term.coefficient / b.coefficient;
      r = floor ? checked::mod(term.coefficient, b.coefficient) : term.coefficient % b.coefficient;
    }
    if (q != 0) quotient.push_back({q, rest});
    if (r != 0) remainder.push_back({r, term.atoms});
  }
  return {Polynomial::collect(std::move(quotient)), Polynomial::collect(std::move(remainder))};
}

PolynomialDivision divide(const Polynomial& a, const Polynomial& b) {
  KILN_CHECK(!b.is_zero(), "division by a zero polynomial");
  if (b.terms.size() == 1) return divide_by_term(a, b.terms[0]);
  constexpr int step_limit = 64;  // long division of expressions met in practice takes a handful
  Polynomial quotient, remainder = a;
  const Term& lead = b.terms[0];
  std::vector<Expr> rest;
  for (int step = 0; step < step_limit; ++step) {
    const Term* found = nullptr;
    for (const Term& term : remainder.terms)
      // INT64_MIN / -1 has no result; such a term is left in the remainder.
      if (!(lead.coefficient == -1 && term.coefficient == INT64_MIN) && term.coefficient % lead.coefficient == 0 &&
          remove_atoms(term.atoms, lead.atoms, rest)) {
        found = &term;
        break;
      }
    if (!found) break;
    Polynomial part;
    part.terms.push_back({found->coefficient / lead.coefficient, rest});
    remainder = remainder - part * b;
    quotient = quotient + part;
  }
  if (remainder.terms.size() >= a.terms.size()) return {{}, a};  // no gain: leave it readable
  return {quotient, remainder};
}

}  // namespace kiln
