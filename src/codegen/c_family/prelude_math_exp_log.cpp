// Exponentials, logarithms and what follows from them in f64. Coefficients are minimax fits (Remez). Numbers of twice
// the precision ("dd": an unevaluated sum of two f64) carry what one f64 cannot.
#include "codegen/c_family/prelude_pieces.h"

namespace kiln::codegen {
namespace {

// Without a fused multiply-add the product's error comes from splitting the factors in halves (Dekker).
constexpr const char* dd_text = R"(struct dd_$F { $F hi, lo; };
K_FN dd_$F two_sum_f64($F a, $F b) {
  $F s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
K_FN dd_$F quick_sum_f64($F a, $F b) {
  $F s = a + b;
  return {s, b - (s - a)};
}
#ifdef __FMA__
K_FN dd_$F two_prod_f64($F a, $F b) {
  $F p = a * b;
  return {p, fma_f64(a, b, -p)};
}
#else
K_FN dd_$F two_prod_f64($F a, $F b) {
  $F p = a * b, ta = a * 0x1.0000002p27, tb = b * 0x1.0000002p27;
  $F ah = ta - (ta - a), al = a - ah, bh = tb - (tb - b), bl = b - bh;
  return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}
#endif
K_FN dd_$F dd_mul_f64(dd_$F a, dd_$F b) {
  dd_$F p = two_prod_f64(a.hi, b.hi);
  return quick_sum_f64(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}
K_FN dd_$F dd_add_f64(dd_$F a, dd_$F b) {
  dd_$F s = two_sum_f64(a.hi, b.hi);
  return quick_sum_f64(s.hi, s.lo + (a.lo + b.lo));
}
)";

// e^x = 2^n e^r with |r| <= ln2/2; n times the upper part of ln2 is exact.
constexpr const char* exp_text = R"(K_FN $F exp_f64($F x) {
  x = lesser_f64($S(710.0), x);
  x = greater_f64($S(-746.0), x);
  $F n = fma_f64(x, $S(0x1.71547652b82fep0), $S(0x1.8p52)) - $S(0x1.8p52);
  $F t = fma_f64(n, $S(-0x1.62e42fefa38p-1), x), r = fma_f64(n, $S(-0x1.ef35793c7673p-45), t);
  return ldexp_f64($S(1.0) + (t + fma_f64(n, $S(-0x1.ef35793c7673p-45), r * r * exp_tail_f64(r))), n);
}
)";
constexpr const char* exp_or_zero_text =
    "K_FN $F exp_or_zero_f64($F x) { return x < $S(-87.0) ? $S(0.0) : exp_f64(x); }\n";
// (e^r - 1 - r) / r^2
constexpr const char* exp_tail_text = R"(K_FN $F exp_tail_f64($F r) {
  return $POLY{r; 0.5, 0x1.5555555555557p-3, 0x1.5555555555558p-5, 0x1.1111111110085p-7, 0x1.6c16c16c15171p-10,
      0x1.a01a01ac1746ap-13, 0x1.a01a01ad2e0bp-16, 0x1.71de019c28705p-19, 0x1.27e4cc526cf25p-22,
      0x1.af4f1f7206ab2p-26, 0x1.1f8c1caf1742cp-29};
}
)";
// f * e^(h + l), rounded once (the factor comes before the power of two, which may make the result subnormal).
constexpr const char* exp_dd_text = R"(K_FN $F exp_dd_f64($F h, $F l, $F f) {
  $F c = lesser_f64($S(712.0), h);
  c = greater_f64($S(-760.0), c);
  l = c == h ? l : $S(0.0);
  $F n = fma_f64(c, $S(0x1.71547652b82fep0), $S(0x1.8p52)) - $S(0x1.8p52);
  $F t = fma_f64(n, $S(-0x1.62e42fefa38p-1), c), w = n * $S(0x1.ef35793c7673p-45) - l;
  $F r = t - w, tail = (t - r) - w;
  $F p = $S(1.0) + (r + fma_f64(r * r, exp_tail_f64(r), tail));
  return ldexp_f64(f * p, n);
}
)";
constexpr const char* exp2_text = R"(K_FN $F exp2_f64($F x) {
  x = lesser_f64($S(1025.0), x);
  x = greater_f64($S(-1076.0), x);
  $F n = (x + $S(0x1.8p52)) - $S(0x1.8p52), d = x - n;
  $F r = d * $S(0x1.62e42fefa39efp-1), tail = d * $S(0x1.abc9e3b39803fp-56);
  return ldexp_f64($S(1.0) + (r + fma_f64(r * r, exp_tail_f64(r), tail)), n);
}
)";
constexpr const char* expm1_text = R"(K_FN $F expm1_f64($F x) {
  $F c = lesser_f64($S(710.0), x);
  c = greater_f64($S(-40.0), c);
  $F n = fma_f64(c, $S(0x1.71547652b82fep0), $S(0x1.8p52)) - $S(0x1.8p52);
  $F t = fma_f64(n, $S(-0x1.62e42fefa38p-1), c), w = n * $S(0x1.ef35793c7673p-45);
  $F r = t - w, tail = (t - r) - w;
  $F k = lesser_f64($S(1000.0), n);
  $F s = __builtin_bit_cast($F, ($SI(1023) - __builtin_bit_cast($I, k + $S(0x1.8p52))) << 52);
  $F base = $S(1.0) - s, head = base + r, lost = r - (head - base);
  $F y = ldexp_f64(head + (lost + fma_f64(r * r, exp_tail_f64(r), tail)), n);
  return x == $S(0.0) ? x : y;
}
)";

// a = 2^e m with sqrt(1/2) <= m < sqrt(2), for a > 0.
constexpr const char* log_parts_text = R"(struct log_parts_$F { $F e, m; };
K_FN log_parts_$F split_log_f64($F x) {
  $M tiny = x < $S(0x1p-1022);
  $F a = tiny ? x * $S(0x1p54) : x;
  $U b = __builtin_bit_cast($U, a), t = b - $SU(0x3fe6a09e667f3bcdull);
  $F m = __builtin_bit_cast($F, b - (t & $SU(0xfff0000000000000ull)));
  $U biased = ((t + $SU(0x4000000000000000ull)) >> 52) + $SU(0x4338000000000000ull - 1024);
  $F e = __builtin_bit_cast($F, biased) - $S(0x1.8p52);
  return {tiny ? e - $S(54.0) : e, m};
}
K_FN $F log_special_f64($F x, $F r) {
  r = x < $S(__builtin_inf()) ? r : x;
  r = x == $S(0.0) ? $S(-__builtin_inf()) : r;
  return x < $S(0.0) ? $S(__builtin_nan("")) : r;
}
)";
// log(1 + f) = f - (f^2/2 - s (f^2/2 + R)) with s = f / (2 + f) and R = s^2 P(s^2).
constexpr const char* log_text = R"(K_FN $F log_f64($F x) {
  log_parts_$F a = split_log_f64(x);
  $F f = a.m - $S(1.0), s = f / ($S(2.0) + f), z = s * s, h = $S(0.5) * f * f;
  $F p = $POLY{z; 0x1.5555555555555p-1, 0x1.9999999999a3ap-2, 0x1.2492492476731p-2, 0x1.c71c7201edd79p-3,
      0x1.745cf8c9e8e64p-3, 0x1.3b1c413411d47p-3, 0x1.0fbd665648877p-3, 0x1.0c0f8624c76c6p-3};
  $F low = fma_f64(s, fma_f64(z, p, h), a.e * $S(0x1.ef35793c7673p-45));
  $F r = a.e * $S(0x1.62e42fefa38p-1) - ((h - low) - f);
  return log_special_f64(x, r);
}
)";
constexpr const char* log1p_text = R"(K_FN $F log1p_f64($F x) {
  dd_$F u = two_sum_f64($S(1.0), x);
  $F r = log_f64(u.hi) + u.lo / u.hi;
  r = (x < $S(__builtin_inf())) & (u.hi > $S(0.0)) ? r : log_f64(u.hi);
  return x == $S(0.0) ? x : r;
}
)";
// The logarithm as a dd, to about 2^-67: 2 atanh(s) = 2s + 2/3 s^3 + s^5 P(s^2) with s = (m - 1) / (m + 1).
constexpr const char* log_dd_text = R"(K_FN dd_$F log_dd_f64($F x) {
  log_parts_$F a = split_log_f64(x);
  $F f = a.m - $S(1.0);
  dd_$F d = two_sum_f64(a.m, $S(1.0));
  $F q = f / d.hi;
  dd_$F back = two_prod_f64(q, d.hi);
  dd_$F s = quick_sum_f64(q, (((f - back.hi) - back.lo) - q * d.lo) / d.hi);
  dd_$F z = dd_mul_f64(s, s), cube = dd_mul_f64(z, s);
  $F y = z.hi;
  $F p = $POLY{y; 0x1.999999999999ap-2, 0x1.2492492492491p-2, 0x1.c71c71c71cff7p-3, 0x1.745d174511463p-3,
      0x1.3b13b1bd942e7p-3, 0x1.1110df594a4f9p-3, 0x1.e1f81593bb7ccp-4, 0x1.ac48414110af9p-4, 0x1.b8e82c8d286e2p-4};
  dd_$F whole = {a.e * $S(0x1.62e42fefa38p-1), a.e * $S(0x1.ef35793c7673p-45)}, twice = {s.hi + s.hi, s.lo + s.lo};
  dd_$F r = dd_add_f64(whole, twice);
  r = dd_add_f64(r, dd_mul_f64(cube, dd_$F{$S(0x1.5555555555555p-1), $S(0x1.5555555555555p-55)}));
  return dd_add_f64(r, two_prod_f64(cube.hi * z.hi, p));
}
)";
constexpr const char* log2_text = R"(K_FN $F log2_f64($F x) {
  dd_$F r = dd_mul_f64(log_dd_f64(x), dd_$F{$S(0x1.71547652b82fep0), $S(0x1.777d0ffda0d24p-56)});
  return log_special_f64(x, r.hi + r.lo);
}
)";
constexpr const char* log10_text = R"(K_FN $F log10_f64($F x) {
  dd_$F r = dd_mul_f64(log_dd_f64(x), dd_$F{$S(0x1.bcb7b1526e50ep-2), $S(0x1.95355baaafad3p-57)});
  return log_special_f64(x, r.hi + r.lo);
}
)";
constexpr const char* log2_short_text = R"(K_FN $F log2_short_f64($F x) { return log_f64(x) * $S(0x1.71547652b82fep0); }
)";
constexpr const char* log10_short_text =
    R"(K_FN $F log10_short_f64($F x) { return log_f64(x) * $S(0x1.bcb7b1526e50ep-2); }
)";

// C's pow, given a = |x| and r = a^y for ordinary a and y. (Beyond 2^24 f32 has no odd numbers.)
constexpr const char* pow_special_text = R"(K_FN $F pow_special_$e($F x, $F y, $F r) {
  const $F inf = $S(__builtin_inf()), zero = $S(0.0), one = $S(1.0);
  $F a = abs_$e(x), b = abs_$e(y);
  $M whole = round_$e(y) == y, odd = whole & (b < $S(0x1p53)) & (round_$e(y * $S(0.5)) != y * $S(0.5));
  $F grows = y > zero ? inf : zero, shrinks = y > zero ? zero : inf;
  r = b == inf ? (a > one ? grows : shrinks) : r;
  r = (a == one) & (b == inf) ? one : r;
  r = a == zero ? shrinks : r;
  r = a == inf ? grows : r;
  r = (x < zero) & (a < inf) & (a > zero) & (whole ? $SI(0) : $SI(-1)) ? $S(__builtin_nan("")) : r;
  $F signed_r = odd ? copysign_$e(r, x) : r;
  r = r == r ? signed_r : r;
  r = (x != x) | (y != y) ? x + y : r;
  return (y == zero) | (x == one) ? one : r;
}
)";
constexpr const char* pow_text = R"(K_FN $F pow_f64($F x, $F y) {
  $F b = lesser_f64($S(0x1p70), y);
  b = greater_f64($S(-0x1p70), b);
  dd_$F l = log_dd_f64(abs_f64(x)), p = two_prod_f64(l.hi, b);
  return pow_special_f64(x, y, exp_dd_f64(p.hi, fma_f64(l.lo, b, p.lo), $S(1.0)));
}
)";
// As good as f32 needs it, of a number above 0 that is one of f32: 2^(y log2 x), with log2 m = s P(s^2) to 2^-38.
constexpr const char* pow_short_text = R"(K_FN $F pow_short_f64($F x, $F y) {
  $U b = __builtin_bit_cast($U, x), t = b - $SU(0x3fe6a09e667f3bcdull);
  $F m = __builtin_bit_cast($F, b - (t & $SU(0xfff0000000000000ull)));
  $U biased = ((t + $SU(0x4000000000000000ull)) >> 52) + $SU(0x4338000000000000ull - 1024);
  $F e = __builtin_bit_cast($F, biased) - $S(0x1.8p52), f = m - $S(1.0), s = f / ($S(2.0) + f), z = s * s;
  $F p = y * fma_f64(s, $POLY{z; 0x1.71547652bee6dp+1, 0x1.ec709d125087fp-1, 0x1.2777803ab3b7ap-1, 0x1.a58d66ca57b04p-2, 0x1.5cea8640f7fc5p-2}, e);
  p = lesser_f64($S(1000.0), p);
  p = greater_f64($S(-1000.0), p);
  $F k = p + $S(0x1.8p52), r = p - (k - $S(0x1.8p52));
  $F q = $POLY{r; 0x1.0000000261693p+0, 0x1.62e430c7e6cdap-1, 0x1.ebfbdadc66767p-3, 0x1.c6aed4bb44817p-5, 0x1.3b2dbbf2b7451p-7, 0x1.5f4569ed09c4cp-10, 0x1.41d313d5dbf4fp-13};
  return q * __builtin_bit_cast($F, (__builtin_bit_cast($I, k) + 1023) << 52);
}
)";

// ---- hyperbolic
// ------------------------------------------------------------------------------------------------------

constexpr const char* tanh_text = R"(K_FN $F tanh_f64($F x) {
  $F a = abs_f64(x);
  a = lesser_f64($S(22.0), a);
  $F t = expm1_f64(a + a), d = t + $S(2.0);
  $F r = a < $S(1.0) ? ratio_f64(t, t, $S(2.0)) : $S(1.0) - $S(2.0) / d;
  return copysign_f64(r, x);
}
)";
constexpr const char* sinh_text = R"(K_FN $F sinh_f64($F x) {
  $F a = abs_f64(x), h = exp_f64(a * $S(0.5)), far = ($S(0.5) * h) * h;
  $F b = lesser_f64($S(709.0), a);
  $F t = expm1_f64(b), near = $S(0.5) * (t + t / (t + $S(1.0)));
  return copysign_f64(a > $S(709.0) ? far : near, x);
}
)";
constexpr const char* cosh_text = R"(K_FN $F cosh_f64($F x) {
  $F a = abs_f64(x), h = exp_f64(a * $S(0.5)), far = ($S(0.5) * h) * h;
  $F b = lesser_f64($S(709.0), a);
  $F t = exp_f64(b), near = fma_f64($S(0.5), t, $S(0.5) / t);
  return a > $S(709.0) ? far : near;
}
)";
constexpr const char* asinh_text = R"(K_FN $F asinh_f64($F x) {
  $F a = abs_f64(x);
  $M far = a > $S(0x1p28);
  $F b = far ? $S(1.0) : a, z = b * b;
  $F arg = far ? a - $S(1.0) : b + z / ($S(1.0) + sqrt_f64($S(1.0) + z));
  $F r = log1p_f64(arg);
  return copysign_f64(far ? r + $S(0x1.62e42fefa39efp-1) : r, x);
}
)";
constexpr const char* acosh_text = R"(K_FN $F acosh_f64($F x) {
  $M far = x > $S(0x1p28);
  $F t = x - $S(1.0), b = far ? $S(1.0) : t;
  $F r = log1p_f64(far ? t : b + sqrt_f64(b + b + b * b));
  return far ? r + $S(0x1.62e42fefa39efp-1) : x < $S(1.0) ? $S(__builtin_nan("")) : r;
}
)";
constexpr const char* atanh_text = R"(K_FN $F atanh_f64($F x) {
  $F a = abs_f64(x), r = $S(0.5) * log1p_f64((a + a) / ($S(1.0) - a));
  r = a > $S(1.0) ? $S(__builtin_nan("")) : r;
  return copysign_f64(r, x);
}
)";

}  // namespace

std::vector<MathPiece> math_exp_log_pieces() {
  return {
      {"dd", 'd', 0, false, dd_text, "two_sum quick_sum two_prod dd_mul dd_add"},
      {"exp", 'd', 1, false, exp_text},
      {"exp_tail", 'd', 0, false, exp_tail_text},
      {"exp_dd", 'd', 0, false, exp_dd_text},
      {"exp_or_zero", 'd', 1, false, exp_or_zero_text},
      {"exp2", 'd', 1, false, exp2_text},
      {"expm1", 'd', 1, false, expm1_text},
      {"log_parts", 'd', 0, false, log_parts_text, "split_log log_special"},
      {"log", 'd', 1, false, log_text},
      {"log1p", 'd', 1, false, log1p_text},
      {"log_dd", 'd', 0, false, log_dd_text},
      {"log2", 'd', 1, false, log2_text},
      {"log10", 'd', 1, false, log10_text},
      {"log2_short", 'd', 1, false, log2_short_text},
      {"log10_short", 'd', 1, false, log10_short_text},
      {"pow_special", 'f', 0, false, pow_special_text},
      {"pow", 'd', 2, false, pow_text},
      {"pow_short", 'd', 2, false, pow_short_text},
      {"tanh", 'd', 1, false, tanh_text},
      {"sinh", 'd', 1, false, sinh_text},
      {"cosh", 'd', 1, false, cosh_text},
      {"asinh", 'd', 1, false, asinh_text},
      {"acosh", 'd', 1, false, acosh_text},
      {"atanh", 'd', 1, false, atanh_text},
  };
}

}  // namespace kiln::codegen
