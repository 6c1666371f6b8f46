// Elements of two tensors side by side: visiting them, how near two numbers are, what they are called in messages.
#pragma once
#include <complex>
#include <string>
#include <vector>

#include "check/compare.h"

namespace kiln {

// Visits the elements of a tensor in row-major order without a division per element.
class ElementWalk {
 public:
  explicit ElementWalk(const Tensor& tensor)
      : tensor_(tensor),
        index_(tensor.sizes.size(), 0),
        bytes_(dtype_bytes(tensor.dtype)),
        at_(tensor.numel() == 0 ? nullptr : tensor.data()) {}
  const std::byte* at() const { return at_; }
  const std::vector<int64_t>& index() const { return index_; }
  void next() {
    for (size_t dim = index_.size(); dim-- > 0;) {
      // The stride of a dimension with one element may be anything and leads nowhere.
      if (tensor_.sizes[dim] <= 1) continue;
      if (++index_[dim] < tensor_.sizes[dim]) {
        at_ += tensor_.strides[dim] * bytes_;
        return;
      }
      at_ -= tensor_.strides[dim] * bytes_ * (tensor_.sizes[dim] - 1);
      index_[dim] = 0;
    }
  }

 private:
  const Tensor& tensor_;
  std::vector<int64_t> index_;
  int64_t bytes_;
  const std::byte* at_;
};

// How one pair of numbers compares. torch.isclose with equal_nan.
struct Closeness {
  bool close = false;
  double error = 0, allowed = 0;
};
Closeness closeness(std::complex<double> got, std::complex<double> expected, const Tolerance& tolerance);
// Of two elements of this type: integers exactly.
Closeness closeness(DType dtype, const Scalar& got, const Scalar& expected, const Tolerance& tolerance);
// The options' where there are some, else the type's; what is exact stays so.
Tolerance effective_tolerance(DType dtype, const CompareOptions& options);

// Values beyond this are none that others were computed from (a mask's -3e38, an overflow): what rounding does to those
// says nothing about the rest, and they are judged by their own size.
double largest_of_its_kind(const std::vector<std::complex<double>>& truth);

const char* kind_name(const Datum& datum);                   // "a tensor"
std::string list_text(const std::vector<int64_t>& numbers);  // "[3, 0]"
std::string distance_text(double value);                     // three digits: how far something is off
std::string number_text(DType dtype, const Scalar& value);   // the shortest that reads back in that width

}  // namespace kiln
