#include "runtime/memory.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

namespace kiln::runtime {
namespace {

void* system_allocate(void*, size_t bytes, size_t alignment) {
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}
void system_release(void*, void* memory, size_t) { std::free(memory); }

}  // namespace

Allocator system_allocator() { return {system_allocate, system_release, nullptr}; }

Block::Block(const Allocator& allocator, int64_t bytes, size_t alignment) : allocator_(allocator) {
  if (bytes < 0) fail_user("K0650", "a buffer has a negative size");
  bytes_ = std::max<int64_t>(bytes, 1);
  data_ = static_cast<std::byte*>(allocator.allocate(allocator.user, static_cast<size_t>(bytes_), alignment));
  if (!data_) fail_user("K0650", str("out of memory: ", bytes_text(static_cast<uint64_t>(bytes_)), " were asked for"));
}

Block::~Block() {
  if (data_) allocator_.release(allocator_.user, data_, static_cast<size_t>(bytes_));
}

bool Block::grow(const Allocator& allocator, int64_t bytes, size_t alignment) {
  if (data_ && bytes <= bytes_) return false;
  *this = Block();  // first give back, so that growing needs no more than the new size
  *this = Block(allocator, bytes, alignment);
  return true;
}

}  // namespace kiln::runtime
