// Math of f32 that is common enough for its own single-precision code. The rest goes through f64 (text nullptr in the
// tables): twice the registers, but correctly rounded but for rare ties. Coefficients are minimax fits (Remez).
#include "codegen/c_family/prelude_pieces.h"

namespace kiln::codegen {
namespace {

// e^x = 2^n e^r with |r| <= ln2/2. ln2 is split so that n times its upper part is exact. Beyond the limits the result
// is inf or 0 anyway: a 0 is not computed, since processors take a hundred cycles for a product that underflows, and a
// masked softmax is full of them. In the sum r is taken apart again (t is exact), which saves a rounding.
constexpr const char* expf_text = R"(K_FN $F exp_f32($F x) {
  $M none = x < $S(-104.0f);
  x = lesser_f32($S(89.0f), x);
  x = none ? $S(0.0f) : x;
  $F n = fma_f32(x, $S(0x1.715476p0f), $S(0x1.8p23f)) - $S(0x1.8p23f);
  $F t = fma_f32(n, $S(-0x1.62e4p-1f), x), r = fma_f32(n, $S(-0x1.7f7d1cp-20f), t);
  $F q = $POLY{r; 0.500000003f, 0.16666576f, 0.0416663722f, 0.00836333812f, 0.0013941391f};
  $F y = ldexp_f32($S(1.0f) + (t + fma_f32(n, $S(-0x1.7f7d1cp-20f), r * r * q)), n);
  return none ? $S(0.0f) : y;
}
)";
// What a softmax needs of it: of numbers that are not above 0, with 0 below e^-87 (least_exponent in scalar_ops.h). No
// limits, one step to r: an error of n 2e-9 is less than what x itself is off by, being a difference of two scores. The
// sum with 127 in its last place is the exponent of 2^n where it belongs, but for a shift.
constexpr const char* exp_or_zerof_text = R"(K_FN $F exp_or_zero_f32($F x) {
#ifdef __FMA__
  $F m = fma_f32(x, $S(0x1.715476p0f), $S(0x1.8000fep23f)), n = m - $S(0x1.8000fep23f);
  $F r = fma_f32(n, $S(-0x1.62e43p-1f), x);
  $F p = $POLY{r; 1.0f, 1.0f, 0.500000003f, 0.16666576f, 0.0416663722f, 0.00836333812f, 0.0013941391f};
  $F y = p * __builtin_bit_cast($F, __builtin_bit_cast($I, m) << 23);
#else
  $F y = exp_f32(x);
#endif
  return x < $S(-87.0f) ? $S(0.0f) : y;
}
)";
// With a table of 2^(i/16), which is one register, three terms of a polynomial are enough. The sum has n with its
// sixteenths in the last places; the power of two is that of n rounded down.
constexpr const char* exp_or_zero_scalar512 = R"(K_FN $F exp_or_zero_f32($F x) {
  $F m = fma_f32(x, $S(0x1.715476p0f), $S(0x1.800fep19f)), n = m - $S(0x1.800fep19f);
  $F r = fma_f32(n, $S(-0x1.62e43p-1f), x);
  $F t = sixteenth_f32(m), p = r * $POLY{r; 1.0f, 0.5f, 0.16666667f};
  $F y = fma_f32(p, t, t) * __builtin_bit_cast($F, (__builtin_bit_cast($I, m) >> 4) << 23);
  return x < $S(-87.0f) ? $S(0.0f) : y;
}
)";
constexpr const char* exp_or_zero_avx512 = R"(K_FN $F exp_or_zero_f32($F x) {
  $F m = fma_f32(x, $S(0x1.715476p0f), $S(0x1.8p19f)), n = m - $S(0x1.8p19f);
  $F r = fma_f32(n, $S(-0x1.62e43p-1f), x);
  $F t = sixteenth_f32(m), p = r * $POLY{r; 1.0f, 0.5f, 0.16666667f};
  $F y = ldexp_f32(fma_f32(p, t, t), n);
  return x < $S(-87.0f) ? $S(0.0f) : y;
}
)";
constexpr const char* sixteenth_scalar = R"(static const f32 sixteenths[16] = {
    1.0f, 1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
    1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f, 1.68179286f, 1.75625217f, 1.8340081f, 1.91520655f};
K_FN $F sixteenth_f32($F m) { return sixteenths[__builtin_bit_cast($I, m) & 15]; }
)";
constexpr const char* sixteenth_avx512 = R"(K_FN $F sixteenth_f32($F m) {
  $F t;
  __builtin_memcpy(&t, sixteenths, sizeof t);
  asm("" : "+v"(t));
#ifdef __clang__
  return __builtin_ia32_permvarsf512(t, __builtin_bit_cast($I, m));
#else
  return __builtin_ia32_permvarsf512_mask(t, __builtin_bit_cast($I, m), t, $K);
#endif
}
)";
constexpr const char* exp2f_text = R"(K_FN $F exp2_f32($F x) {
  $M none = x < $S(-151.0f);
  x = lesser_f32($S(129.0f), x);
  x = none ? $S(0.0f) : x;
  $F n = (x + $S(0x1.8p23f)) - $S(0x1.8p23f);
  $F d = x - n, r = d * $S(0x1.62e43p-1f);
  $F q = $POLY{r; 0.500000003f, 0.16666576f, 0.0416663722f, 0.00836333812f, 0.0013941391f};
  $F y = ldexp_f32($S(1.0f) + fma_f32(d, $S(0x1.62e43p-1f), r * r * q), n);
  return none ? $S(0.0f) : y;
}
)";
// 2^n ((1 - 2^-n) + (e^r - 1)), with the rounding errors of r and of the leading sum kept.
constexpr const char* expm1f_text = R"(K_FN $F expm1_f32($F x) {
  $F c = lesser_f32($S(89.0f), x);
  c = greater_f32($S(-18.0f), c);
  $F n = fma_f32(c, $S(0x1.715476p0f), $S(0x1.8p23f)) - $S(0x1.8p23f);
  $F t = fma_f32(n, $S(-0x1.62e4p-1f), c), w = n * $S(0x1.7f7d1cp-20f);
  $F r = t - w, tail = (t - r) - w;
  $F q = $POLY{r; 0.500000001f, 0.166666668f, 0.0416664628f, 0.00833328552f, 0.0013933886f, 0.000199079271f};
  $F k = lesser_f32($S(126.0f), n);
  $F s = __builtin_bit_cast($F, ($SI(127) - __builtin_bit_cast($I, k + $S(0x1.8p23f))) << 23);
  $F base = $S(1.0f) - s, head = base + r, lost = r - (head - base);
  $F y = ldexp_f32(head + (lost + fma_f32(r * r, q, tail)), n);
  return x == $S(0.0f) ? x : y;
}
)";
// x = 2^e m with sqrt(1/2) <= m < sqrt(2); log m = f - f^2/2 + f^3 P(f).
constexpr const char* logf_text = R"(K_FN $F log_f32($F x) {
  $M tiny = x < $S(0x1p-126f);
  $F a = tiny ? x * $S(0x1p23f) : x;
  $U b = __builtin_bit_cast($U, a), t = b - $SU(0x3f3504f3u);
  $F m = __builtin_bit_cast($F, b - (t & $SU(0xff800000u)));
  $U biased = ((t + $SU(0x40000000u)) >> 23) + $SU(0x4b400000u - 128u);
  $F e = __builtin_bit_cast($F, biased) - $S(0x1.8p23f);
  e = tiny ? e - $S(23.0f) : e;
  $F f = m - $S(1.0f), z = f * f;
  $F p = $POLY{f; 0.333333313f, -0.249999811f, 0.200006894f, -0.166691574f, 0.142511107f, -0.123965156f,
      0.116349707f, -0.116614448f, 0.0733351295f};
  $F y = fma_f32(e, $S(0x1.7f7d1cp-20f), z * f * p);
  y = fma_f32(z, $S(-0.5f), y);
  $F r = fma_f32(e, $S(0x1.62e4p-1f), f + y);
  r = x < $S(__builtin_inff()) ? r : x;
  r = x == $S(0.0f) ? $S(-__builtin_inff()) : r;
  return x < $S(0.0f) ? $S(__builtin_nanf("")) : r;
}
)";
// What 1 + x loses is added to the logarithm's low part. (From 2^24 on that is too little to show.)
constexpr const char* log1pf_text = R"(K_FN $F log1p_f32($F x) {
  $F w = $S(1.0f) + x, lost = x - (w - $S(1.0f));
  $U b = __builtin_bit_cast($U, w), t = b - $SU(0x3f3504f3u);
  $F m = __builtin_bit_cast($F, b - (t & $SU(0xff800000u)));
  $U biased = ((t + $SU(0x40000000u)) >> 23) + $SU(0x4b400000u - 128u);
  $F e = __builtin_bit_cast($F, biased) - $S(0x1.8p23f), f = m - $S(1.0f), z = f * f;
  $F p = $POLY{f; 0.333333313f, -0.249999811f, 0.200006894f, -0.166691574f, 0.142511107f, -0.123965156f,
      0.116349707f, -0.116614448f, 0.0733351295f};
  $F y = fma_f32(e, $S(0x1.7f7d1cp-20f), z * f * p) + lost / w;
  y = fma_f32(z, $S(-0.5f), y);
  $F r = fma_f32(e, $S(0x1.62e4p-1f), f + y);
  r = x < $S(__builtin_inff()) ? r : x;
  r = x == $S(-1.0f) ? $S(-__builtin_inff()) : r;
  r = x < $S(-1.0f) ? $S(__builtin_nanf("")) : r;
  return x == $S(0.0f) ? x : r;
}
)";
// The quotient of the smaller by the larger one with what its rounding loses, then the angle from the nearest axis:
// what is added to it comes last, once. (Without a fused multiply-add the loss is not known.)
constexpr const char* atan2f_text = R"(K_FN $F atan2_f32($F y, $F x) {
#ifdef __FMA__
  const $F inf = $S(__builtin_inff()), zero = $S(0.0f);
  $F a = abs_f32(x), b = abs_f32(y);
  $M steep = b > a, left = __builtin_bit_cast($I, x) < $SI(0);
  $F top = steep ? a : b, bottom = steep ? b : a;
  $F q = top / bottom, lost = fma_f32(-q, bottom, top) / bottom;
  lost = (bottom < inf) & (bottom > zero) ? lost : zero;
  q = bottom < inf ? q : top < inf ? zero : $S(1.0f);
  q = bottom == zero ? zero : q;
  $F z = q * q, slope = fma_f32(z, fma_f32(z, $S(0.5f), $S(-1.0f)), $S(1.0f));
  $F s = fma_f32(q * z, $POLY{z; -0.333333015f, 0.199986383f, -0.142652452f, 0.109575741f, -0.0841945559f,
      0.0582345426f, -0.0314557217f, 0.0110644586f, -0.00182721973f}, lost * slope);
  $F base = steep ? $S(0x1.921fb6p0f) : left ? $S(0x1.921fb6p1f) : zero;
  $F low = steep ? $S(-0x1.777a5cp-25f) : left ? $S(-0x1.777a5cp-24f) : zero;
  $M turned = steep ^ left;
  q = turned ? -q : q;
  s = turned ? -s : s;
  $F d = base + q, rest = q - (d - base);
  $F r = copysign_f32(d + (s + (rest + low)), y);
  return (x != x) | (y != y) ? x + y : r;
#else
  return cvt_$D_$F(atan2_f64(cvt_$F_$D(y), cvt_$F_$D(x)));
#endif
}
)";
constexpr const char* tanhf_text = R"(K_FN $F tanh_f32($F x) {
  $F a = abs_f32(x), z = x * x;
  $F p = $POLY{z; -0.333333332f, 0.13333305f, -0.0539595463f, 0.0217709541f, -0.00834985317f, 0.0022987523f};
  $F near = fma_f32(a * z, p, a);
  $F far = $S(1.0f) - $S(2.0f) / (exp_f32(a + a) + $S(1.0f));
  return copysign_f32(a < $S(0.625f) ? near : far, x);
}
)";
// Either numerator keeps its relative accuracy: e^-|x| for negative x, 1 for positive.
constexpr const char* sigmoidf_text = R"(K_FN $F sigmoid_$e($F x) {
  $F t = exp_$e(-abs_$e(x));
  return ratio_$e(x < $S(0) ? t : $S(1), $S(1), t);
}
)";
// Half as many instructions, for the epilogues that are full of it: e^-|x| needs no bound above and no care for its
// last bit, and the quotient is an estimate with its error taken back, since a division takes as long as the rest.
constexpr const char* sigmoid_avx512 = R"(K_FN $F sigmoid_f32($F x) {
  $F z = greater_f32($S(-104.0f), -abs_f32(x));
  $F n = fma_f32(z, $S(0x1.715476p0f), $S(0x1.8p23f)) - $S(0x1.8p23f);
  $F r = fma_f32(n, $S(-0x1.7f7d1cp-20f), fma_f32(n, $S(-0x1.62e4p-1f), z));
  $F p = $POLY{r; 1.0f, 1.0f, 0.500000003f, 0.16666576f, 0.0416663722f, 0.00836333812f, 0.0013941391f};
  $F t = ldexp_f32(p, n), d = $S(1.0f) + t, i = estimate_f32(d);
  $F y = x < $S(0.0f) ? t : $S(1.0f), q = y * i;
  return fma_f32(fma_f32(-q, d, y), i, q);
}
)";
// 1 / x to 14 bits, the same for one number and for many.
constexpr const char* estimate_scalar = R"(#ifdef __clang__
K_FN $F estimate_f32($F x) {
  f32x4 v = {x, x, x, x};
  return __builtin_ia32_rcp14ss_mask(v, v, v, (unsigned char)-1)[0];
}
#else
K_FN $F estimate_f32($F x) {
  f32x4 v = {x, x, x, x};
  return __builtin_ia32_rcp14ss(v, v)[0];
}
#endif
)";
constexpr const char* estimate_avx512 =
    "K_FN $F estimate_f32($F x) { return __builtin_ia32_rcp14ps512_mask(x, x, $K); }\n";
// x / (y + z), with the rounding errors of the sum and the quotient taken back where fma is fused.
constexpr const char* ratiof_text = R"(K_FN $F ratio_$e($F x, $F y, $F z) {
  $F d = y + z, b = d - y, low = (y - (d - b)) + (z - b), i = $S(1) / d, q = x * i;
#ifdef __FMA__
  return fma_$e(fma_$e(-q, d, x) - q * low, i, q);
#else
  return x / d;
#endif
}
)";
// Near 0 a polynomial, else 1 - 2^-q with q = -log2 erfc; from 4 on that is 1. The power is at most 0.16, so that few
// terms of it are enough, and q is never so large that its exponent needs care.
constexpr const char* erff_text = R"(K_FN $F erf_f32($F x) {
  $F a = abs_f32(x), z = x * x;
  $F p = $POLY{z; 0.128379166f, -0.376126258f, 0.112835851f, -0.026853812f, 0.00518832773f, -0.000801019403f,
      7.85386266e-05f};
  $F near = fma_f32(a, p, a);
  $F b = lesser_f32($S(4.0f), a);
  $F q = $POLY{b; 0.000479977482f, 1.62609401f, 0.920574482f, 0.14881101f, -0.0315319658f, 0.00425865093f,
      -0.000269461487f};
  $F m = q + $S(0x1.8p23f), r = (m - $S(0x1.8p23f)) - q;
  $F e = $POLY{r; 1.00000007f, 0.693146967f, 0.240221197f, 0.0555071326f, 0.00967554132f, 0.00132764755f};
  $F s = __builtin_bit_cast($F, ($SI(127) - __builtin_bit_cast($I, m)) << 23);
  $F far = fma_f32(-e, s, $S(1.0f));
  return copysign_f32(a < $S(1.0f) ? near : far, x);
}
)";
// The area under the normal curve up to x: with a = |x| it is 2^-q / 2 on the left and 1 less that on the right. What
// counts is the absolute error, as of a sum with 1; from 5.7 on, where that is less than half a unit of 1, the left is
// 0, as 1 + erf is.
constexpr const char* normal_cdff_text = R"(K_FN $F normal_cdf_f32($F x) {
  $F a = abs_f32(x), b = lesser_f32($S(5.7f), a);
  $F q = b * $POLY{b; 1.15110540f, 0.459206611f, 0.0524982214f, -0.00705647236f, 0.000115981522f, 0.000207976918f,
      -5.01862996e-05f, 5.39894427e-06f, -2.32323004e-07f};
  $F m = q + $S(0x1.8p23f), r = (m - $S(0x1.8p23f)) - q;
  $F e = $POLY{r; 1.0f, 0.693147182f, 0.240226462f, 0.0555032864f, 0.00961848907f, 0.00133999309f, 0.000153458124f};
  $F left = e * __builtin_bit_cast($F, ($SI(126) - __builtin_bit_cast($I, m)) << 23);
  left = a > $S(5.7f) ? $S(0.0f) : left;
  return x < $S(0.0f) ? left : $S(1.0f) - left;
}
)";
// Two fits in w = -log(1 - x^2), by f64; only rarely does anything need the second one.
constexpr const char* erfinvf_text =
    R"(K_FN $F erfinv_f32($F x) { return cvt_$D_$F(erfinv_short_f64(cvt_$F_$D(x))); }
)";
constexpr const char* lgammaf_text = "K_FN $F lgamma_f32($F x) { return cvt_$D_$F(lgamma_short_f64(cvt_$F_$D(x))); }\n";
constexpr const char* digammaf_text =
    "K_FN $F digamma_f32($F x) { return cvt_$D_$F(digamma_short_f64(cvt_$F_$D(x))); }\n";
constexpr const char* sinf_text = R"(K_FN $F sin_f32($F x) { return cvt_$D_$F(sin_short_f64(cvt_$F_$D(x))); }
)";
constexpr const char* cosf_text = R"(K_FN $F cos_f32($F x) { return cvt_$D_$F(cos_short_f64(cvt_$F_$D(x))); }
)";
constexpr const char* powf_text = R"(K_FN $F pow_f32($F x, $F y) {
  const $F inf = $S(__builtin_inff());
  $F r = cvt_$D_$F(pow_short_f64(cvt_$F_$D(abs_f32(x)), cvt_$F_$D(y)));
  $M special = (x > $S(0.0f)) & (x < inf) & (abs_f32(y) < inf) ? $SI(0) : $SI(-1);
  if ($ANY(special)) r = pow_special_f32(x, y, r);
  return r;
}
)";
// log of a number rounded to f64 is good to f32's last bit even after the multiplication.
constexpr const char* log2f_text = R"(K_FN $F log2_f32($F x) { return cvt_$D_$F(log2_short_f64(cvt_$F_$D(x))); }
)";
constexpr const char* log10f_text = R"(K_FN $F log10_f32($F x) { return cvt_$D_$F(log10_short_f64(cvt_$F_$D(x))); }
)";

}  // namespace

std::vector<MathPiece> math_f32_pieces(const PieceContext& context) {
  const bool full = context.natural_lanes(*find_element("f32")) == 16;
  std::vector<MathPiece> out = {
      {"exp", 's', 1, false, expf_text},
      {"exp_or_zero", 's', 1, false, full ? exp_or_zero_scalar512 : exp_or_zerof_text, "",
       full ? exp_or_zero_avx512 : exp_or_zerof_text},
      {"sixteenth", 's', 0, false, sixteenth_scalar, "", sixteenth_avx512},
      {"exp2", 's', 1, false, exp2f_text},
      {"expm1", 's', 1, false, expm1f_text},
      {"log", 's', 1, false, logf_text},
      {"log1p", 's', 1, false, log1pf_text},
      {"atan2", 's', 2, false, atan2f_text},
      {"erfinv", 's', 1, false, erfinvf_text},
      {"lgamma", 's', 1, false, lgammaf_text},
      {"digamma", 's', 1, false, digammaf_text},
      {"tanh", 's', 1, false, tanhf_text},
      {"sigmoid", 'd', 1, false, sigmoidf_text},
      {"sigmoid", 's', 1, false, full ? sigmoid_avx512 : sigmoidf_text},
      {"estimate", 's', 0, false, estimate_scalar, "", estimate_avx512},
      {"ratio", 'f', 0, false, ratiof_text},
      {"erf", 's', 1, false, erff_text},
      {"normal_cdf", 's', 1, false, normal_cdff_text},
      {"sin", 's', 1, false, sinf_text},
      {"cos", 's', 1, false, cosf_text},
      {"pow", 's', 2, false, powf_text},
      {"log2", 's', 1, false, log2f_text},
      {"log10", 's', 1, false, log10f_text},
  };
  for (MathPiece& piece : out)
    for (const char* name : {"exp", "exp_or_zero", "sigmoid", "tanh", "erf", "normal_cdf"})
      piece.held |= std::string_view(piece.name) == name;
  for (const char* name : {"tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc"}) {
    out.push_back({name, 's', 1, false, nullptr});
  }
  return out;
}

}  // namespace kiln::codegen
