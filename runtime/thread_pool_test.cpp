#include "runtime/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/processors.h"

namespace kiln::runtime {
namespace {

struct Counts {
  std::vector<std::atomic<int>> seen;
  std::atomic<int> most_slots{0};
  explicit Counts(size_t n) : seen(n) {}
};

void count(void* data, int slot, int64_t begin, int64_t end) {
  auto* counts = static_cast<Counts*>(data);
  for (int64_t i = begin; i < end; ++i) ++counts->seen[static_cast<size_t>(i)];
  int most = counts->most_slots;
  while (slot > most && !counts->most_slots.compare_exchange_weak(most, slot)) {
  }
}

bool every_item_once(int64_t items, int64_t chunk, int threads, bool backwards = false) {
  Counts counts(static_cast<size_t>(items));
  ThreadPool::process().run(items, {chunk, 4 * chunk}, threads, count, &counts, backwards);
  for (auto& n : counts.seen)
    if (n != 1) return false;
  return counts.most_slots < threads;
}

TEST(ThreadPool, RunsEveryItemOnce) {
  for (int64_t items : {0, 1, 2, 7, 1000})
    for (int64_t chunk : {1, 3, 5000})
      for (int threads : {1, 2, 4})
        for (bool backwards : {false, true})
          EXPECT_TRUE(every_item_once(items, chunk, threads, backwards)) << items << " " << chunk << " " << threads;
}

// The caller's part alone: nobody else is asked.
TEST(ThreadPool, BackwardsBeginsAtTheEndOfAPart) {
  using Pieces = std::vector<std::pair<int64_t, int64_t>>;
  struct Order {
    std::mutex mutex;
    Pieces first_part[2];  // by who took them: the caller, or the helper, which may take all
  };
  auto note = [](void* data, int slot, int64_t begin, int64_t end) {
    auto* seen = static_cast<Order*>(data);
    std::lock_guard lock(seen->mutex);
    if (end <= 10) seen->first_part[slot].emplace_back(begin, end);
  };
  Pieces all;
  // Beside busy processes the pool may let the caller work alone, which takes everything as one piece.
  for (int attempt = 0; attempt < 1000 && all.empty(); ++attempt) {
    Order order;
    ThreadPool::process().run(20, {3, 12}, 2, note, &order, true);
    for (const Pieces& taken : order.first_part) {
      EXPECT_TRUE(std::is_sorted(taken.rbegin(), taken.rend()));
      all.insert(all.end(), taken.begin(), taken.end());
    }
    if (all.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (Pieces{{0, 2}, {2, 5}, {5, 10}}));  // half of what is left, a chunk at least
}

TEST(ThreadPool, ServesSeveralCallersAtOnce) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) wrong += !every_item_once(50 + i, 3, 3);
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

// Beside other processes: a helper that lost its processor for long twice is not asked again at once.
TEST(ThreadPool, AsksForNoHelpWhereItHadToWait) {
  struct Seen {
    std::atomic<int> helpers{0};
  };
  auto slow_helper = [](void* data, int slot, int64_t, int64_t) {
    if (slot > 0) ++static_cast<Seen*>(data)->helpers;
    std::this_thread::sleep_for(std::chrono::milliseconds(slot > 0 ? 30 : 2));
  };
  auto quick = [](void* data, int slot, int64_t, int64_t) {
    if (slot > 0) ++static_cast<Seen*>(data)->helpers;
  };
  Seen first, next;
  for (int i = 0; i < 20 && first.helpers < 2; ++i) ThreadPool::process().run(2, {1, 4}, 2, slow_helper, &first);
  if (first.helpers < 2) GTEST_SKIP() << "no helper came";
  for (int i = 0; i < 100; ++i) ThreadPool::process().run(8, {1, 4}, 2, quick, &next);
  EXPECT_EQ(next.helpers, 0);
  // Of many helpers it was one: all others are asked still.
  struct Slots {
    std::atomic<int> most{0}, helpers{0};
  } slots;
  for (int i = 0; i < 5; ++i)
    ThreadPool::process().run(
        32, {1, 4}, 8,
        [](void* data, int slot, int64_t, int64_t) {
          auto* seen = static_cast<Slots*>(data);
          if (slot > 0) ++seen->helpers;
          for (int most = seen->most; slot > most && !seen->most.compare_exchange_weak(most, slot);) {
          }
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        },
        &slots);
  EXPECT_GT(slots.helpers, 0);
  EXPECT_LT(slots.most, 7);
  // Later it is.
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  for (int i = 0; i < 200 && next.helpers == 0; ++i) {
    ThreadPool::process().run(
        64, {1, 4}, 2,
        [](void* data, int slot, int64_t, int64_t) {
          if (slot > 0) ++static_cast<Seen*>(data)->helpers;
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        },
        &next);
  }
  EXPECT_GT(next.helpers, 0);
}

// Where they come late again and again, fewer and fewer are asked, down to half.
TEST(ThreadPool, LeavesOutMoreOfManyWhoComeLate) {
  struct Seen {
    std::atomic<int> most{0};
  } seen;
  auto late = [](void* data, int slot, int64_t, int64_t) {
    auto* all = static_cast<Seen*>(data);
    for (int most = all->most; slot > most && !all->most.compare_exchange_weak(most, slot);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(slot > 0 ? 12 : 1));
  };
  bool halved = false;
  for (int i = 0; i < 40 && !halved; ++i) {
    seen.most = 0;
    ThreadPool::process().run(16, {1, 1}, 16, late, &seen);
    halved = seen.most > 0 && seen.most < 8;
  }
  EXPECT_TRUE(halved);
  for (int i = 0; i < 10; ++i) {
    seen.most = 0;
    ThreadPool::process().run(16, {1, 1}, 16, late, &seen);
    EXPECT_LT(seen.most, 16);
  }
}

TEST(ThreadPool, WorksInAForkedChild) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
#endif
  ASSERT_TRUE(every_item_once(100, 1, 3));
  pid_t child = fork();
  if (child == 0) _exit(every_item_once(100, 1, 3) && ThreadPool::process().workers() == 2 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(every_item_once(100, 1, 3));
}

TEST(Processors, AreAtLeastOneAndNotMoreThanTheAffinityAllows) {
  EXPECT_GE(usable_processors(), 1);
  EXPECT_LE(usable_processors(), affinity_processors());
}

}  // namespace
}  // namespace kiln::runtime
