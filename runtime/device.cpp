#include "runtime/device.h"

#include <vector>

namespace kiln::runtime {
namespace {

int64_t span_bytes(Dims sizes, Dims strides, int64_t item) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  return (last + 1) * item;
}

}  // namespace

void Device::copy(void* to, bool to_here, Dims to_strides, const void* from, bool from_here, Dims from_strides,
                  Dims sizes, int64_t item) const {
  if (element_count(sizes) == 0) return;
  std::vector<std::byte> source, result;
  if (from_here && !is_host()) {
    source.resize(static_cast<size_t>(span_bytes(sizes, from_strides, item)));
    copy_out(source.data(), from, static_cast<int64_t>(source.size()));
    from = source.data();
  }
  if (!to_here || is_host()) return strided_copy(to, to_strides, from, from_strides, sizes, item);
  if (is_row_major(sizes, to_strides) && is_row_major(sizes, from_strides))
    return copy_in(to, from, element_count(sizes) * item);
  result.resize(static_cast<size_t>(span_bytes(sizes, to_strides, item)));
  // What lies between the elements stays. Where nothing does, there may be nothing yet.
  if (static_cast<int64_t>(result.size()) != element_count(sizes) * item)
    copy_out(result.data(), to, static_cast<int64_t>(result.size()));
  strided_copy(result.data(), to_strides, from, from_strides, sizes, item);
  copy_in(to, result.data(), static_cast<int64_t>(result.size()));
}

}  // namespace kiln::runtime
