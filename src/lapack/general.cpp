// geev: balancing, Hessenberg form, the QR algorithm with double shifts (lahqr), eigenvectors of the triangular form by
// back substitution (trevc), scaled to size 1. Complex vectors have a real component of largest size.
#include <limits>
#include <type_traits>

#include "lapack/hessenberg.h"
#include "lapack/spectral.h"

namespace kiln::lapack {
namespace {

// Of the (quasi) triangular t for its eigenvalue that ends at row `k`, in the coordinates of t.
template <class T>
std::vector<Complex> triangular_vector(const Matrix<T>& t, int64_t k, Complex value, bool pair) {
  std::vector<Complex> x(static_cast<size_t>(t.rows));
  auto at = [&](int64_t i) -> Complex& { return x[static_cast<size_t>(i)]; };
  int64_t first = k;
  at(k) = 1;
  if (pair) {
    first = k - 1;
    double above = real_part(t(k - 1, k)), below = real_part(t(k, k - 1)), size = value.imag();
    bool upper = std::fabs(above) >= std::fabs(below);
    at(k - 1) = upper ? 1 : -size / below;
    at(k) = Complex(0, upper ? size / above : 1);
  }
  double small = std::max(std::numeric_limits<double>::epsilon() * std::abs(value), smallest * 1e10);
  auto rest = [&](int64_t i, int64_t from) {
    Complex sum = 0;
    for (int64_t j = from; j <= k; ++j) sum -= Complex(t(i, j)) * at(j);
    return sum;
  };
  auto divided = [&](Complex by) { return std::abs(by) < small ? Complex(small) : by; };
  for (int64_t i = first - 1; i >= 0; --i) {
    if (i == 0 || t(i, i - 1) == T{}) {
      at(i) = rest(i, i + 1) / divided(Complex(t(i, i)) - value);
      continue;
    }
    // A block of two rows: Cramer's rule.
    Complex a = Complex(t(i - 1, i - 1)) - value, b = t(i - 1, i), c = t(i, i - 1), d = Complex(t(i, i)) - value;
    Complex r1 = rest(i - 1, i + 1), r2 = rest(i, i + 1), det = divided(a * d - b * c);
    at(i - 1) = (r1 * d - b * r2) / det;
    at(i) = (a * r2 - c * r1) / det;
    --i;
  }
  return x;
}

// Size 1, and a real component of largest size where the vector is complex.
void normalise(std::vector<Complex>& x, bool complex_matrix, bool complex_vector) {
  double total = 0;
  size_t largest = 0;
  for (const Complex& value : x) total += std::norm(value);
  for (size_t i = 0; i < x.size(); ++i)
    if (std::norm(x[i]) > std::norm(x[largest])) largest = i;
  if (!(total > 0)) return;
  Complex factor = 1 / std::sqrt(total);
  if (complex_matrix || complex_vector) {
    Complex peak = x[largest];
    factor *= std::conj(peak) / std::abs(peak);
    // Of a real matrix real and imaginary part are turned by a rotation, which keeps the sign of the real part.
    if (!complex_matrix && peak.real() < 0) factor = -factor;
  }
  for (Complex& value : x) value *= factor;
  if (complex_matrix || complex_vector) x[largest] = x[largest].real();
}

}  // namespace

template <class T>
bool general_eigen(Matrix<T> a, std::vector<Complex>& values, Matrix<Complex>& vectors, double unit) {
  constexpr bool real = std::is_same_v<T, double>;
  int64_t n = a.rows;
  values.assign(static_cast<size_t>(n), 0);
  vectors = Matrix<Complex>(n, n);
  if (n == 0) return true;
  Balance balance = balance_matrix(a);
  Matrix<T> q = hessenberg(a, balance);
  if (!schur(a, q, balance, values, unit)) return false;
  for (int64_t k = 0; k < n; ++k) {
    Complex value = values[static_cast<size_t>(k)];
    bool pair = real && value.imag() != 0;
    std::vector<Complex> inner = triangular_vector(a, pair ? k + 1 : k, value, pair), x(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) x[static_cast<size_t>(i)] += Complex(q(i, j)) * inner[static_cast<size_t>(j)];
    undo_balance(balance, x);
    normalise(x, !real, pair);
    for (int64_t i = 0; i < n; ++i) vectors(i, k) = x[static_cast<size_t>(i)];
    if (!pair) continue;
    ++k;
    for (int64_t i = 0; i < n; ++i) vectors(i, k) = std::conj(x[static_cast<size_t>(i)]);
  }
  return true;
}

template bool general_eigen(Matrix<double>, std::vector<Complex>&, Matrix<Complex>&, double);
template bool general_eigen(Matrix<Complex>, std::vector<Complex>&, Matrix<Complex>&, double);

}  // namespace kiln::lapack
