// The Hurwitz zeta function and what is made of it (polygamma), and functions of the normal distribution. All are
// computed in f64 whatever the tensor's type is; the zeta function itself is a library kernel.
#include <cmath>

#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

DType zeta_dtype(const Value* x) { return is_float(x->type.dtype) ? x->type.dtype : default_float; }

Value* filled_where(Build& b, Value* condition, Value* x, double value) {
  return b("masked_fill.Scalar", {x, condition, Scalar(value)});
}

// The sum over k >= 0 of (q + k)^-s, in long double: forty terms more than the kernel takes, and a short remainder.
double reference_zeta(double s, double q) {
  if (s == 1) return INFINITY;
  if (!(s > 1) || std::isnan(q)) return NAN;
  if (q <= 0 && q == std::floor(q)) return INFINITY;
  if (q <= 0 && s != std::floor(s)) return NAN;
  if (q < -100) {  // the terms from k = -inf on repeat with a period of 1
    const double part = q - std::floor(q), sign = std::fmod(s, 2) == 1 ? -1 : 1;
    return (reference_zeta(s, part) + sign * reference_zeta(s, 1 - part)) - sign * reference_zeta(s, 1 - q);
  }
  long double sum = 0, at = q, power = s;
  for (int k = 0; k < 40 || at <= 40; ++k, ++at) sum += std::pow(at, -power);
  long double last = std::pow(at, -power), square = at * at;
  if (std::isinf(s) && !std::isinf(q)) return static_cast<double>(sum);  // of infinite q NaN, as eager's
  sum += last * at / (power - 1) + last / 2;
  long double rising = last * power / at;
  for (long double factor : {12.0L, -720.0L, 30240.0L, -1209600.0L}) {
    sum += rising / factor;
    rising *= (power + 1) * (power + 2) / square;
    power += 2;
  }
  return static_cast<double>(sum);
}

void register_zeta_kernel(Registry& r) {
  OpRecord record;
  record.name_space = "kiln";
  record.schema_text = "special_zeta(Tensor x, Tensor y) -> Tensor";
  record.library = "special_zeta";
  record.infer = [](InferCall& call) {
    const TensorType& x = call.tensor("x")->type;
    call.results = {contiguous_type(DType::f64, x.sizes, x.device)};
  };
  record.reference = [](ReferenceCall& call) {
    std::vector<double> s = read_dense<double>(call.tensor("x")), q = read_dense<double>(call.tensor("y")), out;
    for (size_t i = 0; i < s.size(); ++i) out.push_back(reference_zeta(s[i], q[i]));
    Tensor result = new_result(call, call.tensor("x").sizes);
    write_dense(result, out);
    call.results = {Datum{result}};
  };
  record.samples = {{{spec({3, 4}, DType::f64, 0.5, 6), spec({3, 4}, DType::f64, 0.1, 20)}},
                    {{spec({3, 4}, DType::f64, 3, 3), spec({3, 4}, DType::f64, -15, 3)}},
                    {{spec({0}, DType::f64), spec({0}, DType::f64)}}};
  r.add(std::move(record));
}

Value* zeta(Build& b, Value* s, Value* q) {
  Argument sizes = b.ints(broadcast_sizes(b.call(), {s->type.sizes, q->type.sizes}, b.call().ranges()));
  auto dense = [&](Value* x) { return b.contiguous(b("expand", {x, sizes})); };
  return b.call().call("kiln.special_zeta.default", {dense(s), dense(q)});
}

// In f64, after it was rounded to the type that the operands promote to.
Value* wide(Build& b, const char* name, Value* like, DType dtype) {
  DecomposeCall& call = b.call();
  const Argument& arg = call.arg(name);
  if (arg.is_value() && arg.as_value()->kind == ValueKind::tensor) return b.to(b.to(arg.as_value(), dtype), DType::f64);
  return b("full_like", {b.to(like, DType::f64), arg});
}

void register_zetas(Registry& r) {
  Sample::TensorSpec s = spec({2, 3}, DType::f32, 1.2, 5), q = spec({2, 3}, DType::f32, 0.3, 9);
  struct Row {
    std::string schema;
    const char* tensor;
    std::vector<Sample> samples;
  };
  for (const Row& row :
       {Row{"special_zeta(Tensor self, Tensor other) -> Tensor",
            "self",
            {{{s, q}}, {{spec({2, 3}, DType::i64, 2, 5), spec({3}, DType::f64, 0.3, 9)}}}},
        Row{"special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor", "self", {{{s, Scalar(1.5)}}}},
        Row{"special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor", "other", {{{Scalar(2), q}}}}})
    add_composite(r, {.schema = row.schema,
                      .build =
                          [tensor = row.tensor](Build& b) {
                            Value* like = b.call().tensor(tensor);
                            Promotion promotion;
                            for (const char* name : {"self", "other"}) add_operand(promotion, operand(b.call(), name));
                            const DType dtype = to_float(promotion.result());
                            if (is_complex(dtype)) refuse_dtype(b.call(), dtype);
                            Value *first = wide(b, "self", like, dtype), *second = wide(b, "other", like, dtype);
                            b.call().result(b.to(zeta(b, first, second), dtype));
                          },
                      .samples = row.samples});
  for (const char* name : {"polygamma", "special_polygamma"})
    add_composite(r, {.schema = str(name, "(int n, Tensor self) -> Tensor"),
                      .build =
                          [](Build& b) {
                            DecomposeCall& call = b.call();
                            Value* self = call.tensor("self");
                            int64_t n = call.constant_integer("n");
                            if (n < 0) fail_user("K0201", "polygamma(n, x) does not support negative n.", call.where());
                            if (n == 0) return call.result(b("digamma", {self}));
                            Value* x = b.to(self, DType::f64);
                            double sign = n % 2 ? 1 : -1, factorial = std::tgamma(static_cast<double>(n) + 1);
                            Value* order = b("full_like", {x, Scalar(static_cast<double>(n) + 1)});
                            Value* value = b.mul(zeta(b, order, x), Scalar(sign * factorial));
                            if (n == 1) {  // eager has a function of its own for it, of which infinity is no sum
                              value = filled_where(b, b("eq.Scalar", {x, Scalar(INFINITY)}), value, 0);
                              value = filled_where(b, b("eq.Scalar", {x, Scalar(-INFINITY)}), value, NAN);
                            }
                            call.result(b.to(value, zeta_dtype(self)));
                          },
                      .samples = {{{Scalar(1), q}},
                                  {{Scalar(1), spec({3}, DType::f64, -1e15, -1e12)}},
                                  {{Scalar(3), q}},
                                  {{Scalar(0), q}},
                                  {{Scalar(-1), q}, true}}});
}

void register_normal(Registry& r) {
  auto add = [&](const char* name, std::function<Value*(Build&, Value*)> f, double low, double high) {
    add_composite(r, {.schema = str(name, "(Tensor self) -> Tensor"),
                      .build =
                          [f](Build& b) {
                            Value* self = b.call().tensor("self");
                            b.call().result(b.to(f(b, b.to(self, DType::f64)), zeta_dtype(self)));
                          },
                      .samples = {{{spec({2, 3}, DType::f32, low, high)}}, {{spec({4}, DType::f64, low, high)}}}});
  };
  add(
      "special_ndtr",
      [](Build& b, Value* x) { return b.mul(b("erfc", {b.mul(x, Scalar(-std::sqrt(0.5)))}), Scalar(0.5)); }, -4, 4);
  add(
      "special_entr",
      [](Build& b, Value* x) {
        Value* value = b("neg", {b("xlogy.Tensor", {x, x})});
        value = filled_where(b, b("eq.Scalar", {x, Scalar(0)}), value, 0);  // without a sign
        return filled_where(b, b("lt.Scalar", {x, Scalar(0)}), value, -INFINITY);
      },
      -1, 3);
}

}  // namespace

void register_zeta(Registry& r) {
  register_zeta_kernel(r);
  register_zetas(r);
  register_normal(r);
}

}  // namespace kiln
