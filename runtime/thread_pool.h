// The pool that runs a kernel's items on several threads. One per process, shared by all models; the calling thread
// always takes part, so a run makes progress even when every worker is busy with somebody else's work.
//
// Workers are started when first needed and wait for work by spinning for a few microseconds, then asleep: spinning
// longer would take the processor from other processes. After a fork the child starts with no workers and makes its
// own. How items are dealt to threads never changes results: a kernel computes every item on its own.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace kiln::runtime {

class ThreadPool {
 public:
  // `slot` is 0 … threads - 1 and belongs to one thread for the whole call.
  using Task = void (*)(void* context, int slot, int64_t begin, int64_t end);

  static ThreadPool& process();

  // Runs [0, items) in chunks on at most `threads` threads and returns when all is done. `task` must not throw.
  void run(int64_t items, int64_t chunk, int threads, Task task, void* context);

  int workers();

 private:
  struct Job {
    Task task;
    void* context;
    int64_t items, chunk;
    int threads;
    std::atomic<int64_t> next{0};
    int slots = 1;               // guarded by mutex_; the caller has slot 0
    std::atomic<int> inside{0};  // workers that may still touch this job
    Job* following = nullptr;
    bool wants_help() const { return slots < threads && next.load(std::memory_order_relaxed) < items; }
  };

  ThreadPool() = default;
  void start_workers(int count);  // mutex_ is held
  void worker();
  Job* wait_for_job(int& slot);
  void leave(Job& job);
  static void work(Job& job, int slot);
  void register_fork_handlers();
  void forget_threads();

  std::mutex mutex_;
  std::condition_variable work_, done_;
  Job* jobs_ = nullptr;
  int workers_ = 0, sleeping_ = 0;
  std::atomic<uint32_t> epoch_{0};  // counts jobs, so that idle workers can watch without the mutex
};

}  // namespace kiln::runtime
