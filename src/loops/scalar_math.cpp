// The operators that only floats have. They are computed in double and rounded once: the closest answer there is, which
// is what compiled code and PyTorch are compared with.
#include <math.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "loops/scalar_ops.h"

namespace kiln::loops {
namespace {

// Rational approximation (as PyTorch's calc_erfinv), then two Newton steps.
double erfinv(double y) {
  constexpr double central = 0.7;
  const double a[4] = {0.886226899, -1.645349621, 0.914624893, -0.140543331};
  const double b[4] = {-2.118377725, 1.442710462, -0.329097515, 0.012229801};
  const double c[4] = {-1.970840454, -1.624906493, 3.429567803, 1.641345311};
  const double d[2] = {3.543889200, 1.637067800};
  double size = std::fabs(y);
  if (!(size <= 1.0)) return std::numeric_limits<double>::quiet_NaN();
  if (size == 1.0) return std::copysign(std::numeric_limits<double>::infinity(), y);
  double x = 0;
  if (size <= central) {
    double z = y * y;
    x = y * (((a[3] * z + a[2]) * z + a[1]) * z + a[0]) / ((((b[3] * z + b[2]) * z + b[1]) * z + b[0]) * z + 1.0);
  } else {
    double z = std::sqrt(-std::log((1.0 - size) / 2.0));
    x = std::copysign((((c[3] * z + c[2]) * z + c[1]) * z + c[0]) / ((d[1] * z + d[0]) * z + 1.0), y);
  }
  for (int step = 0; step < 2; ++step) x -= (std::erf(x) - y) / (2.0 * std::numbers::inv_sqrtpi * std::exp(-x * x));
  return x;
}

// Reflection for negatives, recurrence up to 10, then the asymptotic series.
double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    double whole = 0;
    double rest = std::modf(x, &whole);
    if (rest == 0) return std::numeric_limits<double>::quiet_NaN();
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * rest);
  }
  double result = 0;
  for (; x < 10; x += 1) result -= 1 / x;
  if (x == 10) return result + 2.25175258906672110764;
  double y = 0;
  if (x < 1e17) {
    const double p[7] = {8.33333333333333333333E-2,  -2.10927960927960927961E-2, 7.57575757575757575758E-3,
                         -4.16666666666666666667E-3, 3.96825396825396825397E-3,  -8.33333333333333333333E-3,
                         8.33333333333333333333E-2};
    double z = 1.0 / (x * x), sum = 0;
    for (double coefficient : p) sum = sum * z + coefficient;
    y = z * sum;
  }
  return result + std::log(x) - 0.5 / x - y;
}

double log_gamma(double x) {
  int sign = 0;  // std::lgamma writes a global
  return ::lgamma_r(x, &sign);
}

double evaluate(ScalarOp op, double x, double y) {
  switch (op) {
    case ScalarOp::exp:
      return std::exp(x);
    case ScalarOp::exp_or_zero:
      return x < least_exponent ? 0 : std::exp(x);
    case ScalarOp::exp2:
      return std::exp2(x);
    case ScalarOp::expm1:
      return std::expm1(x);
    case ScalarOp::log:
      return std::log(x);
    case ScalarOp::log2:
      return std::log2(x);
    case ScalarOp::log10:
      return std::log10(x);
    case ScalarOp::log1p:
      return std::log1p(x);
    case ScalarOp::sqrt:
      return std::sqrt(x);
    case ScalarOp::rsqrt:
      return 1 / std::sqrt(x);
    case ScalarOp::sin:
      return std::sin(x);
    case ScalarOp::cos:
      return std::cos(x);
    case ScalarOp::tan:
      return std::tan(x);
    case ScalarOp::asin:
      return std::asin(x);
    case ScalarOp::acos:
      return std::acos(x);
    case ScalarOp::atan:
      return std::atan(x);
    case ScalarOp::atan2:
      return std::atan2(x, y);
    case ScalarOp::sinh:
      return std::sinh(x);
    case ScalarOp::cosh:
      return std::cosh(x);
    case ScalarOp::tanh:
      return std::tanh(x);
    case ScalarOp::asinh:
      return std::asinh(x);
    case ScalarOp::acosh:
      return std::acosh(x);
    case ScalarOp::atanh:
      return std::atanh(x);
    case ScalarOp::erf:
      return std::erf(x);
    case ScalarOp::erfc:
      return std::erfc(x);
    case ScalarOp::normal_cdf:
      return std::erfc(-x / std::numbers::sqrt2) / 2;
    case ScalarOp::erfinv:
      return erfinv(x);
    case ScalarOp::lgamma:
      return log_gamma(x);
    case ScalarOp::digamma:
      return digamma(x);
    case ScalarOp::sigmoid:
      return 1 / (1 + std::exp(-x));
    case ScalarOp::floor:
      return std::floor(x);
    case ScalarOp::ceil:
      return std::ceil(x);
    case ScalarOp::round:
      return std::nearbyint(x);
    default:
      return std::trunc(x);
  }
}

template <ScalarOp Op>
ScalarFunction of_type(DType dtype) {
  constexpr bool two = Op == ScalarOp::atan2;
  if (dtype == DType::f64)
    return [](const Cell* a, Cell& r) { return r.f = evaluate(Op, a[0].f, two ? a[1].f : 0), true; };
  return [](const Cell* a, Cell& r) {
    return r.f = double{static_cast<float>(evaluate(Op, a[0].f, two ? a[1].f : 0))}, true;
  };
}

template <ScalarOp Op = ScalarOp::exp>
ScalarFunction find(ScalarOp op, DType dtype) {
  if (op == Op) return of_type<Op>(dtype);
  if constexpr (Op < ScalarOp::trunc)
    return find<static_cast<ScalarOp>(static_cast<int>(Op) + 1)>(op, dtype);
  else
    return nullptr;
}

}  // namespace

ScalarFunction float_math_function(ScalarOp op, DType dtype) { return find(op, dtype); }

}  // namespace kiln::loops
