// How far the expected values of a tensor of bf16 or f16 are from the fp64 reference, for judging a result beside them.
//
// One value's own distance says little: of two roundings of the same size either may have come out near by chance, the
// more so near zero, where terms of the size of the neighbours cancel. So a value may be twice as far from the
// reference as the furthest of the expected values that are like it: of the whole tensor, and of each row, column, … of
// 64 values or more that it stands in. (Of so many the furthest is 2.4 standard deviations off; twice that is met once
// in a million.) A layer's small channels are thus not excused by its large ones.
#pragma once
#include <vector>

#include "types/tensor.h"

namespace kiln {

class UsualError {
 public:
  // Tensors of the same sizes.
  UsualError(const Tensor& got, const Tensor& expected, const Tensor& reference);
  static UsualError of_rounded_factors(const Tensor& got, const Tensor& expected);

  // Whether the tensor can be judged so at all: it has values enough, the expected ones are near the reference (a tenth
  // of its size: else that is no reference for them), and the result as a whole is no further from it than 1.5 times
  // as far as they are. Errors of all values alike show there, where a single one's is hidden by rounding.
  bool sound() const { return sound_; }

  // Whether a value that far from the reference is no further than twice as far as the expected ones are.
  bool allows(const std::vector<int64_t>& index, double distance) const;

 private:
  UsualError() = default;
  // `usual` gives how far the value at an element's address in `expected` is from the truth there.
  template <typename Usual>
  void gather(const Tensor& got, const Tensor& expected, const Tensor& truth, const Usual& usual);

  bool sound_ = false;
  double furthest_ = 0;
  std::vector<std::vector<double>> of_slices_;  // [dimension][index]; empty: slices of fewer values
};

}  // namespace kiln
