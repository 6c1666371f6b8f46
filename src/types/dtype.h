// Element types: names, sizes, PyTorch's numbers for them, and PyTorch's promotion rule.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln {

enum class DType : uint8_t {
  boolean,
  u8,
  i8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  f8e4m3fn,
  f8e5m2,
  f8e4m3fnuz,
  f8e5m2fnuz,
  f16,
  bf16,
  f32,
  f64,
  c32,
  c64,
  c128,  // named by all their bits: c64 is two f32
};
inline constexpr int dtype_count = 20;

const char* dtype_name(DType dtype);                          // Kiln's spelling in IR texts: "f32", "i64", "bool"
const char* dtype_torch_name(DType dtype);                    // "float32", "int64", "bool"
std::optional<DType> dtype_from_name(std::string_view name);  // either spelling, "torch." accepted
std::optional<DType> dtype_from_schema(int number);           // torch._export.serde.schema.ScalarType; unknown: nothing
int dtype_schema_number(DType dtype);                         // the inverse

int64_t dtype_bytes(DType dtype);
bool is_float(DType dtype);  // f8 … f64, not complex
bool is_complex(DType dtype);
bool is_integer(DType dtype);  // signed and unsigned, not bool
bool is_signed(DType dtype);
inline bool is_integral(DType dtype) { return is_integer(dtype) || dtype == DType::boolean; }
double dtype_epsilon(DType dtype);  // of floats and of the parts of complex numbers: from 1 to the next; 0 for others
DType complex_part(DType dtype);    // c64 -> f32
DType complex_of(DType dtype);      // f32 -> c64
// The type PyTorch computes in for this storage type: f32 for f16, bf16 and f8, itself otherwise.
DType compute_dtype(DType dtype);

// torch.promote_types
DType promote(DType a, DType b);

}  // namespace kiln
