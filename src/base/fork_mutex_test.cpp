#include "base/fork_mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <thread>

namespace kiln {
namespace {

// What the work gives in a child process; -1: it did not end.
int given_in_fork(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(work());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ForkMutex, WhatAnotherThreadHoldsForLongIsFreeInTheChild) {
  LongMutex mutex;
  std::promise<void> held, enough;
  std::thread holder([&] {
    const std::lock_guard lock(mutex);
    held.set_value();
    enough.get_future().wait();
  });
  held.get_future().wait();
  EXPECT_EQ(given_in_fork([&] {
              const std::lock_guard lock(mutex);
              return 7;
            }),
            7);
  enough.set_value();
  holder.join();
  const std::lock_guard lock(mutex);  // and the parent's is as it was
}

TEST(ForkMutex, WhoForksKeepsWhatItHolds) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
#endif
  LongMutex mutex;
  mutex.lock();
  EXPECT_EQ(given_in_fork([&] {
              std::atomic<bool> taken{false};
              std::thread other([&] {
                mutex.lock();
                taken = true;
                mutex.unlock();
              });
              usleep(20'000);
              const bool early = taken;
              mutex.unlock();
              other.join();
              return early ? 1 : 7;
            }),
            7);
  mutex.unlock();
}

TEST(ForkMutex, AForkWaitsUntilABriefOneIsFree) {
  BriefMutex mutex;
  int first = 0, second = 0;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) {
      const std::lock_guard lock(mutex);
      ++first;
      usleep(200);
      ++second;
    }
  });
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(given_in_fork([&] {
                const std::lock_guard lock(mutex);
                return first == second ? 7 : 1;
              }),
              7);
  stop = true;
  writer.join();
}

TEST(ForkMutex, OnesThatAreGoneAreForgotten) {
  {
    const BriefMutex a, b;
    const LongMutex c;
  }
  EXPECT_EQ(given_in_fork([] { return 7; }), 7);
}

}  // namespace
}  // namespace kiln
