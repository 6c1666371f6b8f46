#include "runtime/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <new>

namespace kiln::runtime {
namespace {

// About five microseconds: long enough to catch the next step of the same run.
constexpr int idle_spins = 200;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

ThreadPool& ThreadPool::process() {
  // Never destroyed: workers may still sleep in it when the process ends.
  static ThreadPool* pool = [] {
    auto* made = new ThreadPool;
    made->register_fork_handlers();
    return made;
  }();
  return *pool;
}

void ThreadPool::register_fork_handlers() {
  pthread_atfork([] { process().mutex_.lock(); }, [] { process().mutex_.unlock(); },
                 [] { process().forget_threads(); });
}

void ThreadPool::forget_threads() {
  // Only the forking thread lives on: what others held or waited on is gone with them.
  new (&mutex_) std::mutex;
  new (&work_) std::condition_variable;
  new (&done_) std::condition_variable;
  jobs_ = nullptr;
  workers_ = sleeping_ = 0;
}

int ThreadPool::workers() {
  std::lock_guard lock(mutex_);
  return workers_;
}

void ThreadPool::start_workers(int count) {
  while (workers_ < count) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    auto body = [](void* pool) -> void* {
      static_cast<ThreadPool*>(pool)->worker();
      return nullptr;
    };
    int rc = pthread_create(&thread, &attributes, body, this);
    pthread_attr_destroy(&attributes);
    if (rc != 0) return;  // fewer workers are slower, not wrong
    pthread_setname_np(thread, "kiln-worker");
    ++workers_;
  }
}

void ThreadPool::work(Job& job, int slot) {
  while (true) {
    int64_t begin = job.next.fetch_add(job.chunk, std::memory_order_relaxed);
    if (begin >= job.items) return;
    job.task(job.context, slot, begin, std::min(begin + job.chunk, job.items));
  }
}

ThreadPool::Job* ThreadPool::wait_for_job(int& slot) {
  uint32_t seen = epoch_.load(std::memory_order_acquire);
  for (int spin = 0;; ++spin) {
    {
      std::unique_lock lock(mutex_);
      while (true) {
        for (Job* job = jobs_; job; job = job->following) {
          if (!job->wants_help()) continue;
          slot = job->slots++;
          job->inside.fetch_add(1, std::memory_order_relaxed);
          // The waker wakes one; each that wakes wakes the next, so that no one pays for all.
          if (job->wants_help() && sleeping_ > 0) work_.notify_one();
          return job;
        }
        if (spin == 0) break;  // first watch without the mutex
        ++sleeping_;
        work_.wait(lock);
        --sleeping_;
      }
      seen = epoch_.load(std::memory_order_acquire);
    }
    for (int i = 0; i < idle_spins && epoch_.load(std::memory_order_acquire) == seen; ++i) relax();
  }
}

void ThreadPool::leave(Job& job) {
  // Under the mutex: the caller destroys the job as soon as it sees 0, and it may look only when nobody holds it.
  std::lock_guard lock(mutex_);
  if (job.inside.fetch_sub(1, std::memory_order_release) == 1) done_.notify_all();
}

void ThreadPool::worker() {
  while (true) {
    int slot = 0;
    Job* job = wait_for_job(slot);
    work(*job, slot);
    leave(*job);
  }
}

void ThreadPool::run(int64_t items, int64_t chunk, int threads, Task task, void* context) {
  chunk = std::max<int64_t>(chunk, 1);
  int64_t chunks = (items + chunk - 1) / chunk;
  threads = static_cast<int>(std::min<int64_t>(threads, chunks));
  if (threads <= 1) {
    if (items > 0) task(context, 0, 0, items);
    return;
  }
  Job job{task, context, items, chunk, threads};
  {
    std::lock_guard lock(mutex_);
    start_workers(threads - 1);
    job.following = jobs_;
    jobs_ = &job;
    epoch_.fetch_add(1, std::memory_order_release);
    if (sleeping_ > 0) work_.notify_one();
  }
  work(job, 0);
  std::unique_lock lock(mutex_);
  Job** link = &jobs_;
  while (*link != &job) link = &(*link)->following;
  *link = job.following;
  for (int i = 0; i < idle_spins && job.inside.load(std::memory_order_acquire) > 0; ++i) {
    lock.unlock();
    relax();
    lock.lock();
  }
  done_.wait(lock, [&] { return job.inside.load(std::memory_order_acquire) == 0; });
}

}  // namespace kiln::runtime
