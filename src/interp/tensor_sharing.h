// Copies of tensors that keep what they share: two tensors over one storage are copied to two tensors over one new
// storage, with their strides and offsets, so that writes through one are seen through the other.
#pragma once
#include <map>

#include "types/tensor.h"

namespace kiln {

class SharingCopier {
 public:
  // wide: floats become f64 and complex numbers c128.
  explicit SharingCopier(bool wide) : wide_(wide) {}
  Tensor copy(const Tensor& tensor);
  // Only widened where the mode asks for it; otherwise the very same tensor.
  Tensor widen(const Tensor& tensor);

 private:
  bool wide_;
  std::map<std::pair<const std::byte*, DType>, std::shared_ptr<Storage>> copies_;
};

// The same values in a storage of their own, with the same strides.
Tensor own_copy(const Tensor& tensor);

}  // namespace kiln
