#include "runtime/guard_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace kiln::runtime {
namespace {

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// [ guard | first page … last page | guard ]; the block's address is chosen so that it ends at the second guard.
struct Region {
  size_t inside, whole;
};
Region region(size_t bytes, size_t alignment) {
  const size_t page = page_bytes(), inside = (bytes + alignment + page - 1) / page * page;
  return {inside, inside + 2 * page};
}

constexpr size_t most_alignment = 4096;

void* allocate(void*, size_t bytes, size_t alignment) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  const Region r = region(bytes, most_alignment);
  void* memory = mmap(nullptr, r.whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* inside = static_cast<std::byte*>(memory) + page_bytes();
  if (mprotect(inside, r.inside, PROT_READ | PROT_WRITE) != 0) {
    munmap(memory, r.whole);
    return nullptr;
  }
  // NaNs in every float type, so that reading what nobody wrote shows.
  std::memset(inside, 0xff, r.inside);
  const size_t start = (r.inside - bytes) / alignment * alignment;
  return inside + start;
}

void release(void*, void* memory, size_t bytes) {
  const Region r = region(bytes, most_alignment);
  // The block ends in the last page before the guard, whatever its alignment was.
  const auto page = page_bytes();
  const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes + page - 1) / page * page;
  munmap(reinterpret_cast<void*>(end - r.inside - page), r.whole);
}

}  // namespace

Allocator guard_allocator() { return {allocate, release, nullptr}; }

}  // namespace kiln::runtime
