#include "check/usual_error.h"

#include <algorithm>
#include <cmath>

#include "check/elements.h"

namespace kiln {
namespace {

constexpr int64_t fewest_values = 16, fewest_of_slice = 64;
constexpr double as_far = 2, as_far_on_average = 1.5, near = 0.1, near_in_epsilons = 1e4;
constexpr double roundings = 4, roundings_on_average = 3;

double largest_that_counts(const Tensor& truth) {
  std::vector<std::complex<double>> values;
  ElementWalk at(truth);
  for (int64_t i = 0, n = truth.numel(); i < n; ++i, at.next())
    values.push_back(load_scalar(truth.dtype, at.at()).as_complex());
  return largest_of_its_kind(values);
}

}  // namespace

void UsualError::Usual::see(double distance, double size) {
  furthest = std::max(furthest, distance);
  largest = std::max(largest, size);
}

template <typename Distance>
void UsualError::gather(const Tensor& got, const Tensor& expected, const Tensor& truth, const Distance& usual) {
  const int64_t total = expected.numel();
  if (total < fewest_values) return;
  of_slices_.resize(expected.sizes.size());
  for (size_t d = 0; d < expected.sizes.size(); ++d)
    if (total / expected.sizes[d] >= fewest_of_slice) of_slices_[d].assign(static_cast<size_t>(expected.sizes[d]), {});
  double of_got = 0, of_expected = 0, sizes = 0;
  const double most = largest_that_counts(truth);
  ElementWalk g(got), e(expected), t(truth);
  for (int64_t i = 0; i < total; ++i, g.next(), e.next(), t.next()) {
    const std::complex<double> exact = load_scalar(truth.dtype, t.at()).as_complex();
    const double mine = std::abs(load_scalar(got.dtype, g.at()).as_complex() - exact), size = std::abs(exact),
                 distance = usual(load_scalar(expected.dtype, e.at()).as_complex(), exact);
    // What is infinite or NaN is the same everywhere, or is a failure that nothing excuses.
    if (!std::isfinite(mine) || !std::isfinite(distance) || !std::isfinite(size) || size > most) continue;
    of_got += mine * mine, of_expected += distance * distance, sizes += size * size;
    whole_.see(distance, size);
    for (size_t d = 0; d < of_slices_.size(); ++d)
      if (!of_slices_[d].empty()) of_slices_[d][static_cast<size_t>(e.index()[d])].see(distance, size);
  }
  const double size = std::sqrt(sizes), usual_distance = std::sqrt(of_expected);
  sound_ = std::sqrt(of_got) <= as_far_on_average * usual_distance + roundings_on_average * rounding_ * size &&
           usual_distance <= near_ * size;
}

UsualError::UsualError(const Tensor& got, const Tensor& expected, const Tensor& reference, DType computed_in)
    : near_(std::min(near, near_in_epsilons * dtype_epsilon(computed_in))) {
  // Of bf16 and f16 one rounding is not little beside the errors that are looked for.
  if (dtype_epsilon(computed_in) <= dtype_epsilon(DType::f32)) rounding_ = dtype_epsilon(computed_in);
  gather(got, expected, reference,
         [](std::complex<double> value, std::complex<double> exact) { return std::abs(value - exact); });
}

UsualError UsualError::of_rounded_factors(const Tensor& got, const Tensor& expected) {
  UsualError out;
  out.near_ = near;
  out.gather(got, expected, expected, [](std::complex<double> value, std::complex<double>) {
    return std::abs(value) * dtype_epsilon(DType::bf16);
  });
  return out;
}

double UsualError::allowed(const Usual& usual) const {
  return as_far * usual.furthest + roundings * rounding_ * usual.largest;
}

bool UsualError::allows(const std::vector<int64_t>& index, double distance) const {
  double most = allowed(whole_);
  for (size_t d = 0; d < of_slices_.size(); ++d)
    if (!of_slices_[d].empty()) most = std::min(most, allowed(of_slices_[d][static_cast<size_t>(index[d])]));
  return distance <= most;  // of a NaN: no
}

}  // namespace kiln
