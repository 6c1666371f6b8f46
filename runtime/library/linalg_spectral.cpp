// QR by Householder reflections (LAPACK's signs), singular values by one-sided and eigenvalues by two-sided Jacobi
// rotations: slower than bidiagonalisation for large matrices, but simple, and accurate to the last digits.
#include <cmath>
#include <numeric>

#include "runtime/library/kernels.h"
#include "runtime/library/matrices.h"

namespace kiln::runtime {
namespace {

constexpr int max_sweeps = 60;
constexpr double tiny = 1e-16;

template <class F>
void for_batch(LibraryCall& call, DType dtype, std::span<const int64_t> batch, F f) {
  with_scalar(dtype, [&](auto zero) {
    call.parallel(batch_count(batch), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(i, zero);
    });
  });
}

template <class T>
Matrix<T> adjoint(const Matrix<T>& a) {
  Matrix<T> out(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) out(j, i) = conjugate(a(i, j));
  return out;
}

double imag_part(double) { return 0; }
double imag_part(Complex z) { return z.imag(); }

// One reflection that clears column k below the diagonal; v(k) is 1. Gives tau (0: nothing to do).
template <class T>
T reflect(Matrix<T>& a, int64_t k, std::vector<T>& v) {
  T alpha = a(k, k);
  double below = 0;
  for (int64_t i = k + 1; i < a.rows; ++i) below += std::norm(a(i, k));
  if (below == 0 && imag_part(alpha) == 0) return T{};
  double beta = -std::copysign(std::sqrt(std::norm(alpha) + below), real_part(alpha));
  T tau = (T(beta) - alpha) / beta;
  v.assign(static_cast<size_t>(a.rows), T{});
  v[static_cast<size_t>(k)] = T(1);
  for (int64_t i = k + 1; i < a.rows; ++i) v[static_cast<size_t>(i)] = a(i, k) / (alpha - T(beta));
  for (int64_t j = k; j < a.columns; ++j) {
    T dot{};
    for (int64_t i = k; i < a.rows; ++i) dot += conjugate(v[static_cast<size_t>(i)]) * a(i, j);
    dot *= conjugate(tau);
    for (int64_t i = k; i < a.rows; ++i) a(i, j) -= v[static_cast<size_t>(i)] * dot;
  }
  return tau;
}

// a becomes R; gives Q with the wanted number of columns.
template <class T>
Matrix<T> factor_qr(Matrix<T>& a, int64_t columns) {
  int64_t steps = std::min(a.rows, a.columns);
  std::vector<std::vector<T>> vectors(static_cast<size_t>(steps));
  std::vector<T> taus;
  for (int64_t k = 0; k < steps; ++k) taus.push_back(reflect(a, k, vectors[static_cast<size_t>(k)]));
  Matrix<T> q(a.rows, columns);
  for (int64_t i = 0; i < std::min(a.rows, columns); ++i) q(i, i) = T(1);
  for (int64_t k = steps; k-- > 0;) {
    T tau = taus[static_cast<size_t>(k)];
    if (tau == T{}) continue;
    const std::vector<T>& v = vectors[static_cast<size_t>(k)];
    for (int64_t j = 0; j < columns; ++j) {
      T dot{};
      for (int64_t i = k; i < a.rows; ++i) dot += conjugate(v[static_cast<size_t>(i)]) * q(i, j);
      dot *= tau;
      for (int64_t i = k; i < a.rows; ++i) q(i, j) -= v[static_cast<size_t>(i)] * dot;
    }
  }
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < std::min(i, a.columns); ++j) a(i, j) = T{};
  return q;
}

// Vectors are determined up to a factor of size 1: their largest entry gets this sign and becomes real, so that results
// do not depend on the path of the rotations.
template <class T>
void fix_sign(Matrix<T>& vectors, int64_t column, double sign, Matrix<T>* along) {
  double largest = 0;
  for (int64_t i = 0; i < vectors.rows; ++i) largest = std::max(largest, std::abs(vectors(i, column)));
  for (int64_t i = 0; i < vectors.rows && largest > 0; ++i) {
    T entry = vectors(i, column);
    if (std::abs(entry) < largest * (1 - 1e-6)) continue;
    T factor = conjugate(entry) * (sign / std::abs(entry));
    for (int64_t k = 0; k < vectors.rows; ++k) vectors(k, column) *= factor;
    for (int64_t k = 0; along && k < along->rows; ++k) (*along)(k, column) *= factor;
    return;
  }
}

struct Rotation {
  double c, s;
};
// Makes [a g; g b] diagonal.
Rotation rotation(double a, double b, double g) {
  double zeta = (b - a) / (2 * g);
  double t = std::copysign(1.0, zeta) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
  double c = 1 / std::sqrt(1 + t * t);
  return {c, t * c};
}

// Columns p and q of m: the second times `phase`, then turned.
template <class T>
void turn_columns(Matrix<T>& m, int64_t p, int64_t q, T phase, Rotation r) {
  for (int64_t i = 0; i < m.rows; ++i) {
    T x = m(i, p), y = m(i, q) * phase;
    m(i, p) = r.c * x - r.s * y;
    m(i, q) = r.s * x + r.c * y;
  }
}

// Turns the columns of a (rows >= columns) until they are orthogonal; v collects the rotations.
template <class T>
void orthogonalise(Matrix<T>& a, Matrix<T>& v) {
  for (int sweep = 0; sweep < max_sweeps; ++sweep) {
    bool turned = false;
    for (int64_t p = 0; p < a.columns; ++p)
      for (int64_t q = p + 1; q < a.columns; ++q) {
        double alpha = 0, beta = 0;
        T gamma{};
        for (int64_t i = 0; i < a.rows; ++i) {
          alpha += std::norm(a(i, p));
          beta += std::norm(a(i, q));
          gamma += conjugate(a(i, p)) * a(i, q);
        }
        double size = std::abs(gamma);
        if (!(size > tiny * std::sqrt(alpha * beta)) || size == 0) continue;
        turned = true;
        T phase = conjugate(gamma) / size;
        Rotation r = rotation(alpha, beta, size);
        turn_columns(a, p, q, phase, r);
        turn_columns(v, p, q, phase, r);
      }
    if (!turned) return;
  }
}

// Fills columns from `known` on with vectors orthogonal to all before.
template <class T>
void complete_basis(Matrix<T>& u, int64_t known) {
  int64_t candidate = 0;
  for (int64_t k = known; k < u.columns; ++k) {
    for (; candidate < u.rows; ++candidate) {
      std::vector<T> x(static_cast<size_t>(u.rows));
      x[static_cast<size_t>(candidate)] = T(1);
      for (int twice = 0; twice < 2; ++twice)
        for (int64_t j = 0; j < k; ++j) {
          T dot{};
          for (int64_t i = 0; i < u.rows; ++i) dot += conjugate(u(i, j)) * x[static_cast<size_t>(i)];
          for (int64_t i = 0; i < u.rows; ++i) x[static_cast<size_t>(i)] -= dot * u(i, j);
        }
      double size = 0;
      for (const T& value : x) size += std::norm(value);
      size = std::sqrt(size);
      if (size < 1e-3) continue;
      for (int64_t i = 0; i < u.rows; ++i) u(i, k) = x[static_cast<size_t>(i)] / size;
      ++candidate;
      break;
    }
  }
}

template <class T>
struct Decomposition {
  Matrix<T> u, v;
  std::vector<double> s;
};

// a (rows >= columns) = u diag(s) vᴴ, with `full` columns in u. wide: it is the adjoint of the matrix that was given.
template <class T>
Decomposition<T> decompose(Matrix<T> a, int64_t full, bool wide) {
  int64_t n = a.columns;
  Matrix<T> v(n, n);
  for (int64_t i = 0; i < n; ++i) v(i, i) = T(1);
  orthogonalise(a, v);
  std::vector<double> sizes(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) {
    double size = 0;
    for (int64_t i = 0; i < a.rows; ++i) size += std::norm(a(i, j));
    sizes[static_cast<size_t>(j)] = std::sqrt(size);
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t x, int64_t y) { return sizes[static_cast<size_t>(x)] > sizes[static_cast<size_t>(y)]; });
  Decomposition<T> out{Matrix<T>(a.rows, full), Matrix<T>(n, n), {}};
  int64_t known = 0;
  for (int64_t k = 0; k < n; ++k) {
    int64_t from = order[static_cast<size_t>(k)];
    double size = sizes[static_cast<size_t>(from)];
    out.s.push_back(size);
    for (int64_t i = 0; i < n; ++i) out.v(i, k) = v(i, from);
    if (!(size > out.s[0] * tiny)) continue;
    for (int64_t i = 0; i < a.rows; ++i) out.u(i, k) = a(i, from) / size;
    known = k + 1;
  }
  if (!wide)
    for (int64_t k = 0; k < known; ++k) fix_sign(out.u, k, -1, &out.v);
  else
    for (int64_t k = 0; k < known; ++k) fix_sign(out.v, k, -1, &out.u);
  complete_basis(out.u, known);
  return out;
}

template <class T>
Matrix<double> column(const std::vector<T>& values) {
  Matrix<double> out(static_cast<int64_t>(values.size()), 1);
  for (size_t i = 0; i < values.size(); ++i) out.values[i] = values[i];
  return out;
}

template <class T>
void jacobi_eigen(Matrix<T>& a, Matrix<T>& v) {
  int64_t n = a.rows;
  for (int sweep = 0; sweep < max_sweeps; ++sweep) {
    bool turned = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        T g = a(p, q);
        double size = std::abs(g);
        double near = std::sqrt(std::abs(real_part(a(p, p))) * std::abs(real_part(a(q, q))));
        if (size == 0 || size < tiny * near * 0.1 || size < 1e-300) continue;
        turned = true;
        T phase = conjugate(g) / size;
        Rotation r = rotation(real_part(a(p, p)), real_part(a(q, q)), size);
        turn_columns(a, p, q, phase, r);
        a = adjoint(a);
        turn_columns(a, p, q, phase, r);
        a = adjoint(a);
        a(p, q) = a(q, p) = T{};
        turn_columns(v, p, q, phase, r);
      }
    if (!turned) return;
  }
}

}  // namespace

void run_linalg_qr(LibraryCall& call) {
  TensorView a = call.tensor("A"), q = call.output(0), r = call.output(1);
  auto batch = batch_sizes(a);
  bool wants_q = q.rank() == a.rank();
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    auto matrix = load_matrix<decltype(zero)>(a, batch, index);
    auto rank = static_cast<size_t>(a.rank());
    auto vectors = factor_qr(matrix, wants_q ? q.sizes[rank - 1] : 0);
    store_matrix(r, batch, index, matrix);
    if (wants_q) store_matrix(q, batch, index, vectors);
  });
}

void run_linalg_svd(LibraryCall& call) {
  TensorView a = call.tensor("A"), u = call.output(0), s = call.output(1), vh = call.output(2);
  auto batch = batch_sizes(a);
  bool vectors = call.boolean("compute_uv", true);
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    auto matrix = load_matrix<decltype(zero)>(a, batch, index);
    bool wide = matrix.rows < matrix.columns, full = call.boolean("full_matrices", false);
    if (wide) matrix = adjoint(matrix);
    auto parts = decompose(matrix, vectors && full ? matrix.rows : matrix.columns, wide);
    store_matrix(s, batch, index, column(parts.s), 1);
    if (!vectors) return;
    store_matrix(u, batch, index, wide ? parts.v : parts.u);
    store_matrix(vh, batch, index, adjoint(wide ? parts.u : parts.v));
  });
}

void run_linalg_eigh(LibraryCall& call) {
  TensorView a = call.tensor("A"), values = call.output(0), vectors = call.output(1);
  auto batch = batch_sizes(a);
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto matrix = load_matrix<T>(a, batch, index);
    int64_t n = matrix.rows;
    Matrix<T> v(n, n);
    for (int64_t i = 0; i < n; ++i) {
      v(i, i) = T(1);
      matrix(i, i) = T(real_part(matrix(i, i)));
      for (int64_t j = i + 1; j < n; ++j) matrix(i, j) = conjugate(matrix(j, i));
    }
    jacobi_eigen(matrix, v);
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t x, int64_t y) { return real_part(matrix(x, x)) < real_part(matrix(y, y)); });
    std::vector<double> sorted;
    Matrix<T> columns(n, n);
    for (int64_t k = 0; k < n; ++k) {
      int64_t from = order[static_cast<size_t>(k)];
      sorted.push_back(real_part(matrix(from, from)));
      for (int64_t i = 0; i < n; ++i) columns(i, k) = v(i, from);
      fix_sign<T>(columns, k, 1, nullptr);
    }
    store_matrix(values, batch, index, column(sorted), 1);
    if (call.boolean("compute_v", true)) store_matrix(vectors, batch, index, columns);
  });
}

}  // namespace kiln::runtime
