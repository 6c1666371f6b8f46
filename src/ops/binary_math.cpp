// Pointwise operators of two and three operands beyond arithmetic.
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "ops/complex_formulas.h"
#include "ops/elementwise.h"
#include "ops/special_functions.h"

namespace kiln {

namespace {

void binary(Registry& r, const char* name, ResultRule rule, Takes takes, EmitFn emit, Formula f, double low = -2.0,
            double high = 2.0, bool inplace = true) {
  add_pointwise(r, {.schema = str(name, "(Tensor self, Tensor other) -> Tensor"),
                    .operands = "self other",
                    .rule = rule,
                    .takes = takes,
                    .emit = std::move(emit),
                    .formula = f,
                    .inplace = inplace,
                    .low = low,
                    .high = high});
}

void register_geometry(Registry& r) {
  binary(r, "atan2", ResultRule::floating, Takes::all, scalar_op(ScalarOp::atan2),
         float_formula<2>([](auto a, auto b) { return std::atan2(a, b); }));
  // Scaled by the larger side, so that squares do not overflow.
  binary(
      r, "hypot", ResultRule::promoted, Takes::floats,
      [](Emit& e) {
        ValueId a = e.op(ScalarOp::abs, e.x[0]), b = e.op(ScalarOp::abs, e.x[1]);
        ValueId large = e.op(ScalarOp::max, a, b), small = e.op(ScalarOp::min, a, b);
        ValueId ratio = e.op(ScalarOp::div, small, large);
        ValueId root = e.op(ScalarOp::sqrt, e.op(ScalarOp::add, e.number(1), e.op(ScalarOp::mul, ratio, ratio)));
        ValueId plain =
            e.op(ScalarOp::logical_or, e.op(ScalarOp::eq, small, e.number(0)), e.op(ScalarOp::is_inf, large));
        ValueId infinite = e.op(ScalarOp::logical_or, e.op(ScalarOp::is_inf, a), e.op(ScalarOp::is_inf, b));
        ValueId usual = e.k.select(plain, large, e.op(ScalarOp::mul, large, root));
        return e.k.select(infinite, e.number(INFINITY), usual);
      },
      float_formula<2>([](auto a, auto b) { return std::hypot(a, b); }));
  binary(r, "nextafter", ResultRule::promoted, Takes::floats, scalar_op(ScalarOp::nextafter),
         float_formula<2>([](auto a, auto b) { return std::nextafter(a, b); }));
  Pointwise copysign{.schema = "copysign.Tensor(Tensor self, Tensor other) -> Tensor",
                     .operands = "self other",
                     .rule = ResultRule::floating,
                     .emit = scalar_op(ScalarOp::copysign),
                     .formula = float_formula<2>([](auto a, auto b) { return std::copysign(a, b); }),
                     .samples = {{{spec({3}), Scalar(-1)}}}};
  add_pointwise(r, copysign);
  add_pointwise_alias(r, copysign, "copysign.Scalar(Tensor self, Scalar other) -> Tensor");
}

// The larger one and log(1 + e^-d), where d is how far apart they are: log1p, because that may be all there is of the
// sum (of 0 and -38, e^-38). Equal infinities stay themselves.
ValueId emit_log_add(Emit& e, ScalarOp power, double of_base) {
  ValueId top = e.op(ScalarOp::max, e.x[0], e.x[1]);
  ValueId low = e.op(ScalarOp::min, e.x[0], e.x[1]);
  ValueId beside = e.op(ScalarOp::log1p, e.op(power, e.op(ScalarOp::sub, low, top)));
  if (of_base != 1) beside = e.op(ScalarOp::mul, beside, e.number(of_base));
  ValueId same = e.op(ScalarOp::logical_and, e.op(ScalarOp::is_inf, top), e.op(ScalarOp::eq, e.x[0], e.x[1]));
  return e.k.select(same, e.x[0], e.op(ScalarOp::add, top, beside));
}

void register_logarithms(Registry& r) {
  binary(
      r, "logaddexp", ResultRule::promoted, Takes::floats, [](Emit& e) { return emit_log_add(e, ScalarOp::exp, 1); },
      float_formula<2>([](auto a, auto b) {
        if (std::isinf(a) && a == b) return a;
        auto top = std::max(a, b);
        return top + std::log1p(std::exp(-std::fabs(a - b)));
      }),
      -4, 4, false);
  binary(
      r, "logaddexp2", ResultRule::promoted, Takes::floats,
      [](Emit& e) { return emit_log_add(e, ScalarOp::exp2, std::numbers::log2e); },
      float_formula<2>([](auto a, auto b) {
        if (std::isinf(a) && a == b) return a;
        using T = decltype(a);
        return std::max(a, b) + std::log1p(std::exp2(-std::fabs(a - b))) / static_cast<T>(0.69314718055994530942);
      }),
      -4, 4, false);
  auto by_log = [](ScalarOp op) {
    return [op](Emit& e) {
      ValueId shifted = op == ScalarOp::log1p ? e.op(ScalarOp::log1p, e.x[1]) : e.op(ScalarOp::log, e.x[1]);
      ValueId out =
          e.k.select(e.op(ScalarOp::eq, e.x[0], e.number(0)), e.number(0), e.op(ScalarOp::mul, e.x[0], shifted));
      return e.k.select(e.op(ScalarOp::is_nan, e.x[1]), e.x[1], out);
    };
  };
  Pointwise xlogy{.schema = "xlogy.Tensor(Tensor self, Tensor other) -> Tensor",
                  .operands = "self other",
                  .rule = ResultRule::floating,
                  .emit = by_log(ScalarOp::log),
                  .formula = float_formula<2>([](auto x, auto y) {
                    return y != y ? y : x == 0 ? decltype(x){0} : x * std::log(y);
                  }),
                  .low = 0.0,
                  .high = 3.0,
                  .samples = {{{spec({3}), Scalar(2)}}}};
  add_pointwise(r, xlogy);
  add_pointwise_alias(r, xlogy, "xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor");
  xlogy.inplace = false;
  xlogy.samples = {{{Scalar(2), spec({3}, DType::f32, 0.1)}}};
  add_pointwise_alias(r, xlogy, "xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor");
  xlogy.schema = "special_xlog1py(Tensor self, Tensor other) -> Tensor";
  xlogy.emit = by_log(ScalarOp::log1p);
  xlogy.formula = float_formula<2>([](auto x, auto y) {
    return y != y ? y : x == 0 ? decltype(x){0} : x * std::log1p(y);
  });
  xlogy.samples = {};
  add_pointwise(r, xlogy);
  xlogy.samples = {{{spec({3}), Scalar(2)}}};
  add_pointwise_alias(r, xlogy, "special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor");
  xlogy.samples = {{{Scalar(2), spec({3}, DType::f32, 0.1)}}};
  add_pointwise_alias(r, xlogy, "special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor");
}

void register_fused(Registry& r) {
  // value * a * b, added to self, in eager fused: the product alone may overflow. Integers divide as floats do in the
  // promoted type.
  Pointwise addcmul{.schema = "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
                    .operands = "self tensor1 tensor2",
                    .params = "value",
                    .takes = Takes::no_bool,
                    .emit =
                        [](Emit& e) {
                          ValueId scaled = e.op(ScalarOp::mul, e.x[3], e.x[1]);
                          if (is_float(e.dtype)) return e.k.op(ScalarOp::fma, {scaled, e.x[2], e.x[0]});
                          return e.op(ScalarOp::add, e.x[0], e.op(ScalarOp::mul, scaled, e.x[2]));
                        },
                    .formula = formula<4>([](auto x, auto a, auto b, auto v) {
                      if constexpr (std::is_floating_point_v<decltype(x)>) return std::fma(v * a, b, x);
                      return x + v * a * b;
                    }),
                    .samples = {{{spec({2, 3}), spec({3}), spec({2, 1}), Scalar(0.5)}}}};
  add_pointwise(r, addcmul);
  add_pointwise(r, {.schema = "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
                    .operands = "self tensor1 tensor2",
                    .params = "value",
                    .takes = Takes::floats,
                    .emit =
                        [](Emit& e) {
                          ValueId quotient = e.op(ScalarOp::div, e.op(ScalarOp::mul, e.x[3], e.x[1]), e.x[2]);
                          return e.op(ScalarOp::add, e.x[0], quotient);
                        },
                    .formula = float_formula<4>([](auto x, auto a, auto b, auto v) { return x + v * a / b; }),
                    .low = 0.5,
                    .samples = {{{spec({2, 3}), spec({3}), spec({2, 1}, DType::f32, 0.5), Scalar(0.5)}}}});
  // Eager's form for vectors, whose signs of zero are these: from the nearer end on, so that both are exact, and fused:
  // the product alone may overflow.
  auto lerp_emit = [](Emit& e) {
    ValueId near = e.op(ScalarOp::lt, e.op(ScalarOp::abs, e.x[2]), e.number(0.5));
    ValueId way = e.k.select(near, e.x[2], e.op(ScalarOp::sub, e.x[2], e.number(1)));
    ValueId from = e.k.select(near, e.x[0], e.x[1]);
    return e.k.op(ScalarOp::fma, {way, e.op(ScalarOp::sub, e.x[1], e.x[0]), from});
  };
  auto lerp_formula = float_formula<3>([](auto a, auto b, auto w) {
    const bool near = std::fabs(w) < static_cast<decltype(w)>(0.5);
    return std::fma(near ? w : w - 1, b - a, near ? a : b);
  });
  add_pointwise(r, {.schema = "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
                    .operands = "self end",
                    .params = "weight",
                    .takes = Takes::floats,
                    .emit = lerp_emit,
                    .formula = lerp_formula,
                    .trailing = {Scalar(0.3)},
                    .samples = {{{spec({3}), spec({3}), Scalar(0.8)}}}});
  add_pointwise(r, {.schema = "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
                    .operands = "self end weight",
                    .takes = Takes::floats,
                    .emit = lerp_emit,
                    .formula = lerp_formula,
                    .low = 0.0,
                    .high = 1.0});
}

// x · 2^n for a whole n, where 2^n may be beyond what the type holds. f32 has its powers in f64; f64 goes in steps,
// which leave the last one to round what becomes subnormal.
ValueId emit_scaled(Emit& e) {
  const bool wide = e.dtype == DType::f64;
  auto number = [&](double v) { return e.k.constant(DType::f64, Scalar(v)); };
  auto times = [&](ValueId x, ValueId n) { return e.op(ScalarOp::mul, x, e.op(ScalarOp::exp2, n)); };
  auto within = [&](ValueId n, double low, double high) {
    return e.op(ScalarOp::min, e.op(ScalarOp::max, n, number(low)), number(high));
  };
  ValueId x = e.k.as(DType::f64, e.x[0]), n = e.k.as(DType::f64, e.x[1]);
  if (!wide) return e.k.as(e.dtype, times(x, within(n, -400, 400)));
  for (int step = 0; step < 2; ++step) {
    const ValueId down = e.k.select(e.op(ScalarOp::lt, n, number(-1022)), number(-969), number(0));
    const ValueId part = e.k.select(e.op(ScalarOp::gt, n, number(1023)), number(1023), down);
    x = times(x, part);
    n = e.op(ScalarOp::sub, n, part);
  }
  return times(x, within(n, -1022, 1023));
}

void register_steps(Registry& r) {
  add_pointwise(r, {.schema = "heaviside(Tensor self, Tensor values) -> Tensor",
                    .operands = "self values",
                    .rule = ResultRule::promoted,
                    .emit =
                        [](Emit& e) {
                          if (e.dtype == DType::boolean) return e.op(ScalarOp::logical_or, e.x[0], e.x[1]);
                          ValueId step = e.k.select(e.op(ScalarOp::gt, e.x[0], e.number(0)), e.number(1), e.number(0));
                          return e.k.select(e.op(ScalarOp::eq, e.x[0], e.number(0)), e.x[1], step);
                        },
                    .formula = formula<2>([](auto x, auto at_zero) {
                      return x == 0 ? at_zero : x > 0 ? decltype(x){1} : decltype(x){0};
                    }),
                    .inplace = true,
                    .low = -1,
                    .high = 1});
  Pointwise ldexp{.schema = "ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
                  .operands = "self other",
                  .params = "@integers:other",
                  .rule = ResultRule::floating,
                  .emit =
                      [](Emit& e) {
                        if (is_integral(e.call.tensor("other")->type.dtype)) return emit_scaled(e);
                        return e.op(ScalarOp::mul, e.x[0], e.op(ScalarOp::exp2, e.x[1]));
                      },
                  .formula = float_formula<3>([](auto a, auto b, auto integers) {
                    if (integers == 0) return a * std::exp2(b);
                    return std::ldexp(a, static_cast<int>(std::fmin(std::fmax(b, -10000), 10000)));
                  })};
  add_pointwise(r, ldexp);
  auto finite = [](const OpCall& call, const char* arg, DType dtype, double otherwise) {
    if (!call.given(arg)) return otherwise;
    auto number = call.scalar(arg);
    const auto* constant = std::get_if<Scalar>(&number);
    if (!constant) fail_unsupported("K0202", str("nan_to_num: ", arg, " must be a constant"), call.where());
    (void)dtype;
    return constant->as_double();
  };
  add_pointwise(r,
                {.schema = "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
                 .operands = "self",
                 .params = "nan?- posinf?+ neginf?- @largest",
                 .emit =
                     [finite](Emit& e) {
                       if (is_integral(e.dtype)) return e.x[0];
                       double largest = largest_finite(e.common);
                       ValueId nan = e.number(finite(e.call, "nan", e.common, 0));
                       ValueId high = e.number(finite(e.call, "posinf", e.common, largest));
                       ValueId low = e.number(finite(e.call, "neginf", e.common, -largest));
                       ValueId out = e.k.select(e.op(ScalarOp::eq, e.x[0], e.number(INFINITY)), high, e.x[0]);
                       out = e.k.select(e.op(ScalarOp::eq, e.x[0], e.number(-INFINITY)), low, out);
                       return e.k.select(e.op(ScalarOp::is_nan, e.x[0]), nan, out);
                     },
                 // A missing argument comes as an infinity.
                 .formula = formula<5>([](auto x, auto nan, auto high, auto low, auto largest) {
                   using T = decltype(x);
                   if constexpr (std::is_integral_v<T>) {
                     return x;
                   } else {
                     if (x != x) return std::isinf(nan) ? T{0} : nan;
                     if (std::isinf(x) && x > 0) return std::isinf(high) ? largest : high;
                     return std::isinf(x) ? (std::isinf(low) ? -largest : low) : x;
                   }
                 }),
                 .samples = {{{spec({3}), Scalar(1.0), Scalar(2.0), Scalar(-2.0)}}}});
}

void register_integers(Registry& r) {
  // Euclid's algorithm has no loop nest of fixed length: 64-bit numbers need at most 92 steps of it.
  auto gcd_emit = [](Emit& e) {
    ValueId a = e.op(ScalarOp::abs, e.x[0]), b = e.op(ScalarOp::abs, e.x[1]);
    int steps = dtype_bytes(e.dtype) <= 1 ? 13 : dtype_bytes(e.dtype) <= 2 ? 24 : dtype_bytes(e.dtype) <= 4 ? 47 : 93;
    for (int i = 0; i < steps; ++i) {
      ValueId zero = e.op(ScalarOp::eq, b, e.number(0));
      ValueId rest = e.op(ScalarOp::fmod, a, e.k.select(zero, e.number(1), b));
      a = e.k.select(zero, a, b);
      b = e.k.select(zero, b, rest);
    }
    return a;
  };
  binary(r, "gcd", ResultRule::promoted, Takes::integers, gcd_emit,
         int_formula<2>([](int64_t a, int64_t b) { return std::gcd(a, b); }), -20, 20);
  binary(
      r, "lcm", ResultRule::promoted, Takes::integers,
      [gcd_emit](Emit& e) {
        ValueId divisor = gcd_emit(e);
        ValueId none = e.op(ScalarOp::eq, divisor, e.number(0));
        ValueId part = e.op(ScalarOp::div, e.x[0], e.k.select(none, e.number(1), divisor));
        return e.k.select(none, e.number(0), e.op(ScalarOp::abs, e.op(ScalarOp::mul, part, e.x[1])));
      },
      int_formula<2>([](int64_t a, int64_t b) {
        int64_t divisor = std::gcd(a, b);
        return divisor == 0 ? int64_t{0} : std::abs(a / divisor * b);
      }),
      -20, 20);
}

void register_logit(Registry& r) {
  Pointwise logit{.schema = "logit(Tensor self, float? eps=None) -> Tensor",
                  .operands = "self",
                  .params = "eps?-",
                  .rule = ResultRule::floating,
                  .emit =
                      [](Emit& e) {
                        ValueId x = e.x[0];
                        if (e.x[1] != loops::no_value) {
                          // The lower bound counts first: eps may exceed 1/2.
                          ValueId high = e.op(ScalarOp::sub, e.number(1), e.x[1]);
                          x = e.k.select(e.op(ScalarOp::lt, x, e.x[1]), e.x[1], e.op(ScalarOp::min, x, high));
                        }
                        return e.op(ScalarOp::log, e.op(ScalarOp::div, x, e.op(ScalarOp::sub, e.number(1), x)));
                      },
                  .formula = float_formula<2>([](auto x, auto eps) {
                    if (eps >= 0) x = x < eps ? eps : x > 1 - eps ? 1 - eps : x;
                    return std::log(x / (1 - x));
                  }),
                  .low = 0.05,
                  .high = 0.95,
                  .samples = {{{spec({5}, DType::f32, -0.5, 1.5), Scalar(0.1)}}}};
  add_pointwise(r, logit);
}

}  // namespace

void register_binary_math(Registry& registry) {
  register_geometry(registry);
  register_logarithms(registry);
  register_fused(registry);
  register_steps(registry);
  register_integers(registry);
  register_logit(registry);
  registry.describe({"addcdiv"}, complex_by(complex_formulas::addcdiv));
  registry.describe({"addcmul"}, complex_by(complex_formulas::addcmul));
  registry.describe({"lerp"}, complex_by(complex_formulas::lerp));
}

}  // namespace kiln
