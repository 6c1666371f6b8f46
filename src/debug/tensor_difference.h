// Where and how far a computed tensor is from what it should be.
#pragma once
#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/elements.h"
#include "types/tensor.h"

namespace kiln {

struct DifferenceOptions {
  std::optional<double> rtol, atol;  // otherwise those of torch.testing.assert_close for the dtype
  // Products of f32 had their factors rounded to bf16, as float32_matmul_precision asked; the references round nothing.
  bool rounded_factors = false;
};

struct Difference {
  std::vector<int64_t> index;  // of the first element that differs
  double got = 0, expected = 0;
  double ulps = 0;            // between them, in units of the last place of `got`'s dtype
  int64_t count = 0, of = 0;  // elements that differ
  std::string text() const;
};

std::vector<std::complex<double>> values_of(const Tensor& tensor);

// `truth` is the fp64 reference's value, `nominal` the same in the program's own dtypes (may be undefined). An element
// passes when it is as close to either as the tolerance says, or not much further from the truth than the nominal value
// is somewhere: what rounding explains is no fault; so it does when it is as close to one of `others`. Undefined truth
// elements (NaN) pass only for NaN.
std::optional<Difference> find_difference(const Tensor& got, const Tensor& truth, const Tensor& nominal,
                                          const DifferenceOptions& options, const std::vector<Tensor>& others = {});

}  // namespace kiln
