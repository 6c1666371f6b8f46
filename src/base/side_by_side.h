// Work that falls into parts which know nothing of each other, on all processors.
#pragma once
#include <cstddef>
#include <functional>

namespace kiln {

// Calls part(0), …, part(count - 1), several at a time, and returns when all have ended. What the first of them throws,
// by number, is thrown here; whether later ones ran is then not known.
void side_by_side(size_t count, const std::function<void(size_t)>& part);

}  // namespace kiln
