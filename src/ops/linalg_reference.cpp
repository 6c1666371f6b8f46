#include "ops/linalg_reference.h"

#include <cmath>
#include <numeric>

namespace kiln {

namespace {

using Complex = std::complex<double>;

// What LAPACK compares when it looks for a pivot.
double pivot_size(Complex x) { return std::abs(x.real()) + std::abs(x.imag()); }

// Vectors are determined up to a factor of size 1: here their largest entry is real with this sign.
void fix_sign(RefMatrix& vectors, int64_t column, double sign, RefMatrix* along) {
  double largest = 0;
  for (int64_t i = 0; i < vectors.rows; ++i) largest = std::max(largest, std::abs(vectors.at(i, column)));
  for (int64_t i = 0; i < vectors.rows; ++i) {
    Complex entry = vectors.at(i, column);
    if (std::abs(entry) < largest * (1 - 1e-6) || largest == 0) continue;
    Complex factor = sign * std::conj(entry) / std::abs(entry);
    for (int64_t k = 0; k < vectors.rows; ++k) vectors.at(k, column) *= factor;
    for (int64_t k = 0; along && k < along->rows; ++k) along->at(k, column) *= factor;
    return;
  }
}

// Orthonormal columns from `known` on, by Gram and Schmidt on the unit vectors.
void complete(RefMatrix& u, int64_t known) {
  int64_t unit = 0;
  for (int64_t k = known; k < u.columns; ++k)
    for (bool found = false; !found && unit < u.rows; ++unit) {
      std::vector<Complex> x(static_cast<size_t>(u.rows));
      x[static_cast<size_t>(unit)] = 1;
      for (int round = 0; round < 2; ++round)
        for (int64_t j = 0; j < k; ++j) {
          Complex dot = 0;
          for (int64_t i = 0; i < u.rows; ++i) dot += std::conj(u.at(i, j)) * x[static_cast<size_t>(i)];
          for (int64_t i = 0; i < u.rows; ++i) x[static_cast<size_t>(i)] -= dot * u.at(i, j);
        }
      double size = 0;
      for (Complex value : x) size += std::norm(value);
      found = size > 1e-6;
      for (int64_t i = 0; i < u.rows && found; ++i) u.at(i, k) = x[static_cast<size_t>(i)] / std::sqrt(size);
    }
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

// Reflections as whole matrices.
RefMatrix reference_qr(RefMatrix& r) {
  RefMatrix q = identity_matrix(r.rows);
  for (int64_t k = 0; k < std::min(r.rows, r.columns); ++k) {
    Complex alpha = r.at(k, k);
    double below = 0;
    for (int64_t i = k + 1; i < r.rows; ++i) below += std::norm(r.at(i, k));
    if (below == 0 && alpha.imag() == 0) continue;
    double beta = std::sqrt(std::norm(alpha) + below) * (std::signbit(alpha.real()) ? 1 : -1);
    Complex tau = (beta - alpha) / beta;
    RefMatrix v(r.rows, 1);
    v.at(k, 0) = 1;
    for (int64_t i = k + 1; i < r.rows; ++i) v.at(i, 0) = r.at(i, k) / (alpha - beta);
    RefMatrix outer = times(v, adjoint(v)), h = identity_matrix(r.rows);
    for (size_t i = 0; i < h.values.size(); ++i) h.values[i] -= tau * outer.values[i];
    r = times(adjoint(h), r);
    for (int64_t i = k + 1; i < r.rows; ++i) r.at(i, k) = 0;
    q = times(q, h);
  }
  return q;
}

// Jacobi's own method: always the largest element off the diagonal.
std::vector<double> reference_eigh(RefMatrix a, RefMatrix& vectors) {
  int64_t n = a.rows;
  double scale = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      if (i == j) a.at(i, i) = a.at(i, i).real();
      a.at(j, i) = std::conj(a.at(i, j));
      scale = std::max(scale, std::abs(a.at(i, j)));
    }
  RefMatrix v = identity_matrix(n);
  for (int64_t turn = 0; turn < 200 * n * n; ++turn) {
    int64_t p = 0, q = 0;
    double largest = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j)
        if (std::abs(a.at(i, j)) > largest) largest = std::abs(a.at(i, j)), p = i, q = j;
    if (largest <= scale * 1e-17) break;
    double theta = 0.5 * std::atan2(2 * largest, a.at(q, q).real() - a.at(p, p).real());
    Complex phase = std::conj(a.at(p, q)) / largest;
    RefMatrix g = identity_matrix(n);
    g.at(p, p) = std::cos(theta);
    g.at(p, q) = std::sin(theta);
    g.at(q, p) = -std::sin(theta) * phase;
    g.at(q, q) = std::cos(theta) * phase;
    a = times(adjoint(g), times(a, g));
    a.at(p, q) = a.at(q, p) = 0;
    v = times(v, g);
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t x, int64_t y) { return a.at(x, x).real() < a.at(y, y).real(); });
  std::vector<double> values;
  vectors = RefMatrix(n, n);
  for (int64_t k = 0; k < n; ++k) {
    int64_t from = order[static_cast<size_t>(k)];
    values.push_back(a.at(from, from).real());
    for (int64_t i = 0; i < n; ++i) vectors.at(i, k) = v.at(i, from);
    fix_sign(vectors, k, 1, nullptr);
  }
  return values;
}

// The eigenvalues of [0 A; Aᴴ 0] are the singular values and their negatives.
std::vector<double> reference_svd(const RefMatrix& a, RefMatrix& u, RefMatrix& v) {
  int64_t m = a.rows, n = a.columns, k = std::min(m, n), size = m + n;
  RefMatrix whole(size, size), vectors;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      whole.at(i, m + j) = a.at(i, j);
      whole.at(m + j, i) = std::conj(a.at(i, j));
    }
  std::vector<double> eigenvalues = reference_eigh(whole, vectors), s;
  u = RefMatrix(m, m);
  v = RefMatrix(n, n);
  int64_t known = 0;
  for (int64_t c = 0; c < k; ++c) {
    int64_t from = size - 1 - c;
    s.push_back(std::max(eigenvalues[static_cast<size_t>(from)], 0.0));
    if (s.back() <= s[0] * 1e-14) continue;
    for (int64_t i = 0; i < m; ++i) u.at(i, c) = vectors.at(i, from) * std::sqrt(2.0);
    for (int64_t i = 0; i < n; ++i) v.at(i, c) = vectors.at(m + i, from) * std::sqrt(2.0);
    fix_sign(u, c, -1, &v);
    known = c + 1;
  }
  complete(u, known);
  complete(v, known);
  return s;
}

}  // namespace kiln
