#include "runtime/library/wide_items.h"

#include <algorithm>
#include <bit>

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

// Sorts by the upper 32 bits of what varies, by counting, and then what is alike in those: few mostly. `items` stays.
// False: two are equal.
bool sort_by_upper_bits(const std::vector<OrderedItem>& items, std::vector<NarrowItem>& out) {
  uint64_t low = UINT64_MAX, high = 0;
  for (const OrderedItem& item : items) low = std::min(low, item.first), high = std::max(high, item.first);
  const int shift = std::max(0, 32 - std::countl_zero(high - low));
  out.resize(items.size());
  for (size_t i = 0; i < items.size(); ++i)
    out[i] = narrow_item(static_cast<uint32_t>((items[i].first - low) >> shift), items[i].second);
  std::vector<NarrowItem> spare;
  sort_narrow(out, spare);
  bool distinct = true;
  std::vector<OrderedItem> alike;
  for (size_t begin = 0, end; begin < out.size(); begin = end) {
    for (end = begin + 1; end < out.size() && key_of(out[end]) == key_of(out[begin]);) ++end;
    if (end == begin + 1) continue;
    alike.clear();
    for (size_t i = begin; i < end; ++i) alike.push_back(items[static_cast<size_t>(position_of(out[i]))]);
    std::sort(alike.begin(), alike.end(), First{true});
    for (size_t i = begin; i < end; ++i) {
      out[i] = static_cast<NarrowItem>(alike[i - begin].second);
      distinct &= i == begin || alike[i - begin].first != alike[i - begin - 1].first;
    }
  }
  return distinct;
}

}  // namespace

void sort_wide(DType dtype, const std::byte* row, int64_t length, int64_t step, bool descending, bool stable,
               std::vector<NarrowItem>& out) {
  std::vector<OrderedItem> items = items_of(dtype, row, length, step, descending);
  if (length <= int64_t{UINT32_MAX} && (sort_by_upper_bits(items, out) || stable)) return;
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
