// kiln.special_…: special functions whose evaluation is a series or a search of unknown length, element by element on
// dense f64 tensors that the operators make. Errors are below about 1e-13 of the result.
#include <cmath>
#include <limits>

#include "runtime/library/kernels.h"

namespace kiln::runtime {
namespace {

constexpr double pi = 3.14159265358979323846;
constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

// ---- Error function, scaled by exp(x²) ----

double erfcx(double x) {
  if (x < -27) return infinite;
  if (x < 25) {  // what x² loses by rounding the exponential multiplies by as much as x²
    const double high = x * x, lost = std::fma(x, x, -high), scale = std::exp(high);
    if (std::isinf(scale)) return scale;
    return (scale + scale * lost) * std::erfc(x);
  }
  double square = 2 * x * x, term = 1, sum = 1;
  for (int k = 1; k < 12; ++k) {
    term *= -(2 * k - 1) / square;
    sum += term;
  }
  return sum / x / std::sqrt(pi);
}

double log_ndtr(double x) {
  double t = x * std::sqrt(0.5);
  if (x < -1) return std::log(erfcx(-t) / 2) - t * t;
  return std::log1p(-std::erfc(t) / 2);
}

// ---- Modified Bessel functions ----

// exp(-|x|) I_n(x) for n = 0 and 1: the power series, or Hankel's expansion where that has converged.
double scaled_i(int n, double x) {
  double size = std::fabs(x), sum = 1, term = 1;
  if (std::isnan(x)) return x;
  if (size <= 30) {
    double quarter = size * size / 4;
    for (int k = 1; term > sum * 1e-18; ++k) sum += term *= quarter / (static_cast<double>(k) * (k + n));
    sum *= std::exp(-size) * (n ? size / 2 : 1);
  } else {
    for (int k = 1; k < 40 && std::fabs(term) > 1e-18; ++k) {
      double odd = 2.0 * k - 1;
      sum += term *= (odd * odd - 4.0 * n * n) / (8 * size * k);
    }
    sum /= std::sqrt(2 * pi) * std::sqrt(size);
  }
  return n && x < 0 ? -sum : sum;
}
double i0e(double x) { return scaled_i(0, x); }
double i1e(double x) { return scaled_i(1, x); }
double i1(double x) {
  if (std::isinf(x)) return no_number;       // eager's exp(x) / sqrt(x)
  double half = std::exp(std::fabs(x) / 2);  // in two steps: the product may be finite where exp(x) is not
  return scaled_i(1, x) * half * half;
}

// exp(x) K_n(x): the trapezoidal rule on ∫ exp(-x (cosh t - 1)) cosh(n t) dt converges geometrically.
double scaled_k(int n, double x) {
  if (std::isnan(x) || x < 0) return no_number;
  if (x == 0) return infinite;
  if (x > 1e30) return std::sqrt(pi / 2) / std::sqrt(x);  // where the numbers below underflow
  double step = std::min(0.125, 0.5 / std::sqrt(x)), sum = 0.5;
  for (int k = 1;; ++k) {
    double t = step * k, half = std::sinh(t / 2), term = std::exp(-2 * x * half * half) * (n ? std::cosh(t) : 1);
    sum += term;
    if (!(term > sum * 1e-18)) return std::isinf(sum) ? infinite : sum * step;
  }
}
double k0e(double x) { return scaled_k(0, x); }
double k1e(double x) { return x < 1e-150 && x > 0 ? 1 / x : scaled_k(1, x); }
double k0(double x) { return scaled_k(0, x) * std::exp(-x); }
double k1(double x) { return k1e(x) * std::exp(-x); }

double y0_of(double x) { return x == 0 ? -infinite : x < 0 ? no_number : ::y0(x); }
double y1_of(double x) { return x == 0 ? -infinite : x < 0 ? no_number : ::y1(x); }
double j0_of(double x) { return ::j0(x); }
double j1_of(double x) { return ::j1(x); }

// ---- Incomplete gamma functions ----

// (m - log(1 + m)) / m² for a small m, by its series: both terms are nearly equal.
double log1p_shortfall(double m) {
  double sum = 0;
  for (int k = 16; k >= 0; --k) sum = 1.0 / (k + 2) - sum * m;
  return sum;
}

// x^a exp(-x) / gamma(a + 1)
double gamma_factor(double a, double x) {
  if (a < 50 && x < 700) return std::pow(x, a) * std::exp(-x) / std::tgamma(a + 1);
  if (a < 50) return std::exp(a * std::log(x) - x - std::lgamma(a + 1));
  // Stirling's series, with a log(x/a) - (x - a) taken together: both are large and nearly cancel.
  double ratio = (x - a) / a;
  double exponent = std::fabs(ratio) < 0.05  ? -a * ratio * ratio * log1p_shortfall(ratio)
                    : std::fabs(ratio) < 0.3 ? a * (std::log1p(ratio) - ratio)
                                             : a * std::log(x / a) - (x - a);
  double stirling = 1 / (12 * a) - 1 / (360 * a * a * a) + 1 / (1260 * std::pow(a, 5));
  return std::exp(exponent - stirling) / std::sqrt(2 * pi * a);
}

double lower_series(double a, double x) {
  double term = 1, sum = 1;
  for (double k = 1; term > sum * 1e-17; ++k) sum += term *= x / (a + k);
  return sum * gamma_factor(a, x);
}

// Legendre's continued fraction by Lentz's method.
double upper_fraction(double a, double x) {
  constexpr double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / (b == 0 ? tiny : b), h = d;
  for (int k = 1; k < 100000; ++k) {
    double an = -static_cast<double>(k) * (k - a);
    b += 2;
    d = an * d + b;
    c = b + an / c;
    d = 1 / (d == 0 ? tiny : d);
    if (c == 0) c = tiny;
    double step = c * d;
    h *= step;
    if (std::fabs(step - 1) < 1e-16) break;
  }
  return h * a * gamma_factor(a, x);
}

// log(gamma(1 + a)), with what a loses when 1 is added to it: near 0 that is most of it.
double log_gamma_plus_one(double a) {
  const double lost = a - ((1 + a) - 1);
  return std::lgamma(1 + a) + lost * (-std::numbers::egamma + pi * pi / 6 * a);
}

// For small x and a, where the lower one is nearly 1: 1 - x^a / gamma(a + 1) and the terms of the lower one's other
// series in powers of -x, each about a times something.
double upper_series(double a, double x) {
  double power = 1, sum = 0;
  for (int k = 1; k < 100; ++k) {
    power *= -x / k;
    const double term = power / (a + k);
    sum += term;
    if (std::fabs(term) < 1e-17 * std::fabs(sum)) break;
  }
  const double exponent = a * std::log(x) - log_gamma_plus_one(a);
  return -std::expm1(exponent) - a * std::exp(exponent) * sum;
}

// Both for large a, where series and fraction take too many steps: Temme's expansion, uniform in
// eta² / 2 = m - log(1 + m) with m = (x - a) / a.
double gamma_of_large(double a, double x, bool upper) {
  const double m = (x - a) / a, side = upper ? 1 : -1;
  if (std::fabs(m) > 0.05) return (m > 0) == upper ? 0 : 1;  // to the last digit, for the a that come here
  const double half = log1p_shortfall(m) * m * m;
  const double eta = std::copysign(std::sqrt(2 * half), m);
  const double rest = (((eta / 2835 + 1.0 / 864) * eta - 2.0 / 135) * eta + 1.0 / 12) * eta - 1.0 / 3 - 1 / (540 * a);
  const double factor = std::exp(-a * half) / (std::sqrt(2 * pi) * std::sqrt(a));
  return std::erfc(side * eta * std::sqrt(a / 2)) / 2 + side * rest * factor;
}

// P(a, x), or Q(a, x) = 1 - P(a, x), each from the side that does not cancel.
double incomplete_gamma(double a, double x, bool upper) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return no_number;
  if (a == 0) return x > 0 ? (upper ? 0 : 1) : no_number;
  if (x == 0) return upper ? 1 : 0;
  if (std::isinf(a)) return std::isinf(x) ? no_number : upper ? 1 : 0;
  if (std::isinf(x)) return upper ? 0 : 1;
  if (a >= 1e6) return gamma_of_large(a, x, upper);
  // Where the upper one is small beside the lower one, it is computed itself.
  const bool lower_is_most = x > 1.1 ? x > a : x > 0.5 ? x * 1.1 > a : a * -std::log(x) < 0.4;
  if (upper && x <= 1.1 && lower_is_most) return upper_series(a, x);
  if (upper ? !lower_is_most : x < a + 1) {
    double lower = lower_series(a, x);
    return upper ? 1 - lower : lower;
  }
  double rest = upper_fraction(a, x);
  return upper ? rest : 1 - rest;
}
double igamma(double a, double x) { return incomplete_gamma(a, x, false); }
double igammac(double a, double x) { return incomplete_gamma(a, x, true); }

// The x with P(a, x) = u, by halving an interval of log(x).
double gamma_quantile(double a, double u) {
  if (!(a > 0)) return a == 0 ? 0 : no_number;
  double low = std::log(u) / a - 40, high = std::log(a + 12 * std::sqrt(a) + 60);
  low = std::max(std::min(low, high - 60), -745.0);
  for (int step = 0; step < 70; ++step) {
    double middle = (low + high) / 2;
    (igamma(a, std::exp(middle)) < u ? low : high) = middle;
  }
  return std::exp((low + high) / 2);
}

// ---- Hurwitz zeta function ----

// The sum over k >= 0 of (q + k)^-s: terms one by one until q + k is past 9, then Euler and Maclaurin's sum. Below 0 by
// the sum over all whole k, which has a period of 1, less what is not asked for.
double zeta(double s, double q) {
  constexpr double factors[] = {12.0,
                                -720.0,
                                30240.0,
                                -1209600.0,
                                47900160.0,
                                -1.8924375803183791606e9,
                                7.47242496e10,
                                -2.950130727918164224e12,
                                1.1646782814350067249e14,
                                -4.5979787224074726105e15,
                                1.8152105401943546773e17,
                                -7.1661652561756670113e18};
  if (s == 1) return infinite;
  if (!(s > 1) || !(q < infinite)) return no_number;  // of infinity eager's 0 times infinity
  if (q <= 0) {
    if (q == std::floor(q)) return infinite;
    if (s != std::floor(s)) return no_number;
    // Terms on both sides of 0 nearly cancel where s is odd: what is alike is taken together first.
    const double part = q - std::floor(q), sign = s / 2 == std::floor(s / 2) ? 1 : -1;
    return (zeta(s, part) + sign * zeta(s, q > -1 ? -q : 1 - part)) - sign * zeta(s, 1 - q);
  }
  double sum = 0, at = q;
  for (int k = 0; k < 9 || at <= 9; ++k, ++at) sum += std::pow(at, -s);
  double power = std::pow(at, -s);
  sum += std::pow(at, 1 - s) / (s - 1) + power / 2;  // the power alone may underflow
  if (power == 0) return sum;                        // s may be infinite
  double rising = power * s / at;
  for (int k = 0; k < 12; ++k) {
    double term = rising / factors[k];
    sum += term;
    if (std::fabs(term) < 1e-17 * std::fabs(sum)) break;
    rising *= (s + 2 * k + 1) * (s + 2 * k + 2) / (at * at);
  }
  return sum;
}

// ---- Running over tensors ----

int64_t count_of(const TensorView& tensor) {
  int64_t count = 1;
  for (int64_t size : tensor.sizes) count *= size;
  return count;
}
const double* numbers(const TensorView& tensor) { return reinterpret_cast<const double*>(tensor.data); }

template <double (*f)(double)>
void run_one(LibraryCall& call) {
  TensorView x = call.tensor("x"), out = call.output(0);
  auto* to = reinterpret_cast<double*>(out.data);
  call.parallel(count_of(x), 512, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(numbers(x)[i]);
  });
}

template <double (*f)(double, double)>
void run_two(LibraryCall& call) {
  TensorView x = call.tensor("x"), y = call.tensor("y"), out = call.output(0);
  auto* to = reinterpret_cast<double*>(out.data);
  call.parallel(count_of(x), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(numbers(x)[i], numbers(y)[i]);
  });
}

// The smallest k whose probability of being reached in `count` tries exceeds a uniform number.
double binomial_quantile(double count, double chance, double u) {
  if (!(count >= 0) || !(chance >= 0 && chance <= 1)) return no_number;
  if (chance == 0 || count == 0) return 0;
  if (chance == 1) return count;
  double mean = count * chance, reach = 12 * std::sqrt(mean * (1 - chance)) + 40;
  double k = std::max(0.0, std::floor(mean - reach)), last = std::min(count, std::ceil(mean + reach)), below = 0;
  for (; k < last; ++k) {
    double log_chance = std::lgamma(count + 1) - std::lgamma(k + 1) - std::lgamma(count - k + 1) +
                        k * std::log(chance) + (count - k) * std::log1p(-chance);
    below += std::exp(log_chance);
    if (below > u) break;
  }
  return k;
}

}  // namespace

void run_special_erfcx(LibraryCall& call) { run_one<erfcx>(call); }
void run_special_log_ndtr(LibraryCall& call) { run_one<log_ndtr>(call); }
void run_special_i0e(LibraryCall& call) { run_one<i0e>(call); }
void run_special_i1(LibraryCall& call) { run_one<i1>(call); }
void run_special_i1e(LibraryCall& call) { run_one<i1e>(call); }
void run_special_k0(LibraryCall& call) { run_one<k0>(call); }
void run_special_k0e(LibraryCall& call) { run_one<k0e>(call); }
void run_special_k1(LibraryCall& call) { run_one<k1>(call); }
void run_special_k1e(LibraryCall& call) { run_one<k1e>(call); }
void run_special_j0(LibraryCall& call) { run_one<j0_of>(call); }
void run_special_j1(LibraryCall& call) { run_one<j1_of>(call); }
void run_special_y0(LibraryCall& call) { run_one<y0_of>(call); }
void run_special_y1(LibraryCall& call) { run_one<y1_of>(call); }
void run_special_igamma(LibraryCall& call) { run_two<igamma>(call); }
void run_special_igammac(LibraryCall& call) { run_two<igammac>(call); }
void run_special_zeta(LibraryCall& call) { run_two<zeta>(call); }
void run_gamma_quantile(LibraryCall& call) { run_two<gamma_quantile>(call); }
void run_binomial_quantile(LibraryCall& call) {
  TensorView count = call.tensor("count"), chance = call.tensor("chance"), u = call.tensor("uniform");
  auto* to = reinterpret_cast<double*>(call.output(0).data);
  call.parallel(count_of(count), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      to[i] = binomial_quantile(numbers(count)[i], numbers(chance)[i], numbers(u)[i]);
  });
}

}  // namespace kiln::runtime
