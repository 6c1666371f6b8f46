#include "debug/tensor_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "check/compare.h"
#include "check/elements.h"

namespace kiln {
namespace {

bool is_nan(std::complex<double> v) { return std::isnan(v.real()) || std::isnan(v.imag()); }
bool is_finite(std::complex<double> v) { return std::isfinite(v.real()) && std::isfinite(v.imag()); }

struct Judge {
  double rtol, atol, slack;
  bool close(std::complex<double> got, std::complex<double> expected) const {
    if (is_nan(expected) || is_nan(got)) return is_nan(expected) && is_nan(got);
    if (got == expected) return true;
    if (!is_finite(got) || !is_finite(expected)) return false;
    return std::abs(got - expected) <= atol + slack + rtol * std::abs(expected);
  }
};

// What rounding alone may do: some units in the last place of the largest value around, and what the reference itself
// loses in the program's dtypes.
double rounding_slack(DType dtype, const std::vector<std::complex<double>>& truth,
                      const std::vector<std::complex<double>>& nominal, bool rounded_factors) {
  double largest = 0, loss = 0;
  const double most = largest_of_its_kind(truth);
  for (size_t i = 0; i < truth.size(); ++i) {
    if (!is_finite(truth[i]) || std::abs(truth[i]) > most) continue;
    largest = std::max(largest, std::abs(truth[i]));
    if (i < nominal.size() && is_finite(nominal[i])) loss = std::max(loss, std::abs(nominal[i] - truth[i]));
  }
  // A nominal value that is far off took another branch somewhere; it says nothing about rounding.
  if (loss > 1e-2 * largest) loss = 0;
  const double factors = rounded_factors ? dtype_epsilon(DType::bf16) * largest : 0;
  return 4 * dtype_epsilon(dtype) * largest + 4 * loss + factors;
}

// No further off than rounding, magnified, takes the truth. Where it takes it somewhere else (to the next of whole
// steps), a value is there, or is wrong.
bool within_spread(std::complex<double> got, std::complex<double> truth, size_t i,
                   const std::vector<std::vector<std::complex<double>>>& samples) {
  double furthest = 0;
  for (const auto& sample : samples)
    if (i < sample.size() && is_finite(sample[i])) furthest = std::max(furthest, std::abs(sample[i] - truth));
  return furthest <= 1e-2 * std::abs(truth) && std::abs(got - truth) <= furthest;
}

double ulps_between(DType dtype, double got, double expected) {
  const double eps = dtype_epsilon(dtype);
  if (eps == 0 || !std::isfinite(got) || !std::isfinite(expected)) return got == expected ? 0 : INFINITY;
  const double size = std::max(std::abs(expected), static_cast<double>(std::numeric_limits<float>::min()));
  return std::abs(got - expected) / (eps * std::exp2(std::floor(std::log2(size))));
}

}  // namespace

std::vector<std::complex<double>> values_of(const Tensor& tensor) {
  std::vector<std::complex<double>> out;
  if (!tensor.defined()) return out;
  const int64_t count = tensor.numel();
  out.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const Scalar s = tensor.item(i);
    out.push_back(s.is_complex() ? s.as_complex() : std::complex<double>(s.as_double()));
  }
  return out;
}

std::string Difference::text() const {
  const std::string where = "[" + join_map(index, ", ", [](int64_t i) { return std::to_string(i); }) + "]";
  std::string far = str("error ", std::abs(got - expected));
  // Counted where that says something: beyond, the values have nothing in common.
  if (std::isfinite(ulps)) far += ulps < 1e9 ? str(", ", static_cast<int64_t>(ulps), " ulps") : ", over 1e9 ulps";
  return str("at ", where, ": got ", got, ", expected ", expected, " (", far, "; ", count, " of ", of,
             " elements differ)");
}

std::optional<Difference> find_difference(const Tensor& got, const Tensor& truth, const Tensor& nominal,
                                          const DifferenceOptions& options, const std::vector<Tensor>& others) {
  const Tolerance standard = default_tolerance(got.dtype);
  const auto g = values_of(got), t = values_of(truth), n = values_of(nominal);
  std::vector<std::vector<std::complex<double>>> more;
  for (const Tensor& other : others) more.push_back(values_of(other));
  Difference out;
  out.of = static_cast<int64_t>(g.size());
  if (g.size() != t.size()) {
    out.count = out.of;
    out.got = static_cast<double>(g.size()), out.expected = static_cast<double>(t.size());
    return out;
  }
  const bool exact = is_integral(got.dtype);
  Judge judge{options.rtol.value_or(standard.rtol), options.atol.value_or(standard.atol), 0};
  if (exact) judge.rtol = judge.atol = 0;
  if (!exact && !options.rtol && !options.atol) judge.slack = rounding_slack(got.dtype, t, n, options.rounded_factors);
  for (size_t i = 0; i < g.size(); ++i) {
    if (judge.close(g[i], t[i]) || (i < n.size() && judge.close(g[i], n[i]))) continue;
    if (std::any_of(more.begin(), more.end(), [&](const auto& m) { return i < m.size() && judge.close(g[i], m[i]); }))
      continue;
    if (!exact && within_spread(g[i], t[i], i, more)) continue;
    if (out.count++ > 0) continue;
    auto linear = static_cast<int64_t>(i);
    out.index.resize(got.sizes.size());
    for (size_t d = out.index.size(); d-- > 0; linear /= got.sizes[d]) out.index[d] = linear % got.sizes[d];
    const bool imaginary = g[i].real() == t[i].real();
    out.got = imaginary ? g[i].imag() : g[i].real();
    out.expected = imaginary ? t[i].imag() : t[i].real();
    if (imaginary && !is_complex(got.dtype)) out.got = g[i].real(), out.expected = t[i].real();
    out.ulps = ulps_between(got.dtype, out.got, out.expected);
  }
  return out.count > 0 ? std::optional(out) : std::nullopt;
}

}  // namespace kiln
