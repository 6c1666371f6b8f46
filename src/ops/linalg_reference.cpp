#include "ops/linalg_reference.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "lapack/spectral.h"
#include "ops/jacobi_reference.h"
#include "ops/lapack_matrices.h"

namespace kiln {

namespace {

// What LAPACK compares when it looks for a pivot.
double pivot_size(Complex x) { return std::abs(x.real()) + std::abs(x.imag()); }

// How much of column c of `wanted` is in that of `vectors`: of size 1 where they are the same but for a sign.
Complex common_part(const RefMatrix& vectors, const RefMatrix& wanted, int64_t c) {
  Complex dot = 0;
  for (int64_t i = 0; i < vectors.rows; ++i) dot += std::conj(vectors.at(i, c)) * wanted.at(i, c);
  return dot;
}
void scale_column(RefMatrix& vectors, int64_t c, Complex factor) {
  for (int64_t i = 0; i < vectors.rows; ++i) vectors.at(i, c) *= factor;
}
void copy_column(RefMatrix& vectors, int64_t c, const RefMatrix& from) {
  for (int64_t i = 0; i < vectors.rows; ++i) vectors.at(i, c) = from.at(i, c);
}

}  // namespace

RefMatrix transposed(const RefMatrix& a) {
  RefMatrix out(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) out.at(j, i) = a.at(i, j);
  return out;
}

RefMatrix adjoint(const RefMatrix& a) {
  RefMatrix out = transposed(a);
  for (Complex& value : out.values) value = std::conj(value);
  return out;
}

RefMatrix times(const RefMatrix& a, const RefMatrix& b) {
  RefMatrix out(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.columns; ++j)
      for (int64_t k = 0; k < a.columns; ++k) out.at(i, j) += a.at(i, k) * b.at(k, j);
  return out;
}

RefMatrix identity_matrix(int64_t n) {
  RefMatrix out(n, n);
  for (int64_t i = 0; i < n; ++i) out.at(i, i) = 1;
  return out;
}

// Column by column (the kernel goes by rows): column j is finished before column j + 1 is looked at.
RefLu reference_lu(const RefMatrix& a, bool pivot) {
  RefLu out{a, {}, 0};
  RefMatrix& lu = out.lu;
  int64_t steps = std::min(a.rows, a.columns);
  for (int64_t j = 0; j < a.columns; ++j) {
    for (int64_t k = 0; k < std::min(j, steps); ++k) {
      int64_t other = out.pivots[static_cast<size_t>(k)] - 1;
      if (other != k) std::swap(lu.at(k, j), lu.at(other, j));
    }
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t k = 0; k < std::min(i, j); ++k) lu.at(i, j) -= lu.at(i, k) * lu.at(k, j);
    if (j >= steps) continue;
    int64_t best = j;
    for (int64_t i = j + 1; i < a.rows && pivot; ++i)
      if (pivot_size(lu.at(i, j)) > pivot_size(lu.at(best, j))) best = i;
    out.pivots.push_back(best + 1);
    for (int64_t k = 0; k <= j && best != j; ++k) std::swap(lu.at(j, k), lu.at(best, k));
    if (lu.at(j, j) == Complex(0)) {
      if (out.info == 0) out.info = j + 1;
      continue;
    }
    for (int64_t i = j + 1; i < a.rows; ++i) lu.at(i, j) /= lu.at(j, j);
  }
  return out;
}

RefMatrix reference_inverse(RefMatrix a, int64_t& info) {
  int64_t n = a.rows;
  info = 0;
  RefMatrix out = identity_matrix(n);
  for (int64_t k = 0; k < n; ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::abs(a.at(i, k)) > std::abs(a.at(best, k))) best = i;
    if (a.at(best, k) == Complex(0) && info == 0) info = k + 1;
    for (int64_t j = 0; j < n; ++j) {
      std::swap(a.at(k, j), a.at(best, j));
      std::swap(out.at(k, j), out.at(best, j));
    }
    Complex pivot = a.at(k, k);
    for (int64_t j = 0; j < n; ++j) a.at(k, j) /= pivot, out.at(k, j) /= pivot;
    for (int64_t i = 0; i < n; ++i) {
      if (i == k) continue;
      Complex factor = a.at(i, k);
      for (int64_t j = 0; j < n; ++j) a.at(i, j) -= factor * a.at(k, j), out.at(i, j) -= factor * out.at(k, j);
    }
  }
  return out;
}

// Row by row.
RefMatrix reference_cholesky(const RefMatrix& a, int64_t& info) {
  int64_t n = a.rows;
  info = 0;
  RefMatrix l(n, n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      Complex sum = a.at(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= l.at(i, k) * std::conj(l.at(j, k));
      if (i != j) {
        l.at(i, j) = sum / l.at(j, j);
      } else {
        if (!(sum.real() > 0)) {
          info = i + 1;
          return a;
        }
        l.at(i, i) = std::sqrt(sum.real());
      }
    }
  return l;
}

RefMatrix reference_triangular(const RefMatrix& a, const RefMatrix& b, bool upper, bool unit) {
  int64_t n = a.rows;
  RefMatrix x(n, b.columns);
  for (int64_t c = 0; c < b.columns; ++c)
    for (int64_t step = 0; step < n; ++step) {
      int64_t i = upper ? n - 1 - step : step;
      Complex sum = b.at(i, c);
      for (int64_t k = 0; k < n; ++k)
        if (upper ? k > i : k < i) sum -= a.at(i, k) * x.at(k, c);
      x.at(i, c) = unit ? sum : sum / a.at(i, i);
    }
  return x;
}

// m (1 - tau v vᴴ).
static void reflect_columns(RefMatrix& m, const RefMatrix& v, Complex tau) {
  for (int64_t i = 0; i < m.rows; ++i) {
    Complex sum = 0;
    for (int64_t k = 0; k < m.columns; ++k) sum += m.at(i, k) * v.at(k, 0);
    sum *= tau;
    for (int64_t k = 0; k < m.columns; ++k) m.at(i, k) -= sum * std::conj(v.at(k, 0));
  }
}
// (1 - tau v vᴴ)ᴴ m.
static void reflect_rows(RefMatrix& m, const RefMatrix& v, Complex tau) {
  for (int64_t j = 0; j < m.columns; ++j) {
    Complex sum = 0;
    for (int64_t k = 0; k < m.rows; ++k) sum += std::conj(v.at(k, 0)) * m.at(k, j);
    sum *= std::conj(tau);
    for (int64_t k = 0; k < m.rows; ++k) m.at(k, j) -= v.at(k, 0) * sum;
  }
}

RefMatrix reference_qr(RefMatrix& r, RefReflections* packed) {
  RefMatrix q = identity_matrix(r.rows);
  if (packed) *packed = {RefMatrix(r.rows, r.columns), {}};
  for (int64_t k = 0; k < std::min(r.rows, r.columns); ++k) {
    Complex alpha = r.at(k, k);
    double below = 0;
    for (int64_t i = k + 1; i < r.rows; ++i) below += std::norm(r.at(i, k));
    if (packed) packed->tau.emplace_back(0);
    if (below == 0 && alpha.imag() == 0) continue;
    double beta = std::sqrt(std::norm(alpha) + below) * (std::signbit(alpha.real()) ? 1 : -1);
    Complex tau = (beta - alpha) / beta;
    RefMatrix v(r.rows, 1);
    v.at(k, 0) = 1;
    for (int64_t i = k + 1; i < r.rows; ++i) v.at(i, 0) = r.at(i, k) / (alpha - beta);
    if (packed) packed->tau.back() = tau;
    for (int64_t i = k + 1; packed && i < r.rows; ++i) packed->below.at(i, k) = v.at(i, 0);
    reflect_rows(r, v, tau);
    for (int64_t i = k + 1; i < r.rows; ++i) r.at(i, k) = 0;
    reflect_columns(q, v, tau);
  }
  return q;
}

RefMatrix reference_q(const RefMatrix& below, const RefMatrix& tau) {
  RefMatrix q = identity_matrix(below.rows);
  for (int64_t k = 0; k < std::min({tau.rows, below.columns, below.rows}); ++k) {
    RefMatrix v(below.rows, 1);
    v.at(k, 0) = 1;
    for (int64_t i = k + 1; i < below.rows; ++i) v.at(i, 0) = below.at(i, k);
    reflect_columns(q, v, tau.at(k, 0));
  }
  return q;
}

bool all_finite(const RefMatrix& a) {
  return std::all_of(a.values.begin(), a.values.end(),
                     [](Complex x) { return std::isfinite(x.real()) && std::isfinite(x.imag()); });
}

std::vector<double> reference_eigh(RefMatrix a, bool upper, RefMatrix& vectors, Precision precision) {
  std::vector<double> values = jacobi_eigenvalues(upper ? adjoint(a) : a, vectors), ignored;
  RefMatrix like;
  auto steps = [&](auto zero) {
    Matrix<decltype(zero)> found;
    if (!lapack::hermitian_eigen(narrowed<decltype(zero)>(a), upper, ignored, found, precision.unit))
      fail_bug("eigenvalues of a finite matrix were not found");
    like = widened(found);
  };
  with_real_or_complex(precision.real, steps);
  for (int64_t c = 0; c < a.rows; ++c) {
    Complex part = common_part(vectors, like, c);
    if (std::abs(part) < 0.999)
      copy_column(vectors, c, like);
    else
      scale_column(vectors, c, part / std::abs(part));
  }
  return values;
}

std::vector<double> reference_svd(const RefMatrix& a, RefMatrix& u, RefMatrix& v, Precision precision) {
  RefMatrix left, right;
  const std::vector<double> s = jacobi_singular_values(a, left, right);
  auto steps = [&](auto zero) {
    Matrix<decltype(zero)> of_rows, of_columns;
    std::vector<double> ignored;
    if (!lapack::singular_values(narrowed<decltype(zero)>(a), true, of_rows, ignored, of_columns, precision.unit))
      fail_bug("singular values of a finite matrix were not found");
    u = widened(of_rows);
    v = adjoint(widened(of_columns));
  };
  with_real_or_complex(precision.real, steps);
  for (int64_t c = 0; c < left.columns; ++c) {
    if (s[static_cast<size_t>(c)] <= s[0] * 1e-14) continue;
    Complex part = common_part(left, u, c);
    if (std::abs(part) < 0.999) continue;  // the steps' own vectors of a value that occurs twice
    scale_column(left, c, part / std::abs(part));
    scale_column(right, c, part / std::abs(part));
    copy_column(u, c, left);
    copy_column(v, c, right);
  }
  return s;
}

std::vector<Complex> reference_eig(const RefMatrix& a, RefMatrix& vectors, Precision precision) {
  std::vector<Complex> values;
  Matrix<Complex> found;
  bool done = precision.real ? lapack::general_eigen(narrowed<double>(a), values, found, precision.unit)
                             : lapack::general_eigen(narrowed<Complex>(a), values, found, precision.unit);
  if (!done) fail_bug("eigenvalues of a finite matrix were not found");
  vectors = widened(found);
  double scale = 0;
  for (Complex value : a.values) scale = std::max(scale, std::abs(value));
  RefMatrix product = times(a, vectors);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t c = 0; c < a.rows; ++c)
      if (std::abs(product.at(i, c) - values[static_cast<size_t>(c)] * vectors.at(i, c)) >
          1e-3 * scale * static_cast<double>(a.rows))
        fail_bug("a vector that is no eigenvector");
  return values;
}

}  // namespace kiln
