// Whether a strided layout puts two of its elements at one place: an expanded tensor (a stride of 0), overlapping
// windows. Such memory can be read, but not every value of its sizes can be stored in it.
#pragma once
#include <cstdint>
#include <span>

namespace kiln {

// Strides in elements; their signs do not matter. Exact, but for layouts that would take too long to decide: those are
// said to overlap, and so are those that no memory is large enough for.
bool overlaps_itself(std::span<const int64_t> sizes, std::span<const int64_t> strides);

}  // namespace kiln
