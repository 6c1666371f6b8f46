// Comparisons, logical and bitwise operators, choice by a condition.
#include <cmath>

#include "ops/complex_formulas.h"
#include "ops/elementwise.h"

namespace kiln {

namespace {

void comparison(Registry& r, const std::string& name, const std::string& alias, ScalarOp op, Formula f) {
  Pointwise row{.schema = name + ".Tensor(Tensor self, Tensor other) -> Tensor",
                .operands = "self other",
                .rule = ResultRule::boolean,
                .emit = scalar_op(op),
                .formula = f,
                .rounds_numbers = true,
                .samples = {{{spec({4}, DType::bf16), Scalar(0.1)}}, {{spec({4}, DType::i64), Scalar(1.5)}}}};
  add_pointwise(r, row);
  add_pointwise_alias(r, row, name + ".Scalar(Tensor self, Scalar other) -> Tensor");
  if (alias.empty()) return;
  add_pointwise_alias(r, row, alias + ".Tensor(Tensor self, Tensor other) -> Tensor");
  add_pointwise_alias(r, row, alias + ".Scalar(Tensor self, Scalar other) -> Tensor");
}

ValueId truth(Emit& e, ValueId x) { return e.dtype == DType::boolean ? x : e.op(ScalarOp::ne, x, e.number(0)); }

void logical(Registry& r, const char* name, EmitFn emit, Formula f) {
  add_pointwise(r, {.schema = str(name, "(Tensor self, Tensor other) -> Tensor"),
                    .operands = "self other",
                    .rule = ResultRule::boolean,
                    .emit = std::move(emit),
                    .formula = f});
}

// bitwise_and.Tensor, .Scalar, .Scalar_Tensor and the Python operators' __and__.
void bitwise(Registry& r, const std::string& name, const std::string& python, ScalarOp op, ScalarOp for_bool, Formula f,
             Takes takes = Takes::integral, double low = 0.0, double high = 9.0) {
  Pointwise row{
      .schema = name + ".Tensor(Tensor self, Tensor other) -> Tensor",
      .operands = "self other",
      .takes = takes,
      .emit = [op, for_bool](Emit& e) { return e.op(e.dtype == DType::boolean ? for_bool : op, e.x[0], e.x[1]); },
      .formula = f,
      .low = low,
      .high = high,
      .samples = {{{spec({4}, DType::i32, 0, 9), Scalar(3)}}}};
  add_pointwise(r, row);
  std::string tensor_scalar = takes == Takes::integers ? ".Tensor_Scalar" : ".Scalar";
  add_pointwise_alias(r, row, name + tensor_scalar + "(Tensor self, Scalar other) -> Tensor");
  row.inplace = false;
  add_pointwise_alias(r, row, python + ".Tensor(Tensor self, Tensor other) -> Tensor");
  add_pointwise_alias(r, row, python + ".Scalar(Tensor self, Scalar other) -> Tensor");
  row.samples = {{{Scalar(5), spec({4}, DType::i32, 0, 9)}}};
  add_pointwise_alias(r, row, name + ".Scalar_Tensor(Scalar self, Tensor other) -> Tensor");
}

void register_bitwise(Registry& r) {
  bitwise(r, "bitwise_and", "__and__", ScalarOp::bit_and, ScalarOp::logical_and,
          int_formula<2>([](int64_t a, int64_t b) { return a & b; }));
  bitwise(r, "bitwise_or", "__or__", ScalarOp::bit_or, ScalarOp::logical_or,
          int_formula<2>([](int64_t a, int64_t b) { return a | b; }));
  bitwise(r, "bitwise_xor", "__xor__", ScalarOp::bit_xor, ScalarOp::ne,
          int_formula<2>([](int64_t a, int64_t b) { return a ^ b; }));
  bitwise(r, "bitwise_left_shift", "__lshift__", ScalarOp::shl, ScalarOp::shl, int_formula<2>([](int64_t a, int64_t b) {
            return b < 0 || b > 63 ? int64_t{0} : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
          }),
          Takes::integers, 0, 4);
  bitwise(r, "bitwise_right_shift", "__rshift__", ScalarOp::shr, ScalarOp::shr,
          int_formula<2>([](int64_t a, int64_t b) { return b < 0 || b > 63 ? (a < 0 ? int64_t{-1} : 0) : a >> b; }),
          Takes::integers, 0, 4);
}

ComputeTypes self_type(const OpCall& call, DType) {
  DType dtype = call.tensor("self")->type.dtype;
  return {dtype, dtype};
}

void register_choices(Registry& r) {
  auto choose = [](Emit& e) { return e.k.select(e.x[0], e.x[1], e.x[2]); };
  Pointwise row{.schema = "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
                .operands = "!condition self other",
                .emit = choose,
                .formula = formula<3>([](auto c, auto a, auto b) { return c != 0 ? a : b; }),
                .inplace = false,
                .rounds_numbers = true,
                .samples = {{{spec({2, 3}, DType::boolean), spec({3}), Scalar(1.5)}}}};
  add_pointwise(r, row);
  row.samples = {{{spec({2, 3}, DType::boolean), spec({3}), Scalar(1)}}};
  add_pointwise_alias(r, row, "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor");
  row.samples = {{{spec({2, 3}, DType::boolean), Scalar(0.5), spec({3}, DType::i64)}}};
  add_pointwise_alias(r, row, "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor");
  row.samples = {{{spec({2, 3}, DType::boolean), Scalar(0.5), Scalar(2)}}};
  add_pointwise_alias(r, row, "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor");

  Pointwise fill{.schema = "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
                 .operands = "self !mask value",
                 .emit = [](Emit& e) { return e.k.select(e.x[1], e.x[2], e.x[0]); },
                 .formula = formula<3>([](auto x, auto mask, auto value) { return mask != 0 ? value : x; }),
                 .rounds_numbers = true,
                 .row_major = true,
                 .samples = {{{spec({2, 3}), spec({3}, DType::boolean), Scalar(-1e9)}},
                             {{spec({3}, DType::i64), spec({2, 3}, DType::boolean), Scalar(7)}}},
                 .types = self_type};
  add_pointwise(r, fill);
  fill.samples = {{{spec({2, 3}), spec({3}, DType::boolean), spec({})}}};
  add_pointwise_alias(r, fill, "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor");
}

}  // namespace

void register_comparisons(Registry& r) {
  comparison(r, "eq", "", ScalarOp::eq, formula<2>([](auto a, auto b) { return a == b; }));
  comparison(r, "ne", "not_equal", ScalarOp::ne, formula<2>([](auto a, auto b) { return a != b; }));
  comparison(r, "lt", "less", ScalarOp::lt, formula<2>([](auto a, auto b) { return a < b; }));
  comparison(r, "le", "less_equal", ScalarOp::le, formula<2>([](auto a, auto b) { return a <= b; }));
  comparison(r, "gt", "greater", ScalarOp::gt, formula<2>([](auto a, auto b) { return a > b; }));
  comparison(r, "ge", "greater_equal", ScalarOp::ge, formula<2>([](auto a, auto b) { return a >= b; }));
  logical(
      r, "logical_and", [](Emit& e) { return e.op(ScalarOp::logical_and, truth(e, e.x[0]), truth(e, e.x[1])); },
      formula<2>([](auto a, auto b) { return a != 0 && b != 0; }));
  logical(
      r, "logical_or", [](Emit& e) { return e.op(ScalarOp::logical_or, truth(e, e.x[0]), truth(e, e.x[1])); },
      formula<2>([](auto a, auto b) { return a != 0 || b != 0; }));
  logical(
      r, "logical_xor", [](Emit& e) { return e.op(ScalarOp::ne, truth(e, e.x[0]), truth(e, e.x[1])); },
      formula<2>([](auto a, auto b) { return (a != 0) != (b != 0); }));
  register_bitwise(r);
  register_choices(r);
  r.describe({"masked_fill", "where"}, complex_by(ComplexRule::parts));
  r.describe({"eq"}, complex_by(complex_formulas::eq));
  r.describe({"logical_and"}, complex_by(complex_formulas::logical_and));
  r.describe({"logical_or"}, complex_by(complex_formulas::logical_or));
  r.describe({"logical_xor"}, complex_by(complex_formulas::logical_xor));
  r.describe({"ne"}, complex_by(complex_formulas::ne));
}

}  // namespace kiln
