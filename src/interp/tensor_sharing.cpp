#include "interp/tensor_sharing.h"

#include <cstring>

#include "ops/op_record.h"

namespace kiln {

Tensor SharingCopier::copy(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  DType to = wide_ ? wide_dtype(tensor.dtype) : tensor.dtype;
  auto& storage = copies_[{tensor.storage->data, tensor.dtype}];
  if (!storage) {
    if (to == tensor.dtype) {
      storage = Storage::allocate(tensor.storage->bytes);
      if (tensor.storage->bytes > 0)
        std::memcpy(storage->data, tensor.storage->data, static_cast<size_t>(tensor.storage->bytes));
    } else {
      Tensor whole = tensor;
      whole.sizes = {tensor.storage->bytes / dtype_bytes(tensor.dtype)};
      whole.strides = {1};
      whole.offset = 0;
      storage = convert(whole, to).storage;
    }
  }
  Tensor out = tensor;
  out.dtype = to;
  out.storage = storage;
  return out;
}

Tensor SharingCopier::widen(const Tensor& tensor) {
  return wide_ && tensor.defined() && wide_dtype(tensor.dtype) != tensor.dtype ? copy(tensor) : tensor;
}

Tensor own_copy(const Tensor& tensor) {
  Tensor out = Tensor::empty_strided(tensor.dtype, tensor.sizes, tensor.strides);
  out.device = tensor.device;
  copy_into(tensor, out);
  return out;
}

}  // namespace kiln
