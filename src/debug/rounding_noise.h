// What rounding may do to the results of a program: the fp64 reference again, with every float input and every
// operator's float results off by a random part of their dtype's epsilon. A program that magnifies rounding (a norm of
// nearly equal numbers, long chains, a value that is rounded to whole steps) shows it here, also where the operators of
// the plain reference round only once.
#pragma once
#include <random>

#include "executable/executable.h"

namespace kiln {

class RoundingNoise {
 public:
  // Every `sample` has other random numbers.
  explicit RoundingNoise(int sample) : random_(static_cast<uint64_t>(sample) + 1) {}
  // In place: the reference widens what is narrower than f64 into memory of its own, so that nothing of the program is
  // written here.
  void disturb(const Value& value, const Datum& datum);
  // In place; the tensor holds values of `dtype` in a type that is at least as wide.
  void disturb(Tensor tensor, DType dtype);
  // By what the program's own dtypes make of it, `nominal`: an element that is exact there stays as it is.
  void disturb_like(Tensor tensor, const Tensor& nominal);

 private:
  std::mt19937_64 random_;
};

// One run of the whole program. Throws what the reference throws.
CallResult rounded_result(const Program& program, const std::vector<std::string>& custom_op_libs, int sample);

}  // namespace kiln
