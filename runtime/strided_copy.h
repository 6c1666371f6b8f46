// Copies tensors between memory layouts, and asks the questions about layouts that input checks need.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kiln/dlpack.h"

namespace kiln::runtime {

using Dims = std::span<const int64_t>;

// Elements of `item` bytes; strides in elements. The two must not overlap.
void strided_copy(void* to, Dims to_strides, const void* from, Dims from_strides, Dims sizes, int64_t item);

int64_t element_count(Dims sizes);
std::vector<int64_t> strides_of(const DLTensor& tensor);  // row-major ones where the tensor has none
// Whether two layouts put every element at the same place (strides of sizes 1 do not matter; nothing matters if empty).
bool same_layout(Dims sizes, Dims a, Dims b);
bool is_row_major(Dims sizes, Dims strides);
// Whether a copy into memory that overlaps itself (base/self_overlap.h) holds every element: those that share a place
// were equal.
bool copy_kept(Dims sizes, const void* to, Dims to_strides, const void* from, Dims from_strides, int64_t item);

}  // namespace kiln::runtime
