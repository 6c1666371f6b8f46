// aten.poisson: numbers of a Poisson distribution, as the distribution's quantile at uniform numbers. Finding the
// quantile is a search of unknown length, so it is a library kernel.
#include <cmath>

#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

// The smallest k with P(X <= k) > u, from log probabilities counted downwards and upwards from the mode.
double reference_quantile(double rate, double u) {
  if (!(rate > 0)) return rate == 0 ? 0 : NAN;
  auto chance = [&](double k) { return std::exp(k * std::log(rate) - rate - std::lgamma(k + 1)); };
  double reach = 12 * std::sqrt(rate) + 40, k = std::max(0.0, std::floor(rate - reach)), below = 0;
  for (; k < rate + reach; ++k) {
    below += chance(k);
    if (below > u) return k;
  }
  return k;
}

void add_quantile(Registry& r) {
  OpRecord record;
  record.name_space = "kiln";
  record.schema_text = "poisson_quantile(Tensor rates, Tensor uniform) -> Tensor";
  record.library = "poisson_quantile";
  record.infer = [](InferCall& call) {
    const TensorType& rates = call.tensor("rates")->type;
    call.results = {contiguous_type(DType::f64, rates.sizes, rates.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor rates = call.tensor("rates");
    std::vector<double> rate = read_dense<double>(rates), u = read_dense<double>(call.tensor("uniform")), out;
    for (size_t i = 0; i < rate.size(); ++i) out.push_back(reference_quantile(rate[i], u[i]));
    Tensor result = new_result(call, rates.sizes);
    write_dense(result, out);
    call.results = {Datum{result}};
  };
  record.samples = {{{spec({3, 4}, DType::f64, 0, 9), spec({3, 4}, DType::f64, 0, 1)}},
                    {{spec({}, DType::f64, 500, 900), spec({}, DType::f64, 0, 1)}},
                    {{spec({0}, DType::f64), spec({0}, DType::f64)}}};
  r.add(std::move(record));
}

}  // namespace

void register_poisson(Registry& r) {
  add_quantile(r);
  add_composite(r, {.schema = "poisson(Tensor self, Generator? generator=None) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value* self = call.tensor("self");
                          if (!is_float(self->type.dtype)) refuse_dtype(call, self->type.dtype);
                          Value* rates = b.contiguous(b.to(self, DType::f64));
                          Value* u = call.call("kiln.random_uniform.default", {b.ints(self->type.sizes), DType::f64});
                          Value* drawn = call.call("kiln.poisson_quantile.default", {rates, u});
                          call.result(b.to(drawn, self->type.dtype));
                        },
                    .samples = {{{spec({3, 4}, DType::f32, 0, 5)}},
                                {{spec({2}, DType::bf16, 0, 5)}},
                                {{spec({2}, DType::i64, 0, 5)}, true}},
                    .random = true});
}

}  // namespace kiln
