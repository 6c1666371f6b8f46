#include "runtime/element.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/text.h"

namespace kiln::runtime {
namespace {

struct Row {
  DType dtype;
  uint8_t code, bits;
  int torch;
};

constexpr Row rows[] = {
    {DType::boolean, kDLBool, 8, 11},
    {DType::u8, kDLUInt, 8, 0},
    {DType::i8, kDLInt, 8, 1},
    {DType::i16, kDLInt, 16, 2},
    {DType::u16, kDLUInt, 16, 27},
    {DType::i32, kDLInt, 32, 3},
    {DType::u32, kDLUInt, 32, 28},
    {DType::i64, kDLInt, 64, 4},
    {DType::u64, kDLUInt, 64, 29},
    {DType::f8e4m3fn, kDLFloat8_e4m3fn, 8, 24},
    {DType::f8e5m2, kDLFloat8_e5m2, 8, 23},
    {DType::f8e4m3fnuz, kDLFloat8_e4m3fnuz, 8, 26},
    {DType::f8e5m2fnuz, kDLFloat8_e5m2fnuz, 8, 25},
    {DType::f16, kDLFloat, 16, 5},
    {DType::bf16, kDLBfloat, 16, 15},
    {DType::f32, kDLFloat, 32, 6},
    {DType::f64, kDLFloat, 64, 7},
    {DType::c32, kDLComplex, 32, 8},
    {DType::c64, kDLComplex, 64, 9},
    {DType::c128, kDLComplex, 128, 10},
};
static_assert(std::size(rows) == dtype_count);

const Row& row_of(DType dtype) { return rows[static_cast<size_t>(dtype)]; }

template <class T>
T read(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Exponent and mantissa widths, the bias, and what the all-ones exponent means.
float small_float(uint8_t bits, int mantissa_bits, int bias, bool has_infinity, bool negative_zero_is_nan) {
  if (negative_zero_is_nan && bits == 0x80) return std::nanf("");
  int exponent_bits = 7 - mantissa_bits;
  int exponent = (bits & 0x7f) >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
  int top = (1 << exponent_bits) - 1;
  float sign = bits & 0x80 ? -1.0f : 1.0f;
  if (!negative_zero_is_nan && exponent == top) {
    if (has_infinity) return mantissa ? std::nanf("") : sign * INFINITY;
    if (mantissa == (1 << mantissa_bits) - 1) return std::nanf("");
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits);
  return sign * std::ldexp(static_cast<float>(mantissa | (1 << mantissa_bits)), exponent - bias - mantissa_bits);
}

}  // namespace

DLDataType dl_dtype(DType dtype) {
  const Row& row = row_of(dtype);
  return {row.code, row.bits, 1};
}

std::optional<DType> dtype_of(DLDataType dtype) {
  if (dtype.lanes != 1) return std::nullopt;
  for (const Row& row : rows)
    if (row.code == dtype.code && row.bits == dtype.bits) return row.dtype;
  return std::nullopt;
}

int torch_scalar_type(DType dtype) { return row_of(dtype).torch; }

std::string dtype_text(DLDataType dtype) {
  if (auto known = dtype_of(dtype)) return str(torch_scalar_type(*known), "(", dtype_torch_name(*known), ")");
  return str("DLPack code ", int{dtype.code}, ", ", int{dtype.bits}, " bits, ", int{dtype.lanes}, " lanes");
}

std::string device_text(const DLDevice& device, const DLDevice& other) {
  std::string text = device_text(device.device_type);
  if (device.device_type == other.device_type) text.insert(text.size() - 1, str(":", device.device_id));
  return text;
}

std::string device_text(DLDeviceType type) {
  switch (type) {
    case kDLCPU:
    case kDLCUDAHost:
    case kDLROCMHost:
      return "0(cpu)";
    case kDLCUDA:
    case kDLCUDAManaged:
      return "1(cuda)";
    case kDLROCM:
      return "6(hip)";
    case kDLOpenCL:
      return "4(opencl)";
    case kDLVulkan:
      return "10(vulkan)";
    case kDLMetal:
      return "13(mps)";
    case kDLOneAPI:
      return "12(xpu)";
    case kDLMAIA:
      return "21(maia)";
    default:
      return str("DLPack device ", static_cast<int>(type));
  }
}

bool is_host(DLDeviceType type) { return type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost; }

float half_value(uint16_t bits) {
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa ? std::nanf("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa | 1024), exponent - 25);
}

float bfloat_value(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float float8_value(DType dtype, uint8_t bits) {
  switch (dtype) {
    case DType::f8e4m3fn:
      return small_float(bits, 3, 7, false, false);
    case DType::f8e5m2:
      return small_float(bits, 2, 15, true, false);
    case DType::f8e4m3fnuz:
      return small_float(bits, 3, 8, false, true);
    default:
      return small_float(bits, 2, 16, false, true);
  }
}

double element_value(DType dtype, const void* at) {
  switch (dtype) {
    case DType::boolean:
      return read<uint8_t>(at) != 0;
    case DType::u8:
      return read<uint8_t>(at);
    case DType::i8:
      return read<int8_t>(at);
    case DType::i16:
      return read<int16_t>(at);
    case DType::u16:
      return read<uint16_t>(at);
    case DType::i32:
      return read<int32_t>(at);
    case DType::u32:
      return read<uint32_t>(at);
    case DType::i64:
      return static_cast<double>(read<int64_t>(at));
    case DType::u64:
      return static_cast<double>(read<uint64_t>(at));
    case DType::f16:
    case DType::c32:
      return half_value(read<uint16_t>(at));
    case DType::bf16:
      return bfloat_value(read<uint16_t>(at));
    case DType::f32:
    case DType::c64:
      return read<float>(at);
    case DType::f64:
    case DType::c128:
      return read<double>(at);
    default:
      return float8_value(dtype, read<uint8_t>(at));
  }
}

bool element_integer(DType dtype, const void* at, int64_t& out) {
  if (dtype == DType::i64) return out = read<int64_t>(at), true;
  if (dtype == DType::u64) {
    uint64_t value = read<uint64_t>(at);
    out = static_cast<int64_t>(value);
    return value <= static_cast<uint64_t>(INT64_MAX);
  }
  double value = element_value(dtype, at);
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) return false;
  out = static_cast<int64_t>(value);
  return true;
}

bool element_is_nonzero(DType dtype, const void* at) {
  if (dtype == DType::u64 || dtype == DType::i64) return read<uint64_t>(at) != 0;
  if (is_complex(dtype)) {
    int64_t half = dtype_bytes(dtype) / 2;
    DType part = complex_part(dtype);
    return element_value(part, at) != 0 || element_value(part, static_cast<const char*>(at) + half) != 0;
  }
  return element_value(dtype, at) != 0;
}

}  // namespace kiln::runtime
