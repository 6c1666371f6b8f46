// Element types of tensors in C++: which DLPack type a C++ type is, the 16-bit floats that C++17 has no types for, and
// a list of elements that somebody else owns.
#pragma once
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif
#if defined(__STDCPP_FLOAT16_T__) || defined(__STDCPP_BFLOAT16_T__)
#include <stdfloat>
#endif

#include "kiln/dlpack.h"

namespace kiln {

namespace bits {
template <class To, class From>
To cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "of one size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
}  // namespace bits

// IEEE binary16 (PyTorch's float16): storage, with conversions that round to the nearest, ties to even.
struct float16 {
  uint16_t bits = 0;

  float16() = default;
  explicit float16(float value) {
    const uint32_t all = bits::cast<uint32_t>(value), magnitude = all & 0x7fffffffu;
    uint32_t made;
    if (magnitude > 0x7f800000u)
      made = 0x7e00u | ((magnitude >> 13) & 0x3ffu);  // NaN
    else if (magnitude >= 0x477ff000u)
      made = 0x7c00u;  // from 65520 on: infinity
    else if (magnitude < 0x38800000u)
      made = bits::cast<uint32_t>(bits::cast<float>(magnitude) + 0.5f) - 0x3f000000u;  // 0.5's last place is 2^-24
    else
      made = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
    bits = static_cast<uint16_t>(((all >> 16) & 0x8000u) | made);
  }
  operator float() const {
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 0x3ffu;
    if (exponent == 0) {
      const float value = static_cast<float>(fraction) * 0x1p-24f;
      return sign != 0 ? -value : value;
    }
    return bits::cast<float>(sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13);
  }
};

// The upper half of a binary32 (PyTorch's bfloat16).
struct bfloat16 {
  uint16_t bits = 0;

  bfloat16() = default;
  explicit bfloat16(float value) {
    const uint32_t all = bits::cast<uint32_t>(value);
    const bool nan = (all & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(nan ? (all >> 16) | 0x40u : (all + 0x7fffu + ((all >> 16) & 1u)) >> 16);
  }
  operator float() const { return bits::cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// DLPack's type as a value that can be compared and named.
struct ElementType {
  DLDataType type{};

  ElementType() = default;
  ElementType(DLDataType from) : type(from) {}
  operator DLDataType() const { return type; }
  size_t bytes() const { return (size_t{type.bits} * type.lanes + 7) / 8; }
  std::string name() const {  // as PyTorch calls it
    const auto numbered = [&](const char* kind) { return kind + std::to_string(int{type.bits}); };
    std::string text;
    switch (static_cast<DLDataTypeCode>(type.code)) {
      case kDLInt:
        text = numbered("int");
        break;
      case kDLUInt:
        text = numbered("uint");
        break;
      case kDLFloat:
        text = numbered("float");
        break;
      case kDLBfloat:
        text = numbered("bfloat");
        break;
      case kDLComplex:
        text = numbered("complex");
        break;
      case kDLBool:
        text = "bool";
        break;
      case kDLFloat8_e4m3fn:
        text = "float8_e4m3fn";
        break;
      case kDLFloat8_e4m3fnuz:
        text = "float8_e4m3fnuz";
        break;
      case kDLFloat8_e5m2:
        text = "float8_e5m2";
        break;
      case kDLFloat8_e5m2fnuz:
        text = "float8_e5m2fnuz";
        break;
      case kDLFloat8_e8m0fnu:
        text = "float8_e8m0fnu";
        break;
      default:
        text = "DLPack type " + std::to_string(int{type.code}) + " of " + numbered("") + " bits";
        break;
    }
    return type.lanes == 1 ? text : text + "x" + std::to_string(int{type.lanes});
  }
  friend bool operator==(ElementType a, ElementType b) {
    return a.type.code == b.type.code && a.type.bits == b.type.bits && a.type.lanes == b.type.lanes;
  }
  friend bool operator!=(ElementType a, ElementType b) { return !(a == b); }
};

// The element type that a C++ type is. Yours of the same layout: specialise it.
template <class T>
struct DTypeOf;
#define KILN_DTYPE(type, code_, bits_)                                           \
  template <>                                                                    \
  struct DTypeOf<type> {                                                         \
    static constexpr DLDataType value = {static_cast<uint8_t>(code_), bits_, 1}; \
  };
KILN_DTYPE(float, kDLFloat, 32)
KILN_DTYPE(double, kDLFloat, 64)
KILN_DTYPE(float16, kDLFloat, 16)
KILN_DTYPE(bfloat16, kDLBfloat, 16)
KILN_DTYPE(std::complex<float>, kDLComplex, 64)
KILN_DTYPE(std::complex<double>, kDLComplex, 128)
KILN_DTYPE(int8_t, kDLInt, 8)
KILN_DTYPE(int16_t, kDLInt, 16)
KILN_DTYPE(int32_t, kDLInt, 32)
KILN_DTYPE(int64_t, kDLInt, 64)
KILN_DTYPE(uint8_t, kDLUInt, 8)
KILN_DTYPE(uint16_t, kDLUInt, 16)
KILN_DTYPE(uint32_t, kDLUInt, 32)
KILN_DTYPE(uint64_t, kDLUInt, 64)
KILN_DTYPE(bool, kDLBool, 8)
#if defined(__STDCPP_FLOAT16_T__)
KILN_DTYPE(std::float16_t, kDLFloat, 16)
#endif
#if defined(__STDCPP_BFLOAT16_T__)
KILN_DTYPE(std::bfloat16_t, kDLBfloat, 16)
#endif
#undef KILN_DTYPE

template <class T>
ElementType element_type() {
  return DTypeOf<std::remove_const_t<T>>::value;
}

// Elements one after the other, owned by somebody else: std::span where the library has it.
#if defined(__cpp_lib_span)
template <class T>
using Span = std::span<T>;
#else
template <class T>
class Span {
 public:
  using element_type = T;
  Span() = default;
  Span(T* data, size_t size) : data_(data), size_(size) {}
  T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};
#endif

}  // namespace kiln
