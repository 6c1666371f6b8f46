// Elements of a row as whole numbers of 64 bits: a key of 32 bits, whose order is PyTorch's sorting order, above the
// position. They are half as long as a key and a position apart, compare in one instruction, and no two are equal.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/library/rows.h"

namespace kiln::runtime {

using NarrowItem = uint64_t;
inline uint32_t key_of(NarrowItem item) { return static_cast<uint32_t>(item >> 32); }
inline int64_t position_of(NarrowItem item) { return static_cast<int64_t>(item & 0xffffffff); }
// The order that looks at keys alone leaves equal ones as the algorithm does.
inline bool first_narrow(NarrowItem a, NarrowItem b) { return key_of(a) < key_of(b); }
inline NarrowItem narrow_item(uint32_t key, int64_t position) {
  return uint64_t{key} << 32 | static_cast<uint64_t>(position);
}

// Keys of the elements of rows. Those of 64 bits have narrow ones where their values are within 2^32 of one another.
class NarrowKeys {
 public:
  NarrowKeys(DType dtype, int64_t length, int64_t step, bool descending)
      : dtype_(dtype), length_(length), step_(step), turn_(descending ? UINT32_MAX : 0) {}
  // Before the elements of a row are read; false: they have no narrow keys.
  bool begin(const std::byte* row);
  void read(int64_t first, int64_t count, uint32_t* keys) const;
  void items(std::vector<NarrowItem>& out) const;

 private:
  DType dtype_;
  int64_t length_, step_;
  uint32_t turn_;
  const std::byte* row_ = nullptr;
  uint64_t lowest_ = 0;
};

// Whether eager takes the first k with a heap, rather than by selecting and sorting.
inline bool takes_few(int64_t k, int64_t length) { return k * 64 <= length; }
// Sorts by key and then by position; `spare` is as long.
void sort_narrow(std::vector<NarrowItem>& items, std::vector<NarrowItem>& spare);
// Whether two neighbours among the first `count` have the same key.
bool has_equals(const std::vector<NarrowItem>& items, size_t count);

// The elements at these positions, in this order, and the positions, as rows of results.
struct RowOfResults {
  std::byte* values;
  int64_t value_step;
  std::byte* indices;
  int64_t index_step;
};
void copy_ranked(const RowOfResults& to, const std::byte* source, int64_t step, int64_t item, const NarrowItem* items,
                 int64_t count);

}  // namespace kiln::runtime
