// Memory between pages that nobody may touch: a kernel that leaves a buffer gets a signal at once instead of reading or
// writing its neighbour's values. Setting PYTORCH_NO_CUDA_MEMORY_CACHING gives every buffer of a run an allocation of
// its own (guard_allocator), and every step its arguments in regions that have not one byte too many (GuardRegion).
#pragma once
#include <optional>

#include "runtime/memory.h"

namespace kiln::runtime {

// Allocations whose end stands against a guard page, up to alignment - 1 bytes aside; filled with NaNs.
Allocator guard_allocator();

// Exactly `bytes` that may be touched, flush with a guard on one side. Addresses are aligned for elements of a size
// that divides `bytes`: generated code and library kernels assume no more. On the other side the rest of the page holds
// a pattern, and writes to it are found afterwards.
class GuardRegion {
 public:
  enum class Flush { end, start };                           // which end of the bytes stands against its guard
  static constexpr int64_t guard_bytes = int64_t{16} << 20;  // of addresses, not of memory: far misses meet it too

  GuardRegion(int64_t bytes, Flush flush);  // throws K0650
  ~GuardRegion();
  GuardRegion(const GuardRegion&) = delete;
  GuardRegion& operator=(const GuardRegion&) = delete;

  std::byte* data() const { return data_; }
  // Of what was written beside the bytes, the place nearest to them: negative before the start, else from the end.
  std::optional<int64_t> written_beside() const;

 private:
  std::byte *whole_, *inside_, *data_;
  size_t whole_bytes_, inside_bytes_;
  int64_t bytes_;
};

}  // namespace kiln::runtime
