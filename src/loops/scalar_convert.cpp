// Casts between element types, and between memory and cells. Out-of-range float to integer follows x86 (as PyTorch on
// x86 does): docs/semantics.md, "float to integer".
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "loops/scalar_ops.h"
#include "types/tensor.h"

namespace kiln::loops {
namespace {

// cvttss2si: what does not fit gives the smallest integer.
template <class Int>
Int truncate_x86(double v) {
  constexpr double low = static_cast<double>(std::numeric_limits<Int>::min());
  return v >= low && v < -low ? static_cast<Int>(v) : std::numeric_limits<Int>::min();
}

template <class Int>
Int float_to_int(double v) {
  v = std::trunc(v);
  using Signed = std::conditional_t<sizeof(Int) == 8, int64_t, int32_t>;
  if constexpr (std::is_signed_v<Int> || sizeof(Int) < 4) {
    return static_cast<Int>(truncate_x86<Signed>(v));
  } else {
    constexpr double half = -static_cast<double>(std::numeric_limits<Signed>::min());
    if (!(v >= half)) return static_cast<Int>(truncate_x86<Signed>(v));
    return static_cast<Int>(static_cast<Int>(truncate_x86<Signed>(v - half)) ^ (Int{1} << (sizeof(Int) * 8 - 1)));
  }
}

template <class Int, class From>
bool to_int(const Cell* a, Cell& r) {
  if constexpr (std::is_floating_point_v<From>)
    r.i = static_cast<int64_t>(float_to_int<Int>(a[0].f));
  else
    r.i = static_cast<int64_t>(static_cast<Int>(a[0].i));
  return true;
}

template <class From>
From source(Cell c) {
  if constexpr (std::is_floating_point_v<From>)
    return c.f;
  else
    return static_cast<From>(c.i);
}

// Every float narrower than f64 goes through f32, as PyTorch's conversions do.
float round_to(DType dtype, float v) {
  switch (dtype) {
    case DType::f16:
      return f16_to_f32(f32_to_f16(v));
    case DType::bf16:
      return bf16_to_f32(f32_to_bf16(v));
    case DType::f32:
      return v;
    default:
      return f8_to_f32(dtype, f32_to_f8(dtype, v));
  }
}

template <DType To, class From>
bool to_narrow(const Cell* a, Cell& r) {
  r.f = static_cast<double>(round_to(To, static_cast<float>(source<From>(a[0]))));
  return true;
}

template <class From>
ScalarFunction cast_to(DType to) {
  switch (to) {
    case DType::boolean:
      return [](const Cell* a, Cell& r) { return r.i = source<From>(a[0]) != From{0}, true; };
    case DType::u8:
      return to_int<uint8_t, From>;
    case DType::i8:
      return to_int<int8_t, From>;
    case DType::i16:
      return to_int<int16_t, From>;
    case DType::u16:
      return to_int<uint16_t, From>;
    case DType::i32:
      return to_int<int32_t, From>;
    case DType::u32:
      return to_int<uint32_t, From>;
    case DType::i64:
      return to_int<int64_t, From>;
    case DType::u64:
      return to_int<uint64_t, From>;
    case DType::f8e4m3fn:
      return to_narrow<DType::f8e4m3fn, From>;
    case DType::f8e5m2:
      return to_narrow<DType::f8e5m2, From>;
    case DType::f8e4m3fnuz:
      return to_narrow<DType::f8e4m3fnuz, From>;
    case DType::f8e5m2fnuz:
      return to_narrow<DType::f8e5m2fnuz, From>;
    case DType::f16:
      return to_narrow<DType::f16, From>;
    case DType::bf16:
      return to_narrow<DType::bf16, From>;
    case DType::f32:
      return to_narrow<DType::f32, From>;
    case DType::f64:
      return [](const Cell* a, Cell& r) { return r.f = static_cast<double>(source<From>(a[0])), true; };
    default:
      return nullptr;
  }
}

template <class T>
T read(const void* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
template <class T>
void write(void* at, T v) {
  std::memcpy(at, &v, sizeof v);
}

}  // namespace

ScalarFunction cast_function(DType from, DType to) {
  if (is_float(from)) return cast_to<double>(to);
  return from == DType::u64 ? cast_to<uint64_t>(to) : cast_to<int64_t>(to);
}

Cell read_cell(DType dtype, const void* at) {
  Cell c;
  c.i = 0;
  switch (dtype) {
    case DType::boolean:
      c.i = read<uint8_t>(at) != 0;
      break;
    case DType::u8:
      c.i = read<uint8_t>(at);
      break;
    case DType::i8:
      c.i = read<int8_t>(at);
      break;
    case DType::i16:
      c.i = read<int16_t>(at);
      break;
    case DType::u16:
      c.i = read<uint16_t>(at);
      break;
    case DType::i32:
      c.i = read<int32_t>(at);
      break;
    case DType::u32:
      c.i = read<uint32_t>(at);
      break;
    case DType::i64:
    case DType::u64:
      c.i = read<int64_t>(at);
      break;
    case DType::f16:
      c.f = double{f16_to_f32(read<uint16_t>(at))};
      break;
    case DType::bf16:
      c.f = double{bf16_to_f32(read<uint16_t>(at))};
      break;
    case DType::f32:
      c.f = double{read<float>(at)};
      break;
    case DType::f64:
      c.f = read<double>(at);
      break;
    case DType::f8e4m3fn:
    case DType::f8e5m2:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2fnuz:
      c.f = double{f8_to_f32(dtype, read<uint8_t>(at))};
      break;
    default:
      fail_bug("complex numbers are pairs of reals in Loops");
  }
  return c;
}

void write_cell(DType dtype, void* at, Cell value) {
  switch (dtype) {
    case DType::boolean:
      return write(at, static_cast<uint8_t>(value.i != 0));
    case DType::u8:
    case DType::i8:
      return write(at, static_cast<uint8_t>(value.i));
    case DType::i16:
    case DType::u16:
      return write(at, static_cast<uint16_t>(value.i));
    case DType::i32:
    case DType::u32:
      return write(at, static_cast<uint32_t>(value.i));
    case DType::i64:
    case DType::u64:
      return write(at, value.i);
    case DType::f16:
      return write(at, f32_to_f16(static_cast<float>(value.f)));
    case DType::bf16:
      return write(at, f32_to_bf16(static_cast<float>(value.f)));
    case DType::f32:
      return write(at, static_cast<float>(value.f));
    case DType::f64:
      return write(at, value.f);
    case DType::f8e4m3fn:
    case DType::f8e5m2:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2fnuz:
      return write(at, f32_to_f8(dtype, static_cast<float>(value.f)));
    default:
      fail_bug("complex numbers are pairs of reals in Loops");
  }
}

Cell cell_of(DType dtype, const Scalar& value) {
  Cell in, out;
  DType from = value.is_float() ? DType::f64 : value.is_bool() ? DType::boolean : DType::i64;
  KILN_CHECK(!value.is_complex(), "complex numbers are pairs of reals in Loops");
  if (value.is_float())
    in.f = value.as_double();
  else
    in.i = value.as_int();
  ScalarFunction f = cast_function(from, dtype);
  KILN_CHECK(f, str("no scalar has type ", dtype_name(dtype)));
  f(&in, out);
  return out;
}

Scalar scalar_of(DType dtype, Cell value) {
  if (is_float(dtype)) return Scalar(value.f);
  if (dtype == DType::boolean) return Scalar(value.i != 0);
  return Scalar(value.i);
}

}  // namespace kiln::loops
