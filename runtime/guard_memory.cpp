#include "runtime/guard_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

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
constexpr std::byte beside_pattern{0xa5};

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

GuardRegion::GuardRegion(int64_t bytes, Flush flush) : bytes_(bytes) {
  const size_t page = page_bytes(), wanted = static_cast<size_t>(bytes);
  inside_bytes_ = (wanted + page - 1) / page * page;
  void* memory = MAP_FAILED;
  // Where addresses are scarce (ulimit -v) a page on each side must do.
  size_t guard = guard_bytes;
  for (; memory == MAP_FAILED && guard >= page; guard = guard > page ? page : 0) {
    whole_bytes_ = inside_bytes_ + 2 * guard;
    memory = mmap(nullptr, whole_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) break;
  }
  if (memory == MAP_FAILED)
    fail_user("K0650", str("out of memory: ", bytes_text(wanted), " between guard pages were asked for"));
  whole_ = static_cast<std::byte*>(memory);
  inside_ = whole_ + guard;
  if (inside_bytes_ > 0 && mprotect(inside_, inside_bytes_, PROT_READ | PROT_WRITE) != 0) {
    munmap(whole_, whole_bytes_);
    fail_user("K0650", str("out of memory: ", bytes_text(wanted), " between guard pages were asked for"));
  }
  data_ = flush == Flush::end ? inside_ + inside_bytes_ - wanted : inside_;
  std::fill(inside_, data_, beside_pattern);
  std::fill(data_ + wanted, inside_ + inside_bytes_, beside_pattern);
}

GuardRegion::~GuardRegion() { munmap(whole_, whole_bytes_); }

std::optional<int64_t> GuardRegion::written_beside() const {
  for (const std::byte* at = data_; at != inside_;)
    if (*--at != beside_pattern) return at - data_;
  for (const std::byte* at = data_ + bytes_; at != inside_ + inside_bytes_; ++at)
    if (*at != beside_pattern) return at - (data_ + bytes_);
  return std::nullopt;
}

}  // namespace kiln::runtime
