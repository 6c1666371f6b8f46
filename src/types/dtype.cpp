#include "types/dtype.h"

#include <array>
#include <string>

#include "base/error.h"

namespace kiln {
namespace {

enum class Family : uint8_t { boolean, unsigned_integer, signed_integer, floating, complex };

struct Row {
  const char* name;
  const char* torch_name;
  int schema;  // torch._export.serde.schema.ScalarType
  int64_t bytes;
  Family family;
};

// In the order of DType.
constexpr std::array<Row, dtype_count> rows = {{
    {"bool", "bool", 12, 1, Family::boolean},
    {"u8", "uint8", 1, 1, Family::unsigned_integer},
    {"i8", "int8", 2, 1, Family::signed_integer},
    {"i16", "int16", 3, 2, Family::signed_integer},
    {"u16", "uint16", 28, 2, Family::unsigned_integer},
    {"i32", "int32", 4, 4, Family::signed_integer},
    {"u32", "uint32", 34, 4, Family::unsigned_integer},
    {"i64", "int64", 5, 8, Family::signed_integer},
    {"u64", "uint64", 35, 8, Family::unsigned_integer},
    {"f8e4m3fn", "float8_e4m3fn", 29, 1, Family::floating},
    {"f8e5m2", "float8_e5m2", 30, 1, Family::floating},
    {"f8e4m3fnuz", "float8_e4m3fnuz", 31, 1, Family::floating},
    {"f8e5m2fnuz", "float8_e5m2fnuz", 32, 1, Family::floating},
    {"f16", "float16", 6, 2, Family::floating},
    {"bf16", "bfloat16", 13, 2, Family::floating},
    {"f32", "float32", 7, 4, Family::floating},
    {"f64", "float64", 8, 8, Family::floating},
    {"c32", "complex32", 9, 4, Family::complex},
    {"c64", "complex64", 10, 8, Family::complex},
    {"c128", "complex128", 11, 16, Family::complex},
}};

struct Alias {
  std::string_view name;
  DType dtype;
};
constexpr std::array<Alias, 7> aliases = {{{"half", DType::f16},
                                           {"float", DType::f32},
                                           {"double", DType::f64},
                                           {"short", DType::i16},
                                           {"int", DType::i32},
                                           {"long", DType::i64},
                                           {"boolean", DType::boolean}}};

const Row& row(DType dtype) { return rows[static_cast<size_t>(dtype)]; }

bool is_f8(DType dtype) { return is_float(dtype) && row(dtype).bytes == 1; }

// u16, u32 and u64 came late to PyTorch and promote with floats and themselves only.
bool is_barebones_unsigned(DType dtype) { return dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64; }

[[noreturn]] void fail_promotion(DType a, DType b) {
  fail_user("K0203", str("PyTorch has no promotion of ", dtype_torch_name(a), " with ", dtype_torch_name(b)));
}

DType promote_integral(DType a, DType b) {
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  const Row &ra = row(a), &rb = row(b);
  if (ra.bytes != rb.bytes) return ra.bytes > rb.bytes ? a : b;
  return DType::i16;  // equal sizes that differ: u8 with i8
}

DType promote_float(DType a, DType b) {
  if ((a == DType::f16 && b == DType::bf16) || (a == DType::bf16 && b == DType::f16)) return DType::f32;
  return row(a).bytes > row(b).bytes ? a : b;
}

}  // namespace

const char* dtype_name(DType dtype) { return row(dtype).name; }
const char* dtype_torch_name(DType dtype) { return row(dtype).torch_name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  if (name.substr(0, 6) == "torch.") name.remove_prefix(6);
  for (size_t i = 0; i < rows.size(); ++i)
    if (name == rows[i].name || name == rows[i].torch_name) return static_cast<DType>(i);
  for (const Alias& alias : aliases)
    if (name == alias.name) return alias.dtype;
  return std::nullopt;
}

std::optional<DType> dtype_from_schema(int number) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].schema == number) return static_cast<DType>(i);
  return std::nullopt;
}

int dtype_schema_number(DType dtype) { return row(dtype).schema; }
int64_t dtype_bytes(DType dtype) { return row(dtype).bytes; }
bool is_float(DType dtype) { return row(dtype).family == Family::floating; }
bool is_complex(DType dtype) { return row(dtype).family == Family::complex; }

double dtype_epsilon(DType dtype) {
  switch (is_complex(dtype) ? complex_part(dtype) : dtype) {
    case DType::f64:
      return 0x1p-52;
    case DType::f32:
      return 0x1p-23;
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    case DType::f8e4m3fn:
    case DType::f8e4m3fnuz:
      return 0x1p-3;
    case DType::f8e5m2:
    case DType::f8e5m2fnuz:
      return 0x1p-2;
    default:
      return 0;
  }
}

bool is_integer(DType dtype) {
  return row(dtype).family == Family::signed_integer || row(dtype).family == Family::unsigned_integer;
}

bool is_signed(DType dtype) {
  return row(dtype).family != Family::unsigned_integer && row(dtype).family != Family::boolean;
}

DType complex_part(DType dtype) {
  switch (dtype) {
    case DType::c32:
      return DType::f16;
    case DType::c64:
      return DType::f32;
    case DType::c128:
      return DType::f64;
    default:
      return dtype;
  }
}

DType complex_of(DType dtype) {
  if (is_complex(dtype)) return dtype;
  if (dtype == DType::f16) return DType::c32;
  return dtype == DType::f64 ? DType::c128 : DType::c64;
}

DType compute_dtype(DType dtype) {
  if (dtype == DType::c32) return DType::c64;
  return is_float(dtype) && row(dtype).bytes <= 2 ? DType::f32 : dtype;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_f8(a) || is_f8(b)) fail_promotion(a, b);
  const bool barebones = is_barebones_unsigned(a) || is_barebones_unsigned(b);
  if (barebones && !is_float(a) && !is_float(b)) fail_promotion(a, b);
  if (is_complex(a) || is_complex(b)) {
    if (is_integral(a)) return b;
    if (is_integral(b)) return a;
    return complex_of(promote_float(complex_part(a), complex_part(b)));
  }
  if (is_float(a) && is_float(b)) return promote_float(a, b);
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  return promote_integral(a, b);
}

}  // namespace kiln
