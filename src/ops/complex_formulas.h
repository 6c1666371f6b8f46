// Formulas of complex operators in terms of real ones, and the values that they are checked against. The graph pass
// split_complex writes them in place of complex nodes.
#pragma once
#include <array>
#include <complex>

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
  Pair pow(const Pair& z, const Pair& w);
  // complex_elementary.cpp
  Pair exp(const Pair& z);
  Pair log(const Pair& z);
  Pair sqrt(const Pair& z);
  Pair sin(const Pair& z);
  Pair cos(const Pair& z);
  Pair sinh(const Pair& z);
  Pair cosh(const Pair& z);
  Pair tanh(const Pair& z);
  Pair sigmoid(const Pair& z);
  Pair asin(const Pair& z);
  Pair acos(const Pair& z);
  Pair atan(const Pair& z);
  Pair asinh(const Pair& z);
  Pair acosh(const Pair& z);
  Pair atanh(const Pair& z);
  Pair sinc(const Pair& z);
  Pair times_infinite(const Pair& x, const Pair& y);
  Value* abs(const Pair& z) { return b("hypot", {z.re, z.im}); }
  Value* angle(const Pair& z) { return b("atan2", {z.im, z.re}); }
  Value* is_true(const Pair& z);  // not zero
  Value* equal(const Pair& x, const Pair& y);

  // ---- Parts as such, for the pass that keeps them
  Value* zeros_like(const Argument& x);
  Value* full_like(Value* x, const Argument& number);
  Value* expanded(Value* x, const Sizes& sizes);
  Value* negated(Value* x);
  Value* interleaved(const Pair& z);  // real and imaginary parts beside each other, in a new last dimension
  Pair from_interleaved(const Argument& pairs);
  // Eager divides a sum by the complex number of elements, whose imaginary 0 times an infinity is NaN.
  Pair mean_of_parts(const Pair& z);
  // In polar form: absolute values multiply, angles add. In f64, so that angles keep enough digits. dim, keep: null
  // where the call has none.
  Pair product_along(const Pair& z, const Argument* dim, const Argument* keep, bool running);

 private:
  Argument sum(const Argument& x, const Argument& y, double sign);
  Argument product(const Argument& x, const Argument& y);
  Pair by_constant(const Pair& x, std::complex<double> y);
  Pair wide_pow(const Pair& z, const Pair& w);
};

// A pointwise operator on complex numbers, in two forms that share nothing: what is compiled, and what that is checked
// against.
struct ComplexFormula {
  std::array<std::string_view, 4> operands;  // arguments of the operator, in the order of x; "" fills up
  // In real operators. A result without an imaginary part is real (abs, eq).
  Pair (*build)(ComplexBuild& c, const std::vector<Pair>& x);
  // The reference. None: the operator's own reference takes complex tensors (real, imag, view_as_real).
  std::complex<double> (*value)(const std::complex<double>* x) = nullptr;
  std::complex<double> (*narrow)(const std::complex<double>* x) =
      nullptr;  // of complex64, where it rounds in another way
};

// Formulas that several records name; a formula of one operator alone may stand with its record.
namespace complex_formulas {
extern const ComplexFormula add, sub, rsub, mul, div, pow, tensor_pow, eq, ne, logical_and, logical_or, logical_xor,
    logical_not, addcmul, addcdiv, lerp, from_parts, polar, neg, exp, exp2, expm1, log, log2, log10, log1p, sqrt, rsqrt,
    reciprocal, square, sin, cos, sinh, cosh, tanh, tan, sigmoid, silu, sinc, asinh, acosh, atanh, asin, acos, atan,
    abs, angle, sgn, isnan, isinf, isfinite, isreal, conj, real, imag, view_as_real, view_as_complex;
}

}  // namespace kiln
