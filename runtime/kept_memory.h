// What a caller has released is kept for the next call. Fresh memory of the system costs a page fault for each page
// that is first written, which takes longer than most kernels that write it.
#pragma once
#include <atomic>
#include <memory>

#include "runtime/memory.h"

namespace kiln::runtime {

// Keeps at most one block: that of one output of one Run. So what is kept is bounded as arenas are: by what the outputs
// of a call need, times the calls that ran at once. Blocks may be released on any thread and after the Run is gone,
// whose last one takes this with it; nobody waits for anybody, and a fork finds nothing locked.
class KeptMemory {
 public:
  struct Close {
    void operator()(KeptMemory* kept) const { kept->close(); }
  };
  using Owner = std::unique_ptr<KeptMemory, Close>;
  static Owner make() { return Owner(new KeptMemory); }
  // Less is at hand in malloc, whose checks of such memory stay as they are.
  static bool is_worth_it(int64_t bytes) { return bytes >= int64_t{16} << 10; }
  Allocator allocator() { return {allocate, release, this}; }  // one thread at a time allocates

 private:
  void close();  // gives back what is kept; what is released from now on is not kept
  void leave();
  static void* allocate(void* user, size_t bytes, size_t alignment);
  static void release(void* user, void* memory, size_t bytes);
  void keep(std::byte* memory, size_t room);
  std::atomic<std::byte*> kept_{nullptr};  // how large it is stands in its first bytes
  std::atomic<int64_t> users_{1};          // the owner, and every block
};

}  // namespace kiln::runtime
