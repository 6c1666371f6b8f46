// Tensors as DLPack sees them: how values pass into the C interfaces (kiln.h, custom_op.h) and back.
#pragma once
#include "kiln/dlpack.h"
#include "types/tensor.h"

namespace kiln {

DLDataType dlpack_dtype(DType dtype);
DType dtype_from_dlpack(DLDataType dtype);  // throws K0672 for a type Kiln does not have

// A DLTensor over a Tensor's memory. Holds the Tensor, and thereby its memory, sizes and strides.
class DLPackView {
 public:
  explicit DLPackView(Tensor tensor);
  DLPackView(const DLPackView&) = delete;
  DLTensor* get() { return &view_; }
  const DLTensor* get() const { return &view_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
  DLTensor view_{};
};

// A copy in fresh memory, with the sizes and strides of `view`.
Tensor tensor_from_dlpack(const DLTensor& view);

}  // namespace kiln
