#include "debug/fenced_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace kiln {
namespace {

constexpr int fence_byte = 0xa7;
constexpr int unwritten_byte = 0xff;  // NaNs in every float type: reading what nobody wrote shows

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

kiln_allocator FencedMemory::allocator() {
  kiln_allocator out{};
  out.allocate = [](void* user, size_t bytes, size_t) { return static_cast<FencedMemory*>(user)->allocate(bytes); };
  out.release = [](void* user, void* memory, size_t) { static_cast<FencedMemory*>(user)->release(memory); };
  out.user = this;
  return out;
}

// [ page of fence bytes | rest of a page, fence bytes | block ][ page that nobody may touch ]
void* FencedMemory::allocate(size_t bytes) {
  const size_t page = page_bytes();
  if (bytes > SIZE_MAX / 2) return nullptr;
  const size_t inside = page + (bytes + page - 1) / page * page, whole = inside + page;
  void* memory = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (mprotect(memory, inside, PROT_READ | PROT_WRITE) != 0) {
    munmap(memory, whole);
    return nullptr;
  }
  Block block{static_cast<std::byte*>(memory), inside - bytes, bytes, whole};
  std::memset(block.inside, fence_byte, block.fence);
  std::memset(block.inside + block.fence, unwritten_byte, bytes);
  const std::lock_guard lock(mutex_);
  blocks_[block.inside + block.fence] = block;
  return block.inside + block.fence;
}

// The pages are given back, the addresses are not: whoever uses them later is found.
void FencedMemory::release(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(memory);
  if (found == blocks_.end()) return;
  mmap(found->second.inside, found->second.whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
       -1, 0);
  blocks_.erase(found);
}

Tensor FencedMemory::fenced_copy(const Tensor& tensor) {
  if (!dense_and_not_overlapping(tensor.sizes, tensor.strides) || tensor.numel() == 0) return tensor;
  const int64_t bytes = storage_bytes_needed(tensor.dtype, tensor.sizes, tensor.strides, 0);
  if (tensor.storage->bytes != bytes) return tensor;  // others may look at the rest
  Tensor out = tensor;
  out.offset = 0;
  out.storage = std::make_shared<Storage>();
  out.storage->bytes = bytes;
  out.storage->data = static_cast<std::byte*>(allocate(static_cast<size_t>(bytes)));
  if (!out.storage->data) fail_user("K0546", str("there is no memory for a fenced copy of ", bytes, " bytes"));
  std::memcpy(out.storage->data, tensor.data(), static_cast<size_t>(bytes));
  return out;
}

std::optional<FencedMemory::Damage> FencedMemory::damage() {
  const std::lock_guard lock(mutex_);
  for (const auto& [memory, block] : blocks_) {
    const std::byte* end = block.inside + block.fence;
    const std::byte* changed = std::find_if(static_cast<const std::byte*>(block.inside), end,
                                            [](std::byte b) { return std::to_integer<int>(b) != fence_byte; });
    if (changed == end) continue;
    std::memset(block.inside, fence_byte, block.fence);
    return Damage{end, static_cast<size_t>(end - changed)};
  }
  return std::nullopt;
}

}  // namespace kiln
