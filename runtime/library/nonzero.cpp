// aten.nonzero: the indices of the elements that are not zero, one row each, in row-major order. The number of rows is
// found in the size phase.
#include <cstring>

#include "runtime/element.h"
#include "runtime/library/kernels.h"

namespace kiln::runtime {
namespace {

// Calls found(index) for every nonzero element, in row-major order.
template <class F>
void for_each_nonzero(const TensorView& self, F found) {
  int64_t count = 1, item = dtype_bytes(self.dtype);
  for (int64_t size : self.sizes) count *= size;
  std::vector<int64_t> index(self.sizes.size());
  const std::byte* at = self.data;
  for (int64_t n = 0; n < count; ++n) {
    if (element_is_nonzero(self.dtype, at)) found(index);
    for (size_t d = index.size(); d-- > 0;) {
      if (self.sizes[d] == 1) continue;  // its stride leads nowhere and may be any number
      at += self.strides[d] * item;
      if (++index[d] < self.sizes[d]) break;
      at -= self.sizes[d] * self.strides[d] * item;
      index[d] = 0;
    }
  }
}

}  // namespace

void size_nonzero(LibraryCall& call) {
  int64_t count = 0;
  for_each_nonzero(call.tensor("self"), [&](const std::vector<int64_t>&) { ++count; });
  call.define(0, count);
}

void run_nonzero(LibraryCall& call) {
  TensorView out = call.output(0);
  int64_t row = 0;
  if (out.rank() != 2) call.fail("the result of nonzero has two dimensions");
  for_each_nonzero(call.tensor("self"), [&](const std::vector<int64_t>& index) {
    if (row >= out.sizes[0]) call.fail("the program expects fewer nonzero elements than there are");
    for (size_t d = 0; d < index.size(); ++d)
      std::memcpy(out.data + (row * out.strides[0] + static_cast<int64_t>(d) * out.strides[1]) * 8, &index[d], 8);
    ++row;
  });
  if (row != out.sizes[0]) call.fail("the program expects more nonzero elements than there are");
}

}  // namespace kiln::runtime
