// In PyTorch the conjugate of a complex tensor is a view of it. Tensors have no conjugate bit here, so it is a copy;
// these pairs of a tensor and its conjugate are kept equal whenever one of the two is written.
#pragma once
#include <vector>

#include "types/tensor.h"

namespace kiln {

class ConjMirrors {
 public:
  bool empty() const { return pairs_.empty(); }
  void add(const Tensor& tensor, const Tensor& conjugate);
  // Something was written to this tensor's storage.
  void written(const Tensor& tensor);

 private:
  struct Pair {
    Tensor tensor, conjugate;
  };
  std::vector<Pair> pairs_;
};

}  // namespace kiln
