#include "ops/complex_formulas.h"

#include <cmath>
#include <numbers>

namespace kiln {

namespace {

bool is_number(const Argument& arg) { return arg.is_scalar(); }
double real_number(const Argument& arg) { return arg.as_scalar().as_double(); }
Argument as_argument(double value) { return Argument(Scalar(value)); }
std::complex<double> constant(const Pair& x) { return {real_number(x.re), x.is_real() ? 0.0 : real_number(x.im)}; }
Pair real_pair(Argument value) { return {std::move(value), Argument()}; }

}  // namespace

Argument ComplexBuild::sum(const Argument& x, const Argument& y, double sign) {
  if (y.is_none()) return x;
  if (x.is_none()) {
    if (sign > 0) return y;
    return is_number(y) ? as_argument(-real_number(y)) : Argument(b("neg", {y}));
  }
  if (is_number(x) && is_number(y)) return as_argument(real_number(x) + sign * real_number(y));
  return Argument(sign > 0 ? b.add(x, y) : b.sub(x, y));
}

// None stands for 0.
Argument ComplexBuild::product(const Argument& x, const Argument& y) {
  if (x.is_none() || y.is_none()) return {};
  if (is_number(x) && is_number(y)) return as_argument(real_number(x) * real_number(y));
  return Argument(b.mul(x, y));
}

Pair ComplexBuild::add(const Pair& x, const Pair& y) { return {sum(x.re, y.re, 1), sum(x.im, y.im, 1)}; }
Pair ComplexBuild::sub(const Pair& x, const Pair& y) { return {sum(x.re, y.re, -1), sum(x.im, y.im, -1)}; }

Pair ComplexBuild::mul(const Pair& x, const Pair& y) {
  return {sum(product(x.re, y.re), product(x.im, y.im), -1), sum(product(x.re, y.im), product(x.im, y.re), 1)};
}

Pair ComplexBuild::scaled(const Pair& x, double factor) { return mul(x, real_pair(as_argument(factor))); }
Pair ComplexBuild::conj(const Pair& x) { return {x.re, sum({}, x.im, -1)}; }
Pair ComplexBuild::times_i(const Pair& x) { return {sum({}, x.im, -1), x.re}; }

// In eager's steps (Smith's): the smaller part of the divisor over the larger one, so that no square overflows. A real
// operand has the imaginary part 0, which times an infinity is NaN.
Pair ComplexBuild::div(const Pair& from, const Pair& by) {
  const Pair x = whole(from), y = whole(by);
  if (is_number(y.re) && is_number(y.im)) return by_constant(x, constant(y));
  auto abs_of = [&](const Argument& a) {
    return is_number(a) ? as_argument(std::fabs(real_number(a))) : Argument(b("abs", {a}));
  };
  const Argument size_re = abs_of(y.re), size_im = abs_of(y.im);
  auto compared = [&](std::string_view op, const Argument& p, const Argument& q) {
    return b(str(op, is_number(q) ? ".Scalar" : ".Tensor"), {p, q});
  };
  // One of the two parts may be a number; then it is 0, and the other one a tensor.
  Value* re_leads = is_number(size_re) ? compared("le", size_im, size_re) : compared("ge", size_re, size_im);
  auto choose = [&](const Argument& p, const Argument& q) {
    if (is_number(p)) return b("where.ScalarSelf", {re_leads, p, q});
    return is_number(q) ? b("where.ScalarOther", {re_leads, p, q}) : b("where.self", {re_leads, p, q});
  };
  Value *larger = choose(y.re, y.im), *smaller = choose(y.im, y.re);
  Value* ratio = b.div(smaller, larger);
  Value* scale = b("reciprocal", {b.add(larger, b.mul(smaller, ratio))});
  auto term = [&](const Argument& a) { return product(a, Argument(ratio)); };
  Argument re_first = sum(x.re, term(x.im), 1), im_first = sum(x.im, term(x.re), -1);
  Argument re_second = sum(term(x.re), x.im, 1), im_second = sum(term(x.im), x.re, -1);
  Value *re = b.mul(choose(re_first, re_second), scale), *im = b.mul(choose(im_first, im_second), scale);
  // By 0: each part by 0.
  Value* none = b("logical_and", {b("eq.Scalar", {larger, Scalar(0)}), b("eq.Scalar", {smaller, Scalar(0)})});
  Value* zero = b("zeros_like", {larger});
  auto over_zero = [&](const Argument& a) { return is_number(a) ? b.mul(b("reciprocal", {zero}), a) : b.div(a, zero); };
  return {Argument(b("where.self", {none, over_zero(x.re), re})),
          Argument(b("where.self", {none, over_zero(x.im), im}))};
}

Pair ComplexBuild::by_constant(const Pair& x, std::complex<double> y) {
  const double c = y.real(), d = y.imag();
  if (c == 0 && d == 0) return {Argument(b.div(x.re, as_argument(0))), Argument(b.div(x.im, as_argument(0)))};
  const bool re_leads = std::fabs(c) >= std::fabs(d);
  const double ratio = re_leads ? d / c : c / d, scale = 1 / (re_leads ? c + d * ratio : c * ratio + d);
  auto term = [&](const Argument& a) { return product(a, as_argument(ratio)); };
  Argument re = re_leads ? sum(x.re, term(x.im), 1) : sum(term(x.re), x.im, 1);
  Argument im = re_leads ? sum(x.im, term(x.re), -1) : sum(term(x.im), x.re, -1);
  return {product(re, as_argument(scale)), product(im, as_argument(scale))};
}

Pair ComplexBuild::whole(const Pair& x) { return x.is_real() ? Pair{x.re, as_argument(0)} : x; }

Pair ComplexBuild::pow(const Pair& z, const Pair& w) {
  if (is_number(w.re) && (w.is_real() || real_number(w.im) == 0)) {
    double exponent = real_number(w.re);
    if (exponent == 2) return mul(z, z);
    if (exponent == 3) return mul(mul(z, z), z);
    if (exponent == 0.5) return sqrt(z);
    if (exponent == -1) return div(real_pair(as_argument(1)), z);
    if (exponent == -2) return div(real_pair(as_argument(1)), mul(z, z));
    if (exponent == -0.5) return div(real_pair(as_argument(1)), sqrt(z));
    if (exponent == 1) return z;
    if (exponent == 0) return {Argument(b("ones_like", {z.re})), Argument(b("zeros_like", {z.re}))};
  }
  // The size grows with the exponential of what is computed here: f32 would lose its digits.
  auto wide = [&](const Argument& x) {
    return x.is_value() && x.as_value()->kind == ValueKind::tensor ? Argument(b.to(x.as_value(), DType::f64)) : x;
  };
  return wide_pow({wide(z.re), wide(z.im)}, {wide(w.re), wide(w.im)});
}

Pair ComplexBuild::wide_pow(const Pair& z, const Pair& w) {
  // A number as base: its logarithm is known.
  if (is_number(z.re) && constant(z) != 0.0) {
    std::complex<double> base = constant(z), l = std::log(base);
    // Without an imaginary part nothing is multiplied by 0: an infinite exponent stays one.
    return exp(mul({as_argument(l.real()), l.imag() == 0 ? Argument() : as_argument(l.imag())}, w));
  }
  if (is_number(z.re)) {  // 0 has none
    Argument zero = Argument(b("zeros_like", {w.re}));
    return wide_pow({zero, zero}, w);
  }
  Pair base = z.is_real() ? Pair{z.re, Argument(b("zeros_like", {z.re}))} : z;
  Pair power = exp(times_infinite(log(base), w));
  // Where the logarithm is infinite eager's exponential has a size alone: infinite, 0 or unknown, as the exponent's
  // sign says.
  Value* size = abs(base);
  Value* nothing = b("eq.Scalar", {size, Scalar(0)});
  Value* infinite = b("logical_or", {b("isinf", {base.re}), b("isinf", {base.im})});
  Value* edge = b("logical_or", {nothing, infinite});
  Value* sign = b("where.ScalarSelf", {infinite, Scalar(1.0), b("full_like", {size, Scalar(-1.0)})});
  Value* growth = is_number(w.re) ? b.mul(sign, Scalar(real_number(w.re))) : b.mul(sign, w.re.as_value());
  Value *grows = b("gt.Scalar", {growth, Scalar(0)}), *shrinks = b("lt.Scalar", {growth, Scalar(0)});
  Value* unknown = b("full_like", {size, Scalar(static_cast<double>(NAN))});
  Value* at_edge_im = b("where.ScalarSelf", {shrinks, Scalar(0.0), unknown});
  Value* at_edge_re = b("where.ScalarSelf", {grows, Scalar(static_cast<double>(INFINITY)), at_edge_im});
  return {Argument(b("where.self", {edge, at_edge_re, power.re})),
          Argument(b("where.self", {edge, at_edge_im, power.im}))};
}

Value* ComplexBuild::is_true(const Pair& z) {
  Value* re = b("ne.Scalar", {z.re, Scalar(0)});
  return z.is_real() ? re : b("logical_or", {re, b("ne.Scalar", {z.im, Scalar(0)})});
}

Value* ComplexBuild::equal(const Pair& x, const Pair& y) {
  auto same = [&](const Argument& p, const Argument& q) {
    if (is_number(q)) return b("eq.Scalar", {p, q});
    return is_number(p) ? b("eq.Scalar", {q, p}) : b("eq.Tensor", {p, q});
  };
  Argument zero = as_argument(0);
  const Argument &xi = x.is_real() ? zero : x.im, &yi = y.is_real() ? zero : y.im;
  return b("logical_and", {same(x.re, y.re), same(xi, yi)});
}

Value* ComplexBuild::zeros_like(const Argument& x) { return b("zeros_like", {x}); }
Value* ComplexBuild::full_like(Value* x, const Argument& number) { return b("full_like", {x, number}); }
Value* ComplexBuild::expanded(Value* x, const Sizes& sizes) { return b("expand", {x, b.ints(sizes)}); }
Value* ComplexBuild::negated(Value* x) { return b("neg", {x}); }

Value* ComplexBuild::interleaved(const Pair& z) {
  return b("stack", {Argument(Argument::List{z.re, z.im}), Scalar(-1)});
}

Pair ComplexBuild::from_interleaved(const Argument& pairs) {
  Value* im = b("select.int", {pairs, Scalar(-1), Scalar(1)});
  return {Argument(b("select.int", {pairs, Scalar(-1), Scalar(0)})), Argument(im)};
}

Pair ComplexBuild::mean_of_parts(const Pair& z) {
  return {Argument(b.add(z.re, b.mul(z.im, Scalar(0.0)))), Argument(b.sub(z.im, b.mul(z.re, Scalar(0.0))))};
}

Pair ComplexBuild::product_along(const Pair& z, const Argument* dim, const Argument* keep, bool running) {
  const Pair wide = {Argument(b.to(z.re.as_value(), DType::f64)), Argument(b.to(z.im.as_value(), DType::f64))};
  const Argument kept = keep ? *keep : Argument(Scalar(false));
  auto run = [&](Value* x, bool angles) {
    if (running) return b(angles ? "cumsum" : "cumprod", {x, dim ? *dim : Argument()});
    if (!dim) return b(angles ? "sum" : "prod", {x});
    if (!angles) return b("prod.dim_int", {x, *dim, kept});
    return b("sum.dim_IntList", {x, Argument(Argument::List{*dim}), kept});
  };
  Value *size = run(abs(wide), false), *turn = run(angle(wide), true);
  Value* im = b.mul(size, b("sin", {turn}));
  return {Argument(b.mul(size, b("cos", {turn}))), Argument(im)};
}

namespace {

using Operands = const std::vector<Pair>&;

Argument each(ComplexBuild& c, std::string_view op, const Argument& x) { return Argument(c.b(op, {x})); }
Argument times(ComplexBuild& c, const Argument& x, const Argument& y) { return Argument(c.b.mul(x, y)); }
Pair one() { return real_pair(as_argument(1)); }
Pair alpha(Operands x) { return x.size() > 2 ? x[2] : one(); }
bool is_real_one(const Pair& x) { return is_number(x.re) && real_number(x.re) == 1 && x.is_real(); }
Pair times_alpha(ComplexBuild& c, const Pair& x, const Pair& factor) {
  return is_real_one(factor) ? x : c.mul(x, factor);
}

Pair both(ComplexBuild& c, std::string_view test, std::string_view join, const Pair& z) {
  return real_pair(Argument(c.b(join, {c.b(test, {z.re}), c.b(test, {z.im})})));
}
Pair build_sgn(ComplexBuild& c, const Pair& z) {
  Value* size = c.abs(z);
  Value* below = c.b("where.ScalarSelf", {c.b("eq.Scalar", {size, Scalar(0)}), Scalar(1.0), size});
  return {Argument(c.b.div(z.re, below)), Argument(c.b.div(z.im, below))};
}
Pair build_expm1(ComplexBuild& c, const Pair& z) {
  Value* half = c.b("sin", {c.b.mul(z.im, Scalar(0.5))});
  Value* small = c.b.mul(c.b.mul(half, half), Scalar(2.0));
  return {Argument(c.b.sub(c.b.mul(c.b("expm1", {z.re}), c.b("cos", {z.im})), small)),
          times(c, each(c, "exp", z.re), each(c, "sin", z.im))};
}
// Near 0 log(|1 + z|²) / 2 keeps the digits of a small z; elsewhere that cancels near -1, and would overflow.
Pair build_log1p(ComplexBuild& c, const Pair& z) {
  Build& b = c.b;
  Value *square = b.mul(z.im, z.im), *beside = b.add(z.re, Scalar(1.0));
  Value* inner = b.add(b.mul(z.re, b.add(z.re, Scalar(2.0))), square);
  Value* near = b("lt.Scalar", {b.add(b.mul(z.re, z.re), square), Scalar(0.25)});
  // Of what squares lose, and of -0, there is nothing to add to.
  Value* nothing = b("eq.Scalar", {inner, Scalar(0)});
  Value* small = b("where.self", {nothing, z.re, b.mul(b("log1p", {inner}), Scalar(0.5))});
  const Pair other = c.log({Argument(beside), z.im});
  return {Argument(b("where.self", {near, small, other.re})), other.im};
}
Pair logical(ComplexBuild& c, std::string_view op, Operands x) {
  return real_pair(Argument(c.b(op, {c.is_true(x[0]), c.is_true(x[1])})));
}

// ---- Reference values: each in one expression over complex<double> ----

using Complex = std::complex<double>;
using P = const Complex*;

// Products and quotients in eager's steps and type: std::complex repairs infinities, which eager does not.
template <class T>
Complex times(Complex x, Complex y) {
  const T a = static_cast<T>(x.real()), b = static_cast<T>(x.imag()), c = static_cast<T>(y.real()),
          d = static_cast<T>(y.imag());
  return {a * c - b * d, a * d + b * c};
}
template <class T>
Complex over(Complex x, Complex y) {
  const T a = static_cast<T>(x.real()), b = static_cast<T>(x.imag()), c = static_cast<T>(y.real()),
          d = static_cast<T>(y.imag());
  if (std::fabs(c) >= std::fabs(d)) {
    if (c == 0 && d == 0) return {a / std::fabs(c), b / std::fabs(d)};
    const T ratio = d / c, scale = 1 / (c + d * ratio);
    return {(a + b * ratio) * scale, (b - a * ratio) * scale};
  }
  const T ratio = c / d, scale = 1 / (c * ratio + d);
  return {(a * ratio + b) * scale, (b * ratio - a) * scale};
}
template <class T>
Complex direction(Complex z) {
  const T a = static_cast<T>(z.real()), b = static_cast<T>(z.imag()), size = std::hypot(a, b);
  return size == 0 ? Complex(0) : Complex(a / size, b / size);
}
template <class T>
Complex power(Complex z, Complex w) {
  if (w == Complex(2)) return times<T>(z, z);
  if (w == Complex(3)) return times<T>(times<T>(z, z), z);
  if (w == Complex(0.5)) return std::sqrt(z);
  if (w == Complex(-0.5)) return over<T>(1, std::sqrt(z));
  if (w == Complex(-1)) return over<T>(1, z);
  if (w == Complex(-2)) return over<T>(1, times<T>(z, z));
  if (w == Complex(1)) return z;
  if (w == Complex(0)) return 1;
  return std::pow(z, w);
}

// sin(πz) / (πz), where the sine may overflow in the type.
template <class T>
Complex sine_over(Complex z) {
  const auto turn = std::complex<T>(z) * std::numbers::pi_v<T>;
  return turn == T(0) ? Complex(1) : over<T>(Complex(std::sin(turn)), Complex(turn));
}

Complex truth_of(bool b) { return b ? 1.0 : 0.0; }
bool is_not_zero(Complex z) { return z != Complex(0); }
Complex logistic(Complex z) { return 1.0 / (1.0 + std::exp(-z)); }
double nan_or(Complex z, double otherwise) {
  return std::isnan(z.real()) || std::isnan(z.imag()) ? std::nan("") : otherwise;
}

}  // namespace

namespace complex_formulas {

const ComplexFormula add = {{"self", "other", "alpha"},
                            [](ComplexBuild& c, Operands x) { return c.add(x[0], times_alpha(c, x[1], alpha(x))); },
                            [](P x) { return x[0] + x[2] * x[1]; }};
const ComplexFormula sub = {{"self", "other", "alpha"},
                            [](ComplexBuild& c, Operands x) { return c.sub(x[0], times_alpha(c, x[1], alpha(x))); },
                            [](P x) { return x[0] - x[2] * x[1]; }};
const ComplexFormula rsub = {{"self", "other", "alpha"},
                             [](ComplexBuild& c, Operands x) { return c.sub(x[1], times_alpha(c, x[0], alpha(x))); },
                             [](P x) { return x[1] - x[2] * x[0]; }};
const ComplexFormula mul = {{"self", "other"},
                            [](ComplexBuild& c, Operands x) { return c.mul(c.whole(x[0]), c.whole(x[1])); },
                            [](P x) { return times<double>(x[0], x[1]); },
                            [](P x) { return times<float>(x[0], x[1]); }};
const ComplexFormula div = {{"self", "other"},
                            [](ComplexBuild& c, Operands x) { return c.div(x[0], x[1]); },
                            [](P x) { return over<double>(x[0], x[1]); },
                            [](P x) { return over<float>(x[0], x[1]); }};
const ComplexFormula pow = {{"self", "exponent"},
                            [](ComplexBuild& c, Operands x) { return c.pow(x[0], x[1]); },
                            [](P x) { return power<double>(x[0], x[1]); },
                            [](P x) { return power<float>(x[0], x[1]); }};
// Eager knows no simple exponents where they come as a tensor.
const ComplexFormula tensor_pow = {{"self", "exponent"},
                                   [](ComplexBuild& c, Operands x) { return c.pow(x[0], x[1]); },
                                   [](P x) { return std::pow(x[0], x[1]); }};
const ComplexFormula eq = {{"self", "other"},
                           [](ComplexBuild& c, Operands x) { return real_pair(Argument(c.equal(x[0], x[1]))); },
                           [](P x) { return truth_of(x[0] == x[1]); }};
const ComplexFormula ne = {
    {"self", "other"},
    [](ComplexBuild& c, Operands x) { return real_pair(Argument(c.b("logical_not", {c.equal(x[0], x[1])}))); },
    [](P x) { return truth_of(x[0] != x[1]); }};
const ComplexFormula logical_and = {{"self", "other"},
                                    [](ComplexBuild& c, Operands x) { return logical(c, "logical_and", x); },
                                    [](P x) { return truth_of(is_not_zero(x[0]) && is_not_zero(x[1])); }};
const ComplexFormula logical_or = {{"self", "other"},
                                   [](ComplexBuild& c, Operands x) { return logical(c, "logical_or", x); },
                                   [](P x) { return truth_of(is_not_zero(x[0]) || is_not_zero(x[1])); }};
const ComplexFormula logical_xor = {{"self", "other"},
                                    [](ComplexBuild& c, Operands x) { return logical(c, "logical_xor", x); },
                                    [](P x) { return truth_of(is_not_zero(x[0]) != is_not_zero(x[1])); }};
const ComplexFormula logical_not = {
    {"self"},
    [](ComplexBuild& c, Operands x) { return real_pair(Argument(c.b("logical_not", {c.is_true(x[0])}))); },
    [](P x) { return truth_of(!is_not_zero(x[0])); }};
const ComplexFormula addcmul = {
    {"self", "tensor1", "tensor2", "value"},
    [](ComplexBuild& c, Operands x) { return c.add(x[0], times_alpha(c, c.mul(x[1], x[2]), x[3])); },
    [](P x) { return x[0] + x[3] * times<double>(x[1], x[2]); }};
const ComplexFormula addcdiv = {
    {"self", "tensor1", "tensor2", "value"},
    [](ComplexBuild& c, Operands x) { return c.add(x[0], times_alpha(c, c.div(x[1], x[2]), x[3])); },
    [](P x) { return x[0] + x[3] * over<double>(x[1], x[2]); }};
const ComplexFormula lerp = {{"self", "end", "weight"},
                             [](ComplexBuild& c, Operands x) { return c.add(x[0], c.mul(x[2], c.sub(x[1], x[0]))); },
                             [](P x) { return x[0] + x[2] * (x[1] - x[0]); }};
const ComplexFormula from_parts = {{"real", "imag"},
                                   [](ComplexBuild&, Operands x) {
                                     return Pair{x[0].re, x[1].re};
                                   },
                                   [](P x) { return Complex(x[0].real(), x[1].real()); }};
const ComplexFormula polar = {
    {"abs", "angle"},
    [](ComplexBuild& c, Operands x) {
      return Pair{times(c, x[0].re, each(c, "cos", x[1].re)), times(c, x[0].re, each(c, "sin", x[1].re))};
    },
    [](P x) { return Complex(x[0].real() * std::cos(x[1].real()), x[0].real() * std::sin(x[1].real())); }};
const ComplexFormula neg = {{"self"},
                            [](ComplexBuild& c, Operands x) {
                              return Pair{each(c, "neg", x[0].re), each(c, "neg", x[0].im)};
                            },
                            [](P x) { return -x[0]; }};
const ComplexFormula exp = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.exp(x[0]); }, [](P x) { return std::exp(x[0]); }};
const ComplexFormula exp2 = {{"self"},
                             [](ComplexBuild& c, Operands x) { return c.exp(c.scaled(x[0], std::numbers::ln2)); },
                             [](P x) { return std::exp(x[0] * std::log(2.0)); }};
const ComplexFormula expm1 = {{"self"},
                              [](ComplexBuild& c, Operands x) { return build_expm1(c, x[0]); },
                              [](P x) {
                                // exp(a)cos(b) - 1 without cancellation.
                                double a = x[0].real(), b = x[0].imag(), h = std::sin(b / 2);
                                return Complex(std::expm1(a) * std::cos(b) - 2 * h * h, std::exp(a) * std::sin(b));
                              }};
const ComplexFormula log = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.log(x[0]); }, [](P x) { return std::log(x[0]); }};
const ComplexFormula log2 = {{"self"},
                             [](ComplexBuild& c, Operands x) { return c.scaled(c.log(x[0]), 1 / std::numbers::ln2); },
                             [](P x) { return std::log(x[0]) / std::log(2.0); }};
const ComplexFormula log10 = {{"self"},
                              [](ComplexBuild& c, Operands x) { return c.scaled(c.log(x[0]), 1 / std::numbers::ln10); },
                              [](P x) { return std::log(x[0]) / std::log(10.0); }};
const ComplexFormula log1p = {{"self"},
                              [](ComplexBuild& c, Operands x) { return build_log1p(c, x[0]); },
                              [](P x) {
                                double a = x[0].real(), b = x[0].imag();
                                if (!(std::hypot(a, b) < 0.5)) return std::log(Complex(1 + a, b));
                                return Complex(std::log1p(a * (2 + a) + b * b) / 2, std::atan2(b, 1 + a));
                              }};
const ComplexFormula sqrt = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.sqrt(x[0]); }, [](P x) { return std::sqrt(x[0]); }};
const ComplexFormula rsqrt = {{"self"},
                              [](ComplexBuild& c, Operands x) { return c.div(one(), c.sqrt(x[0])); },
                              [](P x) { return over<double>(1, std::sqrt(x[0])); },
                              [](P x) { return over<float>(1, std::sqrt(x[0])); }};
const ComplexFormula reciprocal = {{"self"},
                                   [](ComplexBuild& c, Operands x) { return c.div(one(), x[0]); },
                                   [](P x) { return over<double>(1, x[0]); },
                                   [](P x) { return over<float>(1, x[0]); }};
const ComplexFormula square = {{"self"},
                               [](ComplexBuild& c, Operands x) { return c.mul(x[0], x[0]); },
                               [](P x) { return times<double>(x[0], x[0]); },
                               [](P x) { return times<float>(x[0], x[0]); }};
const ComplexFormula sin = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.sin(x[0]); }, [](P x) { return std::sin(x[0]); }};
const ComplexFormula cos = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.cos(x[0]); }, [](P x) { return std::cos(x[0]); }};
const ComplexFormula sinh = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.sinh(x[0]); }, [](P x) { return std::sinh(x[0]); }};
const ComplexFormula cosh = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.cosh(x[0]); }, [](P x) { return std::cosh(x[0]); }};
const ComplexFormula tanh = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.tanh(x[0]); }, [](P x) { return std::tanh(x[0]); }};
const ComplexFormula tan = {{"self"},
                            [](ComplexBuild& c, Operands x) { return c.neg(c.times_i(c.tanh(c.times_i(x[0])))); },
                            [](P x) { return std::tan(x[0]); }};
const ComplexFormula sigmoid = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.sigmoid(x[0]); }, [](P x) { return logistic(x[0]); }};
const ComplexFormula silu = {{"self"},
                             [](ComplexBuild& c, Operands x) { return c.mul(x[0], c.sigmoid(x[0])); },
                             [](P x) { return x[0] * logistic(x[0]); }};
const ComplexFormula sinc = {{"self"},
                             [](ComplexBuild& c, Operands x) { return c.sinc(x[0]); },
                             [](P x) { return sine_over<double>(x[0]); },
                             [](P x) { return sine_over<float>(x[0]); }};
const ComplexFormula asinh = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.asinh(x[0]); }, [](P x) { return std::asinh(x[0]); }};
const ComplexFormula acosh = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.acosh(x[0]); }, [](P x) { return std::acosh(x[0]); }};
const ComplexFormula atanh = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.atanh(x[0]); }, [](P x) { return std::atanh(x[0]); }};
const ComplexFormula asin = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.asin(x[0]); }, [](P x) { return std::asin(x[0]); }};
const ComplexFormula acos = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.acos(x[0]); }, [](P x) { return std::acos(x[0]); }};
const ComplexFormula atan = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.atan(x[0]); }, [](P x) { return std::atan(x[0]); }};
const ComplexFormula abs = {{"self"},
                            [](ComplexBuild& c, Operands x) { return real_pair(Argument(c.abs(x[0]))); },
                            [](P x) { return Complex(std::abs(x[0])); }};
const ComplexFormula angle = {{"self"},
                              [](ComplexBuild& c, Operands x) { return real_pair(Argument(c.angle(x[0]))); },
                              [](P x) { return Complex(nan_or(x[0], std::atan2(x[0].imag(), x[0].real()))); }};
const ComplexFormula sgn = {{"self"},
                            [](ComplexBuild& c, Operands x) { return build_sgn(c, x[0]); },
                            [](P x) { return direction<double>(x[0]); },
                            [](P x) { return direction<float>(x[0]); }};
const ComplexFormula isnan = {{"self"},
                              [](ComplexBuild& c, Operands x) { return both(c, "isnan", "logical_or", x[0]); },
                              [](P x) { return truth_of(std::isnan(x[0].real()) || std::isnan(x[0].imag())); }};
const ComplexFormula isinf = {{"self"},
                              [](ComplexBuild& c, Operands x) { return both(c, "isinf", "logical_or", x[0]); },
                              [](P x) { return truth_of(std::isinf(x[0].real()) || std::isinf(x[0].imag())); }};
const ComplexFormula isfinite = {
    {"self"},
    [](ComplexBuild& c, Operands x) { return both(c, "isfinite", "logical_and", x[0]); },
    [](P x) { return truth_of(std::isfinite(x[0].real()) && std::isfinite(x[0].imag())); }};
const ComplexFormula isreal = {{"self"},
                               [](ComplexBuild& c, Operands x) {
                                 return real_pair(Argument(c.b("eq.Scalar", {x[0].im, Scalar(0)})));
                               },
                               [](P x) { return truth_of(x[0].imag() == 0); }};
const ComplexFormula conj = {
    {"self"}, [](ComplexBuild& c, Operands x) { return c.conj(x[0]); }, [](P x) { return std::conj(x[0]); }};
const ComplexFormula real = {{"self"}, [](ComplexBuild&, Operands x) { return real_pair(x[0].re); }};
const ComplexFormula imag = {{"self"}, [](ComplexBuild&, Operands x) { return real_pair(x[0].im); }};
const ComplexFormula view_as_real = {
    {"self"}, [](ComplexBuild& c, Operands x) {
      return real_pair(Argument(c.b("stack", {Argument(Argument::List{x[0].re, x[0].im}), Scalar(-1)})));
    }};
const ComplexFormula view_as_complex = {{"self"}, [](ComplexBuild& c, Operands x) {
                                          return Pair{Argument(c.b("select.int", {x[0].re, Scalar(-1), Scalar(0)})),
                                                      Argument(c.b("select.int", {x[0].re, Scalar(-1), Scalar(1)}))};
                                        }};

}  // namespace complex_formulas

}  // namespace kiln
