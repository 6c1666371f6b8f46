// aten.frexp: a float as mantissa (of magnitude [0.5, 1)) and exponent, taken from its bits.
#include <cmath>

#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/layout.h"

namespace kiln {

namespace {

using loops::KernelBuilder;

struct FloatBits {
  DType real, bits;
  int64_t mantissa_bits, exponent_mask, half_exponent;  // the exponent's code for [0.5, 1)
  double lift;                                          // makes every subnormal normal
  int64_t lift_exponent;
};
FloatBits bits_of(DType dtype) {
  if (dtype == DType::f64) return {DType::f64, DType::i64, 52, 0x7ff, 1022, 0x1p54, 54};
  return {DType::f32, DType::i32, 23, 0xff, 126, 0x1p25, 25};
}

void lower_frexp(LowerCall& call) {
  const Value* self = call.tensor("self");
  FloatBits f = bits_of(self->type.dtype);
  auto integer = [&](KernelBuilder& k, int64_t v) { return k.constant(f.bits, Scalar(v)); };
  call.kernel([&](KernelBuilder& k) {
    k.parallel(self->type.sizes, [&](const std::vector<Expr>& i) {
      ValueId x = k.load_compute(call.buffer(self), i);
      auto real = [&](double v) { return k.constant(f.real, Scalar(v)); };
      ValueId size = k.op(ScalarOp::abs, x);
      ValueId tiny = k.op(ScalarOp::lt, size, real(f.real == DType::f64 ? 0x1p-1022 : 0x1p-126));
      ValueId lifted = k.select(tiny, k.op(ScalarOp::mul, x, real(f.lift)), x);
      ValueId bits = k.bitcast(f.bits, lifted);
      ValueId code =
          k.op(ScalarOp::bit_and, k.op(ScalarOp::shr, bits, integer(k, f.mantissa_bits)), integer(k, f.exponent_mask));
      ValueId exponent = k.op(ScalarOp::sub, code, integer(k, f.half_exponent));
      exponent = k.op(ScalarOp::sub, exponent, k.select(tiny, integer(k, f.lift_exponent), integer(k, 0)));
      ValueId cleared = k.op(ScalarOp::bit_and, bits, integer(k, ~(f.exponent_mask << f.mantissa_bits)));
      ValueId mantissa =
          k.bitcast(f.real, k.op(ScalarOp::bit_or, cleared, integer(k, f.half_exponent << f.mantissa_bits)));
      // Zero, infinities and NaN are their own mantissa.
      ValueId special = k.op(ScalarOp::logical_or, k.op(ScalarOp::eq, x, real(0)),
                             k.op(ScalarOp::eq, code, integer(k, f.exponent_mask)));
      k.store(call.output(0), i, k.select(special, x, mantissa));
      k.store(call.output(1), i, k.as(DType::i32, k.select(special, integer(k, 0), exponent)));
    });
  });
}

}  // namespace

void register_frexp(Registry& r) {
  OpRecord record;
  record.schema_text = "frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)";
  record.infer = [](InferCall& call) {
    const Value* self = call.tensor("self");
    if (!is_float(self->type.dtype)) refuse_dtype(call, self->type.dtype);
    call.results = {elementwise_type(call, {self}, self->type.dtype), elementwise_type(call, {self}, DType::i32)};
  };
  record.lower = lower_frexp;
  record.reference = [](ReferenceCall& call) {
    Tensor self = call.tensor("self");
    Tensor mantissa = elementwise_result(call, {self}, call.result_dtype(0)),
           exponent = elementwise_result(call, {self}, DType::i32);
    std::vector<double> x = read_dense<double>(self), parts;
    std::vector<int64_t> powers;
    for (double value : x) {
      int power = 0;
      double part = std::frexp(value, &power);
      parts.push_back(part);
      powers.push_back(std::isfinite(value) ? power : 0);
    }
    write_dense(mantissa, parts);
    write_dense(exponent, powers);
    call.results = {Datum{mantissa}, Datum{exponent}};
  };
  record.samples = {
      {{spec({2, 3}, DType::f32, -99, 99)}}, {{spec({4}, DType::f64, -0.01, 0.01)}}, {{spec({4}, DType::bf16)}},
      {{spec({4}, DType::f32, 0, 1e-42)}},   {{spec({3}, DType::f32, 0, 0)}},        {{spec({3}, DType::i64)}, true}};
  r.add(std::move(record));
}

}  // namespace kiln
