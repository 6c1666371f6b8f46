#include "ops/linalg_parts.h"

#include "ops/dense.h"

namespace kiln {

Sizes column_major(const Sizes& sizes) {
  Sizes swapped = sizes;
  std::swap(swapped[sizes.size() - 1], swapped[sizes.size() - 2]);
  Sizes strides = contiguous_strides(swapped);
  std::swap(strides[sizes.size() - 1], strides[sizes.size() - 2]);
  return strides;
}

TensorType matrix_type(DType dtype, const Sizes& sizes, Device device) {
  return strided_type(dtype, sizes, column_major(sizes), device);
}

DType checked_dtype(const InferCall& call, std::string_view arg) {
  DType dtype = call.tensor(arg)->type.dtype;
  if (dtype != DType::f32 && dtype != DType::f64 && dtype != DType::c64 && dtype != DType::c128)
    fail_user("K0203",
              str(op_short_name(call.schema().name), ": Expected a floating point or complex tensor as input. Got ",
                  dtype_torch_name(dtype)),
              call.where());
  return dtype;
}

const TensorType& checked_matrix(const InferCall& call, std::string_view arg, bool square) {
  const TensorType& type = call.tensor(arg)->type;
  checked_dtype(call, arg);
  if (type.sizes.size() < 2)
    fail_user("K0201",
              str(op_short_name(call.schema().name), ": The input tensor ", arg, " must have at least 2 dimensions."),
              call.where());
  if (square &&
      prove_eq(type.sizes[type.sizes.size() - 1], type.sizes[type.sizes.size() - 2], call.ranges()) == Proof::no)
    fail_user("K0201",
              str(op_short_name(call.schema().name), ": ", arg, " must be batches of square matrices, but they are ",
                  type.sizes[type.sizes.size() - 2].text(), " by ", type.sizes.back().text(), " matrices"),
              call.where());
  return type;
}

Sizes batch_of(const TensorType& type, size_t inner) {
  return Sizes(type.sizes.begin(), type.sizes.end() - static_cast<std::ptrdiff_t>(inner));
}
Sizes with(Sizes batch, std::initializer_list<Expr> more) {
  batch.insert(batch.end(), more);
  return batch;
}

// ---- Reading and writing matrices of references ----

std::vector<int64_t> batch_of(const Tensor& tensor, int64_t inner) {
  return {tensor.sizes.begin(), tensor.sizes.end() - static_cast<std::ptrdiff_t>(inner)};
}

std::vector<RefMatrix> read_matrices(const Tensor& tensor, const std::vector<int64_t>& batch, int64_t inner) {
  std::vector<int64_t> sizes = batch;
  sizes.insert(sizes.end(), tensor.sizes.end() - static_cast<std::ptrdiff_t>(inner), tensor.sizes.end());
  Tensor dense = convert(broadcast_view(tensor, sizes), DType::c128);
  int64_t rows = inner == 0 ? 1 : sizes[sizes.size() - static_cast<size_t>(inner)],
          columns = inner == 2 ? sizes.back() : 1;
  std::vector<RefMatrix> out;
  const auto* data = dense.as<std::complex<double>>();
  for (int64_t b = 0; b < count_elements(batch); ++b) {
    RefMatrix matrix(rows, columns);
    std::copy_n(data + b * rows * columns, rows * columns, matrix.values.begin());
    out.push_back(std::move(matrix));
  }
  return out;
}

// Vectors (inner = 1) and single numbers (inner = 0) are row-major.
Datum write_matrices(const ReferenceCall& call, const std::vector<RefMatrix>& matrices, std::vector<int64_t> sizes,
                     int result, int64_t inner) {
  std::vector<int64_t> strides = inner == 2 ? to_numbers(column_major(to_exprs(sizes))) : contiguous_strides(sizes);
  Tensor dense = Tensor::empty(DType::c128, sizes);
  auto* to = dense.as<std::complex<double>>();
  for (const RefMatrix& matrix : matrices) to = std::copy(matrix.values.begin(), matrix.values.end(), to);
  Tensor out = Tensor::empty_strided(call.result_dtype(result), std::move(sizes), std::move(strides));
  copy_into(dense, out);
  return Datum{out};
}

std::vector<int64_t> joined_sizes(std::vector<int64_t> batch, std::initializer_list<int64_t> more) {
  batch.insert(batch.end(), more);
  return batch;
}

RefMatrix number_matrix(double value) {
  RefMatrix out(1, 1);
  out.values[0] = value;
  return out;
}
RefMatrix first_columns(const RefMatrix& a, int64_t count) {
  RefMatrix out(a.rows, count);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < count; ++j) out.at(i, j) = a.at(i, j);
  return out;
}

std::string batch_text(const Tensor& tensor, size_t index) {
  return tensor.rank() > 2 ? str("(Batch element ", index, "): ") : std::string();
}
[[noreturn]] void fail_run(const ReferenceCall& call, const std::string& message) {
  fail_user("K0633", message, call.node().where());
}

[[noreturn]] void fail_not_finite(const ReferenceCall& call, const Tensor& a, size_t index, const char* name) {
  fail_run(call, str(name, ": ", batch_text(a, index),
                     "The algorithm failed to converge because the input matrix contained non-finite values."));
}

Precision precision_of(const ReferenceCall& call, std::string_view arg) {
  DType dtype = nominal_argument_dtype(call, arg);
  return {!is_complex(dtype), dtype == DType::f32 || dtype == DType::c64 ? 0x1p-24 : 0x1p-53};
}

}  // namespace kiln
