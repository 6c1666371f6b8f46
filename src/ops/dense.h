// How references read and write tensors: as row-major vectors of the type they compute in, whatever the storage type
// and strides are. Integers and bool are computed in int64_t (stores wrap to the width), narrow floats in float.
#pragma once
#include <cstdint>
#include <vector>

#include "ops/op_record.h"

namespace kiln {

// What a reference computes in for values of this type: f64 for f64 (and in fp64 mode), i64 for integers and bool,
// f32 for the other floats. Throws K0203 for complex.
DType reference_compute(const ReferenceCall& call, DType dtype);

// The tensor's values in row-major order, converted. T: float, double, int64_t.
template <class T>
std::vector<T> read_dense(const Tensor& tensor);
// The same, broadcast to `sizes`.
template <class T>
std::vector<T> read_dense(const Tensor& tensor, const std::vector<int64_t>& sizes);
// Stores row-major values into the tensor (converting and rounding as PyTorch's `to`).
template <class T>
void write_dense(const Tensor& tensor, const std::vector<T>& values);

// The tensor seen with broadcast sizes: strides of 0, storage shared.
Tensor broadcast_view(const Tensor& tensor, const std::vector<int64_t>& sizes);

// A tensor of the result's storage type with these sizes, row-major.
Tensor new_result(const ReferenceCall& call, std::vector<int64_t> sizes, int result = 0);
// The same for list results and temporary values: of a nominal type, f64 in fp64 mode when that is a float.
DType storage_dtype(const ReferenceCall& call, DType nominal);

// Calls f(T{}) with T = float, double or int64_t for a type that reference_compute gave.
template <class F>
decltype(auto) with_compute(DType compute, F f) {
  if (compute == DType::f64) return f(double{});
  if (compute == DType::i64) return f(int64_t{});
  return f(float{});
}

// Advances a row-major multi-index; false after the last.
bool next_index(std::vector<int64_t>& index, const std::vector<int64_t>& sizes);

// The dtype that the graph gives an argument, whatever is stored in fp64 mode; a number gives its kind.
DType nominal_argument_dtype(const ReferenceCall& call, std::string_view arg);

extern template std::vector<float> read_dense(const Tensor&);
extern template std::vector<double> read_dense(const Tensor&);
extern template std::vector<int64_t> read_dense(const Tensor&);
extern template std::vector<float> read_dense(const Tensor&, const std::vector<int64_t>&);
extern template std::vector<double> read_dense(const Tensor&, const std::vector<int64_t>&);
extern template std::vector<int64_t> read_dense(const Tensor&, const std::vector<int64_t>&);
extern template void write_dense(const Tensor&, const std::vector<float>&);
extern template void write_dense(const Tensor&, const std::vector<double>&);
extern template void write_dense(const Tensor&, const std::vector<int64_t>&);

}  // namespace kiln
