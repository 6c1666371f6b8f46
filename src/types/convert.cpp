// Conversion between element types and copies between layouts (declared in types/tensor.h).
//
// Out-of-range float to integer is undefined in C++; PyTorch's answers on x86 are what users compare with, so they are
// written out here instead of left to the compiler.
#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "types/tensor.h"

namespace kiln {
namespace {

// Storage types that C++ lacks.
struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};
template <DType D>
struct Float8 {
  uint8_t bits;
};
struct ComplexHalf {
  Half real, imag;
};
struct Bool {
  uint8_t bits;
};

// What each storage type is read as: bool, int64/uint64, float, double, complex<float>, complex<double>.
template <class T>
auto widen(T v) {
  if constexpr (std::is_same_v<T, Bool>)
    return v.bits != 0;
  else if constexpr (std::is_same_v<T, Half>)
    return f16_to_f32(v.bits);
  else if constexpr (std::is_same_v<T, Bfloat>)
    return bf16_to_f32(v.bits);
  else if constexpr (std::is_same_v<T, ComplexHalf>)
    return std::complex<float>(f16_to_f32(v.real.bits), f16_to_f32(v.imag.bits));
  else
    return v;
}
template <DType D>
float widen(Float8<D> v) {
  return f8_to_f32(D, v.bits);
}

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::true_type {};

template <class Int>
Int float_to_signed(double v) {
  constexpr double low = static_cast<double>(std::numeric_limits<Int>::min());
  return v >= low && v < -low ? static_cast<Int>(v) : std::numeric_limits<Int>::min();
}

template <class Int>
Int float_to_int(double v) {
  using Signed = std::conditional_t<sizeof(Int) == 8, int64_t, int32_t>;
  if constexpr (std::is_signed_v<Int> || sizeof(Int) < 4) {
    return static_cast<Int>(float_to_signed<Signed>(v));
  } else {
    constexpr double half = -static_cast<double>(std::numeric_limits<Signed>::min());
    using Bits = std::make_unsigned_t<Signed>;
    if (v < half || v != v) return static_cast<Int>(float_to_signed<Signed>(v));
    const Bits top = static_cast<Bits>(std::numeric_limits<Signed>::min());
    return static_cast<Int>(static_cast<Bits>(float_to_signed<Signed>(v - half)) ^ top);
  }
}

template <class To, class From>
To real_to(From v) {
  if constexpr (std::is_same_v<To, Bool>)
    return Bool{static_cast<uint8_t>(v != From{} ? 1 : 0)};
  else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>)
    return float_to_int<To>(static_cast<double>(v));
  else
    return static_cast<To>(v);
}

template <class To>
struct Narrow {
  template <class From>
  static To from(From v) {
    if constexpr (IsComplex<To>::value) {
      using Part = typename To::value_type;
      if constexpr (IsComplex<From>::value)
        return To(static_cast<Part>(v.real()), static_cast<Part>(v.imag()));
      else
        return To(static_cast<Part>(v), Part{});
    } else if constexpr (std::is_same_v<To, Bool> && IsComplex<From>::value) {
      return Bool{static_cast<uint8_t>(v != From{} ? 1 : 0)};
    } else if constexpr (IsComplex<From>::value) {
      return real_to<To>(v.real());
    } else {
      return real_to<To>(v);
    }
  }
};
template <>
struct Narrow<Half> {
  template <class From>
  static Half from(From v) {
    return {f32_to_f16(Narrow<float>::from(v))};
  }
};
template <>
struct Narrow<Bfloat> {
  template <class From>
  static Bfloat from(From v) {
    return {f32_to_bf16(Narrow<float>::from(v))};
  }
};
template <DType D>
struct Narrow<Float8<D>> {
  template <class From>
  static Float8<D> from(From v) {
    return {f32_to_f8(D, Narrow<float>::from(v))};
  }
};
template <>
struct Narrow<ComplexHalf> {
  template <class From>
  static ComplexHalf from(From v) {
    const auto wide = Narrow<std::complex<float>>::from(v);
    return {{f32_to_f16(wide.real())}, {f32_to_f16(wide.imag())}};
  }
};

template <class F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::boolean:
      return f(Bool{});
    case DType::u8:
      return f(uint8_t{});
    case DType::i8:
      return f(int8_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::u16:
      return f(uint16_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::u32:
      return f(uint32_t{});
    case DType::i64:
      return f(int64_t{});
    case DType::u64:
      return f(uint64_t{});
    case DType::f8e4m3fn:
      return f(Float8<DType::f8e4m3fn>{});
    case DType::f8e5m2:
      return f(Float8<DType::f8e5m2>{});
    case DType::f8e4m3fnuz:
      return f(Float8<DType::f8e4m3fnuz>{});
    case DType::f8e5m2fnuz:
      return f(Float8<DType::f8e5m2fnuz>{});
    case DType::f16:
      return f(Half{});
    case DType::bf16:
      return f(Bfloat{});
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::c32:
      return f(ComplexHalf{});
    case DType::c64:
      return f(std::complex<float>{});
    case DType::c128:
      return f(std::complex<double>{});
  }
  fail_bug("unknown dtype");
}

// One row: count elements with a stride (in elements) on each side.
using RowCopy = void (*)(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t count);

template <class From, class To>
void convert_row(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * from_stride * static_cast<int64_t>(sizeof(From)), sizeof value);
    const To result = Narrow<To>::from(widen(value));
    std::memcpy(to + i * to_stride * static_cast<int64_t>(sizeof(To)), &result, sizeof result);
  }
}

template <size_t Bytes>
void move_row(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t count) {
  constexpr auto bytes = static_cast<int64_t>(Bytes);
  if (from_stride == 1 && to_stride == 1) {
    std::memmove(to, from, static_cast<size_t>(count) * Bytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i) std::memmove(to + i * to_stride * bytes, from + i * from_stride * bytes, Bytes);
}

RowCopy choose_row(DType from, DType to) {
  if (from == to) {
    switch (dtype_bytes(from)) {
      case 1:
        return move_row<1>;
      case 2:
        return move_row<2>;
      case 4:
        return move_row<4>;
      case 8:
        return move_row<8>;
      default:
        return move_row<16>;
    }
  }
  RowCopy row = nullptr;
  with_type(from, [&](auto f) { with_type(to, [&](auto t) { row = convert_row<decltype(f), decltype(t)>; }); });
  return row;
}

}  // namespace

void copy_into(const Tensor& source, const Tensor& destination) {
  KILN_CHECK(destination.storage->writable, "write to a tensor that is mapped from a file");
  const size_t rank = destination.sizes.size();
  KILN_CHECK(source.sizes.size() <= rank, "the source of a copy has more dimensions than its destination");
  if (destination.numel() == 0) return;
  // Strides of the source as seen through broadcasting.
  std::vector<int64_t> from_strides(rank, 0);
  for (size_t i = 0; i < source.sizes.size(); ++i) {
    const size_t at = rank - source.sizes.size() + i;
    KILN_CHECK(source.sizes[i] == destination.sizes[at] || source.sizes[i] == 1, "sizes of a copy do not fit");
    from_strides[at] = source.sizes[i] == 1 ? 0 : source.strides[i];
  }
  const RowCopy row = choose_row(source.dtype, destination.dtype);
  const int64_t from_bytes = dtype_bytes(source.dtype), to_bytes = dtype_bytes(destination.dtype);
  if (source.contiguous() && destination.contiguous() && source.sizes == destination.sizes)
    return row(source.data(), 1, destination.data(), 1, destination.numel());
  if (rank == 0) return row(source.data(), 1, destination.data(), 1, 1);
  std::vector<int64_t> index(rank, 0);
  int64_t from_at = 0, to_at = 0;
  while (true) {
    row(source.data() + from_at * from_bytes, from_strides[rank - 1], destination.data() + to_at * to_bytes,
        destination.strides[rank - 1], destination.sizes[rank - 1]);
    size_t dim = rank - 1;
    while (dim-- > 0) {
      if (destination.sizes[dim] == 1) continue;  // its strides lead nowhere and may be any number
      from_at += from_strides[dim];
      to_at += destination.strides[dim];
      if (++index[dim] < destination.sizes[dim]) break;
      from_at -= from_strides[dim] * destination.sizes[dim];
      to_at -= destination.strides[dim] * destination.sizes[dim];
      index[dim] = 0;
    }
    if (dim == static_cast<size_t>(-1)) return;
  }
}

Tensor convert(const Tensor& tensor, DType dtype) {
  Tensor out = Tensor::empty(dtype, tensor.sizes);
  out.device = tensor.device;
  copy_into(tensor, out);
  return out;
}

}  // namespace kiln
