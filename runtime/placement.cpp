#include "runtime/placement.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace kiln::runtime {
namespace {

int64_t round_up(int64_t value, int64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

struct Taken {
  int64_t begin, end;
};

// The start of the smallest gap between `taken` (sorted by begin) that holds the buffer; else after the last.
int64_t best_gap(const std::vector<Taken>& taken, int64_t bytes, int64_t alignment) {
  int64_t free_from = 0, best = -1, best_size = INT64_MAX;
  for (const Taken& t : taken) {
    int64_t start = round_up(free_from, alignment);
    int64_t gap = t.begin - start;
    if (gap >= bytes && gap < best_size) best = start, best_size = gap;
    free_from = std::max(free_from, t.end);
  }
  return best >= 0 ? best : round_up(free_from, alignment);
}

}  // namespace

int64_t place(std::vector<PlacedBuffer>& buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  int64_t total = 0;
  std::vector<size_t> placed;
  std::vector<Taken> taken;
  for (size_t i : order) {
    PlacedBuffer& buffer = buffers[i];
    taken.clear();
    for (size_t j : placed)
      if (buffers[j].first <= buffer.last && buffer.first <= buffers[j].last)
        taken.push_back({buffers[j].offset, buffers[j].offset + buffers[j].bytes});
    std::sort(taken.begin(), taken.end(), [](const Taken& a, const Taken& b) { return a.begin < b.begin; });
    buffer.offset = best_gap(taken, buffer.bytes, buffer.alignment);
    if (buffer.bytes > INT64_MAX / 4 || buffer.offset > INT64_MAX / 4)
      fail_user("K0650", "the buffers of a run do not fit the address space");
    total = std::max(total, buffer.offset + buffer.bytes);
    placed.push_back(i);
  }
  return total;
}

}  // namespace kiln::runtime
