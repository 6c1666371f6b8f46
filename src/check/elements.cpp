#include "check/elements.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace kiln {

std::string list_text(const std::vector<int64_t>& numbers) {
  return str("[", join_map(numbers, ", ", [](int64_t n) { return std::to_string(n); }), "]");
}

std::string distance_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 3).ptr;
  return std::string(text, end);
}

double largest_of_its_kind(const std::vector<std::complex<double>>& truth) {
  std::vector<double> sizes;
  for (const std::complex<double>& v : truth)
    if (std::isfinite(v.real()) && std::isfinite(v.imag()) && v != 0.0) sizes.push_back(std::abs(v));
  if (sizes.empty()) return 0;
  const auto small = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 50);
  std::nth_element(sizes.begin(), small, sizes.end());
  return 1e6 * *small;
}

const char* kind_name(const Datum& datum) {
  if (datum.is_none()) return "None";
  if (datum.is_tensor()) return "a tensor";
  if (datum.is_list()) return "a list";
  if (!datum.is_scalar()) return "a string";
  const Scalar& scalar = datum.scalar();
  return scalar.is_bool() ? "a bool" : scalar.is_int() ? "an int" : scalar.is_float() ? "a float" : "a complex number";
}

Closeness closeness(std::complex<double> got, std::complex<double> expected, const Tolerance& tolerance) {
  Closeness result;
  result.allowed = tolerance.atol + tolerance.rtol * std::abs(expected);
  result.error = std::abs(got - expected);
  const bool got_nan = std::isnan(got.real()) || std::isnan(got.imag());
  const bool expected_nan = std::isnan(expected.real()) || std::isnan(expected.imag());
  if (got == expected || (got_nan && expected_nan)) {
    result.close = true;
    result.error = 0;
  } else {
    result.close = std::isfinite(result.allowed) && result.error <= result.allowed;
  }
  return result;
}

Closeness closeness(DType dtype, const Scalar& got, const Scalar& expected, const Tolerance& tolerance) {
  if (!is_integral(dtype)) return closeness(got.as_complex(), expected.as_complex(), tolerance);
  Closeness result;
  result.close = got.as_int() == expected.as_int();
  result.error = std::abs(got.as_double() - expected.as_double());
  return result;
}

Tolerance effective_tolerance(DType dtype, const CompareOptions& options) {
  Tolerance tolerance = default_tolerance(dtype);
  const bool exact = is_integral(dtype) || dtype_bytes(dtype) == 1;
  if (!exact && options.rtol) tolerance.rtol = *options.rtol;
  if (!exact && options.atol) tolerance.atol = *options.atol;
  return tolerance;
}

namespace {

// The shortest text that reads back as the same float of that width.
std::string real_text(DType dtype, double value) {
  char text[64];
  const auto end = dtype == DType::f64 || dtype == DType::c128
                       ? std::to_chars(text, text + sizeof text, value).ptr
                       : std::to_chars(text, text + sizeof text, static_cast<float>(value)).ptr;
  return std::string(text, end);
}

}  // namespace

std::string number_text(DType dtype, const Scalar& value) {
  if (dtype == DType::u64) return std::to_string(static_cast<uint64_t>(value.as_int()));
  if (is_integral(dtype)) return value.text();
  if (!is_complex(dtype)) return real_text(dtype, value.as_double());
  const std::complex<double> z = value.as_complex();
  return str(real_text(dtype, z.real()), z.imag() < 0 ? "" : "+", real_text(dtype, z.imag()), "j");
}

}  // namespace kiln
