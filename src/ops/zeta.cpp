// The Hurwitz zeta function and what is made of it (polygamma), and functions of the normal distribution. All are
// computed in f64 whatever the tensor's type is; the sum is Euler and Maclaurin's, with ten terms written out.
#include <cmath>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

DType result_dtype(const Value* x) { return is_float(x->type.dtype) ? x->type.dtype : default_float; }

// sum over k >= 0 of (q + k)^-s
Value* zeta(Build& b, Value* s, Value* q) {
  constexpr int terms = 10;
  constexpr double factors[] = {12.0,
                                -720.0,
                                30240.0,
                                -1209600.0,
                                47900160.0,
                                -1.8924375803183791606e9,
                                7.47242496e10,
                                -2.950130727918164224e12,
                                1.1646782814350067249e14,
                                -4.5979787224074726105e15,
                                1.8152105401943546773e17,
                                -7.1661652561756670113e18};
  Value* minus = b("neg", {s});
  Value* sum = nullptr;
  for (int k = 0; k < terms; ++k) {
    Value* term = b("pow.Tensor_Tensor", {b.add(q, Scalar(static_cast<double>(k))), minus});
    sum = sum ? b.add(sum, term) : term;
  }
  Value* end = b.add(q, Scalar(static_cast<double>(terms)));
  Value* power = b("pow.Tensor_Tensor", {end, minus});
  sum = b.add(sum, b.div(b.mul(power, end), b.sub(s, Scalar(1.0))));
  sum = b.add(sum, b.mul(power, Scalar(0.5)));
  // power * s (s + 1) … (s + 2k) / end^(2k + 1) / factor
  Value* rising = b.div(b.mul(power, s), end);
  for (int k = 0; k < 12; ++k) {
    sum = b.add(sum, b.mul(rising, Scalar(1 / factors[k])));
    Value* next = b.mul(b.add(s, Scalar(2.0 * k + 1)), b.add(s, Scalar(2.0 * k + 2)));
    rising = b.div(b.mul(rising, next), b.mul(end, end));
  }
  return sum;
}

Value* infinite_where(Build& b, Value* condition, Value* x, double value) {
  return b("masked_fill.Scalar", {x, condition, Scalar(value)});
}

// Poles at q = 0, -1, …; the series diverges at s = 1 and is not defined below.
Value* guarded_zeta(Build& b, Value* s, Value* q) {
  Value* value = zeta(b, s, q);
  Value* negative = b("le.Scalar", {q, Scalar(0)});
  Value* whole = b("eq.Tensor", {b("floor", {q}), q});
  Value* fraction = b("ne.Tensor", {b("floor", {s}), s});
  value = infinite_where(b, b("logical_and", {negative, fraction}), value, NAN);
  value = infinite_where(b, b("logical_and", {negative, whole}), value, INFINITY);
  value = infinite_where(b, b("lt.Scalar", {s, Scalar(1)}), value, NAN);
  return infinite_where(b, b("eq.Scalar", {s, Scalar(1)}), value, INFINITY);
}

Value* wide(Build& b, const char* name, Value* like) {
  DecomposeCall& call = b.call();
  const Argument& arg = call.arg(name);
  if (arg.is_value() && arg.as_value()->kind == ValueKind::tensor) return b.to(arg.as_value(), DType::f64);
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
       {Row{"special_zeta(Tensor self, Tensor other) -> Tensor", "self", {{{s, q}}}},
        Row{"special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor", "self", {{{s, Scalar(1.5)}}}},
        Row{"special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor", "other", {{{Scalar(2), q}}}}})
    add_composite(r, {.schema = row.schema,
                      .build =
                          [tensor = row.tensor](Build& b) {
                            Value* like = b.call().tensor(tensor);
                            Value* value = guarded_zeta(b, wide(b, "self", like), wide(b, "other", like));
                            b.call().result(b.to(value, result_dtype(like)));
                          },
                      .samples = row.samples});
  for (const char* name : {"polygamma", "special_polygamma"})
    add_composite(
        r, {.schema = str(name, "(int n, Tensor self) -> Tensor"),
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
                  call.result(b.to(b.mul(guarded_zeta(b, order, x), Scalar(sign * factorial)), result_dtype(self)));
                },
            .samples = {{{Scalar(1), q}}, {{Scalar(3), q}}, {{Scalar(0), q}}, {{Scalar(-1), q}, true}}});
}

void register_normal(Registry& r) {
  auto add = [&](const char* name, std::function<Value*(Build&, Value*)> f, double low, double high) {
    add_composite(r, {.schema = str(name, "(Tensor self) -> Tensor"),
                      .build =
                          [f](Build& b) {
                            Value* self = b.call().tensor("self");
                            b.call().result(b.to(f(b, b.to(self, DType::f64)), result_dtype(self)));
                          },
                      .samples = {{{spec({2, 3}, DType::f32, low, high)}}, {{spec({4}, DType::f64, low, high)}}}});
  };
  add(
      "special_ndtr",
      [](Build& b, Value* x) { return b.mul(b("erfc", {b.mul(x, Scalar(-std::sqrt(0.5)))}), Scalar(0.5)); }, -4, 4);
  add(
      "special_ndtri",
      [](Build& b, Value* p) {
        return b.mul(b("erfinv", {b.sub(b.mul(p, Scalar(2.0)), Scalar(1.0))}), Scalar(std::sqrt(2.0)));
      },
      0.01, 0.99);
  add(
      "special_entr",
      [](Build& b, Value* x) {
        Value* value = b("neg", {b("xlogy.Tensor", {x, x})});
        return infinite_where(b, b("lt.Scalar", {x, Scalar(0)}), value, -INFINITY);
      },
      -1, 3);
}

}  // namespace

void register_zeta(Registry& r) {
  register_zetas(r);
  register_normal(r);
}

}  // namespace kiln
