#include "runtime/library/matrices.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace kiln::runtime {
namespace {

template <class S>
S read_as(const std::byte* at) {
  S value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class S>
void write_as(std::byte* at, S value) {
  std::memcpy(at, &value, sizeof value);
}

template <class T>
T read_matrix_element(DType dtype, const std::byte* at) {
  if constexpr (std::is_same_v<T, Complex>) {
    if (dtype == DType::c64) return Complex(read_as<std::complex<float>>(at));
    if (dtype == DType::c128) return read_as<Complex>(at);
  }
  if (dtype == DType::f64) return T(read_as<double>(at));
  if (dtype == DType::i32) return T(read_as<int32_t>(at));
  KILN_CHECK(dtype == DType::f32, "linear algebra on an element type that its rule should have refused");
  return T(static_cast<double>(read_as<float>(at)));
}

template <class T>
void write_element(DType dtype, std::byte* at, T value) {
  if constexpr (std::is_same_v<T, Complex>) {
    if (dtype == DType::c64) return write_as(at, std::complex<float>(value));
    if (dtype == DType::c128) return write_as(at, value);
  }
  double real = real_part(value);
  if (dtype == DType::f64) return write_as(at, real);
  if (dtype == DType::i32) return write_as(at, static_cast<int32_t>(real));
  KILN_CHECK(dtype == DType::f32, "linear algebra on an element type that its rule should have refused");
  write_as(at, static_cast<float>(real));
}

// What LAPACK compares when it looks for a pivot.
double pivot_size(double x) { return std::abs(x); }
double pivot_size(Complex x) { return std::abs(x.real()) + std::abs(x.imag()); }

struct Steps {
  int64_t rows = 1, columns = 1, row_step = 0, column_step = 0;  // bytes
};

Steps steps_of(const TensorView& tensor, int64_t inner) {
  int64_t item = dtype_bytes(tensor.dtype);
  auto rank = static_cast<size_t>(tensor.rank());
  Steps out;
  if (inner == 2) {
    out = {tensor.sizes[rank - 2], tensor.sizes[rank - 1], tensor.strides[rank - 2] * item,
           tensor.strides[rank - 1] * item};
  } else if (inner == 1) {
    out.rows = tensor.sizes[rank - 1];
    out.row_step = tensor.strides[rank - 1] * item;
  }
  return out;
}

}  // namespace

int64_t batch_count(std::span<const int64_t> batch) {
  int64_t count = 1;
  for (int64_t size : batch) count *= size;
  return count;
}

std::span<const int64_t> batch_sizes(const TensorView& tensor, int64_t inner) {
  return tensor.sizes.first(static_cast<size_t>(tensor.rank() - inner));
}

std::byte* batch_element(const TensorView& tensor, std::span<const int64_t> batch, int64_t index, int64_t inner) {
  int64_t offset = 0, own = tensor.rank() - inner;
  for (size_t d = batch.size(); d-- > 0;) {
    int64_t at = index % batch[d];
    index /= batch[d];
    int64_t mine = own - static_cast<int64_t>(batch.size() - d);
    if (mine < 0 || tensor.sizes[static_cast<size_t>(mine)] == 1) continue;
    offset += at * tensor.strides[static_cast<size_t>(mine)];
  }
  return tensor.data + offset * dtype_bytes(tensor.dtype);
}

template <class T>
Matrix<T> load_matrix(const TensorView& tensor, std::span<const int64_t> batch, int64_t index, int64_t inner) {
  Steps steps = steps_of(tensor, inner);
  const std::byte* data = batch_element(tensor, batch, index, inner);
  Matrix<T> out(steps.rows, steps.columns);
  for (int64_t i = 0; i < steps.rows; ++i)
    for (int64_t j = 0; j < steps.columns; ++j)
      out(i, j) = read_matrix_element<T>(tensor.dtype, data + i * steps.row_step + j * steps.column_step);
  return out;
}

template <class T>
void store_matrix(const TensorView& tensor, std::span<const int64_t> batch, int64_t index, const Matrix<T>& matrix,
                  int64_t inner) {
  Steps steps = steps_of(tensor, inner);
  std::byte* data = batch_element(tensor, batch, index, inner);
  for (int64_t i = 0; i < steps.rows; ++i)
    for (int64_t j = 0; j < steps.columns; ++j)
      write_element(tensor.dtype, data + i * steps.row_step + j * steps.column_step, matrix(i, j));
}

template <class T>
int64_t factor_lu(Matrix<T>& a, std::vector<int64_t>& pivots, bool pivot) {
  int64_t steps = std::min(a.rows, a.columns), info = 0;
  pivots.assign(static_cast<size_t>(steps), 0);
  for (int64_t k = 0; k < steps; ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < a.rows && pivot; ++i)
      if (pivot_size(a(i, k)) > pivot_size(a(best, k))) best = i;
    pivots[static_cast<size_t>(k)] = best;
    if (a(best, k) == T{}) {
      if (info == 0) info = k + 1;
      continue;
    }
    for (int64_t j = 0; j < a.columns && best != k; ++j) std::swap(a(k, j), a(best, j));
    for (int64_t i = k + 1; i < a.rows; ++i) {
      T factor = a(i, k) / a(k, k);
      a(i, k) = factor;
      if (factor == T{}) continue;
      for (int64_t j = k + 1; j < a.columns; ++j) a(i, j) -= factor * a(k, j);
    }
  }
  return info;
}

template <class T>
void solve_lu(const Matrix<T>& lu, const std::vector<int64_t>& pivots, Matrix<T>& b) {
  int64_t n = lu.rows, m = b.columns;
  for (int64_t k = 0; k < n; ++k) {
    int64_t other = pivots[static_cast<size_t>(k)];
    for (int64_t j = 0; j < m && other != k; ++j) std::swap(b(k, j), b(other, j));
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < i; ++k)
      for (int64_t j = 0; j < m; ++j) b(i, j) -= lu(i, k) * b(k, j);
  for (int64_t i = n; i-- > 0;) {
    for (int64_t k = i + 1; k < n; ++k)
      for (int64_t j = 0; j < m; ++j) b(i, j) -= lu(i, k) * b(k, j);
    for (int64_t j = 0; j < m; ++j) b(i, j) /= lu(i, i);
  }
}

std::string batch_text(const TensorView& tensor, int64_t index) {
  return tensor.rank() > 2 ? str("(Batch element ", index, "): ") : std::string();
}

template Matrix<double> load_matrix(const TensorView&, std::span<const int64_t>, int64_t, int64_t);
template Matrix<Complex> load_matrix(const TensorView&, std::span<const int64_t>, int64_t, int64_t);
template void store_matrix(const TensorView&, std::span<const int64_t>, int64_t, const Matrix<double>&, int64_t);
template void store_matrix(const TensorView&, std::span<const int64_t>, int64_t, const Matrix<Complex>&, int64_t);
template int64_t factor_lu(Matrix<double>&, std::vector<int64_t>&, bool);
template int64_t factor_lu(Matrix<Complex>&, std::vector<int64_t>&, bool);
template void solve_lu(const Matrix<double>&, const std::vector<int64_t>&, Matrix<double>&);
template void solve_lu(const Matrix<Complex>&, const std::vector<int64_t>&, Matrix<Complex>&);

}  // namespace kiln::runtime
