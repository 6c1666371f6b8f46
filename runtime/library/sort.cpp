// aten.sort, aten.sort.stable: values and indices along a dimension. Where stability was not asked for, equal values
// come in the order in which eager leaves them: that of std::sort, or of a radix sort for long vectors of integers.
#include <algorithm>
#include <cstring>

#include "runtime/library/kernels.h"
#include "runtime/library/rows.h"

namespace kiln::runtime {

void run_sort(LibraryCall& call) {
  TensorView self = call.tensor("self"), values = call.output(0), indices = call.output(1);
  if (is_complex(self.dtype)) call.fail("Sort currently does not support complex dtypes on CPU");
  int64_t dim = wrap_dim(call, call.integer("dim", -1), self.rank());
  bool descending = call.boolean("descending", false), stable = call.boolean("stable", false);
  constexpr int64_t radix_length = 32768;
  stable |= self.rank() == 1 && self.sizes[0] >= radix_length && !descending && is_integer(self.dtype);
  Rows from(self, dim), to(values, dim), to_index(indices, dim);
  auto item = static_cast<size_t>(dtype_bytes(self.dtype));
  call.parallel(from.count(), std::max<int64_t>(1, 4096 / std::max<int64_t>(from.length(), 1)),
                [&](int64_t begin, int64_t end) {
                  std::vector<OrderedItem> keys(static_cast<size_t>(from.length()));
                  for (int64_t r = begin; r < end; ++r) {
                    const std::byte* source = from.row(r);
                    for (int64_t i = 0; i < from.length(); ++i) {
                      uint64_t key = order_key(self.dtype, source + i * from.step());
                      keys[static_cast<size_t>(i)] = {descending ? ~key : key, i};
                    }
                    if (stable)
                      std::sort(keys.begin(), keys.end());  // the index breaks ties
                    else
                      std::sort(keys.begin(), keys.end(), first_key);
                    std::byte *value = to.row(r), *index = to_index.row(r);
                    for (int64_t i = 0; i < from.length(); ++i) {
                      int64_t at = keys[static_cast<size_t>(i)].second;
                      std::memcpy(value + i * to.step(), source + at * from.step(), item);
                      std::memcpy(index + i * to_index.step(), &at, sizeof at);
                    }
                  }
                });
}

}  // namespace kiln::runtime
