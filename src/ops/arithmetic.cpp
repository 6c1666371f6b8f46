// Binary arithmetic, where, powers, clamping.
#include <cmath>
#include <limits>

#include "ops/complex_formulas.h"
#include "ops/elementwise.h"

namespace kiln {

namespace {

template <class T>
bool nan(T x) {
  return x != x;
}
template <class T>
T nan_max(T a, T b) {
  return nan(a) ? a : nan(b) ? b : a > b ? a : b;
}
template <class T>
T nan_min(T a, T b) {
  return nan(a) ? a : nan(b) ? b : a < b ? a : b;
}
// Wrapping arithmetic: PyTorch's integers overflow silently.
template <class T>
T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  return a + b;
}
template <class T>
T times(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  return a * b;
}
template <class T>
T minus(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  return a - b;
}
void check_divisor(int64_t b) {
  if (b == 0) fail_user("K0630", "ZeroDivisionError");
}
template <class T>
T truncated_quotient(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    check_divisor(b);
    return b == -1 ? minus(T{0}, a) : static_cast<T>(a / b);
  } else {
    return std::trunc(a / b);
  }
}
// Python's sign: the remainder has the divisor's.
template <class T>
T remainder_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    check_divisor(b);
    if (b == -1) return 0;
    T r = static_cast<T>(a % b);
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
  } else {
    T r = std::fmod(a, b);
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
  }
}
// Floor division as PyTorch's div_floor: exact where the quotient is, and with its treatment of infinities.
template <class T>
T floored_quotient(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    T q = truncated_quotient(a, b);
    return b != -1 && a % b != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
  } else {
    if (b == 0) return a / b;
    T r = std::fmod(a, b), q = (a - r) / b;
    if (r != 0 && ((b < 0) != (r < 0))) q -= 1;
    if (q == 0) return std::copysign(T{0}, a / b);
    T whole = std::floor(q);
    return q - whole > T{0.5} ? whole + 1 : whole;
  }
}
template <class T>
T power(T base, T exponent) {
  if constexpr (std::is_integral_v<T>) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    T out = 1;
    for (; exponent > 0; exponent >>= 1, base = times(base, base))
      if (exponent & 1) out = times(out, base);
    return out;
  } else {
    return std::pow(base, exponent);
  }
}

bool is_bool(const Emit& e) { return e.dtype == DType::boolean; }

ValueId emit_scaled(Emit& e, ValueId value, std::string_view param, ValueId factor) {
  auto number = e.call.scalar(param);
  if (const auto* constant = std::get_if<Scalar>(&number); constant && constant->as_double() == 1.0) return value;
  return is_bool(e) ? e.op(ScalarOp::logical_and, value, factor) : e.op(ScalarOp::mul, value, factor);
}

EmitFn sum_with_alpha(ScalarOp op) {
  return [op](Emit& e) {
    ValueId scaled = emit_scaled(e, e.x[1], "alpha", e.x[2]);
    return e.op(is_bool(e) ? ScalarOp::logical_or : op, e.x[0], scaled);
  };
}
EmitFn bool_or(ScalarOp op, ScalarOp for_bool) {
  return [op, for_bool](Emit& e) { return e.op(is_bool(e) ? for_bool : op, e.x[0], e.x[1]); };
}

ComputeTypes with_alpha(const OpCall& call, DType promoted) {
  auto alpha = call.scalar("alpha");
  DType kind = std::visit([](const auto& v) { return number_kind(v); }, alpha);
  if (is_integral(promoted) && is_float(kind))
    fail_user("K0203", "For integral input tensors, argument alpha must not be a floating point number.", call.where());
  return {promoted, promoted};
}

void register_sums(Registry& r) {
  auto add = formula<3>([](auto a, auto b, auto alpha) { return plus(a, times(alpha, b)); });
  auto sub = formula<3>([](auto a, auto b, auto alpha) { return minus(a, times(alpha, b)); });
  Pointwise plus_row{.schema = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                     .operands = "self other",
                     .params = "alpha",
                     .emit = sum_with_alpha(ScalarOp::add),
                     .formula = add,
                     .samples = {{{spec({2, 3}), spec({3}), Scalar(0.5)}},
                                 {{spec({3}, DType::i64), Scalar(2.5)}},
                                 {{spec({3}, DType::bf16), Scalar(0.1)}},
                                 {{spec({3}, DType::i64), spec({3}, DType::i64), Scalar(0.5)}, true}},
                     .types = with_alpha};
  add_pointwise(r, plus_row);
  Pointwise scalar_row = plus_row;
  scalar_row.schema = "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor";
  scalar_row.samples = {{{spec({2, 3}), Scalar(2)}},
                        {{spec({2, 3}, DType::i64), Scalar(1.5), Scalar(2)}},
                        {{spec({2}, DType::boolean), Scalar(true)}}};
  add_pointwise(r, scalar_row);

  Pointwise minus_row = plus_row;
  minus_row.schema = "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor";
  minus_row.emit = sum_with_alpha(ScalarOp::sub);
  minus_row.formula = sub;
  minus_row.takes = Takes::no_bool;
  add_pointwise(r, minus_row);
  minus_row.schema = "sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor";
  minus_row.samples = {{{spec({2, 3}), Scalar(2)}}, {{spec({2}, DType::u8), Scalar(3)}}};
  add_pointwise(r, minus_row);

  Pointwise reverse = minus_row;
  reverse.schema = "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor";
  reverse.inplace = false;
  reverse.samples.clear();
  reverse.emit = [](Emit& e) { return e.op(ScalarOp::sub, e.x[1], emit_scaled(e, e.x[0], "alpha", e.x[2])); };
  reverse.formula = formula<3>([](auto a, auto b, auto alpha) { return minus(b, times(alpha, a)); });
  add_pointwise(r, reverse);
  reverse.schema = "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor";
  reverse.samples = {{{spec({2, 3}), Scalar(2)}}, {{spec({2}, DType::i64), Scalar(3), Scalar(2)}}};
  add_pointwise(r, reverse);
}

const std::vector<Sample> number_samples = {
    {{spec({2, 3}), Scalar(2)}}, {{spec({2, 3}, DType::i64), Scalar(3)}}, {{spec({4}, DType::bf16), Scalar(0.3)}}};

void register_products(Registry& r) {
  Pointwise mul{.schema = "mul.Tensor(Tensor self, Tensor other) -> Tensor",
                .operands = "self other",
                .emit = bool_or(ScalarOp::mul, ScalarOp::logical_and),
                .formula = formula<2>([](auto a, auto b) { return times(a, b); }),
                .samples = number_samples};
  add_pointwise(r, mul);
  add_pointwise_alias(r, mul, "mul.Scalar(Tensor self, Scalar other) -> Tensor");
  add_pointwise_alias(r, mul, "multiply.Tensor(Tensor self, Tensor other) -> Tensor");
  add_pointwise_alias(r, mul, "multiply.Scalar(Tensor self, Scalar other) -> Tensor");

  Pointwise div{.schema = "div.Tensor(Tensor self, Tensor other) -> Tensor",
                .operands = "self other",
                .rule = ResultRule::floating,
                .emit = scalar_op(ScalarOp::div),
                .formula = float_formula<2>([](auto a, auto b) { return a / b; }),
                .low = 0.5,
                .samples = number_samples};
  add_pointwise(r, div);
  add_pointwise_alias(r, div, "div.Scalar(Tensor self, Scalar other) -> Tensor");
  add_pointwise_alias(r, div, "true_divide.Tensor(Tensor self, Tensor other) -> Tensor");
  add_pointwise_alias(r, div, "divide.Tensor(Tensor self, Tensor other) -> Tensor");
  add_pointwise_alias(r, div, "true_divide.Scalar(Tensor self, Scalar other) -> Tensor");
  add_pointwise_alias(r, div, "divide.Scalar(Tensor self, Scalar other) -> Tensor");
}

// Eager rounds a quotient of narrow floats to their type before it truncates, unless it divides by one number.
ValueId emit_rounded_quotient(Emit& e, bool floor) {
  if (is_integral(e.dtype)) return e.op(floor ? ScalarOp::floordiv : ScalarOp::div, e.x[0], e.x[1]);
  if (floor) return e.op(ScalarOp::floordiv, e.x[0], e.x[1]);
  ValueId quotient = e.op(ScalarOp::div, e.x[0], e.x[1]);
  const Operand by = operand(e.call, "other");
  const bool lone = !by.tensor || by.tensor->type.sizes.empty();
  if (e.common != e.dtype && !lone) quotient = e.k.cast(e.dtype, e.k.cast(e.common, quotient));
  return e.op(ScalarOp::trunc, quotient);
}
// The same in the reference, which knows the type by its largest number. In fp64 mode nothing is narrow.
template <class T>
T truncated_narrow_quotient(T a, T b, T largest, bool lone) {
  if constexpr (std::is_same_v<T, float>) {
    if (!lone && largest == static_cast<float>(largest_finite(DType::f16)))
      return std::trunc(f16_to_f32(f32_to_f16(a / b)));
    if (!lone && largest == static_cast<float>(largest_finite(DType::bf16)))
      return std::trunc(bf16_to_f32(f32_to_bf16(a / b)));
  }
  return truncated_quotient(a, b);
}

void register_rounded_quotients(Registry& r) {
  auto mode_of = [](const OpCall& call) { return call.given("rounding_mode") ? call.string("rounding_mode") : ""; };
  Pointwise mode{.schema = "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
                 .operands = "self other",
                 .params = "rounding_mode:trunc rounding_mode:floor @largest @lone:other",
                 .emit =
                     [mode_of](Emit& e) {
                       std::string how = mode_of(e.call);
                       if (how.empty()) return e.op(ScalarOp::div, e.x[0], e.x[1]);
                       return emit_rounded_quotient(e, how == "floor");
                     },
                 .formula = formula<6>([](auto a, auto b, auto trunc, auto floor, auto largest, auto lone) {
                   if (trunc != 0) return truncated_narrow_quotient(a, b, largest, lone != 0);
                   if (floor != 0) return floored_quotient(a, b);
                   return static_cast<decltype(a)>(a / b);
                 }),
                 .low = 1.0,
                 .high = 5.0,
                 .trailing = {std::string("floor")},
                 .samples = {{{spec({2, 3}), spec({3}, DType::f32, 0.5), Argument::None{}}},
                             {{spec({2, 3}, DType::i64, -9, 9), spec({3}, DType::i64, 1, 4), std::string("trunc")}},
                             {{spec({5}, DType::i32, -9, -1), Scalar(4), std::string("floor")}},
                             {{spec({2}), spec({2}), std::string("up")}, true}},
                 .types = [mode_of](const OpCall& call, DType promoted) -> ComputeTypes {
                   std::string how = mode_of(call);
                   if (!how.empty() && how != "trunc" && how != "floor")
                     fail_user("K0201", str("div: rounding_mode must be None, 'trunc' or 'floor', not '", how, "'"),
                               call.where());
                   if (how.empty()) return {to_float(promoted), to_float(promoted)};
                   if (promoted == DType::boolean) refuse_dtype(call, promoted);
                   return {promoted, promoted};
                 }};
  mode.takes = Takes::no_bool;
  add_pointwise(r, mode);
  add_pointwise_alias(r, mode, "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor");
  add_pointwise_alias(r, mode, "divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor");
  add_pointwise_alias(r, mode, "divide.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor");

  Pointwise floor{
      .schema = "floor_divide(Tensor self, Tensor other) -> Tensor",
      .operands = "self other",
      .takes = Takes::no_bool,
      .emit = [](Emit& e) { return emit_rounded_quotient(e, true); },
      .formula = formula<2>([](auto a, auto b) { return floored_quotient(a, b); }),
      .low = 1.0,
      .high = 6.0,
      .samples = {{{spec({5}, DType::i64, -9, 9), Scalar(4)}}, {{spec({5}, DType::f32, -9, 9), Scalar(-2.5)}}}};
  add_pointwise(r, floor);
  add_pointwise_alias(r, floor, "floor_divide.Scalar(Tensor self, Scalar other) -> Tensor");

  Pointwise rem{
      .schema = "remainder.Tensor(Tensor self, Tensor other) -> Tensor",
      .operands = "self other",
      .takes = Takes::no_bool,
      .emit = scalar_op(ScalarOp::mod),
      .formula = formula<2>([](auto a, auto b) { return remainder_of(a, b); }),
      .low = 1.0,
      .high = 6.0,
      .samples = {{{spec({5}, DType::i64, -9, 9), Scalar(4)}}, {{spec({5}, DType::f32, -9, 9), Scalar(-2.5)}}}};
  add_pointwise(r, rem);
  add_pointwise_alias(r, rem, "remainder.Scalar(Tensor self, Scalar other) -> Tensor");
  rem.schema = "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor";
  rem.inplace = false;
  rem.samples = {{{Scalar(7), spec({5}, DType::i64, 1, 9)}}};
  add_pointwise(r, rem);

  Pointwise fmod{
      .schema = "fmod.Tensor(Tensor self, Tensor other) -> Tensor",
      .operands = "self other",
      .takes = Takes::no_bool,
      .emit = scalar_op(ScalarOp::fmod),
      .formula = formula<2>([](auto a, auto b) {
        if constexpr (std::is_integral_v<decltype(a)>) {
          check_divisor(b);
          return b == -1 ? decltype(a){0} : a % b;
        } else {
          return std::fmod(a, b);
        }
      }),
      .low = 1.0,
      .high = 6.0,
      .samples = {{{spec({5}, DType::i64, -9, 9), Scalar(4)}}, {{spec({5}, DType::f32, -9, 9), Scalar(-2.5)}}}};
  add_pointwise(r, fmod);
  add_pointwise_alias(r, fmod, "fmod.Scalar(Tensor self, Scalar other) -> Tensor");
}

void register_extremes(Registry& r) {
  Pointwise max{.schema = "maximum(Tensor self, Tensor other) -> Tensor",
                .operands = "self other",
                .emit = bool_or(ScalarOp::max, ScalarOp::logical_or),
                .formula = formula<2>([](auto a, auto b) { return nan_max(a, b); }),
                .inplace = false};
  add_pointwise(r, max);
  add_pointwise_alias(r, max, "max.other(Tensor self, Tensor other) -> Tensor");
  Pointwise min{.schema = "minimum(Tensor self, Tensor other) -> Tensor",
                .operands = "self other",
                .emit = bool_or(ScalarOp::min, ScalarOp::logical_and),
                .formula = formula<2>([](auto a, auto b) { return nan_min(a, b); }),
                .inplace = false};
  add_pointwise(r, min);
  add_pointwise_alias(r, min, "min.other(Tensor self, Tensor other) -> Tensor");

  // fmax and fmin prefer the number where the other is NaN.
  auto quiet = [](ScalarOp op) {
    return [op](Emit& e) {
      if (is_bool(e)) return e.op(op == ScalarOp::max ? ScalarOp::logical_or : ScalarOp::logical_and, e.x[0], e.x[1]);
      if (is_integral(e.dtype)) return e.op(op, e.x[0], e.x[1]);
      ValueId best = e.op(op, e.x[0], e.x[1]);
      ValueId right = e.k.select(e.op(ScalarOp::is_nan, e.x[1]), e.x[0], best);
      return e.k.select(e.op(ScalarOp::is_nan, e.x[0]), e.x[1], right);
    };
  };
  add_pointwise(r, {.schema = "fmax(Tensor self, Tensor other) -> Tensor",
                    .operands = "self other",
                    .emit = quiet(ScalarOp::max),
                    .formula = formula<2>([](auto a, auto b) { return nan(a)   ? b
                                                                      : nan(b) ? a
                                                                      : a > b  ? a
                                                                               : b; }),
                    .inplace = false});
  add_pointwise(r, {.schema = "fmin(Tensor self, Tensor other) -> Tensor",
                    .operands = "self other",
                    .emit = quiet(ScalarOp::min),
                    .formula = formula<2>([](auto a, auto b) { return nan(a)   ? b
                                                                      : nan(b) ? a
                                                                      : a < b  ? a
                                                                               : b; }),
                    .inplace = false});
}

ValueId emit_max(Emit& e, ValueId a, ValueId b) {
  return e.op(is_bool(e) ? ScalarOp::logical_or : ScalarOp::max, a, b);
}
ValueId emit_min(Emit& e, ValueId a, ValueId b) {
  return e.op(is_bool(e) ? ScalarOp::logical_and : ScalarOp::min, a, b);
}

ValueId emit_clamp(Emit& e) {
  ValueId out = e.x[0];
  if (e.x[1] != loops::no_value) out = emit_max(e, out, e.x[1]);
  if (e.x[2] != loops::no_value) out = emit_min(e, out, e.x[2]);
  return out;
}

void register_clamps(Registry& r) {
  auto check = [](const OpCall& call, DType promoted) -> ComputeTypes {
    if (!call.given("min") && !call.given("max"))
      fail_user("K0201", "torch.clamp: At least one of 'min' or 'max' must not be None", call.where());
    return {promoted, promoted};
  };
  Pointwise clamp{.schema = "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
                  .operands = "self >min?- <max?+",
                  .emit = emit_clamp,
                  .formula = formula<3>([](auto x, auto low, auto high) { return nan_min(nan_max(x, low), high); }),
                  .rounds_numbers = true,
                  .samples = {{{spec({2, 3}), Scalar(-0.5), Scalar(0.5)}},
                              {{spec({2, 3}), Argument::None{}, Scalar(0)}},
                              {{spec({4}, DType::i64, -9, 9), Scalar(-3)}},
                              {{spec({4}, DType::bf16), Scalar(0.1), Scalar(1.0)}},
                              {{spec({0}), Scalar(1), Argument::None{}}},
                              {{spec({4}, DType::i64, -9, 9), Scalar(0.5)}},
                              {{spec({4}, DType::u8, 0, 255), Scalar(-3), Scalar(300)}},
                              {{spec({4}, DType::i16, -9, 9), Argument::None{}, Scalar(40000)}},
                              {{spec({4}, DType::i32, -9, 9), Scalar(-(int64_t{1} << 40))}},
                              {{spec({4}, DType::u8, 0, 255), Argument::None{}, Scalar(-1)}, true},
                              {{spec({2})}, true}},
                  .types = check};
  add_pointwise(r, clamp);
  add_pointwise_alias(r, clamp, "clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor");
  clamp.schema = "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor";
  clamp.samples = {{{spec({2, 3}), Argument::None{}, spec({3})}}, {{spec({2, 3}), spec({2, 1})}}};
  add_pointwise(r, clamp);
  add_pointwise_alias(r, clamp, "clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor");

  Pointwise low{.schema = "clamp_min(Tensor self, Scalar min) -> Tensor",
                .operands = "self >min",
                .emit = [](Emit& e) { return emit_max(e, e.x[0], e.x[1]); },
                .formula = formula<2>([](auto x, auto min) { return nan_max(x, min); }),
                .rounds_numbers = true,
                .samples = {{{spec({2, 3}), Scalar(0)}}, {{spec({2}, DType::i64, -9, 9), Scalar(1.5)}}}};
  add_pointwise(r, low);
  add_pointwise_alias(r, low, "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor");
  Pointwise high{.schema = "clamp_max(Tensor self, Scalar max) -> Tensor",
                 .operands = "self <max",
                 .emit = [](Emit& e) { return emit_min(e, e.x[0], e.x[1]); },
                 .formula = formula<2>([](auto x, auto max) { return nan_min(x, max); }),
                 .rounds_numbers = true,
                 .samples = {{{spec({2, 3}), Scalar(0)}}, {{spec({2}, DType::i64, -9, 9), Scalar(1.5)}}}};
  add_pointwise(r, high);
  add_pointwise_alias(r, high, "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor");
}

// x ** constant where a cheaper exact form exists (eager uses the same ones).
std::optional<ValueId> emit_small_power(Emit& e, double exponent) {
  ValueId x = e.x[0];
  if (exponent == 0.0) return e.number(1);
  if (exponent == 1.0) return x;
  if (exponent == 2.0) return e.op(ScalarOp::mul, x, x);
  if (exponent == 3.0) return e.op(ScalarOp::mul, e.op(ScalarOp::mul, x, x), x);
  if (!is_float(e.dtype)) return std::nullopt;
  if (std::fabs(exponent) == 0.5 && e.common == DType::f16) return std::nullopt;  // eager's f16 has no square root here
  if (exponent == 0.5) return e.op(ScalarOp::sqrt, x);
  if (exponent == -0.5) return e.op(ScalarOp::rsqrt, x);
  if (exponent == -1.0) return e.op(ScalarOp::div, e.number(1), x);
  if (exponent == -2.0) return e.op(ScalarOp::div, e.number(1), e.op(ScalarOp::mul, x, x));
  return std::nullopt;
}

void register_powers(Registry& r) {
  auto check = [](const OpCall& call, DType promoted) -> ComputeTypes {
    auto exponent = operand(call, "exponent");
    const auto* constant = std::get_if<Scalar>(&exponent.number);
    if (!exponent.tensor && constant && is_integral(promoted) && constant->as_int() < 0)
      fail_user("K0203", "Integers to negative integer powers are not allowed.", call.where());
    if (promoted == DType::boolean && exponent.tensor) refuse_dtype(call, promoted);
    return {promoted, promoted};
  };
  auto general = formula<2>([](auto base, auto exponent) { return power(base, exponent); });
  Pointwise row{.schema = "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
                .operands = "self exponent",
                .params = "@largest",
                .emit =
                    [](Emit& e) {
                      auto number = operand(e.call, "exponent").number;
                      if (const auto* constant = std::get_if<Scalar>(&number))
                        if (auto small = emit_small_power(e, constant->as_double())) return *small;
                      return e.op(ScalarOp::pow, e.x[0], e.x[1]);
                    },
                .formula = formula<3>([](auto base, auto exponent, auto largest) {
                  if constexpr (std::is_floating_point_v<decltype(base)>) {
                    // -inf and -0 under a square root are not what pow says.
                    const bool root = largest != static_cast<decltype(base)>(largest_finite(DType::f16));
                    if (root && exponent == 0.5) return std::sqrt(base);
                    if (root && exponent == -0.5) return 1 / std::sqrt(base);
                  }
                  return power(base, exponent);
                }),
                .samples = {{{spec({2, 3}), Scalar(2)}},
                            {{spec({2, 3}, DType::f32, 0.1), Scalar(0.5)}},
                            {{spec({2, 3}, DType::f32, 0.1), Scalar(-1.7)}},
                            {{spec({4}, DType::i64, -4, 4), Scalar(3)}},
                            {{spec({4}, DType::i64, 0, 4), Scalar(1.5)}},
                            {{spec({4}, DType::bf16), Scalar(2.0)}},
                            {{spec({4}, DType::i64), Scalar(-1)}, true}},
                .types = check};
  add_pointwise(r, row);
  row.schema = "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor";
  row.params = "";
  row.formula = general;
  row.emit = scalar_op(ScalarOp::pow);
  row.takes = Takes::no_bool;
  row.low = 0.5;
  row.samples = {{{spec({4}, DType::i64, -3, 3), spec({4}, DType::i64, 0, 5)}}};
  add_pointwise(r, row);
  row.schema = "pow.Scalar(Scalar self, Tensor exponent) -> Tensor";
  row.inplace = false;
  row.samples = {{{Scalar(2.5), spec({2, 3})}}, {{Scalar(2), spec({3}, DType::i64, 0, 5)}}};
  add_pointwise(r, row);

  // float_power computes in f64 whatever it is given.
  auto wide = [](const OpCall&, DType) -> ComputeTypes { return {DType::f64, DType::f64}; };
  Pointwise wide_row{.schema = "float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
                     .operands = "self exponent",
                     .emit = scalar_op(ScalarOp::pow),
                     .formula = float_formula<2>([](auto a, auto b) { return std::pow(a, b); }),
                     .low = 0.5,
                     .types = wide};
  add_pointwise(r, wide_row);
  wide_row.schema = "float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor";
  wide_row.samples = {{{spec({2, 3}), Scalar(2)}}, {{spec({3}, DType::i64, 1, 4), Scalar(-0.5)}}};
  add_pointwise(r, wide_row);
  wide_row.inplace = false;
  wide_row.schema = "float_power.Scalar(Scalar self, Tensor exponent) -> Tensor";
  wide_row.samples = {{{Scalar(2), spec({2, 3})}}};
  add_pointwise(r, wide_row);
}

}  // namespace

void register_arithmetic(Registry& registry) {
  register_sums(registry);
  register_products(registry);
  register_rounded_quotients(registry);
  register_extremes(registry);
  register_clamps(registry);
  register_powers(registry);
  registry.describe({"add"}, complex_by(complex_formulas::add));
  registry.describe({"div.Scalar", "div.Tensor", "divide.Scalar", "divide.Tensor", "true_divide"},
                    complex_by(complex_formulas::div));
  registry.describe({"mul", "multiply"}, complex_by(complex_formulas::mul));
  registry.describe({"pow.Tensor_Scalar"}, complex_by(complex_formulas::pow));
  registry.describe({"pow.Tensor_Tensor", "pow.Scalar"}, complex_by(complex_formulas::tensor_pow));
  registry.describe({"rsub"}, complex_by(complex_formulas::rsub));
  registry.describe({"sub"}, complex_by(complex_formulas::sub));
}

}  // namespace kiln
