// Tensors as rows along one dimension, and values as keys whose order as unsigned integers is PyTorch's sorting order:
// NaN is the greatest, -0 equals +0. With it sorting and selecting are written once for all dtypes.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/library/library.h"

namespace kiln::runtime {

uint64_t order_key(DType dtype, const std::byte* at);

using OrderedItem = std::pair<uint64_t, int64_t>;  // a key and the position of its element

// The positions of dimension `dim` for every combination of the other indices.
class Rows {
 public:
  Rows(const TensorView& tensor, int64_t dim);
  int64_t count() const { return count_; }
  int64_t length() const { return length_; }
  std::byte* row(int64_t index) const;    // its first element
  int64_t step() const { return step_; }  // bytes from one element of a row to the next

 private:
  std::byte* data_;
  int64_t item_, count_ = 1, length_ = 1, step_ = 0;
  std::vector<int64_t> sizes_, strides_;  // of the other dimensions
};

// Wraps a negative dimension; a 0-dimensional tensor counts as one of one dimension. Calls call.fail when out of range.
int64_t wrap_dim(const LibraryCall& call, int64_t dim, int64_t rank);

}  // namespace kiln::runtime
