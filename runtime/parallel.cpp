#include "runtime/parallel.h"

#include <algorithm>

#include "runtime/processors.h"
#include "runtime/thread_pool.h"

namespace kiln::runtime {
namespace {

constexpr int64_t wake_grains = 3, pieces_at_first = 4;

struct Pieces {
  Parallel::Task task;
  void* context;
  int64_t items, piece;
};

}  // namespace

Parallel::Parallel(int threads, kiln_parallel_for_fn replacement, void* user) : replacement_(replacement), user_(user) {
  set_threads(threads);
}

void Parallel::set_threads(int threads) {
  threads_.store(threads < 1 ? usable_processors() : std::min(threads, most_threads), std::memory_order_relaxed);
}

void Parallel::run(int64_t items, int64_t grain, int threads, Task task, void* context, bool backwards) const {
  int64_t worthwhile = grain > 1 ? items / grain + (items % grain != 0) : items;
  // A grain is worth handing to a thread that is awake; waking one takes several times as long. One item may be worth
  // any number of them.
  if (worthwhile > 1 && grain > 1 && !replacement_ && !ThreadPool::process().awake())
    worthwhile = worthwhile / wake_grains + (worthwhile % wake_grains != 0);
  auto used = static_cast<int>(std::min<int64_t>(threads, worthwhile));
  if (used <= 1) {
    if (items > 0) task(context, 0, 0, items);
    return;
  }
  if (!replacement_) {
    // Pieces, so that a late or slow thread does not hold up the others: a few for each thread, and in the end as small
    // as is worth handing out. Of cores that share their units with others' work, some are half as fast as the rest.
    auto part = [&](int64_t pieces) { return items / pieces + (items % pieces != 0); };
    const int64_t piece = std::min(part(int64_t{used} * 4), std::max(part(int64_t{used} * 16), grain));
    ThreadPool::process().run(items, {std::min(piece, grain), pieces_at_first * piece}, used, task, context, backwards);
    return;
  }
  // The embedder's threads are not ours to count: each piece is a slot of its own.
  Pieces all{task, context, items, items / used + (items % used != 0)};
  auto one = [](void* data, int64_t i) {
    auto* p = static_cast<Pieces*>(data);
    int64_t begin = i * p->piece, end = std::min(begin + p->piece, p->items);
    if (begin < end) p->task(p->context, static_cast<int>(i), begin, end);
  };
  replacement_(user_, used, one, &all);
}

}  // namespace kiln::runtime
