// aten.topk: the k largest or smallest of each row, with their indices. Which of equal values are taken, and in which
// order, is as in eager: a partial sort for few of many, otherwise a selection and a sort of what was selected.
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "runtime/library/kernels.h"
#include "runtime/library/rows.h"

namespace kiln::runtime {
namespace {

void select(std::vector<OrderedItem>& keys, int64_t k, bool sorted) {
  if (k == 0) return;
  auto last = keys.begin() + (k - 1);
  if (k * 64 <= static_cast<int64_t>(keys.size())) {
    std::partial_sort(keys.begin(), last + 1, keys.end(), first_key);
  } else {
    std::nth_element(keys.begin(), last, keys.end(), first_key);
    if (sorted) std::sort(keys.begin(), last, first_key);
  }
}

}  // namespace

void run_topk(LibraryCall& call) {
  TensorView self = call.tensor("self"), values = call.output(0), indices = call.output(1);
  if (is_complex(self.dtype)) call.fail("topk does not support complex dtypes on CPU");
  int64_t k = call.integer("k", 0), dim = wrap_dim(call, call.integer("dim", -1), self.rank());
  bool largest = call.boolean("largest", true), sorted = call.boolean("sorted", true);
  Rows from(self, dim), to(values, dim), to_index(indices, dim);
  if (k < 0 || k > from.length()) call.fail(str("selected index k out of range: ", k, " of ", from.length()));
  auto item = static_cast<size_t>(dtype_bytes(self.dtype));
  call.parallel(from.count(), std::max<int64_t>(1, 4096 / std::max<int64_t>(from.length(), 1)),
                [&](int64_t begin, int64_t end) {
                  std::vector<OrderedItem> keys(static_cast<size_t>(from.length()));
                  for (int64_t r = begin; r < end; ++r) {
                    const std::byte* source = from.row(r);
                    for (int64_t i = 0; i < from.length(); ++i) {
                      uint64_t key = order_key(self.dtype, source + i * from.step());
                      keys[static_cast<size_t>(i)] = {largest ? ~key : key, i};
                    }
                    select(keys, k, sorted);
                    std::byte *value = to.row(r), *index = to_index.row(r);
                    for (int64_t i = 0; i < k; ++i) {
                      int64_t at = keys[static_cast<size_t>(i)].second;
                      std::memcpy(value + i * to.step(), source + at * from.step(), item);
                      std::memcpy(index + i * to_index.step(), &at, sizeof at);
                    }
                  }
                });
}

}  // namespace kiln::runtime
