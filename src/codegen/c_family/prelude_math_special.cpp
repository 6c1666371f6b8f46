// Error function, its complement and inverse, logarithm of gamma and its derivative, in f64. Coefficients are minimax
// fits (Remez).
#include "codegen/c_family/prelude_pieces.h"

namespace kiln::codegen {
namespace {

// erf(x) - x for |x| <= 1.
constexpr const char* erf_near_text = R"(K_FN $F erf_near_f64($F x) {
  $F z = x * x;
  return x * $POLY{z; 0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042b32p-4, -0x1.b82ce31284ea4p-6,
      0x1.565bcd0dbc15dp-8, -0x1.c02db3db018fbp-11, 0x1.f9a321dc22456p-14, -0x1.f4d1e388847f3p-17,
      0x1.b9df276328e4ap-20, -0x1.5f1ef21b91138p-23, 0x1.f7b6306ec2d0cp-27, -0x1.38a1375425851p-30,
      0x1.0608f5fa982dbp-34};
}
)";
// erfc(a) for a >= 0.45 = e^(-a^2) g, with (1 + 2a) g - 1 a polynomial in (a - 4) / (a + 4).
constexpr const char* erfc_far_text = R"(K_FN $F erfc_far_f64($F a) {
  a = a > $S(28.0) ? $S(28.0) : a;
  $F q = (a - $S(4.0)) / (a + $S(4.0));
  $F p = $POLY{q; 0x1.dd2c8b74febf6p-3, -0x1.1df1ad154a28ep-3, 0x1.f7f5df66fd6fcp-7, 0x1.16ecefcfa52bep-4,
      -0x1.9ddb23c3e8a22p-4, 0x1.7fee004e14a81p-4, -0x1.0fb06dfe54f3bp-4, 0x1.3079edf62330ap-5,
      -0x1.096238827b8e3p-6, 0x1.49c672a85077cp-8, -0x1.8d4a9c9066568p-11, -0x1.a1df435a8f202p-13,
      0x1.3be07346d44aap-13, -0x1.99550c8e5293fp-16, -0x1.788f919feb75cp-17, 0x1.7ef6cec8de252p-18,
      0x1.3c5c3f524c159p-22, -0x1.b8111ae8e8922p-21, 0x1.3b7dca45f130dp-24, 0x1.bc26e1fa55546p-24,
      -0x1.23b14202cdf1bp-26, -0x1.4d9b80a943ce2p-27, 0x1.a1d9a96ff7b9cp-30};
  $F d = $S(1.0) + (a + a), g = ($S(1.0) + p) / d;
  dd_$F s = two_prod_f64(a, a);
  return exp_dd_f64(-s.hi, -s.lo, g);
}
)";
constexpr const char* erf_text = R"(K_FN $F erf_f64($F x) {
  $F a = abs_f64(x), far = $S(1.0) - erfc_far_f64(a);
  $F near = x + erf_near_f64(a < $S(1.0) ? x : $S(0.0));
  return a < $S(1.0) ? near : copysign_f64(far, x);
}
)";
constexpr const char* erfc_text = R"(K_FN $F erfc_f64($F x) {
  $F a = abs_f64(x), c = a < $S(0.5) ? x : $S(0.0);
  $F near = $S(1.0) - (c + erf_near_f64(c));
  $F far = erfc_far_f64(a);
  far = x < $S(0.0) ? $S(2.0) - far : far;
  return a < $S(0.5) ? near : far;
}
)";
constexpr const char* normal_cdf_text =
    "K_FN $F normal_cdf_f64($F x) { return erfc_f64(x * $S(-0x1.6a09e667f3bcdp-1)) * $S(0.5); }\n";
// A fit good to 2^-21 in w = -log(1 - x^2), then one step of Halley's iteration on erf (or erfc, where x is near 1).
constexpr const char* erfinv_text = R"(K_FN $F erfinv_f64($F x) {
  $F a = abs_f64(x), w = -log_f64(($S(1.0) - a) * ($S(1.0) + a));
  $M central = w < $S(5.0);
  $F u = w - $S(2.5), v = sqrt_f64(w) - $S(4.0);
  $F y = a * $POLY{u; 0x1.805c58eaa85dep0, 0x1.f91eefb9b970fp-3, -0x1.11ae19ae31d98p-8, -0x1.48c165ad48b1p-10,
      0x1.c78f0270b2fe9p-13, -0x1.1ecd9ce69a771p-18, -0x1.a9eb28d473a85p-19, 0x1.65687c06aec01p-22};
  $F far = $POLY{v; 0x1.eb7e04b6e069cp1, 0x1.026e362149c3p0, 0x1.49af976c4f5a9p-10, -0x1.be44d1fea68d1p-11,
      0x1.2c56aaa778dd4p-12, -0x1.6bc2f552ac384p-14, 0x1.d9c146f46dd91p-16, -0x1.2a04b7cc08e2dp-18,
      -0x1.a46c2a7503878p-20, 0x1.20154ac57391cp-21};
  y = central ? y : far;
  $F e = a < $S(0.5) ? erf_f64(y) - a : ($S(1.0) - a) - erfc_f64(y);
  $F step = e * $S(0x1.c5bf891b4ef6bp-1) * exp_f64(y * y);
  y = y - step / fma_f64(y, step, $S(1.0));
  y = a == $S(1.0) ? $S(__builtin_inf()) : y;
  y = a <= $S(1.0) ? y : $S(__builtin_nan(""));
  return x == $S(0.0) ? x : copysign_f64(y, x);
}
)";

// As good as f32 needs it, with a logarithm as short as that needs it.
constexpr const char* erfinv_short_text = R"(K_FN $F erfinv_short_f64($F x) {
  $F a = abs_f64(x), c = ($S(1.0) - a) * ($S(1.0) + a);
  $U b = __builtin_bit_cast($U, c), t = b - $SU(0x3fe6a09e667f3bcdull);
  $F m = __builtin_bit_cast($F, b - (t & $SU(0xfff0000000000000ull)));
  $U biased = ((t + $SU(0x4000000000000000ull)) >> 52) + $SU(0x4338000000000000ull - 1024);
  $F e = __builtin_bit_cast($F, biased) - $S(0x1.8p52), f = $S(1.0) - m, s = f / (m + $S(1.0)), z = s * s;
  $F w = fma_f64(s, $POLY{z; 0x1.fffffffa0c9bdp+0, 0x1.55558790dd82ep-1, 0x1.99576d2322bcbp-2, 0x1.32729176926fbp-2}, e * $S(-0x1.62e42fefa39efp-1));
  $F u = w - $S(2.5);
  $F y = a * $POLY{u; 0x1.805c5d073f533p+0, 0x1.f91e8b0a2b8fbp-3, -0x1.11c4201b8f346p-8, -0x1.48664571b2343p-10, 0x1.c9c597cbd4528p-13, -0x1.4cfcf4c5149c2p-18, -0x1.ccfc4e9b79edcp-19, 0x1.f43f48632df0cp-22, 0x1.35df6eff2c76dp-26, -0x1.2d6e2b04ddf18p-27, 0x1.70f1c7d57d00ap-32};
  $M far = w < $S(5.0) ? $SI(0) : $SI(-1);
  if ($ANY(far)) {
    $F v = sqrt_f64(w) - $S(3.0);
    $F distant = $POLY{v; 0x1.6a994169e165dp+1, 0x1.00ae7b6298cf9p+0, 0x1.c07f722deec6fp-8, -0x1.c38d06a61471dp-9, 0x1.2bdfa1c8f1ce6p-10, -0x1.cfe8a3c9d93acp-13, -0x1.5d367101f15b1p-15, 0x1.dc17d1aa5264dp-15, -0x1.1f19008b4dcb2p-16};
    y = far ? distant : y;
  }
  y = a == $S(1.0) ? $S(__builtin_inf()) : y;
  y = a <= $S(1.0) ? y : $S(__builtin_nan(""));
  return copysign_f64(y, x);
}
)";

// ---- gamma
// -----------------------------------------------------------------------------------------------------------

// lgamma(2 + z) / z for |z| <= 1/2.
constexpr const char* lgamma_near_text = R"(K_FN $F lgamma_near_f64($F z) {
  return z * $POLY{z; 0x1.b0ee6072093cep-2, 0x1.4a34cc4a60fa6p-2, -0x1.13e001a557606p-4, 0x1.51322ac7d849dp-6,
      -0x1.e404fc218f6f3p-8, 0x1.7add6eadb28afp-9, -0x1.38ac5c2bea6dfp-10, 0x1.0b36af88cf013p-11,
      -0x1.d3fd4c8432227p-13, 0x1.a127af347b3cp-14, -0x1.78de583891e8dp-15, 0x1.580e28b34cee3p-16,
      -0x1.3cbd331e295f9p-17, 0x1.258c50ff78cap-18, -0x1.11a1deeeee62fp-19, 0x1.014a4c80e225ap-20,
      -0x1.e4bfac6ef878ap-22, 0x1.b164086598502p-23, -0x1.955630f65d992p-24, 0x1.1676f0dbdccd1p-24,
      -0x1.1162aef33d47fp-25};
}
)";
// Of what is not negative: down to [0.5, 2.5] where it is below 8, where its zeros are, and else the asymptotic series.
constexpr const char* lgamma_positive_text = R"(K_FN $F lgamma_positive_f64($F x) {
  $M small = x < $S(8.0), least = x < $S(0.5);
  $F t = small ? x : $S(2.0), p = $S(1.0);
  for (int i = 0; i < 6; i++) {
    $M over = t < $S(2.5) ? $SI(0) : $SI(-1);
    if ($ANY(over)) {
      t = over ? t - $S(1.0) : t;
      p = over ? p * t : p;
    }
  }
  $F z = t < $S(1.5) ? (least ? t : t - $S(1.0)) : t - $S(2.0);
  $F l = log_f64(small ? (least ? x : p) : x);
  $F r = lgamma_near_f64(z) - log1p_f64(t < $S(1.5) ? z : $S(0.0));
  r = least ? r - l : r + l;
  $M large = small ? $SI(0) : $SI(-1);
  if ($ANY(large)) {
    $F part = $S(1.0) / x, w = part * part;
    $F series = part * $POLY{w; 0x1.5555555555555p-4, -0x1.6c16c16c16c17p-9, 0x1.a01a01a01a01ap-11,
        -0x1.3813813813814p-11, 0x1.b951e2b18ff23p-11, -0x1.f6ab0d9993c7dp-10, 0x1.a41a41a41a41ap-8};
    r = small ? r : (x - $S(0.5)) * (l - $S(1.0)) + ($S(0x1.acfe390c97d69p-2) + series);
  }
  return r;
}
)";
// Reflection: lgamma(-a) = log(pi / (a sin(pi a))) - lgamma(a).
constexpr const char* lgamma_text = R"(K_FN $F lgamma_f64($F x) {
  $F a = abs_f64(x), r = lgamma_positive_f64(a);
  $M below = x < $S(0.0) ? $SI(-1) : $SI(0);
  if ($ANY(below)) {
    $F part = a - floor_f64(a);
    part = part > $S(0.5) ? $S(1.0) - part : part;
    $F turned = log_f64($S(0x1.921fb54442d18p1) / (a * sin_f64(part * $S(0x1.921fb54442d18p1)))) - r;
    turned = a < $S(0x1p-54) ? -log_f64(a) : turned;  // the product may be 0
    turned = part == $S(0.0) ? $S(__builtin_inf()) : turned;
    r = below ? turned : r;
  }
  return a < $S(__builtin_inf()) ? r : a;
}
)";
// For f32: seven steps up where it is small, then the asymptotic series. The steps' product and what reflection adds
// are under one logarithm; of the sine its own series is enough between 0 and pi / 2.
constexpr const char* lgamma_short_text = R"(K_FN $F lgamma_short_f64($F x) {
  $F a = abs_f64(x);
  $M small = a < $S(7.0);
  $F y = a * (a + $S(6.0)), p = y * (y + $S(5.0)) * ((y + $S(8.0)) * (a + $S(3.0)));
  $F b = small ? a + $S(7.0) : a, part = $S(1.0) / b, z = part * part;
  $F series = part * $POLY{z; 0x1.5555555555555p-4, -0x1.6c16c16c16c17p-9, 0x1.a01a01a01a01ap-11,
      -0x1.3813813813814p-11, 0x1.b951e2b18ff23p-11, -0x1.f6ab0d9993c7dp-10, 0x1.a41a41a41a41ap-8};
  $F r = (b - $S(0.5)) * (log_f64(b) - $S(1.0)) + ($S(0x1.acfe390c97d69p-2) + series);
  p = small ? p : $S(1.0);
  $M below = x < $S(0.0) ? $SI(-1) : $SI(0);
  if ($ANY(below)) {
    $F f = a - floor_f64(a), t = (f > $S(0.5) ? $S(1.0) - f : f) * $S(0x1.921fb54442d18p1), w = t * t;
    $F sine = t * $POLY{w; 0x1p+0, -0x1.5555555555555p-3, 0x1.1111111111111p-7, -0x1.a01a01a01a01ap-13, 0x1.71de3a556c734p-19,
        -0x1.ae64567f544e4p-26, 0x1.6124613a86d09p-33, -0x1.ae7f3e733b81fp-41, 0x1.952c77030ad4ap-49, -0x1.2f49b46814157p-57};
    $F l = log_f64(below ? p * $S(0x1.921fb54442d18p1) / (a * sine) : p) - r;
    r = below ? l : -l;
  } else {
    r = r - log_f64(p);
  }
  return a < $S(__builtin_inf()) ? r : a;
}
)";
// Recurrence up to 10, then the asymptotic series; negative arguments by reflection.
constexpr const char* digamma_text = R"(static __attribute__((noinline, unused)) f64 digamma_f64(f64 x) {
  if (x == 0) return copysign_f64(__builtin_inf(), -x);
  f64 r = 0;
  if (x < 0) {
    const f64 part = x - round_f64(x);
    if (part == 0 || x - x != 0) return __builtin_nan("");
    r = -0x1.921fb54442d18p1 / tan_f64(part * 0x1.921fb54442d18p1);
    x = 1 - x;
  }
  for (; x < 10; x += 1) r -= 1 / x;
  const f64 z = 1 / (x * x);
  const f64 series = z * $POLY{z; 0x1.5555555555555p-4, -0x1.1111111111111p-7, 0x1.0410410410410p-8,
      -0x1.1111111111111p-8, 0x1.f07c1f07c1f08p-8, -0x1.5995995995996p-6, 0x1.5555555555555p-4};
  return x < __builtin_inf() ? r + (log_f64(x) - 0.5 / x - series) : x;
}
)";

// The same for f32: the sum of 1 / (x + i) for eight steps is one quotient, of pairs that have one sum.
constexpr const char* digamma_short_text = R"(K_FN $F digamma_short_f64($F x) {
  $M small = x < $S(8.0);
  $F y = x * (x + $S(7.0)), p = y * (y + $S(6.0)), q = (y + $S(10.0)) * (y + $S(12.0)), t = y + y;
  $F steps = (x + x + $S(7.0)) * ((t + $S(6.0)) * q + (t + $S(22.0)) * p) / (p * q);
  $F b = small ? x + $S(8.0) : x, part = $S(1.0) / b, z = part * part;
  $F series = z * $POLY{z; 0x1.5555555555555p-4, -0x1.1111111111111p-7, 0x1.0410410410410p-8,
      -0x1.1111111111111p-8, 0x1.f07c1f07c1f08p-8, -0x1.5995995995996p-6, 0x1.5555555555555p-4};
  $F r = log_f64(b) - (small ? steps : $S(0.0)) - $S(0.5) * part - series;
  $M rare = (x > $S(0.0)) & (x < $S(__builtin_inf())) ? $SI(0) : $SI(-1);
  if ($ANY(rare))
    for (int i = 0; i < $N; i++)
      if (rare$at) r$at = digamma_f64(x$at);
  return r;
}
)";

}  // namespace

std::vector<MathPiece> math_special_pieces() {
  return {
      {"erf_near", 'd', 0, false, erf_near_text},
      {"erfc_far", 'd', 0, false, erfc_far_text},
      {"erf", 'd', 1, false, erf_text},
      {"erfc", 'd', 1, false, erfc_text},
      {"erfinv", 'd', 1, false, erfinv_text},
      {"erfinv_short", 'd', 1, false, erfinv_short_text},
      {"normal_cdf", 'd', 1, false, normal_cdf_text},
      {"lgamma_near", 'd', 0, false, lgamma_near_text},
      {"lgamma_positive", 'd', 0, false, lgamma_positive_text},
      {"lgamma", 'd', 1, false, lgamma_text},
      {"lgamma_short", 'd', 1, false, lgamma_short_text},
      {"digamma", 'd', 1, true, digamma_text},
      {"digamma_short", 'd', 1, false, digamma_short_text},
  };
}

}  // namespace kiln::codegen
