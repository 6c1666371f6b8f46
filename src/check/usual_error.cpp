#include "check/usual_error.h"

#include <cmath>

#include "check/elements.h"

namespace kiln {
namespace {

constexpr int64_t fewest_values = 16, fewest_of_slice = 64;
constexpr double as_far = 2, as_far_on_average = 1.5, near = 0.1;

}  // namespace

template <typename Usual>
void UsualError::gather(const Tensor& got, const Tensor& expected, const Tensor& truth, const Usual& usual) {
  const int64_t total = expected.numel();
  if (total < fewest_values) return;
  of_slices_.resize(expected.sizes.size());
  for (size_t d = 0; d < expected.sizes.size(); ++d)
    if (total / expected.sizes[d] >= fewest_of_slice) of_slices_[d].assign(static_cast<size_t>(expected.sizes[d]), 0);
  double of_got = 0, of_expected = 0, size = 0;
  ElementWalk g(got), e(expected), t(truth);
  for (int64_t i = 0; i < total; ++i, g.next(), e.next(), t.next()) {
    const std::complex<double> exact = load_scalar(truth.dtype, t.at()).as_complex();
    const double mine = std::abs(load_scalar(got.dtype, g.at()).as_complex() - exact),
                 distance = usual(load_scalar(expected.dtype, e.at()).as_complex(), exact);
    // What is infinite or NaN is the same everywhere, or is a failure that nothing excuses.
    if (!std::isfinite(mine) || !std::isfinite(distance) || !std::isfinite(std::abs(exact))) continue;
    of_got += mine * mine, of_expected += distance * distance, size += std::norm(exact);
    furthest_ = std::max(furthest_, distance);
    for (size_t d = 0; d < of_slices_.size(); ++d) {
      if (of_slices_[d].empty()) continue;
      double& furthest = of_slices_[d][static_cast<size_t>(e.index()[d])];
      furthest = std::max(furthest, distance);
    }
  }
  sound_ = of_got <= as_far_on_average * as_far_on_average * of_expected && of_expected <= near * near * size;
}

UsualError::UsualError(const Tensor& got, const Tensor& expected, const Tensor& reference) {
  gather(got, expected, reference,
         [](std::complex<double> value, std::complex<double> exact) { return std::abs(value - exact); });
}

UsualError UsualError::of_rounded_factors(const Tensor& got, const Tensor& expected) {
  UsualError out;
  out.gather(got, expected, expected, [](std::complex<double> value, std::complex<double>) {
    return std::abs(value) * dtype_epsilon(DType::bf16);
  });
  return out;
}

bool UsualError::allows(const std::vector<int64_t>& index, double distance) const {
  double furthest = furthest_;
  for (size_t d = 0; d < of_slices_.size(); ++d)
    if (!of_slices_[d].empty()) furthest = std::min(furthest, of_slices_[d][static_cast<size_t>(index[d])]);
  return distance <= as_far * furthest;  // of a NaN: no
}

}  // namespace kiln
