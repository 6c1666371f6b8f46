// f16, bf16 and the four f8 formats (declared in types/tensor.h).
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "types/tensor.h"

namespace kiln {
namespace {

struct F8Format {
  int mantissa_bits;
  int bias;
  int largest_finite;  // code without sign
  bool only_one_nan;   // the "fnuz" formats: no infinities, no negative zero, NaN is 0x80
  int overflow;        // code without sign that a too large value gets (not fnuz)
};

const F8Format& f8_format(DType dtype) {
  static constexpr F8Format e4m3fn = {3, 7, 0x7e, false, 0x7e};  // PyTorch saturates
  static constexpr F8Format e5m2 = {2, 15, 0x7b, false, 0x7c};
  static constexpr F8Format e4m3fnuz = {3, 8, 0x7f, true, 0};
  static constexpr F8Format e5m2fnuz = {2, 16, 0x7f, true, 0};
  switch (dtype) {
    case DType::f8e4m3fn:
      return e4m3fn;
    case DType::f8e5m2:
      return e5m2;
    case DType::f8e4m3fnuz:
      return e4m3fnuz;
    case DType::f8e5m2fnuz:
      return e5m2fnuz;
    default:
      fail_bug(str("not an 8-bit float: ", dtype_name(dtype)));
  }
}

}  // namespace

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_bf16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu, mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // zero and subnormals: exact
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {                                               // subnormal or zero
    // Adding 0.5 leaves the rounded multiple of 2^-24 in the low mantissa bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

// PyTorch rounds twice, through f32.
uint16_t f64_to_f16(double value) { return f32_to_f16(static_cast<float>(value)); }
uint16_t f64_to_bf16(double value) { return f32_to_bf16(static_cast<float>(value)); }

float f8_to_f32(DType dtype, uint8_t bits) {
  const F8Format& format = f8_format(dtype);
  const int code = bits & 0x7f;
  const bool negative = (bits & 0x80) != 0;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  if (format.only_one_nan && bits == 0x80) return nan;
  if (code > format.largest_finite) {
    const bool infinite = dtype == DType::f8e5m2 && code == 0x7c;
    if (!infinite) return negative ? -nan : nan;
    return negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }
  const int ones = (1 << format.mantissa_bits) - 1;
  const int exponent = code >> format.mantissa_bits, mantissa = code & ones;
  const float magnitude =
      exponent == 0
          ? std::ldexp(static_cast<float>(mantissa), 1 - format.bias - format.mantissa_bits)
          : std::ldexp(static_cast<float>(mantissa | (ones + 1)), exponent - format.bias - format.mantissa_bits);
  return negative ? -magnitude : magnitude;
}

uint8_t f32_to_f8(DType dtype, float value) {
  const F8Format& format = f8_format(dtype);
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return static_cast<uint8_t>(format.only_one_nan ? 0x80 : sign | 0x7f);
  int code = format.largest_finite + 1;
  if (!std::isinf(value)) {
    const float magnitude = std::fabs(value);
    const int lowest = 1 - format.bias;
    int exponent = magnitude == 0 ? lowest : std::ilogb(magnitude);
    if (exponent < lowest) exponent = lowest;
    // Multiples of the format's spacing at this exponent; the carry into the next exponent comes out right by itself.
    const float steps = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
    if (exponent - lowest <= 32) code = ((exponent - lowest) << format.mantissa_bits) + static_cast<int>(steps);
  }
  if (format.only_one_nan) {
    if (code > format.largest_finite) return 0x80;
    return static_cast<uint8_t>(code == 0 ? 0 : sign | code);
  }
  return static_cast<uint8_t>(sign | (code > format.largest_finite ? format.overflow : code));
}

}  // namespace kiln
