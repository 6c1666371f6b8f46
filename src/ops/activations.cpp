// Activation functions: pointwise operators of one tensor with a few numbers.
#include <cmath>

#include "ops/complex_formulas.h"
#include "ops/elementwise.h"

namespace kiln {

namespace {

constexpr double sqrt_half = 0.70710678118654752440;
constexpr double sqrt_two_over_pi = 0.79788456080286535588;
constexpr double selu_alpha = 1.6732632423543772848170429916717;
constexpr double selu_scale = 1.0507009873554804934193349852946;

void activation(Registry& r, std::string schema, std::string params, EmitFn emit, Formula f,
                std::vector<Sample> samples = {}, Takes takes = Takes::floats, bool inplace = true) {
  add_pointwise(r, {.schema = std::move(schema),
                    .operands = "self",
                    .params = std::move(params),
                    .takes = takes,
                    .emit = std::move(emit),
                    .formula = f,
                    .inplace = inplace,
                    .low = -4.0,
                    .high = 4.0,
                    .samples = std::move(samples)});
}

ValueId emit_gelu(Emit& e) {
  ValueId x = e.x[0];
  if (e.call.string("approximate") != "tanh") return e.op(ScalarOp::mul, x, e.op(ScalarOp::normal_cdf, x));
  ValueId cube = e.op(ScalarOp::mul, e.op(ScalarOp::mul, x, x), x);
  ValueId inner = e.op(ScalarOp::add, x, e.op(ScalarOp::mul, cube, e.number(0.044715)));
  ValueId curve = e.op(ScalarOp::tanh, e.op(ScalarOp::mul, inner, e.number(sqrt_two_over_pi)));
  return e.op(ScalarOp::mul, e.op(ScalarOp::mul, x, e.number(0.5)), e.op(ScalarOp::add, curve, e.number(1)));
}

template <class T>
T sigmoid_of(T x) {
  return 1 / (1 + std::exp(-x));
}
template <class T>
T softplus_of(T x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
template <class T>
T clamp_of(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}

ValueId emit_clamped(Emit& e, ValueId x, double low, double high) {
  return e.op(ScalarOp::min, e.op(ScalarOp::max, x, e.number(low)), e.number(high));
}
// A sixth of relu6(x + 3). A division takes as long as ten products; one product by a rounded sixth would be off to the
// same side everywhere, which adds up from layer to layer: so the sixth is taken in two parts. Of 6 it is 1 exactly.
ValueId emit_hard_gate(Emit& e) {
  constexpr double most = 0x1.555p-3, rest = 1.0 / 6 - most;
  const ValueId gate = emit_clamped(e, e.op(ScalarOp::add, e.x[0], e.number(3)), 0, 6);
  return e.op(ScalarOp::add, e.op(ScalarOp::mul, gate, e.number(most)), e.op(ScalarOp::mul, gate, e.number(rest)));
}
// log(1 + exp(x)) without overflow: max(x, 0) + log1p(exp(-|x|))
ValueId emit_softplus(Emit& e, ValueId x) {
  ValueId tail = e.op(ScalarOp::log1p, e.op(ScalarOp::exp, e.op(ScalarOp::neg, e.op(ScalarOp::abs, x))));
  return e.op(ScalarOp::add, e.op(ScalarOp::max, x, e.number(0)), tail);
}

void register_smooth(Registry& r) {
  activation(r, "gelu(Tensor self, *, str approximate='none') -> Tensor", "approximate:tanh", emit_gelu,
             float_formula<2>([](auto x, auto tanh) {
               using T = decltype(x);
               if (tanh != 0) {
                 T inner = static_cast<T>(sqrt_two_over_pi) * (x + static_cast<T>(0.044715) * x * x * x);
                 return static_cast<T>(0.5) * x * (1 + std::tanh(inner));
               }
               return x * static_cast<T>(0.5) * (1 + std::erf(x * static_cast<T>(sqrt_half)));
             }),
             {{{spec({2, 3}), std::string("tanh")}},
              {{spec({2, 3}, DType::bf16), std::string("tanh")}},
              {{spec({2, 3}, DType::i64)}, true}});
  activation(
      r, "silu(Tensor self) -> Tensor", "",
      [](Emit& e) { return e.op(ScalarOp::mul, e.x[0], e.op(ScalarOp::sigmoid, e.x[0])); },
      float_formula<1>([](auto x) { return x / (1 + std::exp(-x)); }));
  activation(
      r, "mish(Tensor self) -> Tensor", "",
      [](Emit& e) { return e.op(ScalarOp::mul, e.x[0], e.op(ScalarOp::tanh, emit_softplus(e, e.x[0]))); },
      float_formula<1>([](auto x) { return x * std::tanh(softplus_of(x)); }));
  activation(
      r, "log_sigmoid(Tensor self) -> Tensor", "",
      [](Emit& e) {  // 0 less it, as eager: a 0 without a sign
        return e.op(ScalarOp::sub, e.number(0), emit_softplus(e, e.op(ScalarOp::neg, e.x[0])));
      },
      float_formula<1>([](auto x) { return 0 - softplus_of(-x); }), {}, Takes::floats, false);
  activation(
      r, "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", "beta threshold",
      [](Emit& e) {
        ValueId scaled = e.op(ScalarOp::mul, e.x[0], e.x[1]);
        ValueId smooth = e.op(ScalarOp::div, e.op(ScalarOp::log1p, e.op(ScalarOp::exp, scaled)), e.x[1]);
        return e.k.select(e.op(ScalarOp::gt, scaled, e.x[2]), e.x[0], smooth);
      },
      float_formula<3>([](auto x, auto beta, auto threshold) {
        return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
      }),
      {{{spec({3}, DType::f32, -30, 30), Scalar(2), Scalar(10)}}}, Takes::floats, false);
}

// scale * (x > 0 ? x : alpha * (exp(x * input_scale) - 1))
ValueId emit_elu(Emit& e, ValueId alpha, ValueId scale, ValueId input_scale) {
  ValueId negative = e.op(ScalarOp::mul, e.op(ScalarOp::expm1, e.op(ScalarOp::mul, e.x[0], input_scale)), alpha);
  ValueId out = e.k.select(e.op(ScalarOp::gt, e.x[0], e.number(0)), e.x[0], negative);
  return e.op(ScalarOp::mul, out, scale);
}

void register_exponential_units(Registry& r) {
  activation(r, "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
             "alpha scale input_scale", [](Emit& e) { return emit_elu(e, e.x[1], e.x[2], e.x[3]); },
             float_formula<4>([](auto x, auto alpha, auto scale, auto input_scale) {
               return (x > 0 ? x : alpha * std::expm1(x * input_scale)) * scale;
             }),
             {{{spec({3}), Scalar(0.5), Scalar(2), Scalar(1.5)}}});
  activation(
      r, "selu(Tensor self) -> Tensor", "",
      [](Emit& e) { return emit_elu(e, e.number(selu_alpha), e.number(selu_scale), e.number(1)); },
      float_formula<1>([](auto x) {
        using T = decltype(x);
        return (x > 0 ? x : static_cast<T>(selu_alpha) * std::expm1(x)) * static_cast<T>(selu_scale);
      }));
  activation(r, "celu(Tensor self, Scalar alpha=1.0) -> Tensor", "alpha",
             [](Emit& e) { return emit_elu(e, e.x[1], e.number(1), e.op(ScalarOp::div, e.number(1), e.x[1])); },
             float_formula<2>([](auto x, auto alpha) { return x > 0 ? x : alpha * std::expm1(x / alpha); }),
             {{{spec({3}), Scalar(0.5)}}});
}

void register_piecewise(Registry& r) {
  activation(
      r, "relu(Tensor self) -> Tensor", "", [](Emit& e) { return e.op(ScalarOp::max, e.x[0], e.number(0)); },
      formula<1>([](auto x) { return x != x || x > 0 ? x : decltype(x){0}; }), {}, Takes::no_bool);
  activation(
      r, "relu6(Tensor self) -> Tensor", "", [](Emit& e) { return emit_clamped(e, e.x[0], 0, 6); },
      formula<1>([](auto x) { return clamp_of(x, decltype(x){0}, decltype(x){6}); }),
      {{{spec({3}, DType::f32, -9, 9)}}}, Takes::no_bool);
  activation(r, "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", "negative_slope",
             [](Emit& e) {
               ValueId positive = e.op(ScalarOp::gt, e.x[0], e.number(0));
               return e.k.select(positive, e.x[0], e.op(ScalarOp::mul, e.x[0], e.x[1]));
             },
             float_formula<2>([](auto x, auto slope) { return x > 0 ? x : x * slope; }), {{{spec({3}), Scalar(0.2)}}});
  activation(
      r, "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", ">min_val <max_val",
      [](Emit& e) { return e.op(ScalarOp::min, e.op(ScalarOp::max, e.x[0], e.x[1]), e.x[2]); },
      formula<3>([](auto x, auto low, auto high) { return clamp_of(x, low, high); }),
      {{{spec({3}), Scalar(-0.5), Scalar(0.25)}},
       {{spec({5}, DType::u8, 0, 9)}},
       {{spec({5}, DType::u8, 0, 9), Scalar(2), Scalar(6)}}},
      Takes::no_bool);
  activation(r, "hardsigmoid(Tensor self) -> Tensor", "", emit_hard_gate, float_formula<1>([](auto x) {
               using T = decltype(x);
               return clamp_of(x + 3, T{0}, T{6}) / 6;
             }));
  activation(
      r, "hardswish(Tensor self) -> Tensor", "", [](Emit& e) { return e.op(ScalarOp::mul, e.x[0], emit_hard_gate(e)); },
      float_formula<1>([](auto x) {
        using T = decltype(x);
        return x * clamp_of(x + 3, T{0}, T{6}) / 6;
      }));
  activation(
      r, "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", "threshold value",
      [](Emit& e) { return e.k.select(e.op(ScalarOp::le, e.x[0], e.x[1]), e.x[2], e.x[0]); },
      formula<3>([](auto x, auto threshold, auto value) { return x <= threshold ? value : x; }),
      {{{spec({2, 3}), Scalar(0.5), Scalar(-1.0)}},
       {{spec({17}, DType::bf16), Scalar(0.5), Scalar(2)}},
       {{spec({4}, DType::i64, -5, 5), Scalar(1), Scalar(7)}},
       {{spec({0, 3}), Scalar(0.5), Scalar(0.0)}}},
      Takes::no_bool);
  activation(
      r, "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", "lambd",
      [](Emit& e) {
        ValueId low = e.op(ScalarOp::ge, e.x[0], e.op(ScalarOp::neg, e.x[1]));
        ValueId inside = e.op(ScalarOp::logical_and, low, e.op(ScalarOp::le, e.x[0], e.x[1]));
        return e.k.select(inside, e.number(0), e.x[0]);
      },
      float_formula<2>([](auto x, auto l) { return x >= -l && x <= l ? decltype(x){0} : x; }), {}, Takes::floats,
      false);
  activation(
      r, "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", "lambd",
      [](Emit& e) {
        ValueId below = e.k.select(e.op(ScalarOp::lt, e.x[0], e.op(ScalarOp::neg, e.x[1])),
                                   e.op(ScalarOp::add, e.x[0], e.x[1]), e.op(ScalarOp::mul, e.x[0], e.number(0)));
        return e.k.select(e.op(ScalarOp::gt, e.x[0], e.x[1]), e.op(ScalarOp::sub, e.x[0], e.x[1]), below);
      },
      float_formula<2>([](auto x, auto l) { return x > l    ? x - l
                                                   : x < -l ? x + l
                                                            : x * 0; }), {}, Takes::floats,
      false);
}

}  // namespace

void register_activations(Registry& registry) {
  register_smooth(registry);
  register_exponential_units(registry);
  register_piecewise(registry);
  registry.describe({"silu"}, complex_by(complex_formulas::silu));
}

}  // namespace kiln
