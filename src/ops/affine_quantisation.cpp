// torchao.*: quantising with one scale for each block of a tensor. A block may be the whole tensor, a row, a channel or
// a group of columns: `block_size` says how long it is in each dimension, and everything else follows from it. The
// steps and the promotion of types are torchao's, so that a value between two steps falls on eager's side.
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/quantised_ranges.h"

namespace kiln {

namespace {

bool is_plain_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

double smallest_normal(DType dtype) {
  return dtype == DType::f16 ? 0x1p-14 : dtype == DType::f64 ? 0x1p-1022 : 0x1p-126;
}

// A tensor cut into blocks: a dimension of blocks that are neither single elements nor the whole becomes two.
struct Blocks {
  Sizes split;                // the sizes with those dimensions split
  std::vector<int64_t> dims;  // of `split`: the dimensions inside blocks
  Sizes counts;               // how many blocks each dimension of the tensor has

  Sizes one_each() const {  // `split` with one element for each block
    Sizes sizes = split;
    for (int64_t dim : dims) sizes[static_cast<size_t>(dim)] = Expr(1);
    return sizes;
  }
};

Blocks blocks_of(const DecomposeCall& call, const Value* x) {
  const Sizes sizes = x->type.sizes, blocks = call.integers("block_size");
  if (blocks.size() != sizes.size())
    refuse_quantising(call, str("block_size has ", blocks.size(), " numbers for ", sizes.size(), " dimensions"));
  Blocks out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Proof whole = prove_eq(blocks[i], sizes[i], call.ranges());
    if (is_one(blocks[i]) || whole == Proof::yes) {
      if (!is_one(blocks[i])) out.dims.push_back(static_cast<int64_t>(out.split.size()));
      out.split.push_back(sizes[i]);
      out.counts.push_back(is_one(blocks[i]) ? sizes[i] : Expr(1));
      continue;
    }
    const Proof divides = prove_eq(mod(sizes[i], blocks[i]), Expr(0), call.ranges());
    if (blocks[i].is_constant() && (blocks[i].value() <= 0 || divides == Proof::no))
      refuse_quantising(
          call, str("dimension ", i, " of size ", sizes[i].text(), " is no multiple of a block of ", blocks[i].text()));
    if (whole == Proof::unknown || divides != Proof::yes)
      fail_unsupported(
          "K0253",
          str(call.schema().name, ": whether a block of ", blocks[i].text(), " is one of several in dimension ", i,
              " of size ", sizes[i].text(), " is not known before the program runs"),
          call.where());
    const Expr count = floordiv(sizes[i], blocks[i]);
    out.dims.push_back(static_cast<int64_t>(out.split.size()) + 1);
    out.split.push_back(count);
    out.split.push_back(blocks[i]);
    out.counts.push_back(count);
  }
  return out;
}

Argument reduced_dims(Build& b, const Blocks& blocks) { return b.ints(Sizes(blocks.dims.begin(), blocks.dims.end())); }

// ---- Quantising and dequantising ----

void quantise(Build& b) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor("input");
  if (!is_plain_float(input->type.dtype)) refuse_dtype(call, input->type.dtype);
  const DType dtype = *call.dtype("output_dtype");
  const QuantRange range = range_of(call, dtype);
  if (!call.given("zero_point")) refuse_quantising(call, "a zero point is needed");
  const Blocks blocks = blocks_of(call, input);
  Value *scale = b.view(call.tensor("scale"), blocks.one_each()),
        *zero = b.view(call.tensor("zero_point"), blocks.one_each());
  Value* steps = quantised_steps(b, b.view(input, blocks.split), scale, zero, range);
  call.result(b.to(b.view(steps, input->type.sizes), dtype));
}

void dequantise(Build& b) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor("input");
  const DType said = *call.dtype("input_dtype"), dtype = *call.dtype("output_dtype");
  if (input->type.dtype != said)
    refuse_quantising(
        call, str("the input is ", dtype_torch_name(input->type.dtype), ", the call says ", dtype_torch_name(said)));
  if (!is_plain_float(dtype)) refuse_dtype(call, dtype);
  range_of(call, said);
  const Blocks blocks = blocks_of(call, input);
  Value* steps = b.to(b.view(input, blocks.split), dtype);
  if (call.given("zero_point")) steps = b.sub(steps, b.to(b.view(call.tensor("zero_point"), blocks.one_each()), dtype));
  Value* values = b.mul(steps, b.view(call.tensor("scale"), blocks.one_each()));
  call.result(b.to(b.view(values, input->type.sizes), dtype));
}

// ---- Scales and zero points found in the data ----

struct Extremes {
  Value *least, *most;
};

Extremes extremes(Build& b, Value* input, const Blocks& blocks, bool keep) {
  Value* x = b.view(input, blocks.split);
  Value *least = b("amin", {x, reduced_dims(b, blocks), Scalar(keep)}),
        *most = b("amax", {x, reduced_dims(b, blocks), Scalar(keep)});
  return {b("minimum", {least, b("zeros_like", {least})}), b("maximum", {most, b("zeros_like", {most})})};
}

void choose(Build& b) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor("input");
  const DType own = input->type.dtype;
  if (!is_float(own) || dtype_bytes(own) == 1) refuse_dtype(call, own);
  const QuantRange range = range_of(call, *call.dtype("target_dtype"));
  const std::string mapping = call.string("mapping_type");
  const bool keep = call.boolean("keepdim");
  const Blocks blocks = blocks_of(call, input);
  const auto [least, most] = extremes(b, input, blocks, keep);
  Value *scale = nullptr, *zero = nullptr;
  RoundedArithmetic r(b);
  const double epsilon = call.given("eps") ? std::get<Scalar>(call.scalar("eps")).as_double() : smallest_normal(own);
  const double steps = range.high - range.low;
  std::optional<DType> zero_dtype = call.dtype("zero_point_dtype");
  if (mapping == "ASYMMETRIC") {
    scale = r("clamp", {r.div(r.sub(most, least), Scalar(steps)), Scalar(epsilon)});
    zero = r("rsub.Scalar", {r("round", {r.div(least, scale)}), bound(range.low)});
    zero = r("clamp", {zero, bound(range.low), bound(range.high)});
    if (!zero_dtype) zero_dtype = DType::i32;
  } else if (mapping == "SYMMETRIC" || mapping == "SYMMETRIC_NO_CLIPPING_ERR") {
    if (mapping == "SYMMETRIC") {
      scale = r.div(b("maximum", {b("neg", {least}), most}), Scalar(steps / 2));
    } else {
      Value *below = r.div(least, Scalar(range.low)), *above = r.div(most, Scalar(range.high));
      scale = b("where.self", {b("gt.Tensor", {below, above}), below, above});
    }
    const auto middle = static_cast<int64_t>((range.high + range.low + 1) / 2);
    zero = b("full_like", {scale, Scalar(middle)});
    scale = r("clamp", {scale, Scalar(epsilon)});
  } else {
    refuse_quantising(call, str("the mapping ", quote(mapping), " is not known"));
  }
  if (keep) scale = b.view(scale, blocks.counts), zero = b.view(zero, blocks.counts);
  call.result(0, b.to(scale, call.dtype("scale_dtype").value_or(own)));
  call.result(1, b.to(zero, zero_dtype.value_or(own)));
}

// ---- float8 ----

bool is_f8(DType dtype) { return is_float(dtype) && dtype_bytes(dtype) == 1; }

DType float8_dtype(const DecomposeCall& call, std::string_view name) {
  const DType dtype = *call.dtype(name);
  if (!is_f8(dtype)) refuse_dtype(call, dtype);
  return dtype;
}

void choose_float8(Build& b) {
  DecomposeCall& call = b.call();
  Value* x = call.tensor("tensor");
  if (!is_float(x->type.dtype) || is_f8(x->type.dtype)) refuse_dtype(call, x->type.dtype);
  const DType dtype = float8_dtype(call, "float8_dtype");
  if (*call.dtype("scale_dtype") != DType::f32) refuse_dtype(call, *call.dtype("scale_dtype"));
  const Blocks blocks = blocks_of(call, x);
  Value* largest = b("amax", {b("abs", {b.view(x, blocks.split)}), reduced_dims(b, blocks), Scalar(true)});
  RoundedArithmetic r(b);
  if (call.given("hp_value_lb") || call.given("hp_value_ub"))
    largest = r("clamp", {largest, call.arg("hp_value_lb"), call.arg("hp_value_ub")});
  Value* scale = r.div(largest, Scalar(largest_finite(dtype)));
  call.result(b.to(b.view(scale, blocks.counts), DType::f32));
}

// A scale for each block, repeated for each element of its block; one that broadcasts stays as it is.
Value* expanded_scale(Build& b, Value* scale, const Sizes& target) {
  const RangeEnv& ranges = b.call().ranges();
  const Sizes& sizes = scale->type.sizes;
  const auto fits = [&](size_t i) { return is_one(sizes[i]) || prove_eq(sizes[i], target[i], ranges) == Proof::yes; };
  if (std::all_of(sizes.begin(), sizes.end(), [](const Expr& size) { return is_one(size); })) return scale;
  if (sizes.size() != target.size())
    refuse_quantising(b.call(), str("the scale has ", sizes.size(), " dimensions, the tensor ", target.size()));
  bool all_fit = true;
  for (size_t i = 0; i < sizes.size(); ++i) all_fit = all_fit && fits(i);
  if (all_fit) return scale;
  Sizes spread, wide;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Proof divides = prove_eq(mod(target[i], sizes[i]), Expr(0), ranges);
    if (divides == Proof::no)
      refuse_quantising(b.call(), str("dimension ", i, ": ", target[i].text(), " is no multiple of ", sizes[i].text()));
    if (divides == Proof::unknown)
      fail_unsupported("K0253",
                       str(b.call().schema().name, ": how many elements share a scale in dimension ", i,
                           " is not known before the program runs"),
                       b.call().where());
    spread.insert(spread.end(), {sizes[i], Expr(1)});
    wide.insert(wide.end(), {sizes[i], floordiv(target[i], sizes[i])});
  }
  return b.view(b("expand", {b.view(scale, spread), b.ints(wide)}), target);
}

void quantise_float8(Build& b) {
  DecomposeCall& call = b.call();
  Value* x = call.tensor("tensor");
  const DType dtype = float8_dtype(call, "float8_dtype");
  Value* scaled = b.div(b.to(x, DType::f32), expanded_scale(b, call.tensor("scale"), x->type.sizes));
  const double most = largest_finite(dtype);
  call.result(b.to(b("clamp", {scaled, Scalar(-most), Scalar(most)}), dtype));
}

void dequantise_float8(Build& b) {
  DecomposeCall& call = b.call();
  Value* x = call.tensor("tensor");
  Value* values = b.mul(b.to(x, DType::f32), expanded_scale(b, call.tensor("scale"), x->type.sizes));
  call.result(b.to(values, *call.dtype("output_dtype")));
}

void add(Registry& r, std::string schema, CompositeFn build, std::vector<Sample> samples) {
  add_composite(
      r,
      {.schema = std::move(schema), .build = std::move(build), .samples = std::move(samples), .name_space = "torchao"});
}

using List = std::vector<int64_t>;

void add_affine(Registry& r) {
  const Sample::TensorSpec x = spec({4, 6}), bytes = spec({4, 6}, DType::i8, -8, 7);
  const Sample::TensorSpec per_row = spec({4, 1}, DType::f32, 0.03, 0.06), row_zeros = spec({4, 1}, DType::i8, -9, 9);
  const Sample::TensorSpec per_group = spec({4, 2}, DType::f32, 0.03, 0.06), zeros = spec({4, 2}, DType::i32, -9, 9);
  const Sample::TensorSpec whole = spec({}, DType::f32, 0.03, 0.06), whole_zero = spec({}, DType::i32, -9, 9);
  const Argument::None none;
  const Scalar least(-8), most(7);
  add(r,
      "quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype, "
      "Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor",
      quantise,
      {{{x, List{1, 6}, per_row, row_zeros, DType::i8}},
       {{x, List{1, 3}, per_group, zeros, DType::i8, least, most}},
       {{x, List{4, 6}, whole, whole_zero, DType::u8}},
       {{spec({4, 6}, DType::bf16), List{1, 3}, spec({4, 2}, DType::bf16, 0.03, 0.06), zeros, DType::i8}},
       {{spec({2, 4, 6}, DType::f16), List{1, 1, 6}, spec({2, 4}, DType::f32, 0.03, 0.06), spec({2, 4}, DType::i64),
         DType::i16}},
       {{x, List{1, 4}, per_group, zeros, DType::i8}, true},
       {{x, List{6}, per_row, row_zeros, DType::i8}, true},
       {{x, List{1, 6}, per_row, none, DType::i8}, true},
       {{x, List{1, 6}, per_row, row_zeros, DType::i8, Scalar(-300)}, true},
       {{spec({4, 6}, DType::f64), List{1, 6}, per_row, row_zeros, DType::i8}, true}});
  add(r,
      "dequantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType input_dtype, "
      "Scalar? quant_min=None, Scalar? quant_max=None, ScalarType output_dtype=float) -> Tensor",
      dequantise,
      {{{bytes, List{1, 3}, per_group, zeros, DType::i8, least, most}},
       {{bytes, List{1, 6}, per_row, none, DType::i8}},
       {{bytes, List{4, 6}, whole, whole_zero, DType::i8, none, none, DType::bf16}},
       {{bytes, List{1, 3}, spec({4, 2}, DType::f16), zeros, DType::i8, none, none, DType::f16}},
       {{bytes, List{1, 3}, per_group, zeros, DType::u8}, true},
       {{bytes, List{1, 3}, per_group, zeros, DType::i8, none, none, DType::f64}, true}});
  add(r,
      "choose_qparams_affine(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, Scalar? "
      "quant_min=None, Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? "
      "zero_point_dtype=None, bool keepdim=False) -> (Tensor, Tensor)",
      choose,
      {{{x, std::string("ASYMMETRIC"), List{1, 6}, DType::i8}},
       {{x, std::string("SYMMETRIC"), List{1, 3}, DType::i8, Scalar(-127), Scalar(127), Scalar(1e-6), DType::f32,
         DType::i8, Scalar(true)}},
       {{x, std::string("SYMMETRIC_NO_CLIPPING_ERR"), List{4, 6}, DType::i8, least, most, Scalar(1e-6), none,
         DType::i32}},
       {{spec({4, 6}, DType::bf16), std::string("ASYMMETRIC"), List{1, 3}, DType::u8, Scalar(0), Scalar(15), none,
         DType::f32, DType::i32}},
       {{spec({4, 6}, DType::f16), std::string("SYMMETRIC"), List{1, 6}, DType::i8}},
       {{x, std::string("ASYMMETRIC"), List{1, 1}, DType::i8}},
       {{x, std::string("SKEWED"), List{1, 6}, DType::i8}, true},
       {{x, std::string("SYMMETRIC"), List{1, 5}, DType::i8}, true},
       {{spec({4, 6}, DType::i32), std::string("SYMMETRIC"), List{1, 6}, DType::i8}, true}});
}

void add_float8(Registry& r) {
  const Sample::TensorSpec x = spec({4, 6}, DType::f32, -900, 900), f8 = spec({4, 6}, DType::f8e4m3fn, -99, 99);
  const Sample::TensorSpec per_row = spec({4, 1}, DType::f32, 0.5, 2), per_block = spec({2, 3}, DType::f32, 0.5, 2);
  const Argument::None none;
  add(r,
      "choose_scale_float8(Tensor tensor, SymInt[] block_size, ScalarType float8_dtype=float8_e4m3fn, ScalarType "
      "scale_dtype=float, float? hp_value_lb=None, float? hp_value_ub=None) -> Tensor",
      choose_float8,
      {{{x, List{1, 6}}},
       {{spec({4, 6}, DType::bf16), List{2, 2}, DType::f8e5m2, DType::f32, Scalar(0.5), Scalar(1.5)}},
       {{x, List{4, 6}, DType::f8e4m3fn, DType::f32, none, Scalar(100.0)}},
       {{x, List{4, 6}, DType::i8}, true},
       {{x, List{3, 6}}, true}});
  add(r,
      "quantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType float8_dtype=float8_e4m3fn) -> "
      "Tensor",
      quantise_float8,
      {{{x, per_row}},
       {{x, per_block}},
       {{spec({4, 6}, DType::bf16), spec({1}, DType::f32, 0.5, 2), DType::f8e5m2}},
       {{x, spec({3, 6})}, true},
       {{x, per_row, DType::bf16}, true}});
  add(r,
      "dequantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType output_dtype=float) -> Tensor",
      dequantise_float8,
      {{{f8, per_row}}, {{f8, per_block, DType::bf16}}, {{f8, spec({}), DType::f16}}, {{f8, spec({6})}, true}});
}

}  // namespace

void register_affine_quantisation(Registry& r) {
  add_affine(r);
  add_float8(r);
}

}  // namespace kiln
