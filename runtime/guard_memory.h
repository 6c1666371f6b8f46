// Memory whose end stands against a page that nobody may touch: a kernel that runs past a buffer gets a signal at once
// instead of reading or writing its neighbour's values. Setting PYTORCH_NO_CUDA_MEMORY_CACHING gives every buffer of a
// run such an allocation of its own. Up to alignment - 1 bytes lie between the buffer's end and the page.
#pragma once
#include "runtime/memory.h"

namespace kiln::runtime {

Allocator guard_allocator();

}  // namespace kiln::runtime
