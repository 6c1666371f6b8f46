// How far the expected values of a tensor are from the fp64 reference, for judging a result beside them.
//
// One value's own distance says little: of two roundings of the same size either may have come out near by chance, the
// more so near zero, where terms of the size of the neighbours cancel. So a value may be twice as far from the
// reference as the furthest of the expected values that are like it: of the whole tensor, and of each row, column, … of
// 64 values or more that it stands in. (Of so many the furthest is 2.4 standard deviations off; twice that is met once
// in a million.) A layer's small channels are thus not excused by its large ones.
//
// What is expected may be better than its type allows to ask for: the reference interpreter rounds once per operator,
// where a kernel adds up its sums in float32, or multiplies transformed tiles. There four roundings of the largest of
// those values are usual beside that.
#pragma once
#include <vector>

#include "types/tensor.h"

namespace kiln {

class UsualError {
 public:
  // Tensors of the same sizes; computed in a type that rounds as `computed_in` does.
  UsualError(const Tensor& got, const Tensor& expected, const Tensor& reference, DType computed_in);
  static UsualError of_rounded_factors(const Tensor& got, const Tensor& expected);

  // Whether the tensor can be judged so at all: it has values enough, the expected ones are near the reference (10,000
  // epsilons of its size, at most a tenth: else that is no reference for them), and the result as a whole is no further
  // from it than 1.5 times as far as they are and three roundings of its size. Errors of all values alike show there,
  // where a single one's is hidden by rounding.
  bool sound() const { return sound_; }

  // Whether a value that far from the reference is no further than twice as far as the expected ones are.
  bool allows(const std::vector<int64_t>& index, double distance) const;

 private:
  UsualError() = default;
  // What is usual for one value or several.
  struct Usual {
    double furthest = 0, largest = 0;
    void see(double distance, double size);
  };
  // `usual` gives how far the value at an element's address in `expected` is from the truth there.
  template <typename Distance>
  void gather(const Tensor& got, const Tensor& expected, const Tensor& truth, const Distance& usual);
  double allowed(const Usual& usual) const;

  bool sound_ = false;
  double near_ = 0;
  double rounding_ = 0;  // of one operator, relative: 0 where only what is expected says what is usual
  Usual whole_;
  std::vector<std::vector<Usual>> of_slices_;  // [dimension][index]; empty: slices of fewer values
};

}  // namespace kiln
