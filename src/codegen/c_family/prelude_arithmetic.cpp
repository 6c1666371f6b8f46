// Operators that are exact: minimum and maximum, integer division, shifts, bit-level float operations, rounding to
// integers, square root, fused multiply-add.
#include "codegen/c_family/prelude_pieces.h"

namespace kiln::codegen {
namespace {

// The processor's min and max: the second operand if they are equal or not ordered. greater(y, x) so gives x for a NaN
// in x, and only a NaN in y needs care (none if y is a constant).
constexpr const char* min_float = R"(K_FN $F min_$e($F x, $F y) { $F m = lesser_$e(y, x); return y != y ? y : m; }
)";
constexpr const char* max_float = R"(K_FN $F max_$e($F x, $F y) { $F m = greater_$e(y, x); return y != y ? y : m; }
)";
constexpr const char* lesser_text = "K_FN $F lesser_$e($F x, $F y) { return x < y ? x : y; }\n";
constexpr const char* greater_text = "K_FN $F greater_$e($F x, $F y) { return x > y ? x : y; }\n";
constexpr const char* lesser_x86 = "K_FN $F lesser_$e($F x, $F y) { return __builtin_ia32_min$P$W(x, y); }\n";
constexpr const char* greater_x86 = "K_FN $F greater_$e($F x, $F y) { return __builtin_ia32_max$P$W(x, y); }\n";
constexpr const char* lesser_avx512 = R"(#ifdef __clang__
K_FN $F lesser_$e($F x, $F y) { return __builtin_ia32_min$P512(x, y, 4); }
#else
K_FN $F lesser_$e($F x, $F y) { return __builtin_ia32_min$P512_mask(x, y, x, $K, 4); }
#endif
)";
constexpr const char* greater_avx512 = R"(#ifdef __clang__
K_FN $F greater_$e($F x, $F y) { return __builtin_ia32_max$P512(x, y, 4); }
#else
K_FN $F greater_$e($F x, $F y) { return __builtin_ia32_max$P512_mask(x, y, x, $K, 4); }
#endif
)";
constexpr const char* min_integer = R"(K_FN $F min_$e($F x, $F y) { return x < y ? x : y; }
)";
constexpr const char* max_integer = R"(K_FN $F max_$e($F x, $F y) { return x > y ? x : y; }
)";
constexpr const char* abs_float =
    R"(K_FN $F abs_$e($F x) { return __builtin_bit_cast($F, __builtin_bit_cast($U, x) << 1 >> 1); }
)";
constexpr const char* abs_signed = R"(K_FN $F abs_$e($F x) { return x < $S(0) ? ($F)-x : x; }
)";
constexpr const char* abs_unsigned = R"(K_FN $F abs_$e($F x) { return x; }
)";
constexpr const char* copysign_text = R"(K_FN $F copysign_$e($F x, $F y) {
  const $U sign = ~(~$SU(0) >> 1);
  return __builtin_bit_cast($F, (__builtin_bit_cast($U, x) & ~sign) | (__builtin_bit_cast($U, y) & sign));
}
)";
constexpr const char* sign_bit_float = R"(K_FN $M sign_bit_$e($F x) { return __builtin_bit_cast($I, x) < $SI(0); }
)";
constexpr const char* sign_bit_integer = R"(K_FN $M sign_bit_$e($F x) { return x < $S(0); }
)";
constexpr const char* is_inf_text = R"(K_FN $M is_inf_$e($F x) { return abs_$e(x) == $S(($e)__builtin_inf()); }
)";
// One step on the number line of the bits; from zero to the smallest subnormal with y's sign.
constexpr const char* nextafter_text = R"(K_FN $F nextafter_$e($F x, $F y) {
  $I b = __builtin_bit_cast($I, x);
  $M outward = (x < y) == (x > $S(0));
  $F stepped = __builtin_bit_cast($F, outward ? b + $SI(1) : b - $SI(1));
  $F from_zero = copysign_$e(__builtin_bit_cast($F, $SI(1)), y);
  $F r = x == $S(0) ? from_zero : stepped;
  r = x == y ? y : r;
  return (x != x) | (y != y) ? x + y : r;
}
)";

// ---- integers
// --------------------------------------------------------------------------------------------------------

// Divisors of 0 (the kernel has raised) and -1 (which would trap at the smallest number) are taken out.
constexpr const char* div_signed = R"(K_FN $F div_$e($F x, $F y) { return ($F)(y == 0 ? 0 : y == -1 ? 0 - x : x / y); }
)";
constexpr const char* div_unsigned = R"(K_FN $F div_$e($F x, $F y) { return ($F)(y == 0 ? 0 : x / y); }
)";
constexpr const char* div_float = R"(K_FN $F div_$e($F x, $F y) { return x / y; }
)";
// Python's: rounds down; the remainder has the divisor's sign.
constexpr const char* floordiv_signed = R"(K_FN $F floordiv_$e($F x, $F y) {
  $F q = div_$e(x, y), r = ($F)(x - q * y);
  return ($F)(q - (r != 0 && (r < 0) != (y < 0) && y != 0));
}
)";
constexpr const char* mod_signed = R"(K_FN $F mod_$e($F x, $F y) {
  $F r = ($F)(x - div_$e(x, y) * y);
  return ($F)(y == 0 ? 0 : r != 0 && (r < 0) != (y < 0) ? r + y : r);
}
)";
constexpr const char* fmod_signed = R"(K_FN $F fmod_$e($F x, $F y) { return ($F)(y == 0 ? 0 : x - div_$e(x, y) * y); }
)";
// Quotients of numbers below 2^52 are those of f64, rounded: up to the next whole number at worst, which the rest
// tells. There is no instruction for lanes, and taking them apart takes as long as dividing.
constexpr const char* div_i64_lanes = R"(K_FN $F div_i64($F x, $F y) {
  $F q = cvt_$D_$F(cvt_$F_$D(x) / cvt_$F_$D(y)), r = x - q * y, away = (x ^ y) < $S(0) ? $S(-1) : $S(1);
  q = (r != $S(0)) & ((r ^ x) < $S(0)) ? q - away : q;
  $M far = ((x + $S(0x10000000000000l)) | (y + $S(0x10000000000000l))) >> $S(53);
  if ($ANY(far != $S(0)))
    for (int i = 0; i < $N; i++) q[i] = div_i64(x[i], y[i]);
  return y == $S(0) ? $S(0) : q;
}
)";
constexpr const char* floordiv_i64_lanes = R"(K_FN $F floordiv_i64($F x, $F y) {
  $F q = div_i64(x, y), r = x - q * y;
  return (r != $S(0)) & ((r ^ y) < $S(0)) & (y != $S(0)) ? q - $S(1) : q;
}
)";
constexpr const char* mod_i64_lanes = R"(K_FN $F mod_i64($F x, $F y) {
  $F r = x - div_i64(x, y) * y;
  r = (r != $S(0)) & ((r ^ y) < $S(0)) ? r + y : r;
  return y == $S(0) ? $S(0) : r;
}
)";
constexpr const char* fmod_i64_lanes = R"(K_FN $F fmod_i64($F x, $F y) {
  $F r = x - div_i64(x, y) * y;
  return y == $S(0) ? $S(0) : r;
}
)";
constexpr const char* floordiv_unsigned = R"(K_FN $F floordiv_$e($F x, $F y) { return div_$e(x, y); }
)";
constexpr const char* mod_unsigned = R"(K_FN $F mod_$e($F x, $F y) { return ($F)(y == 0 ? 0 : x % y); }
)";
constexpr const char* fmod_unsigned = R"(K_FN $F fmod_$e($F x, $F y) { return ($F)(y == 0 ? 0 : x % y); }
)";
// Shifting by too much gives 0 (left) or the sign (right), as PyTorch's.
constexpr const char* shl_text = R"(K_FN $F shl_$e($F x, $F y) {
  $U by = ($U)y;
  $U inside = by & $SU($BITS - 1);
  return by > $SU($BITS - 1) ? $S(0) : ($F)(($U)x << inside);
}
)";
constexpr const char* shr_signed = R"(K_FN $F shr_$e($F x, $F y) {
  $U by = ($U)y;
  $U most = $SU($BITS - 1);
  return x >> ($F)(by > most ? most : by);
}
)";
constexpr const char* shr_unsigned =
    R"(K_FN $F shr_$e($F x, $F y) { return y > $SU($BITS - 1) ? $S(0) : ($F)(x >> (y & $SU($BITS - 1))); }
)";
constexpr const char* pow_signed = R"(K_FN $F pow_$e($F x, $F y) {
  if (y < 0) return ($F)(x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0);
  u64 r = 1, b = (u64)x;
  for (u64 n = (u64)y; n != 0; n >>= 1, b *= b) if (n & 1) r *= b;
  return ($F)r;
}
)";
constexpr const char* pow_unsigned = R"(K_FN $F pow_$e($F x, $F y) {
  u64 r = 1, b = (u64)x;
  for (u64 n = (u64)y; n != 0; n >>= 1, b *= b) if (n & 1) r *= b;
  return ($F)r;
}
)";

// ---- float remainders
// ------------------------------------------------------------------------------------------------

// x - trunc(x/y)*y exactly, by long division on the mantissas.
constexpr const char* fmod_slow_text =
    R"(static inline __attribute__((noinline, unused)) f64 fmod_slow_f64(f64 x, f64 y) {
  u64 a = __builtin_bit_cast(u64, x), b = __builtin_bit_cast(u64, y) << 1 >> 1;
  const u64 sign = a >> 63 << 63;
  a ^= sign;
  if (b == 0 || a >= 0x7ff0000000000000ull || b > 0x7ff0000000000000ull) return (x * y) / (x * y);
  if (a < b) return x;
  int ea = (int)(a >> 52), eb = (int)(b >> 52);
  u64 ma = ea ? (a << 12 >> 12) | 1ull << 52 : a, mb = eb ? (b << 12 >> 12) | 1ull << 52 : b;
  if (ea == 0) ea = 1;
  if (eb == 0) eb = 1;
  for (; !(ma >> 52); ea--) ma <<= 1;
  for (; !(mb >> 52); eb--) mb <<= 1;
  for (; ea > eb; ea--) {
    if (ma >= mb) ma -= mb;
    ma <<= 1;
  }
  if (ma >= mb) ma -= mb;
  if (ma == 0) return __builtin_bit_cast(f64, sign);
  for (; !(ma >> 52); eb--) ma <<= 1;
  u64 r = eb > 0 ? (ma ^ 1ull << 52) | (u64)eb << 52 : ma >> (1 - eb);
  return __builtin_bit_cast(f64, r | sign);
}
)";
// With |x/y| < 2^53 one fused step is exact once the quotient is off by at most one.
constexpr const char* fmod_fast_text = R"(K_FN $F fmod_f64($F x, $F y) {
  $F a = abs_f64(x), b = abs_f64(y), q = trunc_f64(a / b);
  $F r = fma_f64(-q, b, a);
  r = r < $S(0.0) ? r + b : r;
  r = r >= b ? r - b : r;
  r = copysign_f64(r, x);
  $M hard = (a < $S(0x1p1000)) & (b < $S(0x1p1000)) & (b > $S(0x1p-960)) & (q < $S(0x1p52)) ? $SI(0) : $SI(-1);
  if ($ANY(hard)) for (int i = 0; i < $N; i++) r$at = fmod_slow_f64(x$at, y$at);
  return r;
}
)";
constexpr const char* fmod_plain_text = R"(K_FN $F fmod_f64($F x, $F y) {
  $F r = x;
  for (int i = 0; i < $N; i++) r$at = fmod_slow_f64(x$at, y$at);
  return r;
}
)";
constexpr const char* mod_float = R"(K_FN $F mod_$e($F x, $F y) {
  $F r = fmod_$e(x, y);
  return (r != $S(0)) & ((y < $S(0)) != (r < $S(0))) ? r + y : r;
}
)";
// As torch.div(rounding_mode="floor"): from the remainder, so that the quotient of exact multiples is exact.
constexpr const char* floordiv_float = R"(K_FN $F floordiv_$e($F x, $F y) {
  $F r = fmod_$e(x, y), q = (x - r) / y, plain = x / y;
  q = (r != $S(0)) & ((y < $S(0)) != (r < $S(0))) ? q - $S(1) : q;
  $F f = floor_$e(q);
  f = q - f > $S(($e)0.5) ? f + $S(1) : f;
  f = q == $S(0) ? copysign_$e($S(0), plain) : f;
  return y == $S(0) ? plain : f;
}
)";

// ---- rounding, square root, fma
// ---------------------------------------------------------------------------------------

// Numbers from $magic on are integers already; below, adding and taking away leaves the rounded value.
constexpr const char* round_plain = R"(K_FN $F round_$e($F x) {
  const $F big = $S($e(1) / (sizeof($e) == 4 ? $e(0x1p-23) : $e(0x1p-52)));
  $F a = abs_$e(x), r = (a + big) - big;
  return copysign_$e(a < big ? r : a, x);
}
)";
constexpr const char* floor_plain = R"(K_FN $F floor_$e($F x) {
  $F r = round_$e(x);
  return copysign_$e(r > x ? r - $S(1) : r, x);
}
)";
constexpr const char* ceil_plain = R"(K_FN $F ceil_$e($F x) {
  $F r = round_$e(x);
  return copysign_$e(r < x ? r + $S(1) : r, x);
}
)";
constexpr const char* trunc_plain = R"(K_FN $F trunc_$e($F x) {
  $F a = abs_$e(x), r = round_$e(a);
  return copysign_$e(r > a ? r - $S(1) : r, x);
}
)";
constexpr const char* sqrt_lanes_f32 = R"(K_FN $F sqrt_f32($F x) {
  $F r = x;
  for (int i = 0; i < $N; i++) r$at = __builtin_sqrtf(x$at);
  return r;
}
)";
constexpr const char* sqrt_lanes_f64 = R"(K_FN $F sqrt_f64($F x) {
  $F r = x;
  for (int i = 0; i < $N; i++) r$at = __builtin_sqrt(x$at);
  return r;
}
)";
constexpr const char* rsqrt_text = R"(K_FN $F rsqrt_$e($F x) { return $S(1) / sqrt_$e(x); }
)";
// In polynomials: as accurate as the target makes it. Not the operator fma, which is always fused.
constexpr const char* fma_plain = R"(K_FN $F fma_$e($F x, $F y, $F z) { return x * y + z; }
)";
// The product is exact in f64; making the sum odd where it was inexact lets the second rounding come out right.
constexpr const char* fused_plain_f32 = R"(K_FN f32 fused_f32(f32 x, f32 y, f32 z) {
  f64 p = (f64)x * (f64)y, c = z, s = p + c;
  f64 t = s - p, e = (p - (s - t)) + (c - t);
  u64 b = __builtin_bit_cast(u64, s);
  if (e != 0 && e == e && (b & 1) == 0 && s - s == 0) b += (e > 0) == (s > 0) ? 1 : -1;
  return (f32)__builtin_bit_cast(f64, b);
}
)";
// Product and sum in 128 bits with a sticky last bit, rounded once. Rare: only the operator fma on old processors.
constexpr const char* fused_plain_f64 = R"(struct fma_part { unsigned __int128 m; int e; bool negative; };
K_FN fma_part fma_normal(unsigned __int128 m, int e, bool negative) {
  const u64 high = (u64)(m >> 64);
  const int by = (high ? __builtin_clzl(high) : 64 + __builtin_clzl((u64)m)) - 2;
  return {by >= 0 ? m << by : m >> 1 | (m & 1), e - by, negative};
}
K_FN fma_part fma_split(f64 x) {
  const u64 b = __builtin_bit_cast(u64, x), f = b << 12 >> 12;
  const int e = (int)(b << 1 >> 53);
  return {e ? f | 1ul << 52 : f, (e ? e : 1) - 1075, (b >> 63) != 0};
}
static inline __attribute__((noinline, unused)) f64 fused_f64(f64 x, f64 y, f64 z) {
  if (x - x != 0 || y - y != 0 || x == 0 || y == 0) return x * y + z;
  if (z - z != 0) return z;
  if (z == 0) return x * y;
  fma_part a = fma_split(x), b = fma_split(y), c = fma_split(z);
  a = fma_normal(a.m * b.m, a.e + b.e, a.negative != b.negative);
  c = fma_normal(c.m, c.e, c.negative);
  if (a.e < c.e) b = a, a = c, c = b;
  const int apart = a.e - c.e;
  const unsigned __int128 one = 1;
  c.m = apart > 126 ? one : c.m >> apart | ((c.m & ((one << apart) - 1)) != 0);
  if (a.negative == c.negative) a.m += c.m;
  else if (a.m >= c.m) a.m -= c.m;
  else a.m = c.m - a.m, a.negative = c.negative;
  if (a.m == 0) return 0;
  a = fma_normal(a.m, a.e, a.negative);
  const int e = a.e + 125;
  int drop = 73 + (e < -1022 ? -1022 - e : 0);
  if (drop > 126) a.m = (a.m >> (drop > 252 ? 126 : drop - 126)) | 1, drop = 126;
  const unsigned __int128 rest = a.m & ((one << drop) - 1), half = one << (drop - 1);
  u64 q = (u64)(a.m >> drop);
  q += rest > half || (rest == half && (q & 1));
  if (e >= -1022) q += ((u64)(e + 1023) << 52) - (1ul << 52);
  if (e > 1023 || q > 0x7ff0000000000000) q = 0x7ff0000000000000;
  return __builtin_bit_cast(f64, q | (u64)a.negative << 63);
}
)";
constexpr const char* fused_hardware = R"(K_FN $F fused_$e($F x, $F y, $F z) { return fma_$e(x, y, z); }
)";

// The hardware forms: $P is ps or pd, $W the width in the builtin's name, $K an all-ones mask. The number in a rounding
// builtin is the mode: 8 to even, 9 down, 10 up, 11 to zero.
constexpr const char* round_x86[] = {"K_FN $F round_$e($F x) { return __builtin_ia32_round$P$W(x, 8); }\n",
                                     "K_FN $F floor_$e($F x) { return __builtin_ia32_round$P$W(x, 9); }\n",
                                     "K_FN $F ceil_$e($F x) { return __builtin_ia32_round$P$W(x, 10); }\n",
                                     "K_FN $F trunc_$e($F x) { return __builtin_ia32_round$P$W(x, 11); }\n"};
constexpr const char* round_avx512[] = {
    "K_FN $F round_$e($F x) { return __builtin_ia32_rndscale$P_mask(x, 8, x, $K, 4); }\n",
    "K_FN $F floor_$e($F x) { return __builtin_ia32_rndscale$P_mask(x, 9, x, $K, 4); }\n",
    "K_FN $F ceil_$e($F x) { return __builtin_ia32_rndscale$P_mask(x, 10, x, $K, 4); }\n",
    "K_FN $F trunc_$e($F x) { return __builtin_ia32_rndscale$P_mask(x, 11, x, $K, 4); }\n"};
constexpr const char* round_scalar[] = {"K_FN $F round_$e($F x) { return __builtin_rint$C(x); }\n",
                                        "K_FN $F floor_$e($F x) { return __builtin_floor$C(x); }\n",
                                        "K_FN $F ceil_$e($F x) { return __builtin_ceil$C(x); }\n",
                                        "K_FN $F trunc_$e($F x) { return __builtin_trunc$C(x); }\n"};
constexpr const char* round_plain_texts[] = {round_plain, floor_plain, ceil_plain, trunc_plain};
constexpr const char* sqrt_scalar = "K_FN $F sqrt_$e($F x) { return __builtin_sqrt$C(x); }\n";
constexpr const char* sqrt_x86 = "K_FN $F sqrt_$e($F x) { return __builtin_ia32_sqrt$P$W(x); }\n";
constexpr const char* sqrt_avx512 = R"(#ifdef __clang__
K_FN $F sqrt_$e($F x) { return __builtin_ia32_sqrt$P512(x, 4); }
#else
K_FN $F sqrt_$e($F x) { return __builtin_ia32_sqrt$P512_mask(x, x, $K, 4); }
#endif
)";
constexpr const char* fma_scalar = "K_FN $F fma_$e($F x, $F y, $F z) { return __builtin_fma$C(x, y, z); }\n";
constexpr const char* fma_x86 = "K_FN $F fma_$e($F x, $F y, $F z) { return __builtin_ia32_vfmadd$P$W(x, y, z); }\n";
constexpr const char* fma_avx512 =
    "K_FN $F fma_$e($F x, $F y, $F z) { return __builtin_ia32_vfmadd$P512_mask(x, y, z, $K, 4); }\n";
// x * 2^n for an integral n: in two factors, each of them a power of two that exists, so that it rounds once.
constexpr const char* ldexp_f32 = R"(K_FN $F ldexp_f32($F x, $F n) {
  $F h = n * 0.5f + 0x1.8p23f, g = (n - (h - 0x1.8p23f)) + 0x1.8p23f;
  $F a = __builtin_bit_cast($F, (__builtin_bit_cast($I, h) + 127) << 23);
  $F b = __builtin_bit_cast($F, (__builtin_bit_cast($I, g) + 127) << 23);
  return x * a * b;
}
)";
constexpr const char* ldexp_f64 = R"(K_FN $F ldexp_f64($F x, $F n) {
  $F h = n * 0.5 + 0x1.8p52, g = (n - (h - 0x1.8p52)) + 0x1.8p52;
  $F a = __builtin_bit_cast($F, (__builtin_bit_cast($I, h) + 1023) << 52);
  $F b = __builtin_bit_cast($F, (__builtin_bit_cast($I, g) + 1023) << 52);
  return x * a * b;
}
)";
constexpr const char* ldexp_avx512 =
    "K_FN $F ldexp_$e($F x, $F n) { return __builtin_ia32_scalef$P512_mask(x, n, x, $K, 4); }\n";
constexpr const char* ldexp_avx512vl =
    "K_FN $F ldexp_$e($F x, $F n) { return __builtin_ia32_scalef$P$V_mask(x, n, x, $K); }\n";

}  // namespace

std::vector<MathPiece> rounding_pieces(const PieceContext& context) {
  std::vector<MathPiece> out;
  const char* round_names[] = {"round", "floor", "ceil", "trunc"};
  for (const char* element : {"f32", "f64"}) {
    bool single = element[1] == '3';
    char type = single ? 's' : 'd';
    const Element& e = *find_element(element);
    bool full = context.natural_lanes(e) * e.bytes == 64;  // of the 512-bit forms
    for (int i = 0; i < 4; i++) {
      const char* vector = !context.x86() ? round_plain_texts[i] : full ? round_avx512[i] : round_x86[i];
      out.push_back(
          {round_names[i], type, 1, false, context.x86() ? round_scalar[i] : round_plain_texts[i], "", vector});
    }
    out.push_back({"lesser", type, 2, false, lesser_text, "",
                   !context.x86() ? lesser_text
                   : full         ? lesser_avx512
                                  : lesser_x86});
    out.push_back({"greater", type, 2, false, greater_text, "",
                   !context.x86() ? greater_text
                   : full         ? greater_avx512
                                  : greater_x86});
    const char* lanes = single ? sqrt_lanes_f32 : sqrt_lanes_f64;
    out.push_back({"sqrt", type, 1, false, sqrt_scalar, "", !context.x86() ? lanes : full ? sqrt_avx512 : sqrt_x86});
    const char* vector_fma = full ? fma_avx512 : fma_x86;
    out.push_back({"fma", type, 3, false, context.has_fma() ? fma_scalar : fma_plain, "",
                   context.has_fma() ? vector_fma : fma_plain});
    const char* plain_ldexp = single ? ldexp_f32 : ldexp_f64;
    out.push_back({"ldexp", type, 2, false, plain_ldexp, "",
                   !context.avx512() ? plain_ldexp
                   : full            ? ldexp_avx512
                                     : ldexp_avx512vl});
    const char* plain_fused = single ? fused_plain_f32 : fused_plain_f64;
    out.push_back({"fused", type, 3, !context.has_fma(), context.has_fma() ? fused_hardware : plain_fused});
  }
  out.push_back({"fmod", 'd', 2, false, context.has_fma() ? fmod_fast_text : fmod_plain_text});
  out.push_back({"fmod_slow", 'd', 0, true, fmod_slow_text});
  return out;
}

std::vector<MathPiece> arithmetic_pieces(const PieceContext& context) {
  std::vector<MathPiece> out;
  if (context.avx512())  // below it there is no conversion between f64 and integers of 64 bits either
    out = {{"div", 'l', 2, false, div_signed, "", div_i64_lanes},
           {"floordiv", 'l', 2, false, floordiv_signed, "", floordiv_i64_lanes},
           {"mod", 'l', 2, false, mod_signed, "", mod_i64_lanes},
           {"fmod", 'l', 2, false, fmod_signed, "", fmod_i64_lanes}};
  const std::vector<MathPiece> common = {
      {"min", 'f', 2, false, min_float},
      {"max", 'f', 2, false, max_float},
      {"min", 'n', 2, false, min_integer},
      {"max", 'n', 2, false, max_integer},
      {"abs", 'f', 1, false, abs_float},
      {"abs", 'i', 1, false, abs_signed},
      {"abs", 'u', 1, false, abs_unsigned},
      {"copysign", 'f', 2, false, copysign_text},
      {"sign_bit", 'f', 1, false, sign_bit_float},
      {"sign_bit", 'n', 1, false, sign_bit_integer},
      {"is_inf", 'f', 1, false, is_inf_text},
      {"nextafter", 'f', 2, false, nextafter_text},
      {"div", 'i', 2, true, div_signed},
      {"div", 'u', 2, true, div_unsigned},
      {"div", 'f', 2, false, div_float},
      {"floordiv", 'i', 2, true, floordiv_signed},
      {"floordiv", 'u', 2, true, floordiv_unsigned},
      {"floordiv", 'f', 2, false, floordiv_float},
      {"mod", 'i', 2, true, mod_signed},
      {"mod", 'u', 2, true, mod_unsigned},
      {"mod", 'f', 2, false, mod_float},
      {"fmod", 'i', 2, true, fmod_signed},
      {"fmod", 'u', 2, true, fmod_unsigned},
      {"fmod", 's', 2, false, nullptr},
      {"shl", 'n', 2, false, shl_text},
      {"shr", 'i', 2, false, shr_signed},
      {"shr", 'u', 2, false, shr_unsigned},
      {"pow", 'i', 2, true, pow_signed},
      {"pow", 'u', 2, true, pow_unsigned},
      {"rsqrt", 'f', 1, false, rsqrt_text},
  };
  out.insert(out.end(), common.begin(), common.end());
  return out;
}

}  // namespace kiln::codegen
