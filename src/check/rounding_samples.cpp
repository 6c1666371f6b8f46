#include "check/rounding_samples.h"

#include <algorithm>
#include <cmath>

#include "check/elements.h"

namespace kiln {
namespace {

constexpr int most_samples = 8, enough_for_many = 2;
constexpr size_t few_elements = 4;
constexpr double times_a_sample = 4, times_the_samples = 2;

using SampleValues = std::vector<std::complex<double>>;

SampleValues sample_values(const Tensor& tensor) {
  SampleValues out;
  ElementWalk at(tensor);
  for (int64_t i = 0, n = tensor.numel(); i < n; ++i, at.next())
    out.push_back(load_scalar(tensor.dtype, at.at()).as_complex());
  return out;
}

std::optional<SampleValues> sample_of(const Fp64Lookup& lookup, int sample, const std::vector<int64_t>& sizes) {
  const Datum* datum = lookup(sample);
  if (!datum || !datum->is_tensor() || datum->tensor().sizes != sizes) return std::nullopt;
  return sample_values(datum->tensor());
}

class SampleJudge {
 public:
  SampleJudge(SampleValues truth, const Tolerance& tolerance, bool whole)
      : truth_(std::move(truth)), furthest_(truth_.size(), 0), tolerance_(tolerance), whole_(whole) {}

  void add(const SampleValues& sample) {
    for (size_t i = 0; i < truth_.size(); ++i) furthest_[i] = std::max(furthest_[i], distance(sample[i], truth_[i]));
    samples_.push_back(sample);
  }

  bool explains(size_t i, std::complex<double> value) const {
    if (close(value, truth_[i])) return true;
    if (!whole_ && distance(value, truth_[i]) <= times_a_sample * furthest_[i]) return true;
    return std::any_of(samples_.begin(), samples_.end(), [&](const SampleValues& s) { return close(value, s[i]); });
  }

  // As a whole: errors of all values alike show there.
  bool sound(const SampleValues& values) const {
    double of_values = 0, of_samples = 0;
    for (size_t i = 0; i < truth_.size(); ++i) {
      const double far = distance(values[i], truth_[i]);
      const double usual = times_the_samples * furthest_[i] + allowed(truth_[i]);
      if (!std::isfinite(far) || !std::isfinite(usual)) continue;
      of_values += far * far, of_samples += usual * usual;
    }
    return of_values <= of_samples;
  }

 private:
  double allowed(std::complex<double> truth) const { return tolerance_.atol + tolerance_.rtol * std::abs(truth); }
  bool close(std::complex<double> value, std::complex<double> sample) const {
    return closeness(value, sample, tolerance_).close;
  }
  // Of what is counted in whole numbers: whether they are the same.
  double distance(std::complex<double> a, std::complex<double> b) const {
    if (a == b || (std::isnan(std::abs(a)) && std::isnan(std::abs(b)))) return 0;
    if (whole_) return 1;
    const double far = std::abs(a - b);
    return std::isnan(far) ? HUGE_VAL : far;
  }

  SampleValues truth_;
  std::vector<double> furthest_;
  std::vector<SampleValues> samples_;
  Tolerance tolerance_;
  bool whole_;
};

}  // namespace

bool explained_by_rounding(const std::vector<int64_t>& elements, const Tensor& got, const Tensor& expected,
                           const Tolerance& tolerance, const Fp64Lookup& lookup) {
  auto truth = sample_of(lookup, 0, expected.sizes);
  if (!truth) return false;
  const SampleValues g = sample_values(got), e = sample_values(expected);
  SampleJudge judge(std::move(*truth), tolerance, is_integral(expected.dtype));
  for (int sample = 1; sample <= most_samples; ++sample) {
    const auto values = sample_of(lookup, sample, expected.sizes);
    if (!values) return false;
    judge.add(*values);
    const auto explained = [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      return judge.explains(at, g[at]) && judge.explains(at, e[at]);
    };
    const auto left = elements.size() - static_cast<size_t>(std::count_if(elements.begin(), elements.end(), explained));
    if (left == 0 && judge.sound(g) && judge.sound(e)) return true;
    // A fault, as they mostly are: more samples take long and change nothing.
    if (sample >= enough_for_many && elements.size() > few_elements && 2 * left > elements.size()) return false;
  }
  return false;
}

bool explained_by_rounding(const Scalar& got, const Scalar& expected, const Tolerance& tolerance,
                           const Fp64Lookup& lookup) {
  const auto sample_of_number = [&](int sample) -> std::optional<SampleValues> {
    const Datum* datum = lookup(sample);
    if (!datum || !datum->is_scalar()) return std::nullopt;
    return SampleValues{datum->scalar().as_complex()};
  };
  auto truth = sample_of_number(0);
  if (!truth) return false;
  SampleJudge judge(std::move(*truth), tolerance, !expected.is_float() && !expected.is_complex());
  for (int sample = 1; sample <= most_samples; ++sample) {
    const auto value = sample_of_number(sample);
    if (!value) return false;
    judge.add(*value);
    if (judge.explains(0, got.as_complex()) && judge.explains(0, expected.as_complex())) return true;
  }
  return false;
}

}  // namespace kiln
