// Pointwise operators of one operand: mathematics, rounding, signs, classification.
#include <cmath>
#include <numbers>

#include "ops/complex_formulas.h"
#include "ops/elementwise.h"
#include "ops/special_functions.h"

namespace kiln {

namespace {

struct Domain {
  double low = -2.0, high = 2.0;
};

std::string unary_schema(const char* name) { return str(name, "(Tensor self) -> Tensor"); }

// Gives floats for integers: exp, sin.
void floating(Registry& r, const char* name, EmitFn emit, Formula f, Domain domain = {}) {
  add_pointwise(r, {.schema = unary_schema(name),
                    .operands = "self",
                    .rule = ResultRule::floating,
                    .emit = std::move(emit),
                    .formula = f,
                    .low = domain.low,
                    .high = domain.high});
}
void floating(Registry& r, const char* name, ScalarOp op, Formula f, Domain domain = {}) {
  floating(r, name, scalar_op(op), f, domain);
}

// Integers are already round.
void rounding(Registry& r, const char* name, ScalarOp op, Formula f) {
  add_pointwise(r, {.schema = unary_schema(name),
                    .operands = "self",
                    .takes = Takes::no_bool,
                    .emit = [op](Emit& e) { return is_integral(e.dtype) ? e.x[0] : e.op(op, e.x[0]); },
                    .formula = f,
                    .low = -9.0,
                    .high = 9.0});
}

void predicate(Registry& r, const char* name, EmitFn for_floats, bool for_integers, Formula f) {
  add_pointwise(r, {.schema = unary_schema(name),
                    .operands = "self",
                    .rule = ResultRule::boolean,
                    .emit =
                        [for_floats, for_integers](Emit& e) {
                          return is_float(e.dtype) ? for_floats(e) : e.k.constant(DType::boolean, Scalar(for_integers));
                        },
                    .formula = f,
                    .inplace = false});
}

template <class T>
T round_even(T x) {
  if constexpr (std::is_integral_v<T>)
    return x;
  else
    return std::nearbyint(x);
}
// Rounds floats, leaves integers alone.
template <class T, class Round>
T whole(T x, Round round) {
  if constexpr (std::is_integral_v<T>)
    return x;
  else
    return round(x);
}

using std::numbers::pi;

void register_exponentials(Registry& r) {
  floating(r, "exp", ScalarOp::exp, float_formula<1>([](auto x) { return std::exp(x); }));
  floating(r, "exp2", ScalarOp::exp2, float_formula<1>([](auto x) { return std::exp2(x); }));
  floating(r, "expm1", ScalarOp::expm1, float_formula<1>([](auto x) { return std::expm1(x); }));
  floating(r, "log", ScalarOp::log, float_formula<1>([](auto x) { return std::log(x); }), {0.0, 4.0});
  floating(r, "log2", ScalarOp::log2, float_formula<1>([](auto x) { return std::log2(x); }), {0.0, 4.0});
  floating(r, "log10", ScalarOp::log10, float_formula<1>([](auto x) { return std::log10(x); }), {0.0, 4.0});
  floating(r, "log1p", ScalarOp::log1p, float_formula<1>([](auto x) { return std::log1p(x); }), {-0.9, 4.0});
  floating(r, "sqrt", ScalarOp::sqrt, float_formula<1>([](auto x) { return std::sqrt(x); }), {0.0, 4.0});
  floating(r, "rsqrt", ScalarOp::rsqrt, float_formula<1>([](auto x) { return 1 / std::sqrt(x); }), {0.1, 4.0});
  floating(r, "reciprocal", [](Emit& e) { return e.op(ScalarOp::div, e.number(1), e.x[0]); },
           float_formula<1>([](auto x) { return 1 / x; }), {0.5, 4.0});
  floating(r, "sigmoid", ScalarOp::sigmoid, float_formula<1>([](auto x) { return 1 / (1 + std::exp(-x)); }));
  floating(r, "erf", ScalarOp::erf, float_formula<1>([](auto x) { return std::erf(x); }));
  floating(r, "erfc", ScalarOp::erfc, float_formula<1>([](auto x) { return std::erfc(x); }));
  floating(r, "erfinv", ScalarOp::erfinv, float_formula<1>([](auto x) { return erfinv(static_cast<double>(x)); }),
           {-0.99, 0.99});
  floating(r, "lgamma", ScalarOp::lgamma, float_formula<1>([](auto x) { return std::lgamma(x); }), {0.1, 4.0});
  floating(r, "digamma", ScalarOp::digamma, float_formula<1>([](auto x) { return digamma(static_cast<double>(x)); }),
           {0.1, 4.0});
}

void register_trigonometry(Registry& r) {
  floating(r, "sin", ScalarOp::sin, float_formula<1>([](auto x) { return std::sin(x); }));
  floating(r, "cos", ScalarOp::cos, float_formula<1>([](auto x) { return std::cos(x); }));
  floating(r, "tan", ScalarOp::tan, float_formula<1>([](auto x) { return std::tan(x); }), {-1.0, 1.0});
  floating(r, "asin", ScalarOp::asin, float_formula<1>([](auto x) { return std::asin(x); }), {-1.0, 1.0});
  floating(r, "acos", ScalarOp::acos, float_formula<1>([](auto x) { return std::acos(x); }), {-1.0, 1.0});
  floating(r, "atan", ScalarOp::atan, float_formula<1>([](auto x) { return std::atan(x); }));
  floating(r, "sinh", ScalarOp::sinh, float_formula<1>([](auto x) { return std::sinh(x); }));
  floating(r, "cosh", ScalarOp::cosh, float_formula<1>([](auto x) { return std::cosh(x); }));
  floating(r, "tanh", ScalarOp::tanh, float_formula<1>([](auto x) { return std::tanh(x); }));
  floating(r, "asinh", ScalarOp::asinh, float_formula<1>([](auto x) { return std::asinh(x); }));
  floating(r, "acosh", ScalarOp::acosh, float_formula<1>([](auto x) { return std::acosh(x); }), {1.0, 4.0});
  floating(r, "atanh", ScalarOp::atanh, float_formula<1>([](auto x) { return std::atanh(x); }), {-0.9, 0.9});
  floating(r, "deg2rad", [](Emit& e) { return e.op(ScalarOp::mul, e.x[0], e.number(pi / 180)); },
           float_formula<1>([](auto x) { return x * static_cast<decltype(x)>(pi / 180); }), {-180.0, 180.0});
  floating(
      r, "rad2deg", [](Emit& e) { return e.op(ScalarOp::mul, e.x[0], e.number(180 / pi)); },
      float_formula<1>([](auto x) { return x * static_cast<decltype(x)>(180 / pi); }));
  floating(
      r, "sinc",
      [](Emit& e) {
        ValueId scaled = e.op(ScalarOp::mul, e.x[0], e.number(pi));
        ValueId zero = e.op(ScalarOp::eq, e.x[0], e.number(0));
        return e.k.select(zero, e.number(1), e.op(ScalarOp::div, e.op(ScalarOp::sin, scaled), scaled));
      },
      float_formula<1>([](auto x) {
        using T = decltype(x);
        T scaled = x * static_cast<T>(pi);
        return x == 0 ? T{1} : std::sin(scaled) / scaled;
      }));
}

void register_rounding(Registry& r) {
  rounding(r, "floor", ScalarOp::floor,
           formula<1>([](auto x) { return whole(x, [](auto v) { return std::floor(v); }); }));
  rounding(r, "ceil", ScalarOp::ceil, formula<1>([](auto x) { return whole(x, [](auto v) { return std::ceil(v); }); }));
  rounding(r, "round", ScalarOp::round, formula<1>([](auto x) { return round_even(x); }));
  rounding(r, "trunc", ScalarOp::trunc,
           formula<1>([](auto x) { return whole(x, [](auto v) { return std::trunc(v); }); }));
  rounding(r, "fix", ScalarOp::trunc,
           formula<1>([](auto x) { return whole(x, [](auto v) { return std::trunc(v); }); }));
  add_pointwise(r, {.schema = unary_schema("frac"),
                    .operands = "self",
                    .takes = Takes::floats,
                    .emit = [](Emit& e) { return e.op(ScalarOp::sub, e.x[0], e.op(ScalarOp::trunc, e.x[0])); },
                    .formula = float_formula<1>([](auto x) { return x - std::trunc(x); }),
                    .low = -9.0,
                    .high = 9.0});
  // decimals >= 0: round(x * 10^d) / 10^d; negative: round(x / 10^-d) * 10^-d.
  add_pointwise(r, {.schema = "round.decimals(Tensor self, *, int decimals) -> Tensor",
                    .operands = "self",
                    .params = "decimals",
                    .takes = Takes::floats,
                    .emit =
                        [](Emit& e) {
                          int64_t decimals = e.call.constant_integer("decimals");
                          if (decimals == 0) return e.op(ScalarOp::round, e.x[0]);
                          ValueId scale = e.number(std::pow(10.0, static_cast<double>(std::abs(decimals))));
                          ScalarOp first = decimals > 0 ? ScalarOp::mul : ScalarOp::div;
                          ScalarOp last = decimals > 0 ? ScalarOp::div : ScalarOp::mul;
                          return e.op(last, e.op(ScalarOp::round, e.op(first, e.x[0], scale)), scale);
                        },
                    .formula = float_formula<2>([](auto x, auto decimals) {
                      using T = decltype(x);
                      T scale = static_cast<T>(std::pow(10.0, std::fabs(static_cast<double>(decimals))));
                      return decimals >= 0 ? std::nearbyint(x * scale) / scale : std::nearbyint(x / scale) * scale;
                    }),
                    .low = -9.0,
                    .high = 9.0,
                    .trailing = {Scalar(2)},
                    .samples = {{{spec({3}, DType::f32, -900, 900), Scalar(-2)}}, {{spec({3}), Scalar(0)}}}});
}

void register_signs(Registry& r) {
  Pointwise neg{.schema = unary_schema("neg"),
                .operands = "self",
                .takes = Takes::no_bool,
                .emit = scalar_op(ScalarOp::neg),
                .formula = formula<1>([](auto x) {
                  using T = decltype(x);
                  if constexpr (std::is_integral_v<T>)
                    return static_cast<T>(0 - static_cast<uint64_t>(x));
                  else
                    return -x;
                })};
  add_pointwise(r, neg);
  add_pointwise_alias(r, neg, unary_schema("negative"));
  Pointwise absolute{.schema = unary_schema("abs"),
                     .operands = "self",
                     .takes = Takes::no_bool,
                     .emit = scalar_op(ScalarOp::abs),
                     .formula = formula<1>([](auto x) {
                       using T = decltype(x);
                       if constexpr (std::is_integral_v<T>)
                         return x < 0 ? static_cast<T>(0 - static_cast<uint64_t>(x)) : x;
                       else
                         return std::fabs(x);
                     })};
  add_pointwise(r, absolute);
  add_pointwise_alias(r, absolute, unary_schema("absolute"));
  auto sign_emit = [](Emit& e) {
    if (e.dtype == DType::boolean) return e.x[0];
    ValueId above = e.k.as(e.dtype, e.op(ScalarOp::gt, e.x[0], e.number(0)));
    return e.op(ScalarOp::sub, above, e.k.as(e.dtype, e.op(ScalarOp::lt, e.x[0], e.number(0))));
  };
  for (const char* name : {"sign", "sgn"})
    add_pointwise(
        r, {.schema = unary_schema(name), .operands = "self", .emit = sign_emit, .formula = formula<1>([](auto x) {
                                                                                   return (x > 0) - (x < 0);
                                                                                 })});
  Pointwise square{.schema = unary_schema("square"),
                   .operands = "self",
                   .emit = [](Emit& e) { return e.op(ScalarOp::mul, e.x[0], e.x[0]); },
                   .formula = formula<1>([](auto x) {
                     using T = decltype(x);
                     if constexpr (std::is_integral_v<T>)
                       return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
                     else
                       return x * x;
                   }),
                   // bool ** 2 is an integer
                   .types = [](const OpCall&, DType t) -> ComputeTypes {
                     DType out = t == DType::boolean ? DType::i64 : t;
                     return {out, out};
                   }};
  add_pointwise(r, square);
  add_pointwise(r, {.schema = unary_schema("signbit"),
                    .operands = "self",
                    .rule = ResultRule::boolean,
                    .emit =
                        [](Emit& e) {
                          if (is_float(e.dtype)) return e.op(ScalarOp::sign_bit, e.x[0]);
                          if (e.dtype == DType::boolean) return e.k.constant(DType::boolean, Scalar(false));
                          return e.op(ScalarOp::lt, e.x[0], e.number(0));
                        },
                    .formula = formula<1>([](auto x) { return std::signbit(x); }),
                    .inplace = false});
}

void register_classification(Registry& r) {
  predicate(r, "isnan", scalar_op(ScalarOp::is_nan), false, formula<1>([](auto x) { return x != x; }));
  predicate(r, "isinf", scalar_op(ScalarOp::is_inf), false, formula<1>([](auto x) { return std::isinf(x); }));
  predicate(
      r, "isfinite",
      [](Emit& e) {
        ValueId odd = e.op(ScalarOp::logical_or, e.op(ScalarOp::is_nan, e.x[0]), e.op(ScalarOp::is_inf, e.x[0]));
        return e.op(ScalarOp::logical_not, odd);
      },
      true, formula<1>([](auto x) { return std::isfinite(x); }));
  predicate(
      r, "isposinf", [](Emit& e) { return e.op(ScalarOp::eq, e.x[0], e.number(INFINITY)); }, false,
      formula<1>([](auto x) { return std::isinf(x) && x > 0; }));
  predicate(
      r, "isneginf", [](Emit& e) { return e.op(ScalarOp::eq, e.x[0], e.number(-INFINITY)); }, false,
      formula<1>([](auto x) { return std::isinf(x) && x < 0; }));
  predicate(
      r, "isreal", [](Emit& e) { return e.k.constant(DType::boolean, Scalar(true)); }, true,
      formula<1>([](auto) { return true; }));
  Pointwise not_row{.schema = unary_schema("logical_not"),
                    .operands = "self",
                    .rule = ResultRule::boolean,
                    .emit =
                        [](Emit& e) {
                          if (e.dtype == DType::boolean) return e.op(ScalarOp::logical_not, e.x[0]);
                          return e.op(ScalarOp::eq, e.x[0], e.number(0));
                        },
                    .formula = formula<1>([](auto x) { return x == 0; })};
  add_pointwise(r, not_row);
  add_pointwise(r, {.schema = unary_schema("bitwise_not"),
                    .operands = "self",
                    .params = "@bool",
                    .takes = Takes::integral,
                    .emit =
                        [](Emit& e) {
                          return e.op(e.dtype == DType::boolean ? ScalarOp::logical_not : ScalarOp::bit_not, e.x[0]);
                        },
                    .formula = int_formula<2>([](int64_t x, int64_t is_bool) { return is_bool ? x == 0 : ~x; })});
}

}  // namespace

void register_unary_math(Registry& registry) {
  register_exponentials(registry);
  register_trigonometry(registry);
  register_rounding(registry);
  register_signs(registry);
  register_classification(registry);
  registry.describe({"abs", "absolute"}, complex_by(complex_formulas::abs, true));
  registry.describe({"acos"}, complex_by(complex_formulas::acos));
  registry.describe({"acosh"}, complex_by(complex_formulas::acosh));
  registry.describe({"asin"}, complex_by(complex_formulas::asin));
  registry.describe({"asinh"}, complex_by(complex_formulas::asinh));
  registry.describe({"atan"}, complex_by(complex_formulas::atan));
  registry.describe({"atanh"}, complex_by(complex_formulas::atanh));
  registry.describe({"cos"}, complex_by(complex_formulas::cos));
  registry.describe({"cosh"}, complex_by(complex_formulas::cosh));
  registry.describe({"exp"}, complex_by(complex_formulas::exp));
  registry.describe({"exp2"}, complex_by(complex_formulas::exp2));
  registry.describe({"expm1"}, complex_by(complex_formulas::expm1));
  registry.describe({"isfinite"}, complex_by(complex_formulas::isfinite));
  registry.describe({"isinf"}, complex_by(complex_formulas::isinf));
  registry.describe({"isnan"}, complex_by(complex_formulas::isnan));
  registry.describe({"isreal"}, complex_by(complex_formulas::isreal));
  registry.describe({"log"}, complex_by(complex_formulas::log));
  registry.describe({"log10"}, complex_by(complex_formulas::log10));
  registry.describe({"log1p"}, complex_by(complex_formulas::log1p));
  registry.describe({"log2"}, complex_by(complex_formulas::log2));
  registry.describe({"logical_not"}, complex_by(complex_formulas::logical_not));
  registry.describe({"neg", "negative"}, complex_by(complex_formulas::neg));
  registry.describe({"reciprocal"}, complex_by(complex_formulas::reciprocal));
  registry.describe({"rsqrt"}, complex_by(complex_formulas::rsqrt));
  registry.describe({"sgn"}, complex_by(complex_formulas::sgn));
  registry.describe({"sigmoid"}, complex_by(complex_formulas::sigmoid));
  registry.describe({"sin"}, complex_by(complex_formulas::sin));
  registry.describe({"sinc"}, complex_by(complex_formulas::sinc));
  registry.describe({"sinh"}, complex_by(complex_formulas::sinh));
  registry.describe({"sqrt"}, complex_by(complex_formulas::sqrt));
  registry.describe({"square"}, complex_by(complex_formulas::square));
  registry.describe({"tan"}, complex_by(complex_formulas::tan));
  registry.describe({"tanh"}, complex_by(complex_formulas::tanh));
}

}  // namespace kiln
