// The pool that runs a kernel's items on several threads. One per process, shared by all models; the calling thread
// always takes part, so a run makes progress even when every worker is busy with somebody else's work.
//
// Workers are started when first needed and wait for work by spinning for a few microseconds, then asleep: spinning
// longer would take the processor from other processes. While they spin, handing out and finishing a job takes no lock.
// After a fork the child starts with no workers and makes its own. How items are dealt to threads never changes
// results: a kernel computes every item on its own.
#pragma once
#include <array>
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

  int workers() const { return workers_.load(); }

 private:
  // A job is opened by handing out tickets; a worker that takes one may use the other fields until it counts itself
  // finished, and the caller, who takes back the tickets that are left, waits for exactly those workers. Job objects
  // live as long as the pool: looking at a closed one is harmless.
  struct alignas(64) Job {
    std::atomic<bool> taken{false};  // by a caller
    std::atomic<int> tickets{0};     // helpers still wanted
    Task task = nullptr;
    void* context = nullptr;
    int64_t chunk = 1;
    int threads = 1;
    std::atomic<int64_t> items{0};  // atomic, as `next`: looked at before a ticket is taken
    alignas(64) std::atomic<int64_t> next{0};
    alignas(64) std::atomic<int> finished{0};
  };

  ThreadPool() = default;
  Job* take_job();
  Job* join_any(int& slot);
  Job* wait_for_job(int& slot);
  void wake_workers();
  void worker();
  void finish(Job& job);
  void close(Job& job, uint32_t bit);
  void start_workers(int count);
  void register_fork_handlers();
  void forget_threads();
  static void work(Job& job, int slot);

  static constexpr size_t job_count = 16;  // callers beyond that run alone
  std::array<Job, job_count> jobs_;
  alignas(64) std::atomic<uint32_t> open_{0};  // a bit per job with tickets: all that an idle worker looks at
  std::atomic<int> sleeping_{0};               // workers
  std::atomic<int> waiting_{0};                // callers asleep until their helpers have finished
  std::atomic<int> workers_{0};
  std::mutex mutex_;  // for falling asleep, waking and starting workers
  std::condition_variable work_, done_;
};

}  // namespace kiln::runtime
