// Formulas of complex operators in terms of real ones (private to split_complex).
#pragma once
#include "ops/composite.h"

namespace kiln {

// A complex operand: real and imaginary part, each a value or a number. A real operand has no imaginary part.
struct Pair {
  Argument re, im;
  bool is_real() const { return im.is_none(); }
};

// Writes real operators in place of one complex node.
class ComplexBuild {
 public:
  explicit ComplexBuild(Build& build) : b(build) {}
  Build& b;

  Pair add(const Pair& x, const Pair& y);
  Pair sub(const Pair& x, const Pair& y);
  Pair mul(const Pair& x, const Pair& y);
  Pair div(const Pair& x, const Pair& y);
  Pair whole(const Pair& x);  // with an imaginary part: 0 where there was none
  Pair scaled(const Pair& x, double factor);
  Pair neg(const Pair& x) { return scaled(x, -1); }
  Pair conj(const Pair& x);
  Pair times_i(const Pair& x);
  Pair exp(const Pair& z);
  Pair log(const Pair& z);
  Pair sqrt(const Pair& z);
  Pair pow(const Pair& z, const Pair& w);
  Pair tanh(const Pair& z);
  Pair asinh(const Pair& z);
  Pair atanh(const Pair& z);
  Pair acosh(const Pair& z);
  Value* abs(const Pair& z) { return b("hypot", {z.re, z.im}); }
  Value* angle(const Pair& z) { return b("atan2", {z.im, z.re}); }
  Value* is_true(const Pair& z);  // not zero
  Value* equal(const Pair& x, const Pair& y);

 private:
  Argument sum(const Argument& x, const Argument& y, double sign);
  Argument product(const Argument& x, const Argument& y);
  Pair by_constant(const Pair& x, std::complex<double> y);
  Pair wide_pow(const Pair& z, const Pair& w);
};

// The formula of a pointwise operator over its operands in schema order. Real results (abs, eq) have no imaginary part.
// nullopt: this file has no formula of that name.
std::optional<Pair> complex_formula(ComplexBuild& c, std::string_view name, const std::vector<Pair>& x);
// The operands of that formula.
std::vector<std::string_view> formula_operands(std::string_view name);

}  // namespace kiln
