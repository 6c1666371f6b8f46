// The pool that runs a kernel's items on several threads. One per process, shared by all models; the calling thread
// always takes part, so a run makes progress even when every worker is busy with somebody else's work.
//
// Workers are started when first needed and wait for work by spinning for a few microseconds, then for some more while
// they offer the processor to others, then asleep: spinning longer would take it from other processes. Where others
// want processors, a job that had to wait for a helper lets the next ones ask for fewer. While they spin, handing out
// and finishing a job takes no lock. After a fork the child starts with no workers and makes its own. How items are
// dealt to threads never changes results: a kernel computes every item on its own.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace kiln::runtime {

class ThreadPool {
 public:
  // `slot` is 0 … threads - 1 and belongs to one thread for the whole call.
  using Task = void (*)(void* context, int slot, int64_t begin, int64_t end);

  static ThreadPool& process();

  // Of how many items a piece may be. A thread takes half of what is left of its range, so its pieces begin large, for
  // kernels that share more between the items of a piece, and end small, so that whoever is late can be helped.
  struct Pieces {
    int64_t least, most;
  };

  // Runs [0, items) in pieces on at most `threads` threads and returns when all is done. `task` must not throw.
  // `backwards`: each thread takes the last piece of its part first.
  void run(int64_t items, Pieces pieces, int threads, Task task, void* context, bool backwards = false);

  int workers() const { return workers_.load(); }
  // Whether a worker is likely to look for work at this moment.
  bool awake() const { return workers_.load(std::memory_order_relaxed) > sleeping_.load(std::memory_order_relaxed); }

 private:
  // Items are dealt out in as many ranges as there are threads. Each thread begins with the range of its number, the
  // same in every job, so that what a step wrote is read by the same processor in the next; then it helps with the
  // others.
  struct alignas(64) Range {
    std::atomic<int64_t> next{0};
    int64_t begin = 0, end = 0;
  };
  static constexpr int most_ranges = 16;

  // A job is opened by handing out tickets; a worker that takes one may use the other fields until it counts itself
  // finished, and the caller, who takes back the tickets that are left, waits for exactly those workers. Job objects
  // live as long as the pool: looking at a closed one is harmless.
  // What many write at once has a line of its own: all that wait fetch the line of what they read anew each time.
  struct alignas(64) Job {
    std::atomic<bool> taken{false};  // by a caller
    Task task = nullptr;
    void* context = nullptr;
    int64_t least = 1, most = 1;  // of a piece
    int threads = 1;
    bool backwards = false;
    int ranges = 0;  // of `range` that are in use
    std::array<Range, most_ranges> range;
    alignas(64) std::atomic<int> tickets{0};     // helpers still wanted; less than 0: more than those have asked
    alignas(64) std::atomic<int> unfinished{0};  // ranges of which nobody has taken the last items yet
    alignas(64) std::atomic<int> finished{0};
  };

  using Clock = std::chrono::steady_clock;

  ThreadPool() = default;
  Job* take_job();
  Job* join_any(int& slot);
  Job* wait_for_job(int& slot);
  void wake_workers();
  void worker(int number);
  void finish(Job& job);
  void close(Job& job, uint32_t bit);
  void start_workers(int count);
  static void register_fork_handlers();
  void forget_threads();
  int asked_of(int threads);
  void waited_long(int threads, Clock::time_point begun, Clock::duration waited);
  static void work(Job& job, int slot, int number);

  static ThreadPool* const process_pool;
  static constexpr size_t job_count = 16;  // callers beyond that run alone
  std::array<Job, job_count> jobs_;
  alignas(64) std::atomic<uint32_t> open_{0};  // a bit per job with tickets: all that an idle worker looks at
  std::atomic<int> sleeping_{0};               // workers
  std::atomic<int> wanted_{0};                 // helpers, by all jobs that are open or running
  std::atomic<int> waiting_{0};                // callers asleep until their helpers have finished
  std::atomic<int> workers_{0};
  std::atomic<Clock::rep> fewer_until_{0};  // 0: all helpers are asked
  std::atomic<int> left_out_{0};            // helpers, until then
  std::atomic<Clock::rep> last_long_wait_{0};
  alignas(64) std::mutex mutex_;  // for falling asleep, waking and starting workers
  std::condition_variable work_, done_;
};

}  // namespace kiln::runtime
