// QR, singular values and eigenvalues: the steps of src/lapack on every element of a batch.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "lapack/reflectors.h"
#include "lapack/spectral.h"
#include "runtime/library/kernels.h"
#include "runtime/library/matrices.h"

namespace kiln::runtime {
namespace {

// Rounding of the tensor's own type.
double unit_of(DType dtype) { return dtype == DType::f32 || dtype == DType::c64 ? 0x1p-24 : 0x1p-53; }

template <class T>
bool all_finite(const Matrix<T>& a) {
  for (const T& value : a.values)
    if (!std::isfinite(real_part(value)) || !std::isfinite(imag_part(value))) return false;
  return true;
}

Matrix<double> column(const std::vector<double>& values) {
  Matrix<double> out(static_cast<int64_t>(values.size()), 1);
  out.values = values;
  return out;
}

void no_convergence(const LibraryCall& call, const TensorView& a, int64_t index, const char* name) {
  call.fail(str(name, ": ", batch_text(a, index),
                "The algorithm failed to converge because the input matrix contained non-finite values."));
}

// The reflections that geqrf leaves below the diagonal.
template <class T>
lapack::Reflectors<T> stored_reflectors(const Matrix<T>& a, const Matrix<T>& tau) {
  lapack::Reflectors<T> out;
  for (int64_t k = 0; k < std::min({tau.rows, a.columns, a.rows}); ++k) {
    lapack::Reflector<T> h{k, {T(1)}, tau(k, 0), 0};
    for (int64_t i = k + 1; i < a.rows; ++i) h.v.push_back(a(i, k));
    out.push_back(std::move(h));
  }
  return out;
}

}  // namespace

void run_linalg_qr(LibraryCall& call) {
  TensorView a = call.tensor("A"), q = call.output(0), r = call.output(1);
  auto batch = batch_sizes(a);
  bool wants_q = q.rank() == a.rank();
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto matrix = load_matrix<T>(a, batch, index);
    auto reflectors = lapack::reduce_columns(matrix);
    store_matrix(r, batch, index, matrix);
    if (!wants_q) return;
    Matrix<T> vectors(matrix.rows, q.sizes[static_cast<size_t>(a.rank()) - 1]);
    for (int64_t i = 0; i < std::min(vectors.rows, vectors.columns); ++i) vectors(i, i) = T(1);
    lapack::apply_all(reflectors, vectors);
    store_matrix(q, batch, index, vectors);
  });
}

void run_linalg_geqrf(LibraryCall& call) {
  TensorView a = call.tensor("self"), out = call.output(0), tau = call.output(1);
  auto batch = batch_sizes(a);
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto matrix = load_matrix<T>(a, batch, index);
    auto reflectors = lapack::reduce_columns(matrix);
    Matrix<T> factors(static_cast<int64_t>(reflectors.size()), 1);
    for (size_t k = 0; k < reflectors.size(); ++k) {
      factors.values[k] = reflectors[k].tau;
      for (size_t i = 1; i < reflectors[k].v.size(); ++i)
        matrix(static_cast<int64_t>(k + i), static_cast<int64_t>(k)) = reflectors[k].v[i];
    }
    store_matrix(out, batch, index, matrix);
    store_matrix(tau, batch, index, factors, 1);
  });
}

void run_linalg_householder_product(LibraryCall& call) {
  TensorView a = call.tensor("input"), tau = call.tensor("tau"), out = call.output(0);
  auto batch = batch_sizes(a);
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto matrix = load_matrix<T>(a, batch, index);
    auto reflectors = stored_reflectors(matrix, load_matrix<T>(tau, batch, index, 1));
    Matrix<T> q(matrix.rows, matrix.columns);
    for (int64_t i = 0; i < std::min(q.rows, q.columns); ++i) q(i, i) = T(1);
    lapack::apply_all(reflectors, q);
    store_matrix(out, batch, index, q);
  });
}

// Q or Qᴴ times a matrix, from either side.
void run_linalg_ormqr(LibraryCall& call) {
  TensorView a = call.tensor("self"), tau = call.tensor("input2"), other = call.tensor("input3"), out = call.output(0);
  auto batch = batch_sizes(other);
  bool left = call.boolean("left", true), flips = call.boolean("transpose", false);
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto all = stored_reflectors(load_matrix<T>(a, batch, index), load_matrix<T>(tau, batch, index, 1));
    auto matrix = load_matrix<T>(other, batch, index);
    for (size_t at = 0; at < all.size(); ++at) {
      const auto& h = all[left == flips ? at : all.size() - 1 - at];
      T factor = flips ? conjugate(h.tau) : h.tau;
      left ? lapack::apply_left(matrix, h, factor) : lapack::apply_right(matrix, h, factor);
    }
    store_matrix(out, batch, index, matrix);
  });
}

void run_linalg_svd(LibraryCall& call) {
  TensorView a = call.tensor("A"), u = call.output(0), s = call.output(1), vh = call.output(2);
  auto batch = batch_sizes(a);
  bool vectors = call.boolean("compute_uv", true), full = vectors && call.boolean("full_matrices", false);
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto matrix = load_matrix<T>(a, batch, index);
    Matrix<T> left, right;
    std::vector<double> values;
    if (!all_finite(matrix) || !lapack::singular_values(matrix, full, left, values, right, unit_of(a.dtype)))
      no_convergence(call, a, index, "linalg.svd");
    store_matrix(s, batch, index, column(values), 1);
    if (!vectors) return;
    store_matrix(u, batch, index, left);
    store_matrix(vh, batch, index, right);
  });
}

void run_linalg_eigh(LibraryCall& call) {
  TensorView a = call.tensor("A"), values = call.output(0), vectors = call.output(1);
  auto batch = batch_sizes(a);
  bool upper = call.boolean("upper", false);
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto matrix = load_matrix<T>(a, batch, index);
    std::vector<double> found;
    Matrix<T> columns;
    if (!all_finite(matrix) || !lapack::hermitian_eigen(matrix, upper, found, columns, unit_of(a.dtype)))
      no_convergence(call, a, index, "linalg.eigh");
    store_matrix(values, batch, index, column(found), 1);
    if (call.boolean("compute_v", true)) store_matrix(vectors, batch, index, columns);
  });
}

void run_linalg_eig(LibraryCall& call) {
  TensorView a = call.tensor("self"), values = call.output(0), vectors = call.output(1);
  auto batch = batch_sizes(a);
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto matrix = load_matrix<T>(a, batch, index);
    std::vector<Complex> found;
    Matrix<Complex> columns;
    if (!all_finite(matrix) || !lapack::general_eigen(matrix, found, columns, unit_of(a.dtype)))
      no_convergence(call, a, index, "linalg.eig");
    Matrix<Complex> list(matrix.rows, 1);
    list.values = found;
    store_matrix(values, batch, index, list, 1);
    store_matrix(vectors, batch, index, columns);
  });
}

}  // namespace kiln::runtime
