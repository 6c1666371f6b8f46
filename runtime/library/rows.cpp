#include "runtime/library/rows.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "runtime/element.h"

namespace kiln::runtime {
namespace {

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

uint64_t float_key(double value) {
  if (std::isnan(value)) return UINT64_MAX;
  auto bits = std::bit_cast<uint64_t>(value == 0 ? 0.0 : value);
  return bits >> 63 ? ~bits : bits | (uint64_t{1} << 63);
}

}  // namespace

uint64_t order_key(DType dtype, const std::byte* at) {
  constexpr uint64_t sign = uint64_t{1} << 63;
  switch (dtype) {
    case DType::i64:
      return static_cast<uint64_t>(read<int64_t>(at)) ^ sign;
    case DType::u64:
      return read<uint64_t>(at);
    default:
      return float_key(element_value(dtype, at));  // exact: every other type fits a double
  }
}

Rows::Rows(const TensorView& tensor, int64_t dim) : data_(tensor.data), item_(dtype_bytes(tensor.dtype)) {
  for (size_t d = 0; d < tensor.sizes.size(); ++d) {
    if (static_cast<int64_t>(d) == dim) {
      length_ = tensor.sizes[d];
      step_ = length_ == 1 ? item_ : tensor.strides[d] * item_;
    } else {
      sizes_.push_back(tensor.sizes[d]);
      strides_.push_back(tensor.strides[d]);
      count_ *= tensor.sizes[d];
    }
  }
}

std::byte* Rows::row(int64_t index) const {
  if (sizes_.empty()) return data_;
  int64_t offset = 0;
  for (size_t d = sizes_.size(); d-- > 1;) {  // a division takes as long as a short row
    offset += index % sizes_[d] * strides_[d];
    index /= sizes_[d];
  }
  return data_ + (offset + index * strides_[0]) * item_;
}

int64_t wrap_dim(const LibraryCall& call, int64_t dim, int64_t rank) {
  int64_t dims = rank == 0 ? 1 : rank;
  if (dim < -dims || dim >= dims)
    call.fail(
        str("Dimension out of range (expected to be in range of [", -dims, ", ", dims - 1, "], but got ", dim, ")"));
  return dim < 0 ? dim + dims : dim;
}

}  // namespace kiln::runtime
