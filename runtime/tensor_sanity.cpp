#include "runtime/tensor_sanity.h"

namespace kiln::runtime {

const char* tensor_fault(const DLTensor& tensor, int64_t item) {
  if (tensor.ndim < 0) return "its number of dimensions is negative";
  if (tensor.ndim > 0 && !tensor.shape) return "it has no sizes";
  int64_t elements = 1, before = 0, after = 0;  // reach of the strides, in elements
  bool fits = true;
  for (int32_t d = 0; d < tensor.ndim; ++d) {
    if (tensor.shape[d] < 0) return "it has a negative size";
    fits = !__builtin_mul_overflow(elements, tensor.shape[d], &elements) && fits;
  }
  for (int32_t d = 0; d < tensor.ndim; ++d)
    if (tensor.shape[d] == 0) return nullptr;  // no element: nothing is looked at, wherever it is said to lie
  for (int32_t d = 0; d < tensor.ndim && tensor.strides; ++d) {
    int64_t reach = 0;
    fits = fits && !__builtin_mul_overflow(tensor.shape[d] - 1, tensor.strides[d], &reach) &&
           !__builtin_add_overflow(reach < 0 ? before : after, reach, reach < 0 ? &before : &after);
  }
  if (!tensor.strides) after = elements - 1;
  if (!tensor.data) return "it has no data";
  uintptr_t first = 0, ignored = 0;
  fits = fits && !__builtin_add_overflow(reinterpret_cast<uintptr_t>(tensor.data), tensor.byte_offset, &first) &&
         !__builtin_mul_overflow(before, item, &before) && !__builtin_add_overflow(after, 1, &after) &&
         !__builtin_mul_overflow(after, item, &after) && !__builtin_add_overflow(first, before, &ignored) &&
         !__builtin_add_overflow(first, after, &ignored);
  return fits ? nullptr : "its elements would lie outside of the address space (sizes, strides, byte_offset)";
}

}  // namespace kiln::runtime
