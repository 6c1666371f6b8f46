#include "runtime/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

namespace kiln::runtime {
namespace {

// Weights and pictures are read from end to end, and a processor knows the addresses of a few hundred pages: in large
// ones it seldom has to look one up. Where the system has none to give it does not matter.
constexpr size_t large_page = 2 << 20;

void* system_allocate(void*, size_t bytes, size_t alignment) {
  void* memory = nullptr;
  const bool large = bytes >= large_page;
  if (posix_memalign(&memory, large ? std::max(alignment, large_page) : alignment, bytes) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  if (large) ::madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return memory;
}
void system_release(void*, void* memory, size_t) { std::free(memory); }

}  // namespace

Allocator system_allocator() { return {system_allocate, system_release, nullptr}; }
bool is_system(const Allocator& allocator) { return allocator.allocate == system_allocate; }

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
