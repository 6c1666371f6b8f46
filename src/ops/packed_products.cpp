// Matrix products with quantised operands: int8 and int4 weights with scales, the int8 linear layer that quantises its
// input and its result, and products of f8 matrices with scales.
#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

int64_t known_size(const OpCall& call, const Expr& size) {
  if (!size.is_constant())
    fail_unsupported("K0202", str(call.schema().name, ": the weight's sizes must be known"), call.where());
  return size.value();
}

Value* product(Build& b, Value* rows, Value* weight) { return b("matmul", {rows, b("t", {weight})}); }

// ---- int8 weights, one scale per row ----

void build_int8(Build& b) {
  DecomposeCall& call = b.call();
  Value *x = call.tensor("self"), *weight = call.tensor("mat2"), *scales = call.tensor("scales");
  if (!is_float(x->type.dtype)) refuse_dtype(call, x->type.dtype);
  if (weight->type.dtype != DType::i8) refuse_dtype(call, weight->type.dtype);
  if (rank_of(x) != 2 || rank_of(weight) != 2 || rank_of(scales) != 1)
    refuse(call, "K0201", "expected matrices and a vector");
  DType wide = compute_dtype(x->type.dtype);
  Value* sums = product(b, b.to(x, wide), b.to(weight, wide));
  call.result(b.to(b.mul(sums, b.to(scales, wide)), x->type.dtype));
}

// ---- int4 weights, packed for the CPU ----

// Rows go in blocks of 64. In a whole block a byte holds rows n (low half) and n + 32 of one column; in the shorter
// last block rows 2n and 2n + 1. Columns follow one another. (PyTorch's layout on AVX-512.)
constexpr int64_t block_rows = 64;

Value* cut(Build& b, Value* x, int64_t from, int64_t to) {
  return b("slice.Tensor", {x, Scalar(0), Scalar(from), Scalar(to)});
}
Value* low_half(Build& b, Value* bytes) { return b("bitwise_and.Scalar", {bytes, Scalar(15)}); }
Value* high_half(Build& b, Value* bytes) { return b("__rshift__.Scalar", {bytes, Scalar(4)}); }

Value* join(Build& b, const char* how, std::vector<Value*> parts, int64_t dim) {
  Argument::List list;
  for (Value* part : parts) list.emplace_back(part);
  return parts.size() == 1 && std::string_view(how) == "cat" ? parts[0]
                                                             : b(how, {Argument(std::move(list)), Scalar(dim)});
}

// [rows, columns / 2] bytes -> [rows, columns] numbers of 0 … 15
Value* unpacked(Build& b, Value* packed, int64_t rows, int64_t columns) {
  int64_t blocks = rows / block_rows, rest = rows % block_rows, split = blocks * block_rows * columns / 2;
  Value* flat = b("reshape", {packed, b.ints({-1})});
  std::vector<Value*> parts;
  if (blocks > 0) {
    Value* bytes = b("reshape", {cut(b, flat, 0, split), b.ints({blocks, columns, block_rows / 2})});
    Value* numbers = join(b, "cat", {low_half(b, bytes), high_half(b, bytes)}, -1);
    parts.push_back(b("reshape", {b("transpose.int", {numbers, Scalar(1), Scalar(2)}), b.ints({-1, columns})}));
  }
  if (rest > 0) {
    Value* bytes = b("reshape", {cut(b, flat, split, rows * columns / 2), b.ints({columns, rest / 2})});
    Value* numbers = join(b, "stack", {low_half(b, bytes), high_half(b, bytes)}, -1);
    parts.push_back(b("t", {b("reshape", {numbers, b.ints({columns, rest})})}));
  }
  return join(b, "cat", parts, 0);
}

Value* bytes_of(Build& b, Value* low, Value* high) {
  return b("bitwise_or.Tensor", {low, b("__lshift__.Scalar", {high, Scalar(4)})});
}

void build_pack(Build& b) {
  DecomposeCall& call = b.call();
  Value* weight = call.tensor("self");
  if (rank_of(weight) != 2 || weight->type.dtype != DType::i32) refuse(call, "K0201", "expected a matrix of int32");
  int64_t rows = known_size(call, weight->type.sizes[0]), columns = known_size(call, weight->type.sizes[1]);
  if (rows % 16 != 0 || columns % 2 != 0) refuse(call, "K0201", "rows must be a multiple of 16 and columns even");
  int64_t blocks = rows / block_rows, rest = rows % block_rows;
  Value* numbers = b.to(weight, DType::u8);
  std::vector<Value*> parts;
  if (blocks > 0) {
    Value* whole =
        b("reshape", {cut(b, numbers, 0, blocks * block_rows), b.ints({blocks, 2, block_rows / 2, columns})});
    Value* bytes =
        bytes_of(b, b("select.int", {whole, Scalar(1), Scalar(0)}), b("select.int", {whole, Scalar(1), Scalar(1)}));
    parts.push_back(b("reshape", {b("transpose.int", {bytes, Scalar(1), Scalar(2)}), b.ints({-1})}));
  }
  if (rest > 0) {
    Value* last = b("reshape", {cut(b, numbers, blocks * block_rows, rows), b.ints({rest / 2, 2, columns})});
    Value* bytes =
        bytes_of(b, b("select.int", {last, Scalar(1), Scalar(0)}), b("select.int", {last, Scalar(1), Scalar(1)}));
    parts.push_back(b("reshape", {b("t", {bytes}), b.ints({-1})}));
  }
  if (parts.empty()) refuse(call, "K0201", "the weight has no rows");
  call.result(b("reshape", {join(b, "cat", parts, 0), b.ints({rows, columns / 2})}));
}

// Each group of columns of a row has its scale and its zero: weight = (number - 8) * scale + zero.
void build_int4(Build& b) {
  DecomposeCall& call = b.call();
  Value *x = call.tensor("self"), *packed = call.tensor("mat2"), *pairs = call.tensor("qScaleAndZeros");
  if (!is_float(x->type.dtype)) refuse_dtype(call, x->type.dtype);
  if (packed->type.dtype != DType::u8) refuse_dtype(call, packed->type.dtype);
  if (rank_of(x) != 2 || rank_of(packed) != 2 || rank_of(pairs) != 3)
    refuse(call, "K0201", "expected two matrices and [groups, rows, 2]");
  int64_t rows = known_size(call, packed->type.sizes[0]), columns = 2 * known_size(call, packed->type.sizes[1]);
  int64_t group = call.constant_integer("qGroupSize");
  if (group <= 0 || columns % group != 0 || rows % 16 != 0 || rows == 0)
    refuse(call, "K0201", "sizes do not fit the groups");
  DType wide = compute_dtype(x->type.dtype);
  auto spread = [&](int64_t which) {  // [groups, rows] -> [rows, columns]
    Value* one = b.to(b("t", {b("select.int", {pairs, Scalar(2), Scalar(which)})}), wide);
    Value* wider = b("expand", {b("unsqueeze", {one, Scalar(-1)}), b.ints({rows, columns / group, group})});
    return b("reshape", {wider, b.ints({rows, columns})});
  };
  Value* numbers = b.sub(b.to(unpacked(b, packed, rows, columns), wide), Scalar(8.0));
  Value* weight = b.add(b.mul(numbers, spread(0)), spread(1));
  call.result(b.to(product(b, b.to(x, wide), weight), x->type.dtype));
}

// ---- A linear layer in int8 ----

// round(x / scale) + zero, cut to the range; given back without the zero, as f64: products of such numbers are exact.
Value* quantised(Build& b, Value* x, Value* scale, Value* zero, double low, double high) {
  Value* inverse = b("reciprocal", {b.to(scale, DType::f32)});
  Value* steps = b("round", {b.mul(b.to(x, DType::f32), inverse)});
  Value* offset = b.to(zero, DType::f32);
  return b.to(b.sub(b("clamp", {b.add(steps, offset), Scalar(low), Scalar(high)}), offset), DType::f64);
}

void build_quantised_linear(Build& b) {
  DecomposeCall& call = b.call();
  Value *x = call.tensor("X"), *weight = call.tensor("W");
  if (rank_of(weight) != 2 || rank_of(x) < 1) refuse(call, "K0201", "expected a matrix of weights");
  Value* rows = quantised(b, x, call.tensor("X_scale"), call.tensor("X_zero_point"), 0, 255);
  Value* table = quantised(b, weight, call.tensor("W_scale"), call.tensor("W_zero_point"), -128, 127);
  Value* unit = b.mul(b.to(call.tensor("X_scale"), DType::f32), b.to(call.tensor("W_scale"), DType::f32));
  Value* sums = b.add(b.to(product(b, rows, table), DType::f32), b.div(call.tensor("B"), unit));
  Value *scale = b.to(call.tensor("output_scale"), DType::f32),
        *zero = b.to(call.tensor("output_zero_point"), DType::f32);
  Value* steps = b.add(b("round", {b.mul(sums, b.div(unit, scale))}), zero);
  call.result(b.mul(b.sub(b("clamp", {steps, Scalar(0.0), Scalar(255.0)}), zero), scale));
}

// The weight is rounded to fp16 (too large values to its largest) and multiplied in f32.
void build_fp16_linear(Build& b) {
  DecomposeCall& call = b.call();
  Value *x = call.tensor("X"), *weight = call.tensor("weight");
  for (const Value* t : {x, weight})
    if (t->type.dtype != DType::f32) refuse_dtype(call, t->type.dtype);
  constexpr double largest = 65504;
  Value* rounded = b.to(b.to(b("clamp", {weight, Scalar(-largest), Scalar(largest)}), DType::f16), DType::f32);
  Argument bias = call.given("bias") ? Argument(call.tensor("bias")) : Argument();
  call.result(b("linear", {x, rounded, bias}));
}

// ---- f8 times f8, with a scale for each operand or for each row and column ----

bool is_narrow_f8(DType dtype) { return is_float(dtype) && dtype_bytes(dtype) == 1; }

bool has_size(const DecomposeCall& call, const Value* value, const Expr& rows, const Expr& columns) {
  if (rank_of(value) != 2) return false;
  const RangeEnv& ranges = call.ranges();
  return prove_eq(value->type.sizes[0], rows, ranges) != Proof::no &&
         prove_eq(value->type.sizes[1], columns, ranges) != Proof::no;
}
bool is_single(const Value* value) {
  return std::all_of(value->type.sizes.begin(), value->type.sizes.end(), [](const Expr& size) { return is_one(size); });
}

// Sums and scales in f32; the result is divided by scale_result only where it is f8, as PyTorch does.
void build_scaled(Build& b) {
  DecomposeCall& call = b.call();
  Value *x = call.tensor("self"), *y = call.tensor("mat2"), *a = call.tensor("scale_a"), *c = call.tensor("scale_b");
  for (const Value* operand : {x, y})
    if (!is_narrow_f8(operand->type.dtype)) refuse_dtype(call, operand->type.dtype);
  for (const Value* scale : {a, c})
    if (scale->type.dtype != DType::f32) refuse_dtype(call, scale->type.dtype);
  if (rank_of(x) != 2 || rank_of(y) != 2) refuse(call, "K0201", "expected two matrices");
  const bool single = is_single(a) && is_single(c);
  if (!single && !(has_size(call, a, x->type.sizes[0], Expr(1)) && has_size(call, c, Expr(1), y->type.sizes[1])))
    refuse(call, "K0201", "the scales must be one number each, or [rows, 1] and [1, columns]");
  if (single) a = b("reshape", {a, b.ints({})}), c = b("reshape", {c, b.ints({})});
  Value* sums = b("mm", {b.to(x, DType::f32), b.to(y, DType::f32)});
  Value* result = b.mul(b.mul(sums, a), c);
  if (call.given("bias")) result = b.add(result, b.to(call.tensor("bias"), DType::f32));
  const DType to = call.dtype("out_dtype").value_or(x->type.dtype);
  if (call.given("scale_result") && is_narrow_f8(to))
    result = b.div(result, b("reshape", {call.tensor("scale_result"), b.ints({})}));
  call.result(b.to(result, to));
}

}  // namespace

void register_packed_products(Registry& r) {
  add_composite(r, {.schema = "_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor",
                    .build = build_int8,
                    .samples = {{{spec({3, 4}), spec({5, 4}, DType::i8, -9, 9), spec({5})}},
                                {{spec({3, 4}, DType::bf16), spec({5, 4}, DType::i8, -9, 9), spec({5}, DType::bf16)}},
                                {{spec({3, 4}), spec({5, 4}), spec({5})}, true}}});
  add_composite(r, {.schema = "_convert_weight_to_int4pack_for_cpu(Tensor self, int innerKTiles) -> Tensor",
                    .build = build_pack,
                    .samples = {{{spec({16, 4}, DType::i32, 0, 15), Scalar(2)}},
                                {{spec({80, 2}, DType::i32, 0, 15), Scalar(2)}},
                                {{spec({3, 4}, DType::i32, 0, 15), Scalar(2)}, true}}});
  add_composite(r,
                {.schema = "_weight_int4pack_mm_for_cpu(Tensor self, Tensor mat2, int qGroupSize, Tensor "
                           "qScaleAndZeros) -> Tensor",
                 .build = build_int4,
                 .samples = {{{spec({3, 4}), spec({16, 2}, DType::u8, 0, 255), Scalar(2), spec({2, 16, 2})}},
                             {{spec({3, 4}), spec({80, 2}, DType::u8, 0, 255), Scalar(4), spec({1, 80, 2})}},
                             {{spec({3, 4}), spec({16, 2}, DType::u8, 0, 255), Scalar(3), spec({2, 16, 2})}, true}}});
  Sample::TensorSpec scale = spec({}, DType::f32, 0.1, 0.2), zero = spec({}, DType::i64, 0, 3);
  add_composite(
      r, {.schema = "wrapped_quantized_linear(Tensor X, Tensor X_scale, Tensor X_zero_point, Tensor W, Tensor "
                    "W_scale, Tensor W_zero_point, Tensor B, Tensor output_scale, Tensor output_zero_point, "
                    "int out_channel) -> Tensor",
          .build = build_quantised_linear,
          .samples = {{{spec({3, 4}), scale, zero, spec({5, 4}), scale, zero, spec({5}), scale, zero, Scalar(5)}}},
          .name_space = "_quantized"});
  add_composite(r, {.schema = "linear_dynamic_fp16_unpacked_weight(Tensor X, Tensor weight, Tensor? bias) -> Tensor",
                    .build = build_fp16_linear,
                    .samples = {{{spec({3, 4}), spec({5, 4}), spec({5})}},
                                {{spec({2, 3, 4}), spec({5, 4}), Argument::None{}}},
                                {{spec({3, 4}, DType::f64), spec({5, 4}, DType::f64), Argument::None{}}, true}},
                    .name_space = "quantized"});
  Sample::TensorSpec x = spec({3, 4}, DType::f8e4m3fn, -8, 8), y = spec({4, 5}, DType::f8e4m3fn, -8, 8),
                     one = spec({}, DType::f32, 0.25, 0.5), rows = spec({3, 1}), columns = spec({1, 5});
  const Argument::None none;
  add_composite(
      r, {.schema = "_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? "
                    "scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
          .build = build_scaled,
          .samples = {{{x, y, one, spec({1}), none, none, DType::f32}},
                      {{x, y, rows, columns, spec({5}, DType::bf16), none, DType::bf16, Scalar(true)}},
                      {{x, spec({4, 5}, DType::f8e5m2, -8, 8), one, one, spec({5}), none, DType::f16}},
                      {{x, y, one, one, none, one, none}},
                      {{x, y, one, columns, none, none, DType::f32}, true},
                      {{spec({3, 4}), spec({4, 5}), one, one}, true}}});
}

}  // namespace kiln
