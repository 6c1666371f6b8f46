// A Python number: bool, int, float or complex, as it stands in a graph argument or a constant of a loop body.
#pragma once
#include <complex>
#include <cstdint>
#include <string>
#include <variant>

#include "types/dtype.h"

namespace kiln {

struct Scalar {
  std::variant<int64_t, double, bool, std::complex<double>> value = int64_t{0};
  Scalar() = default;
  Scalar(int64_t v) : value(v) {}
  Scalar(int v) : value(int64_t{v}) {}
  Scalar(double v) : value(v) {}
  Scalar(bool v) : value(v) {}
  Scalar(std::complex<double> v) : value(v) {}

  bool is_bool() const { return std::holds_alternative<bool>(value); }
  bool is_int() const { return std::holds_alternative<int64_t>(value); }
  bool is_float() const { return std::holds_alternative<double>(value); }
  bool is_complex() const { return std::holds_alternative<std::complex<double>>(value); }
  int64_t as_int() const;  // truncates a float, true is 1
  double as_double() const;
  std::complex<double> as_complex() const;
  std::string text() const;                    // "true", "3", "1.5", "(1.0,2.0)"
  bool operator==(const Scalar& other) const;  // same kind and same bits (NaN equals NaN)
};

}  // namespace kiln
