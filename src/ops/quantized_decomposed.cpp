// quantized_decomposed.*: what PyTorch's export-based quantisation (pt2e) leaves in a program. A quantised tensor is an
// ordinary tensor of integers (or float8) beside its scale and zero point; quantising and dequantising are arithmetic
// in the order, and with the promotion of types, that eager has: a value that lies between two steps must fall on
// eager's side.
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/quantised_ranges.h"

namespace kiln {

namespace {

bool is_narrow(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// The input of what quantises per tensor or per channel: narrow floats are widened, other types are refused.
Value* float_input(Build& b) {
  Value* input = b.call().tensor("input");
  const DType dtype = input->type.dtype;
  if (dtype != DType::f32 && !is_narrow(dtype)) refuse_dtype(b.call(), dtype);
  return b.to(input, DType::f32);
}

DType target_dtype(Build& b) { return *b.call().dtype("dtype"); }

// ---- One scale for the whole tensor ----

// Numbers that stand in tensors are Python numbers to eager (it calls item()): of double precision, and they do not
// take part in promotion.
struct TensorNumbers {
  Value *scale, *zero;
  explicit TensorNumbers(Build& b)
      : scale(b.to(single_number(b, "scale"), DType::f64)), zero(single_number(b, "zero_point")) {}
};

void quantise_numbers(Build& b) {
  DecomposeCall& call = b.call();
  Value* input = float_input(b);
  const DType dtype = target_dtype(b);
  const QuantRange range = range_of(call, dtype);
  const double scale = std::get<Scalar>(call.scalar("scale")).as_double();
  Value* steps = b("round", {b.mul(input, Scalar(1.0 / scale))});
  steps = b.add(steps, Scalar(call.constant_integer("zero_point")));
  call.result(b.to(b("clamp", {steps, bound(range.low), bound(range.high)}), dtype));
}

// round(x * f32(1 / scale)) + zero, in f32
Value* steps_by_tensors(Build& b) {
  Value* input = float_input(b);
  const TensorNumbers numbers(b);
  Value* inverse = b.to(b("reciprocal", {numbers.scale}), DType::f32);
  return b.add(b("round", {b.mul(input, inverse)}), b.to(numbers.zero, DType::f32));
}

void quantise_tensors(Build& b) {
  const DType dtype = target_dtype(b);
  const QuantRange range = range_of(b.call(), dtype);
  Value* cut = b("clamp", {steps_by_tensors(b), bound(range.low), bound(range.high)});
  b.call().result(b.to(cut, dtype));
}

// The range itself stands in tensors: that it fits the type is checked when the program runs.
void quantise_tensor_range(Build& b) {
  const DType dtype = target_dtype(b);
  const QuantRange most = largest_range(b.call(), dtype);
  Value *low = single_number(b, "quant_min"), *high = single_number(b, "quant_max");
  b.all("_assert_async.msg",
        {b("ge.Scalar", {low, bound(most.low)}), std::string("quant_min out of bounds for dtype")});
  b.all("_assert_async.msg",
        {b("le.Scalar", {high, bound(most.high)}), std::string("quant_max out of bounds for dtype")});
  Value* cut = b("clamp.Tensor", {steps_by_tensors(b), b.to(low, DType::f32), b.to(high, DType::f32)});
  b.call().result(b.to(cut, dtype));
}

// The quantised input of what dequantises.
Value* quantised_input(Build& b) {
  Value* input = b.call().tensor("input");
  const DType dtype = target_dtype(b);
  largest_range(b.call(), dtype);
  if (input->type.dtype != dtype)
    refuse_quantising(b.call(), str("the input is ", dtype_torch_name(input->type.dtype), ", the call says ",
                                    dtype_torch_name(dtype)));
  return input;
}

DType result_dtype(Build& b) {
  const DType dtype = b.call().dtype("out_dtype").value_or(DType::f32);
  if (!is_float(dtype)) refuse_dtype(b.call(), dtype);
  return dtype;
}

void dequantise_numbers(Build& b) {
  DecomposeCall& call = b.call();
  Value* input = b.to(quantised_input(b), result_dtype(b));
  Value* steps = b.sub(input, Scalar(call.constant_integer("zero_point")));
  call.result(b.mul(steps, std::get<Scalar>(call.scalar("scale"))));
}

// Each step in the type that eager computes in, rounded to the result's type as a tensor with numbers is.
void dequantise_tensors(Build& b) {
  const DType dtype = result_dtype(b), wide = compute_dtype(dtype);
  Value* input = b.to(quantised_input(b), dtype);
  const TensorNumbers numbers(b);
  Value* steps = b.to(b.sub(b.to(input, wide), b.to(numbers.zero, wide)), dtype);
  b.call().result(b.to(b.mul(b.to(steps, wide), b.to(numbers.scale, wide)), dtype));
}

// ---- One scale for each index of a dimension ----

struct Channels {
  Value* input;
  int64_t axis;
  Channels(Build& b, Value* x) : input(x), axis(wrap_dim(b.call(), b.call().constant_integer("axis"), rank_of(x))) {
    if (rank_of(x) == 0) refuse_quantising(b.call(), "the input has no dimensions");
  }
  // [channels] -> [1, …, channels, …, 1]
  Value* spread(Build& b, std::string_view name) const {
    Value* values = b.call().tensor(name);
    if (rank_of(values) == 0) refuse_quantising(b.call(), str("'", name, "' has no dimensions"));
    const Expr channels = values->type.sizes[0];
    const Expr& wanted = input->type.sizes[static_cast<size_t>(axis)];
    if (prove_eq(channels, wanted, b.call().ranges()) == Proof::no && !is_one(channels))
      refuse_quantising(b.call(),
                        str("'", name, "' has ", channels.text(), " elements for ", wanted.text(), " channels"));
    Sizes sizes(input->type.sizes.size(), Expr(1));
    sizes[static_cast<size_t>(axis)] = channels;
    return b.view(values, sizes);
  }
};

void quantise_channels(Build& b) {
  const DType dtype = target_dtype(b);
  const QuantRange range = range_of(b.call(), dtype);
  const Channels channels(b, float_input(b));
  Value* cut =
      quantised_steps(b, channels.input, channels.spread(b, "scales"), channels.spread(b, "zero_points"), range);
  b.call().result(b.to(cut, dtype));
}

void dequantise_channels(Build& b) {
  range_of(b.call(), target_dtype(b));
  const Channels channels(b, quantised_input(b));
  Value* steps = channels.input;
  if (b.call().given("zero_points")) steps = b.sub(steps, channels.spread(b, "zero_points"));
  b.call().result(b.to(b.mul(steps, channels.spread(b, "scales")), result_dtype(b)));
}

void fake_quantise_channels(Build& b) {
  DecomposeCall& call = b.call();
  if (call.tensor("input")->type.dtype != DType::f32) refuse_dtype(call, call.tensor("input")->type.dtype);
  const Channels channels(b, call.tensor("input"));
  Value* scales = b.to(channels.spread(b, "scales"), DType::f32);
  Value* zeros = b.to(channels.spread(b, "zero_points"), DType::i32);
  const QuantRange range = {static_cast<double>(call.constant_integer("quant_min")),
                            static_cast<double>(call.constant_integer("quant_max"))};
  Value* cut = quantised_steps(b, channels.input, scales, zeros, range);
  call.result(b.mul(b.sub(cut, zeros), scales));
}

// ---- One scale for each row ----

void check_tokens(Build& b) {
  const Sizes& sizes = b.call().tensor("input")->type.sizes;
  if (sizes.empty()) refuse_quantising(b.call(), "the input has no dimensions");
  Expr tokens(1);
  for (size_t i = 0; i + 1 < sizes.size(); ++i) tokens = tokens * sizes[i];
  for (const char* name : {"scales", "zero_points"}) {
    Expr count(1);
    for (const Expr& size : b.call().tensor(name)->type.sizes) count = count * size;
    if (prove_eq(count, tokens, b.call().ranges()) == Proof::no)
      refuse_quantising(b.call(), str("'", name, "' has ", count.text(), " elements for ", tokens.text(), " tokens"));
  }
}

// The zero point is added before rounding here.
Value* rounded_steps(Build& b, Value* x, Value* scales, Value* zeros, QuantRange range) {
  RoundedArithmetic r(b);
  Value* steps = r("round", {r.add(r.mul(x, r("reciprocal", {scales})), zeros)});
  return r("clamp", {steps, bound(range.low), bound(range.high)});
}

void quantise_tokens(Build& b) {
  DecomposeCall& call = b.call();
  const DType dtype = target_dtype(b);
  const QuantRange range = range_of(call, dtype);
  check_tokens(b);
  call.result(
      b.to(rounded_steps(b, call.tensor("input"), call.tensor("scales"), call.tensor("zero_points"), range), dtype));
}

void dequantise_tokens(Build& b) {
  DecomposeCall& call = b.call();
  range_of(call, target_dtype(b));
  Value* steps = b.sub(call.tensor("input"), call.tensor("zero_points"));
  call.result(b.to(b.mul(steps, call.tensor("scales")), *call.dtype("output_dtype")));
}

// ---- One scale for each group of columns of a row ----

// [rows, columns] -> [rows * groups, columns of a group]
Value* in_groups(Build& b) {
  DecomposeCall& call = b.call();
  Value *input = call.tensor("input"), *scales = call.tensor("scales");
  if (rank_of(input) != 2) refuse_quantising(call, "the input must have 2 dimensions");
  if (rank_of(scales) == 0) refuse_quantising(call, "'scales' has no dimensions");
  int64_t group = call.constant_integer("group_size");
  if (group <= 1) refuse_quantising(call, "group_size must be more than 1");
  const Expr columns = input->type.sizes[1];
  if (!columns.is_constant())
    fail_unsupported("K0202", str(call.schema().name, ": the number of columns must be known"), call.where());
  if (group > columns.value() && is_one(scales->type.sizes.back())) group = columns.value();
  if (group == 0 || columns.value() % group != 0)
    refuse_quantising(call, str(columns.value(), " columns are no multiple of a group of ", group));
  return b("reshape", {input, b.ints({-1, group})});
}

Value* per_group(Build& b, std::string_view name) { return b("reshape", {b.call().tensor(name), b.ints({-1, 1})}); }

void quantise_groups(Build& b) {
  DecomposeCall& call = b.call();
  const DType dtype = target_dtype(b);
  const QuantRange range = {static_cast<double>(call.constant_integer("quant_min")),
                            static_cast<double>(call.constant_integer("quant_max"))};
  Value* groups = in_groups(b);
  Value* no_nan = b("logical_not", {b("any", {b("isnan", {groups})})});
  b.all("_assert_async.msg", {no_nan, std::string("to_quant must not contain NaNs")});
  Value* cut = rounded_steps(b, groups, per_group(b, "scales"), per_group(b, "zero_points"), range);
  call.result(b.view(b.to(cut, dtype), call.tensor("input")->type.sizes));
}

void dequantise_groups(Build& b) {
  DecomposeCall& call = b.call();
  Value* steps = in_groups(b);
  // Without zero points eager subtracts an int32 without dimensions, which changes nothing.
  if (call.given("zero_points")) steps = b.sub(steps, per_group(b, "zero_points"));
  Value* values = b.view(b.mul(steps, per_group(b, "scales")), call.tensor("input")->type.sizes);
  call.result(b.to(values, *call.dtype("output_dtype")));
}

// ---- Scales and zero points found in the data ----

void check_quantised_range(const DecomposeCall& call, int64_t low, int64_t high) {
  if (low > 0 || high < 0 || low >= high) refuse_quantising(call, "the range must hold 0 and more than one number");
}

Value* below_zero(Build& b, Value* x) { return b("minimum", {x, b("zeros_like", {x})}); }
Value* above_zero(Build& b, Value* x) { return b("maximum", {x, b("zeros_like", {x})}); }

void choose_per_tensor(Build& b, bool symmetric) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor("input");
  if (input->type.dtype != DType::f32 && !is_narrow(input->type.dtype)) refuse_dtype(call, input->type.dtype);
  const DType dtype = target_dtype(b);
  largest_range(call, dtype);
  const int64_t low = call.constant_integer("quant_min"), high = call.constant_integer("quant_max");
  check_quantised_range(call, low, high);
  const double steps = static_cast<double>(high - low);
  Value *least = below_zero(b, b("amin", {input, b.ints({})})), *most = above_zero(b, b("amax", {input, b.ints({})}));
  // eps is a float32 tensor with one dimension to eager, so it decides the type of a scale of narrow floats.
  const Argument epsilon = call.arg("eps");
  auto at_least_eps = [&](Value* scale) {
    Value* floor = b("full", {b.ints({1}), epsilon, DType::f32, Argument(), input->type.device});
    return b("maximum", {scale, floor});
  };
  RoundedArithmetic r(b);
  if (symmetric) {
    Value* scale = at_least_eps(r.div(b("maximum", {b("neg", {least}), most}), Scalar(steps / 2)));
    call.result(0, b.to(scale, DType::f64));
    call.result(
        1, b("full", {b.ints({1}), Scalar(dtype == DType::u8 ? 128 : 0), DType::i64, Argument(), input->type.device}));
    return;
  }
  Value* scale = at_least_eps(r.div(r.sub(most, least), Scalar(steps)));
  Value* zero = b("rsub.Scalar", {b.to(b("round", {b.div(least, scale)}), DType::i32), Scalar(low)});
  call.result(0, b.to(scale, DType::f64));
  call.result(1, b.to(b("clamp", {zero, Scalar(low), Scalar(high)}), DType::i64));
}

void choose_per_token(Build& b) {
  DecomposeCall& call = b.call();
  if (target_dtype(b) != DType::i8) refuse_quantising(call, "the target type must be int8");
  Value* largest = b("amax", {b("abs", {call.tensor("input")}), b.ints({-1}), Scalar(true)});
  if (largest->type.dtype == DType::f16) largest = b.to(largest, DType::f32);
  RoundedArithmetic r(b);
  Value* scales = r.div(r("clamp", {largest, Scalar(1e-5)}), Scalar(127));
  // PyTorch's rule for types says float64 and int64 when it exports, and eager gives float32 (bfloat16) for both.
  for (const Value* result : call.node().results)
    if (result->kind == ValueKind::tensor && result->type.dtype != scales->type.dtype)
      refuse_quantising(
          call, str("the program was exported with ", result->name, " as ", dtype_torch_name(result->type.dtype),
                    ", but PyTorch computes it as ", dtype_torch_name(scales->type.dtype),
                    "; use choose_qparams_per_token_asymmetric or torchao's choose_qparams_affine"));
  call.result(0, scales);
  call.result(1, b("zeros_like", {scales}));
}

void choose_per_token_asymmetric(Build& b) {
  DecomposeCall& call = b.call();
  constexpr int64_t low = -128, high = 127;
  Value* input = call.tensor("input");
  if (!is_float(input->type.dtype)) refuse_dtype(call, input->type.dtype);
  Value *least = below_zero(b, b("amin", {input, b.ints({-1}), Scalar(true)})),
        *most = above_zero(b, b("amax", {input, b.ints({-1}), Scalar(true)}));
  RoundedArithmetic r(b);
  Value* scale = r.div(r.sub(most, least), Scalar(static_cast<double>(high - low)));
  scale = r("clamp", {scale, Scalar(dtype_epsilon(DType::f32))});
  Value *low_steps = r.div(least, scale), *high_steps = r.div(most, scale);
  Value* error = r.add(r.add(low_steps, Scalar(low)), r.add(high_steps, Scalar(high)));
  Value* zero = b("where.self", {b("gt.Scalar", {error, Scalar(0)}), r("rsub.Scalar", {low_steps, Scalar(low)}),
                                 r("rsub.Scalar", {high_steps, Scalar(high)})});
  zero = r("round", {r("clamp", {zero, Scalar(low), Scalar(high)})});
  call.result(0, b.to(scale, DType::f64));
  call.result(1, b.to(zero, DType::i64));
}

void convert(Build& b) { b.call().result(b("_to_copy", {b.call().tensor("input"), target_dtype(b)})); }

// ---- Records ----

void add_decomposed(Registry& r, std::string schema, CompositeFn build, std::vector<Sample> samples) {
  add_composite(r, {.schema = std::move(schema),
                    .build = std::move(build),
                    .samples = std::move(samples),
                    .name_space = "quantized_decomposed"});
}

const Scalar low(-128), high(127), none_below(0), all_above(255), step(0.05), zero(3);

void add_per_tensor(Registry& r) {
  const Sample::TensorSpec x = spec({3, 4}), bytes = spec({3, 4}, DType::u8, 0, 255);
  const Sample::TensorSpec scale = spec({}, DType::f32, 0.03, 0.06), wide_scale = spec({1}, DType::f64, 0.03, 0.06);
  const Sample::TensorSpec one_zero = spec({}, DType::i64, 0, 9), long_zero = spec({1}, DType::i32, 0, 9);
  const Sample::TensorSpec minimum = spec({}, DType::i64, -100, -90), maximum = spec({}, DType::i64, 90, 100);
  const std::string numbers =
      "(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype";
  const std::string tensors =
      ".tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype";
  const std::string ranges =
      ".tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype";
  const std::string quantise = "quantize_per_tensor", dequantise = "dequantize_per_tensor";
  const std::string to = ") -> Tensor", from = ", *, ScalarType? out_dtype=None) -> Tensor";
  add_decomposed(r, quantise + numbers + to, quantise_numbers,
                 {{{x, step, zero, low, high, DType::i8}},
                  {{spec({3, 4}, DType::bf16), step, zero, none_below, all_above, DType::u8}},
                  {{spec({0, 4}, DType::f16), step, zero, low, high, DType::i32}},
                  {{spec({5}), Scalar(0.0001), Scalar(0), Scalar(0), Scalar(65535), DType::u16}},
                  {{x, step, Scalar(0), Scalar(-448), Scalar(448), DType::f8e4m3fn}},
                  {{x, step, zero, low, Scalar(128), DType::i8}, true},
                  {{x, step, zero, low, high, DType::i64}, true},
                  {{spec({3}, DType::f64), step, zero, low, high, DType::i8}, true}});
  add_decomposed(r, quantise + tensors + to, quantise_tensors,
                 {{{x, scale, one_zero, low, high, DType::i8}},
                  {{spec({2, 3}, DType::bf16), wide_scale, long_zero, none_below, all_above, DType::u8}},
                  {{spec({}), wide_scale, one_zero, low, high, DType::i16}},
                  {{x, spec({2}), one_zero, low, high, DType::i8}, true}});
  add_decomposed(r, quantise + ranges + to, quantise_tensor_range,
                 {{{x, scale, one_zero, minimum, maximum, DType::i8}},
                  {{spec({3}, DType::f16), wide_scale, long_zero, minimum, maximum, DType::i16}},
                  {{x, scale, one_zero, spec({2}, DType::i64), maximum, DType::i8}, true}});
  add_decomposed(r, dequantise + numbers + from, dequantise_numbers,
                 {{{bytes, step, zero, none_below, all_above, DType::u8}},
                  {{spec({3, 4}, DType::i8, -128, 127), step, zero, low, high, DType::i8, DType::bf16}},
                  {{spec({2}, DType::f8e4m3fn), step, Scalar(0), low, high, DType::f8e4m3fn}},
                  {{bytes, step, zero, low, high, DType::i8}, true}});
  add_decomposed(r, dequantise + tensors + from, dequantise_tensors,
                 {{{bytes, scale, one_zero, none_below, all_above, DType::u8}},
                  {{spec({3}, DType::i16, -900, 900), wide_scale, long_zero, low, high, DType::i16, DType::f16}},
                  {{spec({}, DType::i8, -9, 9), wide_scale, one_zero, low, high, DType::i8}},
                  {{bytes, spec({3}), one_zero, none_below, all_above, DType::u8}, true}});
  add_decomposed(r, dequantise + ranges + from, dequantise_tensors,
                 {{{bytes, scale, one_zero, minimum, maximum, DType::u8}},
                  {{bytes, wide_scale, long_zero, minimum, maximum, DType::u8, DType::bf16}},
                  {{bytes, scale, one_zero, minimum, maximum, DType::i8}, true}});
}

void add_per_channel(Registry& r) {
  const Sample::TensorSpec x = spec({3, 4, 2}), bytes = spec({3, 4, 2}, DType::i8, -128, 127);
  const Sample::TensorSpec scales = spec({4}, DType::f32, 0.03, 0.06), zeros = spec({4}, DType::i64, -9, 9);
  const Sample::TensorSpec wide = spec({4}, DType::f64, 0.03, 0.06), narrow_zeros = spec({4}, DType::i8, -9, 9);
  const Argument::None none;
  const std::string parts = "Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max";
  add_decomposed(r, "quantize_per_channel(Tensor input, " + parts + ", ScalarType dtype) -> Tensor", quantise_channels,
                 {{{x, scales, zeros, Scalar(1), low, high, DType::i8}},
                  {{spec({2, 4}, DType::bf16), wide, zeros, Scalar(-1), none_below, all_above, DType::u8}},
                  {{spec({4, 0}), scales, zeros, Scalar(0), low, high, DType::i8}},
                  {{x, scales, zeros, Scalar(0), low, high, DType::i8}, true},
                  {{x, scales, zeros, Scalar(3), low, high, DType::i8}, true},
                  {{x, scales, zeros, Scalar(1), low, all_above, DType::i8}, true}});
  add_decomposed(
      r,
      "dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int "
      "quant_max, "
      "ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
      dequantise_channels,
      {{{bytes, scales, zeros, Scalar(1), low, high, DType::i8}},
       {{bytes, wide, narrow_zeros, Scalar(-2), low, high, DType::i8, DType::bf16}},
       {{bytes, scales, none, Scalar(1), low, high, DType::i8}},
       {{bytes, scales, zeros, Scalar(1), low, high, DType::u8}, true},
       {{bytes, scales, zeros, Scalar(2), low, high, DType::i8}, true}});
  add_decomposed(r, "fake_quant_per_channel(Tensor input, " + parts + ") -> Tensor", fake_quantise_channels,
                 {{{x, scales, zeros, Scalar(1), low, high}},
                  {{x, wide, narrow_zeros, Scalar(1), Scalar(-8), Scalar(7)}},
                  {{spec({4}, DType::f16), scales, zeros, Scalar(0), low, high}, true}});
}

void add_per_row(Registry& r) {
  const Sample::TensorSpec x = spec({2, 3, 4}), bytes = spec({2, 3, 4}, DType::i8, -128, 127);
  const Sample::TensorSpec scales = spec({2, 3, 1}, DType::f64, 0.03, 0.06), zeros = spec({2, 3, 1}, DType::i64, -9, 9);
  const Sample::TensorSpec flat = spec({3, 1}, DType::f32, 0.03, 0.06), flat_zeros = spec({3, 1}, DType::f32, 0, 0);
  const Argument::None none;
  add_decomposed(
      r,
      "quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType "
      "dtype) -> Tensor",
      quantise_tokens,
      {{{x, scales, zeros, low, high, DType::i8}},
       {{spec({3, 4}, DType::bf16), flat, flat_zeros, low, high, DType::i8}},
       {{x, flat, flat_zeros, low, high, DType::i8}, true}});
  add_decomposed(
      r,
      "dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType "
      "dtype, ScalarType output_dtype) -> Tensor",
      dequantise_tokens,
      {{{bytes, scales, zeros, low, high, DType::i8, DType::f32}},
       {{spec({3, 4}, DType::i8, -9, 9), flat, flat_zeros, low, high, DType::i8, DType::f16}},
       {{bytes, scales, zeros, low, all_above, DType::i8, DType::f32}, true}});
  const Sample::TensorSpec rows = spec({3, 8}), row_bytes = spec({3, 8}, DType::i8, -8, 7);
  const Sample::TensorSpec groups = spec({3, 2}, DType::f32, 0.2, 0.4), group_zeros = spec({3, 2}, DType::i32, -3, 3);
  const Scalar four(4), least(-8), most(7);
  add_decomposed(
      r,
      "quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, "
      "ScalarType dtype, int group_size) -> Tensor",
      quantise_groups,
      {{{rows, groups, group_zeros, least, most, DType::i8, four}},
       {{rows, spec({3, 1}, DType::bf16, 0.2, 0.4), spec({3, 1}, DType::i8), least, most, DType::i8, Scalar(128)}},
       {{rows, groups, group_zeros, least, most, DType::i8, Scalar(3)}, true},
       {{rows, groups, group_zeros, least, most, DType::i8, Scalar(1)}, true},
       {{spec({2, 3, 8}), groups, group_zeros, least, most, DType::i8, four}, true}});
  add_decomposed(
      r,
      "dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, "
      "ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor",
      dequantise_groups,
      {{{row_bytes, groups, group_zeros, least, most, DType::i8, four, DType::f32}},
       {{row_bytes, spec({3, 2}, DType::bf16), none, least, most, DType::i8, four, DType::bf16}},
       {{row_bytes, groups, group_zeros, least, most, DType::i8, Scalar(5), DType::f32}, true}});
}

void add_choices(Registry& r) {
  const std::string arguments =
      ".tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)";
  const Scalar eps(1e-6);
  const std::vector<Sample> per_tensor = {{{spec({3, 4}), low, high, eps, DType::i8}},
                                          {{spec({3, 4}, DType::bf16), none_below, all_above, eps, DType::u8}},
                                          {{spec({5}, DType::f16, 1, 2), low, high, eps, DType::i8}},
                                          {{spec({3}, DType::f32, 0, 0), low, high, eps, DType::i8}},
                                          {{spec({3}), Scalar(1), high, eps, DType::i8}, true},
                                          {{spec({3}, DType::f64), low, high, eps, DType::i8}, true}};
  add_decomposed(
      r, "choose_qparams" + arguments, [](Build& b) { choose_per_tensor(b, false); }, per_tensor);
  add_decomposed(
      r, "choose_qparams_symmetric" + arguments, [](Build& b) { choose_per_tensor(b, true); }, per_tensor);
  add_decomposed(r, "choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)", choose_per_token,
                 {{{spec({2, 3, 4}), DType::i8}},
                  {{spec({3, 4}, DType::f16), DType::i8}},
                  {{spec({3, 4}, DType::bf16), DType::i8}},
                  {{spec({3, 4}), DType::u8}, true}});
  for (const char* name : {"choose_qparams_per_token_asymmetric", "_choose_qparams_per_token_asymmetric_impl"})
    add_decomposed(r, str(name, "(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"), choose_per_token_asymmetric,
                   {{{spec({2, 3, 4}), DType::i8}},
                    {{spec({3, 4}, DType::bf16, 0, 2), DType::i8}},
                    {{spec({3, 4}, DType::f16, -2, 0), DType::i8}},
                    {{spec({3, 4}, DType::i64), DType::i8}, true}});
  add_decomposed(r, "convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor", convert,
                 {{{spec({3, 4}), DType::bf16}}, {{spec({3, 4}, DType::bf16), DType::f32}}, {{spec({2}), DType::f32}}});
}

}  // namespace

void register_quantized_decomposed(Registry& r) {
  add_per_tensor(r);
  add_per_channel(r);
  add_per_row(r);
  add_choices(r);
}

}  // namespace kiln
