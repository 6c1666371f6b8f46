// aten.fake_quantize_*: quantises and dequantises at once, in floats; what models prepared for quantisation-aware
// training hold before they are converted. Eager computes the step as a 64-bit integer. Per tensor it cuts before it
// converts and takes NaN for the lowest step; per channel it converts first, and what no integer can hold becomes the
// lowest step too.
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/quantised_ranges.h"

namespace kiln {

namespace {

struct Cut {
  Value* step;    // in the range, as a float
  Value* inside;  // whether it was in the range before
};

Cut cut_steps(Build& b, Value* steps, bool converts_first) {
  const Scalar low(b.call().constant_integer("quant_min")), high(b.call().constant_integer("quant_max"));
  if (low.as_int() > high.as_int()) refuse_quantising(b.call(), "quant_min is more than quant_max");
  Value* inside = b("logical_and", {b("ge.Scalar", {steps, low}), b("le.Scalar", {steps, high})});
  Value* lost = b("isnan", {steps});
  if (converts_first) lost = b("logical_or", {lost, b("ge.Scalar", {steps, Scalar(0x1p63)})});
  Value* lowest = b("full_like", {steps, low});
  return {b("where.self", {lost, lowest, b("clamp", {steps, low, high})}), inside};
}

// Scale and zero point in the type that eager computes in; the reciprocal is always one of f32.
struct QuantiserNumbers {
  Value *scale, *inverse, *zero;
  QuantiserNumbers(Build& b, Value* given_scale, Value* given_zero, DType wide)
      : scale(b.to(b.to(given_scale, DType::f32), wide)),
        inverse(b.to(b("reciprocal", {b.to(given_scale, DType::f32)}), wide)),
        zero(b.to(given_zero, wide)) {}
};

void fake_quantise(Build& b, Value* given_scale, Value* given_zero, bool by_channel, bool mask,
                   Value* enabled = nullptr) {
  DecomposeCall& call = b.call();
  Value* self = call.tensor("self");
  const DType dtype = self->type.dtype, wide = compute_dtype(dtype);
  if (!is_float(dtype) || dtype_bytes(dtype) == 1) refuse_dtype(call, dtype);
  const QuantiserNumbers numbers(b, given_scale, given_zero, wide);
  Value* x = b.to(self, wide);
  // A zero point that is a float is added before rounding.
  Value* steps = b.mul(x, numbers.inverse);
  steps = is_float(given_zero->type.dtype) ? b("round", {b.add(steps, numbers.zero)})
                                           : b.add(b("round", {steps}), numbers.zero);
  const Cut cut = cut_steps(b, steps, by_channel);
  Value* values = b.to(b.mul(b.sub(cut.step, numbers.zero), numbers.scale), dtype);
  Value* inside = cut.inside;
  if (enabled) {
    Value* on = b("ge.Scalar", {enabled, Scalar(1)});
    values = b("where.self", {on, values, self});
    inside = b("logical_or", {b("logical_not", {on}), inside});
  }
  call.result(0, values);
  if (mask) call.result(1, inside);
}

Value* as_tensor(Build& b, std::string_view name, DType dtype) {
  return b("full", {b.ints({}), b.call().arg(name), dtype, Argument(), b.call().tensor("self")->type.device});
}

void by_numbers(Build& b, bool mask) {
  fake_quantise(b, as_tensor(b, "scale", DType::f32), as_tensor(b, "zero_point", DType::i64), false, mask);
}

void by_tensors(Build& b, bool mask) {
  Value* enabled = mask ? single_number(b, "fake_quant_enabled") : nullptr;
  fake_quantise(b, single_number(b, "scale"), single_number(b, "zero_point"), false, mask, enabled);
}

void by_channel(Build& b, bool mask) {
  DecomposeCall& call = b.call();
  Value* self = call.tensor("self");
  if (rank_of(self) == 0) refuse_quantising(call, "the input has no dimensions");
  const auto axis = static_cast<size_t>(wrap_dim(call, call.constant_integer("axis"), rank_of(self)));
  auto spread = [&](std::string_view name) {
    Value* values = call.tensor(name);
    if (rank_of(values) != 1 || prove_eq(values->type.sizes[0], self->type.sizes[axis], call.ranges()) == Proof::no)
      refuse_quantising(call, str("'", name, "' must have one number for each channel"));
    Sizes sizes(self->type.sizes.size(), Expr(1));
    sizes[axis] = values->type.sizes[0];
    return b.view(values, sizes);
  };
  if (call.tensor("scale")->type.dtype != DType::f32) refuse_dtype(call, call.tensor("scale")->type.dtype);
  const DType zero_dtype = call.tensor("zero_point")->type.dtype;
  if (zero_dtype != DType::i32 && zero_dtype != DType::f32) refuse_dtype(call, zero_dtype);
  fake_quantise(b, spread("scale"), spread("zero_point"), true, mask);
}

}  // namespace

void register_fake_quantise(Registry& r) {
  const Sample::TensorSpec x = spec({3, 4}), narrow = spec({3, 4}, DType::bf16), wide = spec({3, 4}, DType::f64);
  const Sample::TensorSpec scale = spec({1}, DType::f32, 0.1, 0.2), zero = spec({1}, DType::i32, -3, 3);
  const Sample::TensorSpec on = spec({1}, DType::u8, 0, 1);
  const Sample::TensorSpec scales = spec({4}, DType::f32, 0.1, 0.2), zeros = spec({4}, DType::i32, -3, 3);
  const Scalar step(0.1), middle(2), low(-8), high(7);
  const std::string numbers = "(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> ";
  const std::string one = "Tensor", both = "(Tensor output, Tensor mask)";
  const std::vector<Sample> by_number = {{{x, step, middle, low, high}},
                                         {{narrow, step, middle, low, high}},
                                         {{wide, step, middle, low, high}},
                                         {{x, step, middle, high, low}, true},
                                         {{spec({3}, DType::i64), step, middle, low, high}, true}};
  add_composite(r, {.schema = "fake_quantize_per_tensor_affine" + numbers + one,
                    .build = [](Build& b) { by_numbers(b, false); },
                    .samples = by_number});
  add_composite(r, {.schema = "fake_quantize_per_tensor_affine_cachemask" + numbers + both,
                    .build = [](Build& b) { by_numbers(b, true); },
                    .samples = by_number});
  add_composite(
      r, {.schema = "fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
                    "int quant_min, int quant_max) -> Tensor",
          .build = [](Build& b) { by_tensors(b, false); },
          .samples = {{{x, scale, zero, low, high}},
                      {{narrow, spec({}, DType::f32, 0.1, 0.2), spec({}, DType::i32), low, high}},
                      {{x, scales, zero, low, high}, true}}});
  add_composite(
      r,
      {.schema = "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor "
                 "zero_point, Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
       .build = [](Build& b) { by_tensors(b, true); },
       .samples = {{{x, scale, zero, on, low, high}}, {{x, scale, zero, spec({3}), low, high}, true}}});
  const std::string channels =
      "(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> ";
  const std::vector<Sample> per_channel = {{{x, scales, zeros, Scalar(1), low, high}},
                                           {{narrow, scales, zeros, Scalar(-1), low, high}},
                                           {{x, scales, spec({4}, DType::f32), Scalar(1), low, high}},
                                           {{x, scales, zeros, Scalar(0), low, high}, true},
                                           {{x, spec({4}, DType::f64), zeros, Scalar(1), low, high}, true}};
  add_composite(r, {.schema = "fake_quantize_per_channel_affine" + channels + one,
                    .build = [](Build& b) { by_channel(b, false); },
                    .samples = per_channel});
  add_composite(r, {.schema = "fake_quantize_per_channel_affine_cachemask" + channels + both,
                    .build = [](Build& b) { by_channel(b, true); },
                    .samples = per_channel});
  r.describe({"fake_quantize_per_tensor_affine"}, autocast_to(AutocastRule::single));
}

}  // namespace kiln
