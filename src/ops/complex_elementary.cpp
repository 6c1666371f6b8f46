// Elementary functions of complex numbers in real operators: at infinities, at NaN and where a part overflows on the
// way what C's functions give (C99, annex G), which eager calls; near 0 and near a pole with all digits of the result.
#include <cmath>
#include <numbers>

#include "ops/complex_formulas.h"
#include "ops/real_formula.h"

namespace kiln {

namespace {

using Real = RealFormula;

struct Parts {
  Real re, im;
};

// A part that is a number, or the imaginary part that a real operand has not, becomes a value.
Parts parts(ComplexBuild& c, const Pair& z) {
  const Argument& like = z.re.is_value() ? z.re : z.im;
  auto value = [&](const Argument& x) {
    return x.is_value() ? x.as_value() : c.full_like(like.as_value(), x.is_none() ? Argument(Scalar(0.0)) : x);
  };
  return {{c.b, value(z.re)}, {c.b, value(z.im)}};
}
Pair pair(const Parts& z) { return {z.re.argument(), z.im.argument()}; }

// The largest whole number whose exponential is finite.
double largest_exponent(const Real& x) { return x.is_wide() ? 709 : 88; }
// Numbers from here on are scaled before they are squared or added: of f32 2^60, of f64 2^500.
double far_from_zero(const Real& x) { return std::ldexp(1.0, x.is_wide() ? 500 : 60); }

// sinh a and cosh a beside cos b and sin b. From `far` on both are half of e^(|a| - top), and what they are multiplied
// with is multiplied by e^top at last: a small cosine may make it finite.
struct Hyperbolic {
  Hyperbolic(const Real& a, const Real& b)
      : a(a), b(b), top(largest_exponent(a)), far(abs(a) > top), cosine(cos(b)), sine(sin(b)) {}
  Real lifted(const Real& product) const { return far.where(product * std::exp(top), product); }
  Parts sinh_of() const;
  Parts cosh_of() const;

  Real a, b;
  double top;
  Real far, cosine, sine;

 private:
  Real half() const {
    const Real size = abs(a);
    return exp(far.where(size - top, size)) * 0.5;
  }
  Real rise() const {  // |sinh a|
    const Real most = half(), usual = (abs(a) < 1).where(abs(sinh(a)), most - 0.25 / most);
    return copysign(far.where(most, usual), a);
  }
  Real level() const {  // cosh a
    const Real most = half();
    return far.where(most, most + 0.25 / most);
  }
};

// Without a direction (cos of an infinity is NaN) 0 and infinity are what they are; a 0 stays one beside an infinity.
Parts Hyperbolic::sinh_of() const {
  const Real known = ((a == 0) | isinf(a)) & isnan(cosine), edge = (a == 0).where(a, abs(a));
  return {known.where(edge, lifted(rise() * cosine)), (b == 0).where(b, lifted(level() * sine))};
}
Parts Hyperbolic::cosh_of() const {
  const Real re = (isinf(a) & isnan(cosine)).where(abs(a), lifted(level() * cosine)), im = lifted(rise() * sine);
  return {re, (((a == 0) | (b == 0)) & isnan(im)).where(0, im)};
}

// Of x + iy with x, y >= 0: the angles of the arc sine and arc cosine, and the imaginary part of both, after Hull,
// Fairgrieve and Tang: with r and s the distances from -1 and 1 and m = (r + s) / 2 the sine is x / m, the cosine
// sqrt((m - x) (m + x)) / m, and the imaginary part arcosh m. Differences are taken where nothing cancels.
struct Arcs {
  Real x, cosine;  // of the angle, both times m; x as it was given, of which the sign may be set
  Real im;
  Real turn() const { return (x == 0).where(0, atan2(x, cosine)); }  // arc sine
  Real turn_of(const Real& signed_x) const { return (x == 0).where(std::numbers::pi / 2, atan2(cosine, signed_x)); }
};

Arcs arcs(const Real& given_x, const Real& given_y) {
  const double limit = far_from_zero(given_x);
  // Far out the angle is that of x + iy itself and arcosh m is log(2 m), of which an eighth is as good.
  const Real far = (given_x > limit) | (given_y > limit);
  const Real x = far.where(given_x * 0.125, given_x), y = far.where(given_y * 0.125, given_y);
  const Real r = hypot(x + 1, y), s = hypot(x - 1, y), m = (r + s) * 0.5;
  const Real beyond = x > 1, left = r + (x + 1), right = s + abs(x - 1);
  // m less the larger one of x and 1; m less the smaller one, over y where that has y as a factor twice.
  const Real by_y = sqrt((1.0 / left + 1.0 / right) * 0.5), less = (y * (y / left) + right) * 0.5;
  const Real cosine = beyond.where(y * by_y * sqrt(m + x), sqrt(less * (m + x)));
  const Real within = x < 1, rest = within.where((y * (y / left) + y * (y / right)) * 0.5, less);
  const Real root = within.where(y * by_y * sqrt(m + 1), sqrt(less * (m + 1)));
  const Real im = log1p(far.where(hypot(x, y), rest + root));
  return {given_x, far.where(given_y, cosine), far.where(im + std::log(16.0), im)};
}

// Of x + iy with x, y >= 0: log1p(4 x / h²) / 4 and half the angle of (1 - x) (1 + x) - y² + 2 i y, with h the distance
// from the pole at 1.
Parts atanh_of(const Real& x, const Real& y) {
  const Real h = hypot(1.0 - x, y), ratio = x / h;
  // Next to the pole 1 / h² would overflow: there log(2 / h) / 2.
  const Real near = h < 1 / far_from_zero(x) * std::ldexp(1.0, x.is_wide() ? 400 : 30);
  // Nearer still 2 / h would: there of a multiple of h.
  const double lift = x.is_wide() ? 0x1p200 : 0x1p60;
  const Real nearest = h < (x.is_wide() ? 0x1p-900 : 0x1p-100), lifted = nearest.where(h * lift, h);
  const Real usual = log1p(near.where(2.0 / lifted, ratio / h * 4));
  const Real size = nearest.where(usual + std::log(lift), usual), re = near.where(size * 0.5, size * 0.25);
  const Real angle = atan2(y, ((1.0 - x) * (x + 1) - y * y) * 0.5) * 0.5;
  const Real right_angle = isnan(y).where(y, std::numbers::pi / 2);
  return {((x == 0) | isinf(h)).where(0, re), isinf(h).where(right_angle, angle)};
}

}  // namespace

Pair ComplexBuild::exp(const Pair& z) {
  const auto [a, angle] = parts(*this, z);
  const double top = largest_exponent(a);
  const Real far = a > top, size = kiln::exp(far.where(a - top, a)), cosine = kiln::cos(angle);
  const Real sine = kiln::sin(angle);
  auto lifted = [&](const Real& product) { return far.where(product * std::exp(top), product); };
  // An infinite exponent beside an angle that is none: infinity without a direction, or 0.
  const Real lost = isinf(a) & isnan(cosine);
  const Real re = lifted(size * lost.where(1, cosine)), im = lifted(size * (lost & (a < 0)).where(0, sine));
  return pair({re, (angle == 0).where(angle, im)});
}

// The real part is the logarithm of the absolute value, or log1p(|z|² - 1) / 2, which keeps its digits near the circle.
Pair ComplexBuild::log(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  const Real x = kiln::abs(a), y = kiln::abs(imag), large = maximum(x, y), small = minimum(x, y);
  const Real far = large > far_from_zero(a), over = large - 1;
  const Real distance = hypot(far.where(a * 0.125, a), far.where(imag * 0.125, imag));
  const Real usual = kiln::log(distance), size = far.where(usual + std::numbers::ln2 * 3, usual);
  const Real near = log1p(over * 2 + (over * over + small * small)) * 0.5;
  return pair({((large > 0.5) & (large < 2)).where(near, size), atan2(imag, a)});
}

// t = sqrt((|z| + |re z|) / 2) loses no digits; the other part follows from im z = 2 re sqrt im sqrt. Numbers whose sum
// overflows, or which have lost digits already, are scaled by a square.
Pair ComplexBuild::sqrt(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  const double limit = far_from_zero(a), factor = a.is_wide() ? 0x1p100 : 0x1p48;
  const Real size = maximum(kiln::abs(a), kiln::abs(imag)), large = size > limit, tiny = size < 1 / limit;
  auto scaled = [&](const Real& x, double by) { return large.where(x * (1 / by), tiny.where(x * by, x)); };
  const Real x = scaled(a, factor), y = scaled(imag, factor);
  const Real t = kiln::sqrt((hypot(x, y) + kiln::abs(x)) * 0.5), other = y / (t == 0).where(1, t * 2);
  const Real right = a >= 0;
  const double back = 1 / std::sqrt(factor);
  const Real re = scaled(right.where(t, kiln::abs(other)), back),
             im = scaled(right.where(other, copysign(t, imag)), back);
  // An infinite imaginary part makes both infinite.
  const Real infinite = isinf(imag);
  return pair({infinite.where(INFINITY, re), infinite.where(imag, im)});
}

Pair ComplexBuild::sinh(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  return pair(Hyperbolic(a, imag).sinh_of());
}
Pair ComplexBuild::cosh(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  return pair(Hyperbolic(a, imag).cosh_of());
}
// With y + ix for x + iy: the conjugate of its cosh; its sinh with real and imaginary part exchanged.
Pair ComplexBuild::cos(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  const Parts turned = Hyperbolic(imag, a).cosh_of();
  return pair({turned.re, -turned.im});
}
Pair ComplexBuild::sin(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  const Parts turned = Hyperbolic(imag, a).sinh_of();
  return pair({turned.im, turned.re});
}

// (sinh a cosh a + i sin b cos b) / (sinh² a + cos² b), which does not cancel near a pole; where sinh² would overflow
// the first is ±1 to the last digit.
Pair ComplexBuild::tanh(const Pair& z) {
  const auto [given, imag] = parts(*this, z);
  const double most = given.is_wide() ? 350 : 43;
  const Real a(b, b("clamp", {given.value(), Scalar(-most), Scalar(most)}));
  const Real lost = isinf(given) & isnan(kiln::cos(imag));
  const Real cosine = lost.where(1, kiln::cos(imag)), sine = lost.where(0, kiln::sin(imag)), rise = kiln::sinh(a);
  const Real below = rise * rise + cosine * cosine;
  const Real re = rise * kiln::cosh(a) / below, im = sine * cosine / below;
  return pair({(given == 0).where(given, re), (imag == 0).where(imag, im)});
}

// 1 / (1 + w), or w / (1 + w) for a negative real part, with w = e^(-|a|) (cos b + i sin b) of size below 1. What is to
// keep its digits near a pole is put together of 1 - e^(-|a|) and 1 + cos b.
Pair ComplexBuild::sigmoid(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  const Real angle = isinf(a).where(0, imag), down = -kiln::abs(a), size = kiln::exp(down), lack = -expm1(down);
  const Real half = kiln::cos(angle * 0.5), turn = half * half * 2, im = size * kiln::sin(angle);
  const Real plus = lack + size * turn, below = plus * plus + im * im;
  return pair({(a < 0).where(size * (turn - lack), plus) / below, im / below});
}

Pair ComplexBuild::asin(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  const Arcs arc = arcs(kiln::abs(a), kiln::abs(imag));
  return pair({copysign(arc.turn(), a), copysign(arc.im, imag)});
}
Pair ComplexBuild::acos(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  const Arcs arc = arcs(kiln::abs(a), kiln::abs(imag));
  return pair({arc.turn_of(a), copysign(arc.im, -imag)});
}
// asinh z = -i asin(iz); acosh z = ±i acos z with a real part that is not negative.
Pair ComplexBuild::asinh(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  const Arcs arc = arcs(kiln::abs(imag), kiln::abs(a));
  return pair({copysign(arc.im, a), copysign(arc.turn(), imag)});
}
Pair ComplexBuild::acosh(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  const Arcs arc = arcs(kiln::abs(a), kiln::abs(imag));
  return pair({arc.im, copysign(arc.turn_of(a), imag)});
}

Pair ComplexBuild::atanh(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  const Parts out = atanh_of(kiln::abs(a), kiln::abs(imag));
  return pair({copysign(out.re, a), copysign(out.im, imag)});
}
// -i atanh(iz)
Pair ComplexBuild::atan(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  const Parts out = atanh_of(kiln::abs(imag), kiln::abs(a));
  return pair({copysign(out.im, a), copysign(out.re, imag)});
}

// sin(πz) / (πz)
Pair ComplexBuild::sinc(const Pair& z) {
  const auto [a, imag] = parts(*this, z);
  const Pair turn = scaled(z, std::numbers::pi);
  const auto [re, im] = parts(*this, div(sin(turn), turn));
  const Real nothing = (a == 0) & (imag == 0);
  return pair({nothing.where(1, re), nothing.where(0, im)});
}

// A product of two NaN whose second factor is infinite is infinite in the direction of what is finite beside it.
Pair ComplexBuild::times_infinite(const Pair& x, const Pair& y) {
  if (y.is_real() || !y.re.is_value()) return mul(x, y);
  const auto [a, x_im] = parts(*this, x);
  const auto [c, d] = parts(*this, y);
  const auto [re, im] = parts(*this, mul(x, y));
  const Real lost = isnan(re) & isnan(im) & (isinf(c) | isinf(d));
  auto way = [](const Real& part) { return copysign(isinf(part).where(1, part.call("zeros_like")), part); };
  const Real p = way(c), q = way(d);
  return pair({lost.where((a * p - x_im * q) * INFINITY, re), lost.where((a * q + x_im * p) * INFINITY, im)});
}

}  // namespace kiln
