#include "runtime/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <new>

namespace kiln::runtime {
namespace {

// Some ten microseconds: long enough to catch the next step of the same run.
constexpr int idle_spins = 300;
// Steps between that are too small for two threads take longer, and waking up costs more than they do. So much longer
// is watched for, but whoever else wants the processor goes first.
constexpr auto patience = std::chrono::microseconds(100);
constexpr int spins_between = 16;
// See ThreadPool::asked_of.
constexpr auto longest_wait = std::chrono::microseconds(300);
constexpr int pauses = 24, threads_to_one_left_out = 8, most_left_out = 1024;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Until `done` is true; false: that took too long.
template <class Done>
bool watch(const Done& done) {
  for (int i = 0; i < idle_spins; ++i) {
    if (done()) return true;
    relax();
  }
  const auto until = std::chrono::steady_clock::now() + patience;
  do {
    sched_yield();
    for (int i = 0; i < spins_between; ++i) {
      if (done()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

}  // namespace

ThreadPool& ThreadPool::process() { return *process_pool; }

// Made when this code is loaded, so that no fork finds it half made. Never destroyed: workers may still sleep in it
// when the process ends.
ThreadPool* const ThreadPool::process_pool = [] {
  auto* made = new ThreadPool;
  register_fork_handlers();
  return made;
}();

void ThreadPool::register_fork_handlers() {
  pthread_atfork([] { process().mutex_.lock(); }, [] { process().mutex_.unlock(); },
                 [] { process().forget_threads(); });
}

void ThreadPool::forget_threads() {
  // Only the forking thread lives on: what others held or waited on is gone with them.
  new (&mutex_) std::mutex;
  new (&work_) std::condition_variable;
  new (&done_) std::condition_variable;
  for (Job& job : jobs_) job.taken = false, job.tickets = 0;
  open_ = 0;
  sleeping_ = waiting_ = workers_ = wanted_ = left_out_ = 0;
  fewer_until_ = last_long_wait_ = 0;
}

void ThreadPool::start_workers(int count) {
  if (workers_.load(std::memory_order_relaxed) >= count) return;
  std::lock_guard lock(mutex_);
  while (workers_ < count) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    auto body = [](void* number) -> void* {
      process().worker(static_cast<int>(reinterpret_cast<intptr_t>(number)));
      return nullptr;
    };
    // The caller of a job is number 0.
    int rc = pthread_create(&thread, &attributes, body, reinterpret_cast<void*>(intptr_t{workers_ + 1}));
    pthread_attr_destroy(&attributes);
    if (rc != 0) return;  // fewer workers are slower, not wrong
    pthread_setname_np(thread, "kiln-worker");
    ++workers_;
  }
}

void ThreadPool::work(Job& job, int slot, int number) {
  for (int i = 0; i < job.ranges && job.unfinished.load(std::memory_order_relaxed) > 0; ++i) {
    Range& range = job.range[static_cast<size_t>((number + i) % job.ranges)];
    const int64_t end = range.end;
    for (int64_t begin = range.next.load(std::memory_order_relaxed); begin < end;) {
      const int64_t size = std::clamp((end - begin) / 2, job.least, job.most);
      if (!range.next.compare_exchange_weak(begin, begin + size, std::memory_order_relaxed)) continue;
      if (begin + size >= end) job.unfinished.fetch_sub(1, std::memory_order_relaxed);
      if (job.backwards) {
        const int64_t mirrored = range.begin + (end - begin);
        job.task(job.context, slot, std::max(mirrored - size, range.begin), mirrored);
      } else {
        job.task(job.context, slot, begin, std::min(begin + size, end));
      }
      begin = range.next.load(std::memory_order_relaxed);
    }
  }
}

ThreadPool::Job* ThreadPool::take_job() {
  for (Job& job : jobs_)
    if (!job.taken.load(std::memory_order_relaxed) && !job.taken.exchange(true, std::memory_order_acquire)) return &job;
  return nullptr;
}

// Takes a ticket of any open job; nullptr: there is none.
ThreadPool::Job* ThreadPool::join_any(int& slot) {
  for (uint32_t open = open_.load(); open != 0; open &= open - 1) {
    int index = std::countr_zero(open);
    Job& job = jobs_[static_cast<size_t>(index)];
    // Nothing left to do: joining would only make the caller wait for us.
    if (job.unfinished.load(std::memory_order_relaxed) <= 0) continue;
    // One step, not a comparison that all but one of many must repeat. Who comes too late leaves less than nothing.
    if (job.tickets.load(std::memory_order_relaxed) <= 0) continue;
    const int tickets = job.tickets.fetch_sub(1, std::memory_order_acquire);
    if (tickets <= 0) continue;
    if (tickets == 1) open_.fetch_and(~(1u << index));  // that was the last one
    slot = job.threads - tickets;
    return &job;
  }
  return nullptr;
}

ThreadPool::Job* ThreadPool::wait_for_job(int& slot) {
  // The next step of the same run usually comes within microseconds: watch for it without the mutex.
  Job* job = nullptr;
  if (watch([&] { return (job = join_any(slot)) != nullptr; })) return job;
  std::unique_lock lock(mutex_);
  ++sleeping_;  // before the last look: who opens a job either is seen there or sees that we sleep
  work_.wait(lock, [&] { return (job = join_any(slot)) != nullptr; });
  --sleeping_;
  return job;
}

// Two: each that wakes wakes two more, so that nobody pays for all and all are soon awake. Who wants fewer helpers than
// are awake leaves the others asleep: waking them takes longer than many a step, and they would find nothing to do.
void ThreadPool::wake_workers() {
  const int sleeping = sleeping_.load();
  if (sleeping == 0 || workers_.load(std::memory_order_relaxed) - sleeping >= wanted_.load()) return;
  std::lock_guard lock(mutex_);
  work_.notify_one();
  work_.notify_one();
}

void ThreadPool::finish(Job& job) {
  job.finished.fetch_add(1);  // the caller may reuse the job from here on
  if (waiting_.load() == 0) return;
  std::lock_guard lock(mutex_);
  done_.notify_all();
}

void ThreadPool::worker(int number) {
  while (true) {
    int slot = 0;
    Job* job = wait_for_job(slot);
    if (job->tickets.load(std::memory_order_relaxed) > 0) wake_workers();
    work(*job, slot, number);
    finish(*job);
  }
}

void ThreadPool::close(Job& job, uint32_t bit) {
  const int left = std::max(job.tickets.exchange(0), 0), joined = job.threads - 1 - left;
  // Else who took the last ticket has done it, or does before being finished: all that wait look at this.
  if (left > 0) open_.fetch_and(~bit);
  auto all_finished = [&] { return job.finished.load() == joined; };
  if (!watch(all_finished)) {
    std::unique_lock lock(mutex_);
    ++waiting_;  // before the last look, as above
    done_.wait(lock, all_finished);
    --waiting_;
  }
  job.taken.store(false, std::memory_order_release);
}

void ThreadPool::run(int64_t items, Pieces pieces, int threads, Task task, void* context, bool backwards) {
  const int64_t least = std::max<int64_t>(pieces.least, 1);
  threads = static_cast<int>(std::min<int64_t>(threads, (items + least - 1) / least));
  if (threads > 1) threads = asked_of(threads);
  Job* job = threads > 1 ? take_job() : nullptr;
  if (!job) {
    if (items > 0) task(context, 0, 0, items);
    return;
  }
  start_workers(threads - 1);
  job->task = task, job->context = context, job->least = least, job->most = std::max(pieces.most, least),
  job->threads = threads;
  job->backwards = backwards;
  job->ranges = std::min(threads, most_ranges);
  const int64_t each = items / job->ranges, more = items % job->ranges;
  int64_t begin = 0;
  for (int i = 0; i < job->ranges; ++i) {
    Range& range = job->range[static_cast<size_t>(i)];
    range.next.store(begin, std::memory_order_relaxed);
    range.begin = begin;
    begin += each + (i < more ? 1 : 0);
    range.end = begin;
  }
  job->unfinished.store(job->ranges, std::memory_order_relaxed);
  job->finished.store(0, std::memory_order_relaxed);
  wanted_.fetch_add(threads - 1);
  uint32_t bit = 1u << (job - jobs_.data());
  job->tickets.store(threads - 1, std::memory_order_release);
  open_.fetch_or(bit);
  wake_workers();
  const Clock::time_point begun = Clock::now();
  work(*job, 0, 0);
  const Clock::time_point done = Clock::now();
  close(*job, bit);
  const Clock::duration waited = Clock::now() - done;
  wanted_.fetch_sub(threads - 1);
  if (waited > (done - begun) + longest_wait) waited_long(threads, done, waited);
}

// Once may be chance, of a host that had other work or a page that was missing; twice within the pause is a neighbour.
// Where there are many threads, one late helper says little of the others: an eighth is left out, and twice as many
// each time that this was not enough.
void ThreadPool::waited_long(int threads, Clock::time_point begun, Clock::duration waited) {
  const Clock::rep now = (begun + waited).time_since_epoch().count(), pause = (waited * pauses).count();
  const bool again = now - last_long_wait_.exchange(now, std::memory_order_relaxed) < 2 * pause;
  const int before = left_out_.load(std::memory_order_relaxed);
  if (!again) return left_out_.store(0, std::memory_order_relaxed);
  left_out_.store(std::min(std::max(2 * before, threads / threads_to_one_left_out), most_left_out),
                  std::memory_order_relaxed);
  fewer_until_.store(now + pause, std::memory_order_relaxed);
}

// A helper that took much longer with its piece than the caller with all the others has lost its processor to somebody
// else, for as long as a turn there is. For many times that fewer are asked to help; who does not come is who has no
// processor. Of two threads that leaves the caller alone, and of more never less than half.
int ThreadPool::asked_of(int threads) {
  const Clock::rep until = fewer_until_.load(std::memory_order_relaxed);
  if (until == 0) [[likely]]
    return threads;
  if (Clock::now().time_since_epoch().count() < until)
    return threads - std::clamp(left_out_.load(std::memory_order_relaxed), 1, threads / 2);
  fewer_until_.store(0, std::memory_order_relaxed);
  return threads;
}

}  // namespace kiln::runtime
