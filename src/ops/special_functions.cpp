#include "ops/special_functions.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace kiln {

namespace {
using std::numbers::pi;
}

double erfinv(double x) {
  if (!(x >= -1 && x <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (x == 1 || x == -1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  // Winitzki's approximation as the start (2e-3), then Halley steps on erf, or on erfc where erf is flat.
  double a = 0.147, l = std::log1p(-x * x), t = 2 / (pi * a) + l / 2;
  double y = std::copysign(std::sqrt(std::sqrt(t * t - l / a) - t), x);
  for (int step = 0; step < 4; ++step) {
    double tail = (1 - std::fabs(x)) - std::erfc(std::fabs(y));
    double error = std::fabs(x) < 0.5 ? std::erf(y) - x : x < 0 ? -tail : tail;
    double slope = 2 / std::sqrt(pi) * std::exp(-y * y);
    if (slope == 0) break;
    double ratio = error / slope;
    y -= ratio / (1 + y * ratio);
  }
  return y;
}

double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    return digamma(1 - x) - pi / std::tan(pi * (x - std::nearbyint(x)));  // exact, however small
  }
  double result = 0;
  for (; x < 12; x += 1) result -= 1 / x;
  double inverse = 1 / x, square = inverse * inverse;
  // Asymptotic series with Bernoulli numbers.
  double series =
      square *
      (1.0 / 12 -
       square * (1.0 / 120 -
                 square * (1.0 / 252 -
                           square * (1.0 / 240 - square * (1.0 / 132 - square * (691.0 / 32760 - square / 12))))));
  return result + std::log(x) - 0.5 * inverse - series;
}

double bessel_i0(double x) {
  x = std::fabs(x);
  if (std::isinf(x)) return NAN;  // eager's exp(x) / sqrt(x)
  if (x < 30) {
    double term = 1, sum = 1, quarter = x * x / 4;
    for (int k = 1; k < 200 && term > sum * 1e-18; ++k) {
      term *= quarter / (static_cast<double>(k) * k);
      sum += term;
    }
    return sum;
  }
  double term = 1, sum = 1;
  for (int k = 1; k < 30; ++k) {
    double odd = 2.0 * k - 1, next = term * odd * odd / (8.0 * k * x);
    if (next > term) break;
    term = next;
    sum += term;
  }
  return std::exp(x) / std::sqrt(2 * pi * x) * sum;
}

}  // namespace kiln
