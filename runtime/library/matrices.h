// Matrices of library kernels: the last two dimensions of a tensor, one batch element at a time, as row-major arrays of
// double or complex<double>. Linear algebra is computed in double whatever the tensor's type is; storing rounds.
#pragma once
#include <cstdint>
#include <vector>

#include "lapack/matrix.h"
#include "runtime/library/library.h"

namespace kiln::runtime {

// How many matrices (vectors: `inner` = 1) a tensor holds, and where one of them starts. A tensor with fewer or
// smaller batch dimensions than `batch` is broadcast.
int64_t batch_count(std::span<const int64_t> batch);
std::span<const int64_t> batch_sizes(const TensorView& tensor, int64_t inner = 2);
std::byte* batch_element(const TensorView& tensor, std::span<const int64_t> batch, int64_t index, int64_t inner = 2);

// A vector is read as a matrix of one column.
template <class T>
Matrix<T> load_matrix(const TensorView& tensor, std::span<const int64_t> batch, int64_t index, int64_t inner = 2);
template <class T>
void store_matrix(const TensorView& tensor, std::span<const int64_t> batch, int64_t index, const Matrix<T>& matrix,
                  int64_t inner = 2);

// Calls f with a double or a complex<double>.
template <class F>
void with_scalar(DType dtype, F f) {
  if (is_complex(dtype))
    f(Complex{});
  else
    f(double{});
}

// Calls f(index, zero) for every matrix of a batch, in parallel.
template <class F>
void for_batch(LibraryCall& call, DType dtype, std::span<const int64_t> batch, F f) {
  with_scalar(dtype, [&](auto zero) {
    call.parallel(batch_count(batch), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(i, zero);
    });
  });
}

// Factors in place with partial pivoting: unit lower and upper triangle. pivots[i]: the row that row i was exchanged
// with. Gives the number of the first zero on the diagonal, counted from 1; 0 where there is none.
template <class T>
int64_t factor_lu(Matrix<T>& a, std::vector<int64_t>& pivots, bool pivot = true);
// Solves with those factors, in place.
template <class T>
void solve_lu(const Matrix<T>& lu, const std::vector<int64_t>& pivots, Matrix<T>& b);
// "(Batch element 2): " where there is a batch.
std::string batch_text(const TensorView& tensor, int64_t index);

extern template Matrix<double> load_matrix(const TensorView&, std::span<const int64_t>, int64_t, int64_t);
extern template Matrix<Complex> load_matrix(const TensorView&, std::span<const int64_t>, int64_t, int64_t);
extern template void store_matrix(const TensorView&, std::span<const int64_t>, int64_t, const Matrix<double>&, int64_t);
extern template void store_matrix(const TensorView&, std::span<const int64_t>, int64_t, const Matrix<Complex>&,
                                  int64_t);
extern template int64_t factor_lu(Matrix<double>&, std::vector<int64_t>&, bool);
extern template int64_t factor_lu(Matrix<Complex>&, std::vector<int64_t>&, bool);
extern template void solve_lu(const Matrix<double>&, const std::vector<int64_t>&, Matrix<double>&);
extern template void solve_lu(const Matrix<Complex>&, const std::vector<int64_t>&, Matrix<Complex>&);

}  // namespace kiln::runtime
