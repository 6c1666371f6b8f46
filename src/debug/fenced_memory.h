// Memory for finding accesses outside of a buffer: every block ends at a page that nobody may touch, has a page of
// known bytes before it, and its addresses are never given out again. Reading or writing behind a block, or what an
// earlier block was, is a fault of the processor at once; what was written before a block is seen when it is looked at.
#pragma once
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

#include "kiln/kiln.h"
#include "types/tensor.h"

namespace kiln {

class FencedMemory {
 public:
  FencedMemory() = default;
  FencedMemory(const FencedMemory&) = delete;  // blocks point back here
  kiln_allocator allocator();                  // must not outlive this
  // The same values in a block of its own; tensors with gaps or overlapping elements stay as they are.
  Tensor fenced_copy(const Tensor& tensor);

  struct Damage {
    const std::byte* block = nullptr;
    size_t before = 0;  // bytes between the first changed one and the block
  };
  // A block before which something was written; it is mended, so that the next look finds what is new.
  std::optional<Damage> damage();

 private:
  struct Block {
    std::byte* inside = nullptr;  // first byte that may be touched
    size_t fence = 0, bytes = 0, whole = 0;
  };
  void* allocate(size_t bytes);
  void release(void* memory);
  std::mutex mutex_;
  std::map<void*, Block> blocks_;
};

}  // namespace kiln
