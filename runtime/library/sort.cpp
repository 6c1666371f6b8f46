// aten.sort, aten.sort.stable: values and indices along a dimension. Where stability was not asked for, equal values
// come in the order in which eager leaves them: that of std::sort, or of a radix sort for long vectors of integers.
#include <algorithm>
#include <cstring>

#include "runtime/library/kernels.h"
#include "runtime/library/wide_items.h"

namespace kiln::runtime {
namespace {

// Rows without equals, and those whose equals keep their order, are sorted by counting. `distinct`: it is worth trying.
[[gnu::noinline]] void sort_row(const NarrowKeys& keys, bool stable, bool distinct, std::vector<NarrowItem>& items,
                                std::vector<NarrowItem>& spare) {
  keys.items(items);
  stable |= items.size() <= 16;  // std::sort inserts so few one by one
  if (stable || distinct) {
    sort_narrow(items, spare);
    if (stable || !has_equals(items, items.size())) return;
    keys.items(items);
  }
  std::sort(items.begin(), items.end(), first_narrow);
}

}  // namespace

void run_sort(LibraryCall& call) {
  TensorView self = call.tensor("self"), values = call.output(0), indices = call.output(1);
  if (is_complex(self.dtype)) call.fail("Sort currently does not support complex dtypes on CPU");
  int64_t dim = wrap_dim(call, call.integer("dim", -1), self.rank());
  bool descending = call.boolean("descending", false), stable = call.boolean("stable", false);
  constexpr int64_t radix_length = 32768;
  stable |= self.rank() == 1 && self.sizes[0] >= radix_length && !descending && is_integer(self.dtype);
  constexpr int64_t often_distinct = 4096;  // of more floats two are mostly equal, of integers and narrow floats of few
  Rows from(self, dim), to(values, dim), to_index(indices, dim);
  const bool distinct = self.dtype == DType::f32 && from.length() <= often_distinct;
  call.parallel(from.count(), std::max<int64_t>(1, 4096 / std::max<int64_t>(from.length(), 1)),
                [&](int64_t begin, int64_t end) {
                  std::vector<NarrowItem> items, spare;
                  NarrowKeys keys(self.dtype, from.length(), from.step(), descending);
                  for (int64_t r = begin; r < end; ++r) {
                    const std::byte* row = from.row(r);
                    if (keys.begin(row))
                      sort_row(keys, stable, distinct, items, spare);
                    else
                      sort_wide(self.dtype, row, from.length(), from.step(), descending, stable, items);
                    copy_ranked({to.row(r), to.step(), to_index.row(r), to_index.step()}, row, from.step(),
                                dtype_bytes(self.dtype), items.data(), from.length());
                  }
                });
}

}  // namespace kiln::runtime
