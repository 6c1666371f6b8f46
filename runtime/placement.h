// Where temps lie in the arena: those whose lifetimes do not meet may share memory.
#pragma once
#include <cstdint>
#include <vector>

namespace kiln::runtime {

struct PlacedBuffer {
  int64_t bytes = 0;
  int64_t alignment = 64;
  int32_t first = 0, last = 0;  // positions, inclusive
  int64_t offset = 0;           // result
};

// Large ones first, each into the smallest gap that holds it. Returns the bytes of the arena; throws K0650 past int64.
int64_t place(std::vector<PlacedBuffer>& buffers);

}  // namespace kiln::runtime
