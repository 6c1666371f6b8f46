// Weights to the GPU: from memory that is a mapped file, by several threads, each through pinned memory of its own, so
// that pages are read, copied and sent at the same time.
#pragma once
#include <cstddef>

#include "cuda_device/gpu.h"

namespace kiln::cuda {

// Done when it returns.
void upload(Gpu& gpu, const kiln_device_upload* pieces, size_t count);

}  // namespace kiln::cuda
