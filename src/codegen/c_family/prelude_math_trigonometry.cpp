// Sine, cosine, tangent and their inverses in f64, and short forms for f32. Coefficients are minimax fits (Remez).
#include "codegen/c_family/prelude_pieces.h"

namespace kiln::codegen {
namespace {

// Payne and Hanek: the bits of 2/pi that matter for this exponent times the mantissa, modulo 4 quarter turns. Gives the
// quarter turns and the rest in [-pi/4, pi/4] as hi + lo. For finite |x| >= 2^20.
constexpr const char* pio2_large_text =
    R"(static __attribute__((noinline, unused)) int pio2_large_f64(f64 x, f64* hi, f64* lo) {
  static const u64 two_over_pi[21] = {
      0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
      0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
      0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
      0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
  typedef unsigned __int128 u128;
  const u64 b = __builtin_bit_cast(u64, x), m = (b << 12 >> 12) | 1ull << 52;
  const int offset = (int)(b << 1 >> 53) - 1075 - 2 + 64, at = offset / 64, by = offset % 64;
  u64 w[3];
  for (int i = 0; i < 3; i++) {
    w[i] = by ? two_over_pi[at + i] << by | two_over_pi[at + i + 1] >> (64 - by) : two_over_pi[at + i];
  }
  const u128 p0 = (u128)m * w[2], p1 = (u128)m * w[1];
  const u128 mid = (p0 >> 64) + (u64)p1;
  const u64 top = (u64)(mid >> 64) + (u64)(p1 >> 64) + m * w[0];
  u128 turn = (u128)top << 64 | (u64)mid;
  int n = (int)(turn >> 126);
  turn <<= 2;
  const bool negative = turn >> 127;
  if (negative) turn = -turn, n++;
  f64 fh = 0, fl = 0;
  if (turn != 0) {
    const int zeros = (u64)(turn >> 64) ? __builtin_clzll((u64)(turn >> 64)) : 64 + __builtin_clzll((u64)turn);
    turn <<= zeros;
    const f64 scale = __builtin_bit_cast(f64, (u64)(1023 - 53 - zeros) << 52);
    fh = (f64)(i64)(turn >> 75) * scale;
    fl = (f64)(i64)((u64)(turn >> 12) & 0x7fffffffffffffff) * scale * 0x1p-63;
  }
  const dd_f64 p = two_prod_f64(fh, 0x1.921fb54442d18p0);
  const dd_f64 r = quick_sum_f64(p.hi, p.lo + (fh * 0x1.1a62633145c07p-54 + fl * 0x1.921fb54442d18p0));
  const bool flip = negative != (b >> 63 != 0);
  *hi = flip ? -r.hi : r.hi;
  *lo = flip ? -r.lo : r.lo;
  return b >> 63 ? -n : n;
}
)";
// x - n pi/2 as hi + lo; pi/2 is in three parts, of which the first two times n are exact for n < 2^20.
constexpr const char* pio2_text = R"(struct pio2_$F { $F hi, lo; $I n; };
K_FN pio2_$F reduce_pio2_f64($F x) {
  const $F limit = $S(0x1p20);
  $F a = abs_f64(x), c = a < limit ? x : $S(0.0);
  $F k = fma_f64(c, $S(0x1.45f306dc9c883p-1), $S(0x1.8p52)), n = k - $S(0x1.8p52);
  $F r = c - n * $S(0x1.921fb544p0);
  dd_$F s = two_sum_f64(r, -n * $S(0x1.0b4611a6p-34));
  s = quick_sum_f64(s.hi, s.lo - n * $S(0x1.3198a2e037073p-69));
  pio2_$F out = {s.hi, s.lo, __builtin_bit_cast($I, k)};
  if ($ANY(a >= limit)) {
    for (int i = 0; i < $N; i++) {
      if (!(a$at >= 0x1p20)) continue;
      f64 hi = __builtin_nan(""), lo = 0;
      if (a$at < __builtin_inf()) out.n$at = pio2_large_f64(x$at, &hi, &lo);
      out.hi$at = hi;
      out.lo$at = lo;
    }
  }
  out.hi = x == x ? out.hi : x;
  return out;
}
)";
constexpr const char* kernels_text = R"(K_FN $F sin_kernel_f64($F x, $F y) {
  $F z = x * x, v = z * x;
  $F p = $POLY{z; 0x1.1111111110ba2p-7, -0x1.a01a019e7fbd4p-13, 0x1.71de37916a4e8p-19, -0x1.ae6005a5fb7bap-26,
      0x1.5e0929f0400f9p-33};
  return x - ((z * ($S(0.5) * y - v * p) - y) + v * $S(0x1.5555555555555p-3));
}
K_FN $F cos_kernel_f64($F x, $F y) {
  $F z = x * x, h = $S(0.5) * z, w = $S(1.0) - h;
  $F p = $POLY{z; 0x1.5555555555555p-5, -0x1.6c16c16c1695fp-10, 0x1.a01a019f4cb59p-16, -0x1.27e4fa1545f7p-22,
      0x1.1eeb6636e8dc5p-29, -0x1.907bb0c26e85p-37};
  return w + ((($S(1.0) - w) - h) + (z * z * p - x * y));
}
)";
// Bit 0 of the quarter turns chooses sine or cosine, bit 1 the sign.
constexpr const char* sin_text = R"(K_FN $F sin_f64($F x) {
  pio2_$F r = reduce_pio2_f64(x);
  $F s = (r.n & 1) == $SI(0) ? sin_kernel_f64(r.hi, r.lo) : cos_kernel_f64(r.hi, r.lo);
  s = __builtin_bit_cast($F, __builtin_bit_cast($I, s) ^ ((r.n & 2) << 62));
  return x == $S(0.0) ? x : s;
}
)";
constexpr const char* cos_text = R"(K_FN $F cos_f64($F x) {
  pio2_$F r = reduce_pio2_f64(x);
  $F s = (r.n & 1) == $SI(0) ? cos_kernel_f64(r.hi, r.lo) : sin_kernel_f64(r.hi, r.lo);
  return __builtin_bit_cast($F, __builtin_bit_cast($I, s) ^ (((r.n + 1) & 2) << 62));
}
)";
constexpr const char* tan_text = R"(K_FN $F tan_f64($F x) {
  pio2_$F r = reduce_pio2_f64(x);
  $F s = sin_kernel_f64(r.hi, r.lo), c = cos_kernel_f64(r.hi, r.lo);
  $M even = (r.n & 1) == $SI(0);
  $F t = (even ? s : -c) / (even ? c : s);
  return x == $S(0.0) ? x : t;
}
)";
// For f32: the same with polynomials as short as f32 allows and no low part.
constexpr const char* short_text = R"(K_FN $F sincos_short_f64($F x, $I turn) {
  $F a = abs_f64(x), limit = $S(0x1p20);
  $F k = fma_f64(x, $S(0x1.45f306dc9c883p-1), $S(0x1.8p52)), n = k - $S(0x1.8p52);
  $F r = (x - n * $S(0x1.921fb544p0)) - n * $S(0x1.0b4611a626331p-34);
  $I q = __builtin_bit_cast($I, k) + turn;
  if ($ANY(a >= limit)) {
    for (int i = 0; i < $N; i++) {
      if (!(a$at >= 0x1p20)) continue;
      f64 hi = __builtin_nan(""), lo;
      if (a$at < __builtin_inf()) q$at = pio2_large_f64(x$at, &hi, &lo) + turn$at;
      r$at = hi;
    }
  }
  $F z = r * r;
  $F s = $POLY{z; -0x1.555555545c031p-3, 0x1.11110de9f36efp-7, -0x1.a013a0479cea1p-13, 0x1.6dbb9def558dap-19};
  $F c = $POLY{z; -0.5, 0x1.55555555021bcp-5, -0x1.6c16bf5153521p-10, 0x1.a015bf8680935p-16, -0x1.2522aae7b6c4ap-22};
  $F v = (q & 1) == $SI(0) ? fma_f64(r * z, s, r) : fma_f64(z, c, $S(1.0));
  return __builtin_bit_cast($F, __builtin_bit_cast($I, v) ^ ((q & 2) << 62));
}
)";
constexpr const char* sin_short_text =
    R"(K_FN $F sin_short_f64($F x) { $F s = sincos_short_f64(x, $SI(0)); return x == $S(0.0) ? x : s; }
)";
constexpr const char* cos_short_text = R"(K_FN $F cos_short_f64($F x) { return sincos_short_f64(x, $SI(1)); }
)";

// ---- inverses
// --------------------------------------------------------------------------------------------------------

// (asin(x) - x) / x^3 in z = x^2 for |x| <= 1/2; larger arguments through the half angle.
constexpr const char* asin_tail_text = R"(K_FN $F asin_tail_f64($F z) {
  return $POLY{z; 0x1.5555555555556p-3, 0x1.3333333332e3cp-4, 0x1.6db6db6e3f4c1p-5, 0x1.f1c71c15d189bp-6,
      0x1.6e8bb2fa8a394p-6, 0x1.1c4d1a5732c8ep-6, 0x1.c9d2262adf1a8p-7, 0x1.780879d4a50e2p-7, 0x1.53005d16e53a9p-7,
      0x1.5f67209238822p-8, 0x1.2145f93ea7d43p-6, -0x1.f37902742d0dbp-7, 0x1.db761ef669b67p-6};
}
)";
constexpr const char* asin_text = R"(K_FN $F asin_f64($F x) {
  $F a = abs_f64(x);
  $M large = a > $S(0.5);
  $F z = large ? ($S(1.0) - a) * $S(0.5) : a * a, s = large ? sqrt_f64(z) : a;
  $F t = s * z * asin_tail_f64(z);
  dd_$F square = two_prod_f64(s, s);
  $F low = large & (s > $S(0.0)) ? ((z - square.hi) - square.lo) / (s + s) : $S(0.0);
  dd_$F d = two_sum_f64($S(0x1.921fb54442d18p0), -(s + s));
  $F r = large ? d.hi + (d.lo + ($S(0x1.1a62633145c07p-54) - (t + t) - (low + low))) : s + t;
  return copysign_f64(r, x);
}
)";
constexpr const char* acos_text = R"(K_FN $F acos_f64($F x) {
  $F a = abs_f64(x);
  $M large = a > $S(0.5);
  $F z = large ? ($S(1.0) - a) * $S(0.5) : a * a, s = large ? sqrt_f64(z) : x;
  $F t = s * z * asin_tail_f64(z);
  dd_$F square = two_prod_f64(s, s);
  $F low = large & (s > $S(0.0)) ? ((z - square.hi) - square.lo) / (s + s) : $S(0.0);
  $F half = s + (t + low);
  $F left = $S(0x1.921fb54442d18p1) - ((half + half) - $S(0x1.1a62633145c07p-53));
  $F middle = $S(0x1.921fb54442d18p0) - (s - ($S(0x1.1a62633145c07p-54) - t));
  return large ? (x > $S(0.0) ? half + half : left) : middle;
}
)";
// |t| <= tan(pi/8)
constexpr const char* atan_tail_text = R"(K_FN $F atan_tail_f64($F t) {
  $F z = t * t;
  return t * z * $POLY{z; -0x1.5555555555555p-2, 0x1.9999999999957p-3, -0x1.249249248dbb5p-3, 0x1.c71c71c32f7a2p-4,
      -0x1.745d1665b5f03p-4, 0x1.3b1393ac2c4a6p-4, -0x1.110e95eccf3e6p-4, 0x1.e19b4142de0aep-5,
      -0x1.ac82cb7711b3fp-5, 0x1.7501713d71b42p-5, -0x1.1b8af42c1953dp-5, 0x1.0b8bf846b4081p-6};
}
)";
constexpr const char* atan_text = R"(K_FN $F atan_f64($F x) {
  $F a = abs_f64(x);
  $M far = a > $S(0x1.3504f333f9de6p1), middle = a > $S(0x1.a827999fcef32p-2);
  $F above = far ? $S(-1.0) : middle ? a - $S(1.0) : a, below = far ? a : middle ? a + $S(1.0) : $S(1.0);
  $F t = above / below;
  $F base = far ? $S(0x1.921fb54442d18p0) : middle ? $S(0x1.921fb54442d18p-1) : $S(0.0);
  $F low = far ? $S(0x1.1a62633145c07p-54) : middle ? $S(0x1.1a62633145c07p-55) : $S(0.0);
  return copysign_f64(base + (t + (atan_tail_f64(t) + low)), x);
}
)";
constexpr const char* atan2_text = R"(K_FN $F atan2_f64($F y, $F x) {
  const $F inf = $S(__builtin_inf()), zero = $S(0.0);
  $F a = abs_f64(x), b = abs_f64(y);
  $M steep = b > a, left = __builtin_bit_cast($I, x) < $SI(0);
  $F top = steep ? a : b, bottom = steep ? b : a;
  $F q = top / bottom;
  q = (top == inf) & (bottom == inf) ? $S(1.0) : bottom == zero ? zero : q;
  $F r = atan_f64(q);
  r = steep ? $S(0x1.921fb54442d18p0) - (r - $S(0x1.1a62633145c07p-54)) : r;
  r = left ? $S(0x1.921fb54442d18p1) - (r - $S(0x1.1a62633145c07p-53)) : r;
  r = copysign_f64(r, y);
  return (x != x) | (y != y) ? x + y : r;
}
)";

}  // namespace

std::vector<MathPiece> math_trigonometry_pieces() {
  return {
      {"pio2_large", 'd', 0, true, pio2_large_text},
      {"pio2", 'd', 0, false, pio2_text, "reduce_pio2"},
      {"sin_kernel", 'd', 0, false, kernels_text, "cos_kernel"},
      {"sin", 'd', 1, false, sin_text},
      {"cos", 'd', 1, false, cos_text},
      {"tan", 'd', 1, false, tan_text},
      {"sincos_short", 'd', 0, false, short_text},
      {"sin_short", 'd', 1, false, sin_short_text},
      {"cos_short", 'd', 1, false, cos_short_text},
      {"asin_tail", 'd', 0, false, asin_tail_text},
      {"asin", 'd', 1, false, asin_text},
      {"acos", 'd', 1, false, acos_text},
      {"atan_tail", 'd', 0, false, atan_tail_text},
      {"atan", 'd', 1, false, atan_text},
      {"atan2", 'd', 2, false, atan2_text},
  };
}

}  // namespace kiln::codegen
