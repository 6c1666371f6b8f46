// How a model spreads work over threads: Kiln's own pool, or the embedder's parallel-for.
#pragma once
#include <atomic>
#include <cstdint>

#include "kiln/kiln.h"

namespace kiln::runtime {

inline constexpr int most_threads = 1024;  // of one run

class Parallel {
 public:
  using Task = void (*)(void* context, int slot, int64_t begin, int64_t end);

  // `threads` < 1: all that the process may use.
  Parallel(int threads, kiln_parallel_for_fn replacement, void* user);
  void set_threads(int threads);
  int threads() const { return threads_.load(std::memory_order_relaxed); }
  // Runs [0, items) in pieces; `slot` < threads(), one thread at a time each. Fewer than two grains run on the caller.
  // `backwards`: each thread's last items come first.
  void run(int64_t items, int64_t grain, int threads, Task task, void* context, bool backwards = false) const;

 private:
  std::atomic<int> threads_;
  kiln_parallel_for_fn replacement_;
  void* user_;
};

}  // namespace kiln::runtime
