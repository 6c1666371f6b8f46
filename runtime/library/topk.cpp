// aten.topk: the k largest or smallest of each row, with their indices. Which of equal values are taken, and in which
// order, is as in eager: a partial sort for few of many, otherwise a selection and a sort of what was selected.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/text.h"
#include "runtime/library/kernels.h"
#include "runtime/library/wide_items.h"

namespace kiln::runtime {
namespace {

constexpr int64_t piece = 64;  // keys that are looked at together

class Selection {
 public:
  Selection(const NarrowKeys& keys, int64_t length, int64_t k) : keys_(keys), length_(length), k_(k) {}

  [[gnu::noinline]] void run(bool sorted, std::vector<NarrowItem>& chosen, std::vector<NarrowItem>& spare) {
    if (k_ == 0) return;
    if (takes_few(k_, length_)) return from_heap(chosen);
    if (sorted && (few_passes() ? by_passes(chosen, spare) : distinct(chosen, spare))) return;
    keys_.items(chosen);
    auto last = chosen.begin() + (k_ - 1);
    std::nth_element(chosen.begin(), last, chosen.end(), first_narrow);
    if (sorted) std::sort(chosen.begin(), last, first_narrow);
  }

 private:
  // Calls found(item) for the elements from `first` on whose key is below top(), which falls as they are found; most
  // pieces have none.
  template <class Top, class Found>
  void for_each_below(int64_t first, Top top, Found found) {
    std::array<uint32_t, piece> keys;
    for (; first < length_; first += piece) {
      const int64_t count = std::min(piece, length_ - first);
      if (count < piece) keys.fill(UINT32_MAX);
      keys_.read(first, count, keys.data());
      const uint32_t bound = top();
      uint32_t any = 0;
      for (uint32_t key : keys) any |= key < bound ? 1 : 0;
      if (any == 0) continue;
      for (int64_t i = 0; i < count; ++i) {
        const uint32_t key = keys[static_cast<size_t>(i)];
        if (key < top()) found(narrow_item(key, first + i));
      }
    }
  }

  // std::partial_sort step by step, whose heap decides among equals, without the elements that never enter it.
  [[gnu::noinline]] void from_heap(std::vector<NarrowItem>& heap) {
    heap.resize(static_cast<size_t>(k_));
    for (int64_t i = 0; i < k_; ++i) {
      uint32_t key;
      keys_.read(i, 1, &key);
      heap[static_cast<size_t>(i)] = narrow_item(key, i);
    }
    std::make_heap(heap.begin(), heap.end(), first_narrow);
    for_each_below(
        k_, [&] { return key_of(heap[0]); }, [&](NarrowItem item) { replace_top(heap, item); });
    std::sort_heap(heap.begin(), heap.end(), first_narrow);
  }

  // The hole goes down to a leaf, along the larger children (of equals the right one), and the item up from there.
  static void replace_top(std::vector<NarrowItem>& heap, NarrowItem item) {
    size_t hole = 0;
    for (size_t right = 2; right <= heap.size(); right = 2 * hole + 2) {
      const size_t child = right == heap.size() || first_narrow(heap[right], heap[right - 1]) ? right - 1 : right;
      heap[hole] = heap[child], hole = child;
    }
    for (; hole > 0 && first_narrow(heap[(hole - 1) / 2], item); hole = (hole - 1) / 2)
      heap[hole] = heap[(hole - 1) / 2];
    heap[hole] = item;
  }

  bool few_passes() const { return length_ * (k_ + 1) <= 1024; }

  // Of short rows the smallest one k + 1 times, four chains side by side.
  [[gnu::noinline]] bool by_passes(std::vector<NarrowItem>& chosen, std::vector<NarrowItem>& left) {
    keys_.items(left);
    while (left.size() % 4 != 0) left.push_back(UINT64_MAX);
    chosen.clear();
    for (int64_t i = 0; i < std::min(k_ + 1, length_); ++i) {
      std::array<NarrowItem, 4> least{left[0], left[1], left[2], left[3]};
      for (size_t n = 4; n < left.size(); n += 4)
        for (size_t chain = 0; chain < 4; ++chain) least[chain] = std::min(least[chain], left[n + chain]);
      chosen.push_back(std::min(std::min(least[0], least[1]), std::min(least[2], least[3])));
      left[static_cast<size_t>(position_of(chosen.back()))] = UINT64_MAX;
    }
    return !has_equals(chosen, chosen.size());
  }

  // The result does not depend on the algorithm where no two of the first k + 1 are equal. What is kept at least are
  // these; it grows to twice as many before the others are dropped.
  [[gnu::noinline]] bool distinct(std::vector<NarrowItem>& chosen, std::vector<NarrowItem>& spare) {
    const auto wanted = static_cast<size_t>(std::min(k_ + 1, length_));
    uint32_t bound = UINT32_MAX;
    chosen.clear();
    auto drop = [&] {
      std::nth_element(chosen.begin(), chosen.begin() + static_cast<int64_t>(wanted) - 1, chosen.end(), first_narrow);
      chosen.resize(wanted);
    };
    std::array<uint32_t, piece> keys;
    for (int64_t first = 0; first < length_; first += piece) {
      const int64_t count = std::min(piece, length_ - first);
      keys_.read(first, count, keys.data());
      size_t have = chosen.size();
      chosen.resize(have + static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) {  // without a branch: which ones are kept is not to be foreseen
        const uint32_t key = keys[static_cast<size_t>(i)];
        chosen[have] = narrow_item(key, first + i);
        have += key < bound || bound == UINT32_MAX ? 1 : 0;
      }
      chosen.resize(have);
      if (have < 2 * wanted) continue;
      drop();
      bound = key_of(chosen.back());
    }
    if (chosen.size() > wanted) drop();
    sort_narrow(chosen, spare);
    return !has_equals(chosen, wanted);
  }

  const NarrowKeys& keys_;
  int64_t length_, k_;
};

}  // namespace

void run_topk(LibraryCall& call) {
  TensorView self = call.tensor("self"), values = call.output(0), indices = call.output(1);
  if (is_complex(self.dtype)) call.fail("topk does not support complex dtypes on CPU");
  int64_t k = call.integer("k", 0), dim = wrap_dim(call, call.integer("dim", -1), self.rank());
  bool largest = call.boolean("largest", true), sorted = call.boolean("sorted", true);
  Rows from(self, dim), to(values, dim), to_index(indices, dim);
  if (k < 0 || k > from.length()) call.fail(str("selected index k out of range: ", k, " of ", from.length()));
  call.parallel(from.count(), std::max<int64_t>(1, 4096 / std::max<int64_t>(from.length(), 1)),
                [&](int64_t begin, int64_t end) {
                  std::vector<NarrowItem> chosen, spare;
                  NarrowKeys keys(self.dtype, from.length(), from.step(), largest);
                  for (int64_t r = begin; r < end; ++r) {
                    const std::byte* row = from.row(r);
                    if (keys.begin(row))
                      Selection(keys, from.length(), k).run(sorted, chosen, spare);
                    else
                      select_wide(self.dtype, row, from.length(), from.step(), k, largest, sorted, chosen);
                    copy_ranked({to.row(r), to.step(), to_index.row(r), to_index.step()}, row, from.step(),
                                dtype_bytes(self.dtype), chosen.data(), k);
                  }
                });
}

}  // namespace kiln::runtime
