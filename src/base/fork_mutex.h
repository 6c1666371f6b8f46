// Mutexes that a child process can use. A fork copies every mutex as it is, but only the thread that forks: what
// another one held would stay locked in the child for ever.
//
// Which of the two depends on what may happen while it is held. Neither costs more than a std::mutex and a store;
// making and destroying one takes a lock of the process.
#pragma once
#include <pthread.h>

#include <atomic>
#include <mutex>

namespace kiln {

class ForkMutex {
 public:
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;
  void lock() {
    mutex_.lock();
    holder_.store(pthread_self(), std::memory_order_relaxed);
  }
  void unlock() {
    holder_.store({}, std::memory_order_relaxed);
    mutex_.unlock();
  }

 protected:
  explicit ForkMutex(bool waits);
  ~ForkMutex();

 private:
  friend struct ForkHandlers;
  bool held_here() const { return pthread_equal(holder_.load(std::memory_order_relaxed), pthread_self()) != 0; }
  std::mutex mutex_;
  std::atomic<pthread_t> holder_{};
  const bool waits_;
  ForkMutex *next_ = nullptr, *previous_ = nullptr;
};

// A fork waits until nobody holds it, so the child finds whole what it guards. For moments in which none of the user's
// code runs (a callback that waits for the thread that forks would wait for ever), and no other ForkMutex is taken,
// made or destroyed.
class BriefMutex : public ForkMutex {
 public:
  BriefMutex() : ForkMutex(true) {}
};

// In the child it is free, unless the thread that forked holds it. What it guards may be half changed there: nothing of
// that may lead to memory that is not valid.
class LongMutex : public ForkMutex {
 public:
  LongMutex() : ForkMutex(false) {}
};

}  // namespace kiln
