#include "ops/dense.h"

#include "ops/promotion.h"

namespace kiln {

namespace {

template <class T>
constexpr DType dtype_for() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  return DType::i64;
}

// A row-major tensor over memory that someone else keeps.
template <class T>
Tensor borrow(const std::vector<T>& values, const std::vector<int64_t>& sizes) {
  Tensor out;
  out.dtype = dtype_for<T>();
  out.sizes = sizes;
  out.strides = contiguous_strides(sizes);
  out.storage = std::make_shared<Storage>();
  out.storage->data = reinterpret_cast<std::byte*>(const_cast<T*>(values.data()));
  out.storage->bytes = static_cast<int64_t>(values.size() * sizeof(T));
  out.storage->writable = false;
  return out;
}

}  // namespace

bool next_index(std::vector<int64_t>& index, const std::vector<int64_t>& sizes) {
  for (size_t d = sizes.size(); d-- > 0;) {
    if (++index[d] < sizes[d]) return true;
    index[d] = 0;
  }
  return false;
}

DType reference_compute(const ReferenceCall& call, DType dtype) {
  if (is_complex(dtype)) {
    fail_unsupported("K0203", str(call.node().target, " does not take ", dtype_torch_name(dtype)), call.node().where());
  }
  if (is_integral(dtype)) return DType::i64;
  return call.fp64 || dtype == DType::f64 ? DType::f64 : DType::f32;
}

template <class T>
std::vector<T> read_dense(const Tensor& tensor) {
  Tensor dense = convert(tensor, dtype_for<T>()).as_contiguous();
  const T* data = dense.as<T>();
  return std::vector<T>(data, data + dense.numel());
}

template <class T>
std::vector<T> read_dense(const Tensor& tensor, const std::vector<int64_t>& sizes) {
  return read_dense<T>(tensor.sizes == sizes ? tensor : broadcast_view(tensor, sizes));
}

template <class T>
void write_dense(const Tensor& tensor, const std::vector<T>& values) {
  KILN_CHECK(static_cast<int64_t>(values.size()) == tensor.numel(), "a reference gave the wrong number of values");
  copy_into(borrow(values, tensor.sizes), tensor);
}

Tensor broadcast_view(const Tensor& tensor, const std::vector<int64_t>& sizes) {
  Tensor view = tensor;
  view.sizes = sizes;
  view.strides.assign(sizes.size(), 0);
  if (tensor.sizes.size() > sizes.size()) fail_user("K0206", "a tensor cannot be broadcast to fewer dimensions");
  size_t lead = sizes.size() - tensor.sizes.size();
  for (size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (tensor.sizes[d] == sizes[lead + d]) {
      view.strides[lead + d] = tensor.strides[d];
    } else if (tensor.sizes[d] != 1) {
      fail_user("K0206", str("a size of ", tensor.sizes[d], " cannot be broadcast to ", sizes[lead + d]));
    }
  }
  return view;
}

DType storage_dtype(const ReferenceCall& call, DType nominal) { return call.fp64 ? wide_dtype(nominal) : nominal; }

Tensor new_result(const ReferenceCall& call, std::vector<int64_t> sizes, int result) {
  return Tensor::empty(call.result_dtype(result), std::move(sizes));
}

DType nominal_argument_dtype(const ReferenceCall& call, std::string_view arg) {
  const Argument* given = call.node().find(arg);
  if (given && given->is_value() && given->as_value()->kind == ValueKind::tensor) return given->as_value()->type.dtype;
  return number_kind(call.scalar(arg));
}

template std::vector<float> read_dense(const Tensor&);
template std::vector<double> read_dense(const Tensor&);
template std::vector<int64_t> read_dense(const Tensor&);
template std::vector<float> read_dense(const Tensor&, const std::vector<int64_t>&);
template std::vector<double> read_dense(const Tensor&, const std::vector<int64_t>&);
template std::vector<int64_t> read_dense(const Tensor&, const std::vector<int64_t>&);
template void write_dense(const Tensor&, const std::vector<float>&);
template void write_dense(const Tensor&, const std::vector<double>&);
template void write_dense(const Tensor&, const std::vector<int64_t>&);

}  // namespace kiln
