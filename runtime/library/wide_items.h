// Rows whose keys need 64 bits: f64, and integers far from one another. Rare.
#pragma once
#include "runtime/library/narrow_items.h"

namespace kiln::runtime {

// Sorts a row; the positions of `out` are those of its elements in their order.
void sort_wide(DType dtype, const std::byte* row, int64_t length, int64_t step, bool descending, bool stable,
               std::vector<NarrowItem>& out);
// The first k of a row, as eager's topk finds them.
void select_wide(DType dtype, const std::byte* row, int64_t length, int64_t step, int64_t k, bool largest, bool sorted,
                 std::vector<NarrowItem>& out);

}  // namespace kiln::runtime
