// Integer expressions as sums of products: the form in which Expr collects like terms, divides and proves.
// Invariant: terms are sorted, distinct, with nonzero coefficients; the constant term has no atoms and comes last.
// Atoms are expressions that are neither constants nor products (a sum is an atom only inside a product that was too
// large to expand).
#pragma once
#include "types/expr.h"

namespace kiln {

struct Term {
  int64_t coefficient = 0;
  std::vector<Expr> atoms;  // sorted
};
int compare_atoms(const std::vector<Expr>& a, const std::vector<Expr>& b);
// Whether every atom of `part` occurs in `whole`; then `rest` is what remains.
bool remove_atoms(const std::vector<Expr>& whole, const std::vector<Expr>& part, std::vector<Expr>& rest);
// Whether a product of these factors is to be multiplied out.
bool expandable(const std::vector<Expr>& factors);

struct Polynomial {
  std::vector<Term> terms;

  static Polynomial of(const Expr& expr);
  static Polynomial collect(std::vector<Term> terms);  // sorts and adds like terms
  Expr expr() const;
  bool is_zero() const { return terms.empty(); }
  bool is_constant() const { return terms.empty() || (terms.size() == 1 && terms[0].atoms.empty()); }
  int64_t constant_part() const { return terms.empty() || !terms.back().atoms.empty() ? 0 : terms.back().coefficient; }
};

Polynomial operator+(const Polynomial& a, const Polynomial& b);
Polynomial operator*(const Polynomial& a, const Polynomial& b);
Polynomial scaled(const Polynomial& a, int64_t factor);
inline Polynomial operator-(const Polynomial& a, const Polynomial& b) { return a + scaled(b, -1); }

// a == quotient * b + remainder. Which multiples of b are taken out depends on the terms only (never on ranges), so
// that a // b and a % b of the same operands are split alike. b must not be zero.
struct PolynomialDivision {
  Polynomial quotient, remainder;
};
PolynomialDivision divide(const Polynomial& a, const Polynomial& b);

}  // namespace kiln
