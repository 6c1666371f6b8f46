// What the records of linear algebra share: types of results, checks of arguments, matrices of references read and
// written. Matrices are the last two dimensions; results are column-major, as LAPACK's are.
#pragma once
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/linalg_reference.h"

namespace kiln {

Sizes column_major(const Sizes& sizes);  // strides
TensorType matrix_type(DType dtype, const Sizes& sizes, Device device);
// Refuse what LAPACK has no routine for.
DType checked_dtype(const InferCall& call, std::string_view arg);
const TensorType& checked_matrix(const InferCall& call, std::string_view arg, bool square);
// All sizes but the last ones, and sizes with more behind.
Sizes batch_of(const TensorType& type, size_t inner = 2);
Sizes with(Sizes batch, std::initializer_list<Expr> more);
std::vector<int64_t> batch_of(const Tensor& tensor, int64_t inner);
std::vector<int64_t> joined_sizes(std::vector<int64_t> batch, std::initializer_list<int64_t> more);

// Every matrix (vector: inner = 1, number: inner = 0) of a tensor broadcast to this batch, and back to a tensor;
// vectors and numbers are row-major there.
std::vector<RefMatrix> read_matrices(const Tensor& tensor, const std::vector<int64_t>& batch, int64_t inner = 2);
Datum write_matrices(const ReferenceCall& call, const std::vector<RefMatrix>& matrices, std::vector<int64_t> sizes,
                     int result, int64_t inner = 2);
RefMatrix number_matrix(double value);
template <class T>
RefMatrix vector_of(const std::vector<T>& values) {
  RefMatrix out(static_cast<int64_t>(values.size()), 1);
  for (size_t i = 0; i < values.size(); ++i) out.values[i] = static_cast<double>(values[i]);
  return out;
}
RefMatrix first_columns(const RefMatrix& a, int64_t count);

// "(Batch element 2): " where there is a batch.
std::string batch_text(const Tensor& tensor, size_t index);
[[noreturn]] void fail_run(const ReferenceCall& call, const std::string& message);
[[noreturn]] void fail_not_finite(const ReferenceCall& call, const Tensor& a, size_t index, const char* name);

// The type of an argument as the graph says, also in fp64 mode: signs depend on it.
Precision precision_of(const ReferenceCall& call, std::string_view arg);

}  // namespace kiln
