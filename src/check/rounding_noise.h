// What rounding may do to the results of a program: the fp64 reference again, with every float input and every
// operator's float results off by a random part of their dtype's epsilon. Numbers of few digits (0, 1, 2.5) stay as
// they are: they are meant so, and nobody rounds them. A program that magnifies rounding (a norm of nearly equal
// numbers, long chains, a value that is rounded to whole steps) shows it here, also where the operators of the plain
// reference round only once.
#pragma once
#include <random>
#include <set>

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
  // In place: every element of a matrix off by as much as its largest ones are rounded.
  void disturb_matrix(Tensor tensor);
  // In place: `tensor` is computed as `truth` was, from what was disturbed before. By as much as the program's own
  // dtypes make of it, `nominal`; an element that is exact there stays as it is.
  void disturb_like(Tensor tensor, const Tensor& truth, const Tensor& nominal);

 private:
  std::mt19937_64 random_;
};

// What eager computes of a decomposition (OpFacts::of_near_matrix) is as far from the truth as the decomposition of a
// matrix is that was rounded otherwise. The reference, in double all along, does not show that of itself: so its
// matrices are disturbed where its results in the program's own dtypes are to say how far eager may be off.
class NearMatrices {
 public:
  explicit NearMatrices(const Graph& graph);
  // What is disturbed becomes a copy.
  void disturb_inputs(const std::vector<Value*>& values, std::vector<Datum>& inputs);
  void disturb_results(const Node& node, const std::vector<Datum>& results);

 private:
  std::set<const Value*> matrices_;
  RoundingNoise noise_{0};
};

// The whole program so; it must outlive the executable, which throws what the reference throws.
std::unique_ptr<Executable> rounded_executable(const Program& program, const std::vector<std::string>& custom_op_libs,
                                               int sample);
// One run of it on the sample inputs. Throws what the reference throws.
CallResult rounded_result(const Program& program, const std::vector<std::string>& custom_op_libs, int sample);

}  // namespace kiln
