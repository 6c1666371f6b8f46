// Factorisations that solve: LU, inverse, systems of equations, Cholesky, triangular systems.
#include <cmath>

#include "base/text.h"
#include "runtime/library/kernels.h"
#include "runtime/library/matrices.h"

namespace kiln::runtime {
namespace {

// f(index, T{}) for every element of a batch, on the pool.
void store_integers(const TensorView& to, std::span<const int64_t> batch, int64_t index,
                    const std::vector<int64_t>& numbers, int64_t add) {
  Matrix<double> out(static_cast<int64_t>(numbers.size()), 1);
  for (size_t i = 0; i < numbers.size(); ++i) out.values[i] = static_cast<double>(numbers[i] + add);
  store_matrix(to, batch, index, out, 1);
}

void store_info(const TensorView& to, std::span<const int64_t> batch, int64_t index, int64_t info) {
  Matrix<double> out(1, 1);
  out(0, 0) = static_cast<double>(info);
  store_matrix(to, batch, index, out, 0);
}

template <class T>
Matrix<T> transposed(const Matrix<T>& a) {
  Matrix<T> out(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) out(j, i) = a(i, j);
  return out;
}

// Lower triangle L with A = L Lᴴ; only the lower triangle of A is read. Gives the order of the first minor that is not
// positive, 0 where all are.
template <class T>
int64_t factor_cholesky(Matrix<T>& a) {
  int64_t n = a.rows;
  for (int64_t j = 0; j < n; ++j) {
    double diagonal = real_part(a(j, j));
    for (int64_t k = 0; k < j; ++k) diagonal -= std::norm(a(j, k));
    if (!(diagonal > 0)) return j + 1;
    diagonal = std::sqrt(diagonal);
    a(j, j) = T(diagonal);
    for (int64_t i = j + 1; i < n; ++i) {
      T sum = a(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= a(i, k) * conjugate(a(j, k));
      a(i, j) = sum / diagonal;
    }
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) a(i, j) = T{};
  return 0;
}

// X with A X = B for a triangle A, in place of B.
template <class T>
void solve_triangle(const Matrix<T>& a, Matrix<T>& b, bool upper, bool unit) {
  int64_t n = a.rows;
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = upper ? n - 1 - step : step;
    int64_t from = upper ? i + 1 : 0, to = upper ? n : i;
    for (int64_t k = from; k < to; ++k)
      for (int64_t j = 0; j < b.columns; ++j) b(i, j) -= a(i, k) * b(k, j);
    if (unit) continue;
    for (int64_t j = 0; j < b.columns; ++j) b(i, j) /= a(i, i);
  }
}

}  // namespace

void run_linalg_lu_factor(LibraryCall& call) {
  TensorView a = call.tensor("A"), lu = call.output(0), pivots = call.output(1), info = call.output(2);
  auto batch = batch_sizes(a);
  bool pivot = call.boolean("pivot", true), checks = call.boolean("check_errors", false);
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    auto matrix = load_matrix<decltype(zero)>(a, batch, index);
    std::vector<int64_t> order;
    int64_t failed = factor_lu(matrix, order, pivot);
    if (failed && checks)
      call.fail(
          str("torch.linalg.lu_factor: ", batch_text(a, index), "U[", failed, ",", failed,
              "] is zero and using it on lu_solve would result in a division by zero. If you still want to "
              "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"));
    store_matrix(lu, batch, index, matrix);
    store_integers(pivots, batch, index, order, 1);
    store_info(info, batch, index, failed);
  });
}

void run_linalg_inv(LibraryCall& call) {
  TensorView a = call.tensor("A"), inverse = call.output(0), info = call.output(1);
  auto batch = batch_sizes(a);
  bool checks = call.boolean("check_errors", false);
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto matrix = load_matrix<T>(a, batch, index);
    std::vector<int64_t> order;
    int64_t failed = factor_lu(matrix, order);
    if (failed && checks)
      call.fail(str("linalg.inv: ", batch_text(a, index), "The diagonal element ", failed,
                    " is zero, the inversion could not be completed because the input matrix is singular."));
    Matrix<T> result = identity<T>(matrix.rows);
    solve_lu(matrix, order, result);
    store_matrix(inverse, batch, index, result);
    store_info(info, batch, index, failed);
  });
}

// B is a vector where its rule said so: it has one dimension, or exactly the batch of A and one dimension more.
void run_linalg_solve(LibraryCall& call) {
  TensorView a = call.tensor("A"), b = call.tensor("B"), result = call.output(0), lu = call.output(1),
             pivots = call.output(2), info = call.output(3);
  bool left = call.boolean("left", true), checks = call.boolean("check_errors", false);
  int64_t inner = call.boolean("vector", false) ? 1 : 2;
  auto batch = batch_sizes(result, inner), own = batch_sizes(a);
  for_batch(call, a.dtype, own, [&](int64_t index, auto zero) {
    auto matrix = load_matrix<decltype(zero)>(a, own, index);
    std::vector<int64_t> order;
    int64_t failed = factor_lu(matrix, order);
    if (failed && checks)
      call.fail(
          str("torch.linalg.solve: ", batch_text(a, index), "The solver failed because the input matrix is singular."));
    store_matrix(lu, own, index, matrix);
    store_integers(pivots, own, index, order, 1);
    store_info(info, own, index, failed);
  });
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto matrix = load_matrix<T>(a, batch, index);
    if (!left) matrix = transposed(matrix);
    std::vector<int64_t> order;
    factor_lu(matrix, order);
    auto right = load_matrix<T>(b, batch, index, inner);
    if (!left) right = transposed(right);
    solve_lu(matrix, order, right);
    store_matrix(result, batch, index, left ? right : transposed(right), inner);
  });
}

void run_linalg_lu_solve(LibraryCall& call) {
  TensorView lu = call.tensor("LU"), pivots = call.tensor("pivots"), b = call.tensor("B"), result = call.output(0);
  auto batch = batch_sizes(result);
  bool left = call.boolean("left", true), adjoint = call.boolean("adjoint", false);
  for_batch(call, lu.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto factors = load_matrix<T>(lu, batch, index);
    auto order = load_matrix<double>(pivots, batch, index, 1);
    // The matrix itself again, so that its adjoint and transpose need no solvers of their own.
    int64_t n = factors.rows;
    Matrix<T> matrix(n, n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t k = 0; k <= std::min(i, j); ++k) matrix(i, j) += (k == i ? T(1) : factors(i, k)) * factors(k, j);
    for (int64_t k = n; k-- > 0;) {
      auto other = static_cast<int64_t>(order(k, 0)) - 1;
      if (other < 0 || other >= n) call.fail("linalg.lu_solve: pivots out of range");
      for (int64_t j = 0; j < n && other != k; ++j) std::swap(matrix(k, j), matrix(other, j));
    }
    if (adjoint) {
      matrix = transposed(matrix);
      for (T& value : matrix.values) value = conjugate(value);
    }
    auto right = load_matrix<T>(b, batch, index);
    if (!left) matrix = transposed(matrix), right = transposed(right);
    std::vector<int64_t> rows;
    factor_lu(matrix, rows);
    solve_lu(matrix, rows, right);
    store_matrix(result, batch, index, left ? right : transposed(right));
  });
}

void run_linalg_cholesky(LibraryCall& call) {
  TensorView a = call.tensor("self"), result = call.output(0), info = call.output(1);
  auto batch = batch_sizes(a);
  bool upper = call.boolean("upper", false), checks = call.boolean("check_errors", false);
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto matrix = load_matrix<T>(a, batch, index);
    auto flip = [&] {
      matrix = transposed(matrix);
      for (T& value : matrix.values) value = conjugate(value);
    };
    if (upper) flip();
    int64_t failed = factor_cholesky(matrix);
    if (failed && checks)
      call.fail(str("linalg.cholesky: ", batch_text(a, index),
                    "The factorization could not be completed because the input is not positive-definite (the leading "
                    "minor of order ",
                    failed, " is not positive-definite)."));
    if (upper) flip();
    store_matrix(result, batch, index, matrix);
    store_info(info, batch, index, failed);
  });
}

void run_linalg_solve_triangular(LibraryCall& call) {
  TensorView a = call.tensor("self"), b = call.tensor("B"), result = call.output(0);
  auto batch = batch_sizes(result);
  bool upper = call.boolean("upper", true), left = call.boolean("left", true);
  bool unit = call.boolean("unitriangular", false);
  for_batch(call, a.dtype, batch, [&](int64_t index, auto zero) {
    using T = decltype(zero);
    auto matrix = load_matrix<T>(a, batch, index);
    auto right = load_matrix<T>(b, batch, index);
    if (!left) matrix = transposed(matrix), right = transposed(right);
    solve_triangle(matrix, right, left ? upper : !upper, unit);
    store_matrix(result, batch, index, left ? right : transposed(right));
  });
}

}  // namespace kiln::runtime
