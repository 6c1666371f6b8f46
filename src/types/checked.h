// int64 arithmetic that refuses to wrap. Sizes and offsets are numbers that must be right: an overflow is error K0211.
#pragma once
#include <cstdint>

#include "base/error.h"

namespace kiln::checked {

[[noreturn]] inline void overflow(const char* op, int64_t a, int64_t b) {
  fail_user("K0211", str("integer overflow in ", a, " ", op, " ", b));
}
inline int64_t add(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) overflow("+", a, b);
  return out;
}
inline int64_t sub(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_sub_overflow(a, b, &out)) overflow("-", a, b);
  return out;
}
inline int64_t mul(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) overflow("*", a, b);
  return out;
}
inline int64_t floordiv(int64_t a, int64_t b) {
  if (b == 0) fail_user("K0211", str("division by zero in ", a, " // 0"));
  if (b == -1) return sub(0, a);
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}
inline int64_t mod(int64_t a, int64_t b) {
  if (b == 0) fail_user("K0211", str("division by zero in ", a, " % 0"));
  if (b == -1) return 0;
  int64_t r = a % b;
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
inline int64_t pow(int64_t base, int64_t exponent) {
  if (exponent < 0) fail_user("K0211", str("negative exponent in ", base, " ** ", exponent));
  int64_t out = 1;
  while (exponent > 0) {
    if (exponent & 1) out = mul(out, base);
    exponent >>= 1;
    if (exponent > 0) base = mul(base, base);
  }
  return out;
}

}  // namespace kiln::checked
