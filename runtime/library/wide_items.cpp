#include "runtime/library/wide_items.h"

#include <algorithm>

namespace kiln::runtime {
namespace {

// One order for all algorithms, so that there is one of each: by key, and of equal ones by position if that is asked
// for.
struct First {
  bool stable;
  bool operator()(const OrderedItem& a, const OrderedItem& b) const {
    return a.first < b.first || (stable && a.first == b.first && a.second < b.second);
  }
};

std::vector<OrderedItem> items_of(DType dtype, const std::byte* row, int64_t length, int64_t step, bool turned) {
  std::vector<OrderedItem> items(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    const uint64_t key = order_key(dtype, row + i * step);
    items[static_cast<size_t>(i)] = {turned ? ~key : key, i};
  }
  return items;
}

void take(const std::vector<OrderedItem>& items, int64_t count, std::vector<NarrowItem>& out) {
  out.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<NarrowItem>(items[i].second);
}

}  // namespace

void sort_wide(DType dtype, const std::byte* row, int64_t length, int64_t step, bool descending, bool stable,
               std::vector<NarrowItem>& out) {
  std::vector<OrderedItem> items = items_of(dtype, row, length, step, descending);
  std::sort(items.begin(), items.end(), First{stable});
  take(items, length, out);
}

void select_wide(DType dtype, const std::byte* row, int64_t length, int64_t step, int64_t k, bool largest, bool sorted,
                 std::vector<NarrowItem>& out) {
  std::vector<OrderedItem> items = items_of(dtype, row, length, step, largest);
  auto end = items.begin() + k;
  if (k > 0 && takes_few(k, length)) {
    std::partial_sort(items.begin(), end, items.end(), First{false});
  } else if (k > 0) {
    std::nth_element(items.begin(), end - 1, items.end(), First{false});
    if (sorted) std::sort(items.begin(), end - 1, First{false});
  }
  take(items, k, out);
}

}  // namespace kiln::runtime
