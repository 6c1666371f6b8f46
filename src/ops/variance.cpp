// Variance and standard deviation, alone and together with the mean.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/promotion.h"
#include "ops/reduce_parts.h"
#include "ops/reduce_table.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

// What is subtracted from the count: `correction`, or 1 for unbiased.
double correction_of(const OpCall& call) {
  if (call.schema().find("correction") >= 0) {
    if (!call.given("correction")) return 1;
    auto number = call.scalar("correction");
    const auto* constant = std::get_if<Scalar>(&number);
    if (!constant) fail_unsupported("K0202", str(call.schema().name, ": correction must be a constant"), call.where());
    return constant->as_double();
  }
  return call.boolean("unbiased") ? 1 : 0;
}

struct Moments {
  double mean, m2;
};
Moments moments(const double* x, int64_t n) {
  double sum = 0, m2 = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  double mean = sum / static_cast<double>(n);
  if (std::isinf(mean)) mean = NAN;  // as it is once an element follows the infinite one
  for (int64_t i = 0; i < n; ++i) m2 += (x[i] - mean) * (x[i] - mean);
  return {mean, m2};
}
double variance(double m2, int64_t n, double correction) {
  return m2 / std::max(static_cast<double>(n) - correction, 0.0);
}

template <bool root, bool with_mean>
GroupFormula variance_formula() {
  return float_group_formula([](const double* x, int64_t n, double* out, double correction) {
    Moments m = moments(x, n);
    double v = variance(m.m2, n, correction);
    out[0] = root ? std::sqrt(v) : v;
    if (with_mean) out[1] = m.mean;
  });
}

template <bool root, bool with_mean>
void add_family(Registry& r, const std::string& name) {
  ReduceRow row;
  row.types = [](const OpCall& call, DType self) -> ReduceTypes {
    if (is_complex(self) && !with_mean) return {self, {complex_part(self)}};
    if (!is_float(self)) refuse_dtype(call, self);
    return {self, std::vector<DType>(with_mean ? 2 : 1, self)};
  };
  row.op = ReduceOp::welford;
  row.finish = [](ReduceEmit& e, const std::vector<ValueId>& acc) {
    ValueId count = e.k.index_value(e.count, e.dtype);
    ValueId free = e.k.op(ScalarOp::sub, count, e.k.constant(e.dtype, Scalar(correction_of(e.call))));
    ValueId v = e.k.op(ScalarOp::div, acc[1], e.k.op(ScalarOp::max, free, e.k.constant(e.dtype, Scalar(0.0))));
    std::vector<ValueId> out = {root ? e.k.op(ScalarOp::sqrt, v) : v};
    if (with_mean) {
      // The mean of nothing is NaN, not the accumulator's start.
      ValueId none = e.k.op(ScalarOp::eq, count, e.k.constant(e.dtype, Scalar(0.0)));
      bool may_be_empty = !(range_of(e.count, e.call.ranges()).low > 0);
      out.push_back(may_be_empty ? e.k.select(none, e.k.constant(e.dtype, Scalar(NAN)), acc[0]) : acc[0]);
    }
    return out;
  };
  row.formula = variance_formula<root, with_mean>();
  row.parameter = correction_of;
  const char* results = with_mean ? "(Tensor, Tensor)" : "Tensor";
  row.schema = str(name, "(Tensor self, bool unbiased=True) -> ", results);
  row.samples = {{{spec({2, 3})}},
                 {{spec({7}, DType::f64), Scalar(false)}},
                 {{spec({5}, DType::bf16)}},
                 {{spec({0})}},
                 {{spec({3}, DType::i64)}, true}};
  add_reduction(r, row);
  row.dims = ReduceDims::list;
  row.schema = str(name, ".dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> ", results);
  row.samples = {{{spec({2, 3, 4}), List{1}}},
                 {{spec({2, 3}), List{0, -1}, Scalar(false), Scalar(true)}},
                 {{spec({2, 3}), List{5}}, true}};
  add_reduction(r, row);
  row.schema = str(
      name, ".correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> ", results);
  row.samples = {{{spec({2, 3, 4}), List{1}, Scalar(0)}},
                 {{spec({2, 3, 4})}},
                 {{spec({2, 3}), List{1}, Argument::None{}, Scalar(true)}}};
  add_reduction(r, row);
}

}  // namespace

void register_variance(Registry& registry) {
  add_family<false, false>(registry, "var");
  add_family<true, false>(registry, "std");
  add_family<false, true>(registry, "var_mean");
  add_family<true, true>(registry, "std_mean");
  registry.describe({"std"}, {.complex = {.rule = ComplexRule::root_squares, .gives_real = true}});
  registry.describe({"var"}, {.complex = {.rule = ComplexRule::squares, .gives_real = true}});
}

}  // namespace kiln
