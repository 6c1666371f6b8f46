// kiln.orthogonal_polynomial: the classical polynomials of degree n at x by their recurrences, element by element on
// dense f64 tensors. Chebyshev's four kinds inside of (-1, 1) come from angles, so that a large degree costs nothing.
#include <cmath>
#include <limits>

#include "runtime/library/kernels.h"

namespace kiln::runtime {
namespace {

// The order of src/ops/orthogonal_polynomials.cpp.
enum class PolynomialKind : int64_t {
  chebyshev_t,
  chebyshev_u,
  chebyshev_v,
  chebyshev_w,
  hermite_h,
  hermite_he,
  laguerre,
  legendre
};

double chebyshev_by_angle(PolynomialKind kind, double x, int64_t n) {
  double angle = std::acos(x), order = static_cast<double>(n);
  switch (kind) {
    case PolynomialKind::chebyshev_t:
      return std::cos(order * angle);
    case PolynomialKind::chebyshev_u:
      return std::sin((order + 1) * angle) / std::sin(angle);
    case PolynomialKind::chebyshev_v:
      return std::cos((order + 0.5) * angle) / std::cos(angle / 2);
    default:
      return std::sin((order + 0.5) * angle) / std::sin(angle / 2);
  }
}

// The polynomial of degree 1.
double first_degree(PolynomialKind kind, double x) {
  switch (kind) {
    case PolynomialKind::chebyshev_t:
    case PolynomialKind::hermite_he:
    case PolynomialKind::legendre:
      return x;
    case PolynomialKind::chebyshev_u:
    case PolynomialKind::hermite_h:
      return 2 * x;
    case PolynomialKind::chebyshev_v:
      return 2 * x - 1;
    case PolynomialKind::chebyshev_w:
      return 2 * x + 1;
    case PolynomialKind::laguerre:
      return 1 - x;
  }
  return x;
}

// Degree k + 1 from degrees k (q) and k - 1 (p).
double next_degree(PolynomialKind kind, double x, double k, double p, double q) {
  switch (kind) {
    case PolynomialKind::hermite_h:
      return 2 * x * q - 2 * k * p;
    case PolynomialKind::hermite_he:
      return x * q - k * p;
    case PolynomialKind::laguerre:
      return ((2 * k + 1 - x) * q - k * p) / (k + 1);
    case PolynomialKind::legendre:
      return ((2 * k + 1) * x * q - k * p) / (k + 1);
    default:
      return 2 * x * q - p;
  }
}

double polynomial(PolynomialKind kind, double x, double degree, double limit) {
  if (!(degree > -1)) return 0;
  if (degree > limit) return std::numeric_limits<double>::quiet_NaN();
  auto n = static_cast<int64_t>(std::min(degree, 9e18));
  if (n == 0) return 1;
  bool chebyshev = kind <= PolynomialKind::chebyshev_w;
  if (chebyshev && n > 8 && std::fabs(x) < 1) return chebyshev_by_angle(kind, x, n);
  double p = 1, q = first_degree(kind, x);
  // On from an infinity, whose sign is that of this degree alone; infinities of which one is taken from another end it.
  for (int64_t k = 1; k < n && !std::isnan(q); ++k) {
    double r = next_degree(kind, x, static_cast<double>(k), p, q);
    p = q;
    q = r;
  }
  return q;
}

}  // namespace

void run_orthogonal_polynomial(LibraryCall& call) {
  TensorView x = call.tensor("x"), n = call.tensor("n");
  auto kind = static_cast<PolynomialKind>(call.integer("kind", 0));
  double limit = call.floating("limit", 0);
  const auto *values = reinterpret_cast<const double*>(x.data), *degrees = reinterpret_cast<const double*>(n.data);
  auto* to = reinterpret_cast<double*>(call.output(0).data);
  int64_t count = 1;
  for (int64_t size : x.sizes) count *= size;
  call.parallel(count, 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = polynomial(kind, values[i], degrees[i], limit);
  });
}

}  // namespace kiln::runtime
