#include "types/scalar.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace kiln {
namespace {

// Out of range and NaN give the lowest int64, as x86 does and as PyTorch therefore does there.
int64_t truncate(double value) {
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

int64_t Scalar::as_int() const {
  if (const auto* v = std::get_if<int64_t>(&value)) return *v;
  if (const auto* v = std::get_if<bool>(&value)) return *v ? 1 : 0;
  return truncate(as_double());
}

double Scalar::as_double() const {
  if (const auto* v = std::get_if<double>(&value)) return *v;
  if (const auto* v = std::get_if<int64_t>(&value)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<bool>(&value)) return *v ? 1.0 : 0.0;
  return std::get<std::complex<double>>(value).real();
}

std::complex<double> Scalar::as_complex() const {
  if (const auto* v = std::get_if<std::complex<double>>(&value)) return *v;
  return {as_double(), 0.0};
}

std::string Scalar::text() const {
  if (const auto* v = std::get_if<int64_t>(&value)) return std::to_string(*v);
  if (const auto* v = std::get_if<bool>(&value)) return *v ? "true" : "false";
  if (const auto* v = std::get_if<double>(&value)) return float_text(*v);
  const auto& v = std::get<std::complex<double>>(value);
  return str("(", v.real(), ",", v.imag(), ")");
}

bool Scalar::operator==(const Scalar& other) const {
  if (value.index() != other.value.index()) return false;
  if (is_float()) return same_bits(std::get<double>(value), std::get<double>(other.value));
  if (is_complex()) {
    const auto &a = std::get<std::complex<double>>(value), &b = std::get<std::complex<double>>(other.value);
    return same_bits(a.real(), b.real()) && same_bits(a.imag(), b.imag());
  }
  return value == other.value;
}

}  // namespace kiln
