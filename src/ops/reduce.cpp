// Reductions over dimensions.
#include <cmath>
#include <limits>

#include "ops/decompose_call.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/reduce_parts.h"
#include "ops/reduce_table.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

template <class T>
T wrapping_sum(const T* x, int64_t n) {
  if constexpr (std::is_integral_v<T>) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<uint64_t>(x[i]);
    return static_cast<T>(sum);
  } else {
    T sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    return sum;
  }
}

DType sum_dtype(const OpCall& call, DType self) {
  if (call.schema().find("dtype") >= 0)
    if (auto given = call.dtype("dtype")) return *given;
  return is_integral(self) ? DType::i64 : self;
}

DType mean_dtype(const OpCall& call, DType self) {
  DType dtype = call.dtype("dtype").value_or(self);
  if (!is_float(dtype) && !is_complex(dtype)) {
    fail_user("K0203",
              str("mean(): could not infer output dtype. Input dtype must be either a floating point or complex "
                  "dtype. Got: ",
                  dtype_torch_name(dtype)),
              call.where());
  }
  return dtype;
}

std::vector<Sample> all_samples(std::vector<DType> more = {}) {
  std::vector<Sample> out = {
      {{spec({2, 3, 4})}}, {{spec({})}}, {{spec({33}, DType::f64)}}, {{spec({2, 3}, DType::bf16)}}};
  for (DType dtype : more) out.push_back({{spec({2, 3}, dtype)}});
  return out;
}

std::vector<Sample> list_samples(std::vector<DType> more = {}) {
  std::vector<Sample> out = {{{spec({2, 3, 4}), List{1}}},    {{spec({2, 3, 4}), List{0, -1}, Scalar(true)}},
                             {{spec({2, 3, 4}), List{}}},     {{spec({}), List{0}}},
                             {{spec({0, 3}), List{1}}},       {{spec({2, 3}, DType::f16), List{-1}}},
                             {{spec({2, 3}), List{2}}, true}, {{spec({2, 3}), List{1, -1}}, true}};
  for (DType dtype : more) out.push_back({{spec({2, 3}, dtype), List{0}}});
  return out;
}

const std::vector<DType> whole_types = {DType::i64, DType::i32, DType::u8, DType::boolean};

void register_reduced_sums(Registry& r) {
  auto types = [](const OpCall& call, DType self) -> ReduceTypes {
    DType dtype = sum_dtype(call, self);
    return {dtype, {dtype}};
  };
  auto formula = group_formula([](const auto* x, int64_t n, auto* out, double) { out[0] = wrapping_sum(x, n); });
  add_reduction(r, {.schema = "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
                    .types = types,
                    .formula = formula,
                    .samples = all_samples(whole_types)});
  std::vector<Sample> with_dtype = list_samples(whole_types);
  with_dtype.push_back({{spec({2, 3}), List{1}, Scalar(false), DType::f64}});
  with_dtype.push_back({{spec({2, 0}), List{1}}});
  add_reduction(r,
                {.schema = "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) "
                           "-> Tensor",
                 .dims = ReduceDims::list,
                 .types = types,
                 .formula = formula,
                 .samples = with_dtype});

  auto nan_zero = [](ReduceEmit& e, ValueId x) {
    return is_float(e.dtype) ? e.k.select(e.k.op(ScalarOp::is_nan, x), e.k.constant(e.dtype, Scalar(0.0)), x) : x;
  };
  auto nansum = group_formula([](const auto* x, int64_t n, auto* out, double) {
    out[0] = 0;
    for (int64_t i = 0; i < n; ++i)
      if (x[i] == x[i]) out[0] += x[i];
  });
  add_reduction(
      r, {.schema = "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          .dims = ReduceDims::list,
          .types = types,
          .yields = nan_zero,
          .formula = nansum,
          .samples = with_dtype});

  auto mean_types = [](const OpCall& call, DType self) -> ReduceTypes {
    DType dtype = mean_dtype(call, self);
    return {dtype, {dtype}};
  };
  auto divide = [](ReduceEmit& e, const std::vector<ValueId>& acc) {
    return std::vector<ValueId>{e.k.op(ScalarOp::div, acc[0], e.k.index_value(e.count, e.dtype))};
  };
  auto mean = float_group_formula(
      [](const double* x, int64_t n, double* out, double) { out[0] = wrapping_sum(x, n) / static_cast<double>(n); });
  std::vector<Sample> mean_all = all_samples();
  mean_all.push_back({{spec({3}, DType::i64)}, true});
  mean_all.push_back({{spec({3}, DType::i64), DType::f32}});
  mean_all.push_back({{spec({0})}});
  add_reduction(r, {.schema = "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
                    .types = mean_types,
                    .finish = divide,
                    .formula = mean,
                    .samples = mean_all});
  add_reduction(
      r, {.schema = "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          .dims = ReduceDims::list,
          .types = mean_types,
          .finish = divide,
          .formula = mean,
          .samples = list_samples()});
}

void register_reduced_products(Registry& r) {
  auto types = [](const OpCall& call, DType self) -> ReduceTypes {
    DType dtype = sum_dtype(call, self);
    return {dtype, {dtype}};
  };
  auto formula = group_formula([](const auto* x, int64_t n, auto* out, double) {
    using T = std::remove_cvref_t<decltype(x[0])>;
    if constexpr (std::is_integral_v<T>) {
      uint64_t product = 1;
      for (int64_t i = 0; i < n; ++i) product *= static_cast<uint64_t>(x[i]);
      out[0] = static_cast<T>(product);
    } else {
      out[0] = 1;
      for (int64_t i = 0; i < n; ++i) out[0] *= x[i];
    }
  });
  add_reduction(r, {.schema = "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
                    .types = types,
                    .op = ReduceOp::prod,
                    .bool_op = ReduceOp::all,
                    .formula = formula,
                    .samples = all_samples(whole_types)});
  add_reduction(
      r, {.schema = "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          .dims = ReduceDims::one,
          .types = types,
          .op = ReduceOp::prod,
          .bool_op = ReduceOp::all,
          .formula = formula,
          .samples = {{{spec({2, 3}), Scalar(-1)}},
                      {{spec({2, 3}, DType::i64), Scalar(0), Scalar(true)}},
                      {{spec({2, 0}), Scalar(1)}},
                      {{spec({2}), Scalar(1)}, true}}});
}

// The position of the extreme element; NaN is more extreme than any number.
template <bool largest, class T>
int64_t extreme(const T* x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) {
    if (x[best] != x[best]) break;
    if (x[i] != x[i] || (largest ? x[i] > x[best] : x[i] < x[best])) best = i;
  }
  return best;
}

// Of no elements: what no element is beyond.
template <bool largest>
GroupFormula extreme_value() {
  return group_formula([](const auto* x, int64_t n, auto* out, double) {
    using T = std::remove_cvref_t<decltype(x[0])>;
    using Limits = std::numeric_limits<T>;
    constexpr T least = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    constexpr T most = Limits::has_infinity ? Limits::infinity() : Limits::max();
    out[0] = n == 0 ? (largest ? least : most) : x[extreme<largest>(x, n)];
  });
}
template <bool largest>
GroupFormula extreme_index() {
  return group_formula([](const auto* x, int64_t n, auto* out, double) {
    out[0] = static_cast<std::remove_cvref_t<decltype(out[0])>>(extreme<largest>(x, n));
  });
}
template <bool largest>
GroupFormula extreme_both() {
  return group_formula([](const auto* x, int64_t n, auto* out, double) {
    int64_t at = extreme<largest>(x, n);
    out[0] = x[at];
    out[1] = static_cast<std::remove_cvref_t<decltype(out[0])>>(at);
  });
}

template <bool largest>
void register_reduced_extremes(Registry& r) {
  auto same = [](const OpCall&, DType self) -> ReduceTypes { return {self, {self}}; };
  auto index = [](const OpCall&, DType self) -> ReduceTypes { return {self, {DType::i64}}; };
  auto both = [](const OpCall&, DType self) -> ReduceTypes { return {self, {self, DType::i64}}; };
  ReduceOp op = largest ? ReduceOp::max : ReduceOp::min, arg = largest ? ReduceOp::argmax : ReduceOp::argmin;
  ReduceOp for_bool = largest ? ReduceOp::any : ReduceOp::all;
  const char* name = largest ? "max" : "min";
  std::vector<Sample> lists = list_samples(whole_types);
  lists.push_back({{spec({2, 0}), List{1}}, true});
  add_reduction(r, {.schema = str("a", name, "(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"),
                    .dims = ReduceDims::list,
                    .types = same,
                    .op = op,
                    .bool_op = for_bool,
                    .formula = extreme_value<largest>(),
                    .needs_elements = true,
                    .samples = lists});
  // For decompositions of what is defined over nothing too (logsumexp, an infinite distance without coordinates).
  add_reduction(r, {.schema = str("a", name, "(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"),
                    .dims = ReduceDims::list,
                    .types = same,
                    .op = op,
                    .bool_op = for_bool,
                    .formula = extreme_value<largest>(),
                    .samples = {{{spec({2, 3}), List{1}}}, {{spec({2, 0}), List{1}}}},
                    .name_space = "kiln"});
  std::vector<Sample> all = all_samples(whole_types);
  all.push_back({{spec({0})}, true});
  add_reduction(r, {.schema = str(name, "(Tensor self) -> Tensor"),
                    .types = same,
                    .op = op,
                    .bool_op = for_bool,
                    .formula = extreme_value<largest>(),
                    .needs_elements = true,
                    .samples = all});
  std::vector<Sample> one = {{{spec({2, 3, 4}), Scalar(1)}},
                             {{spec({2, 3}, DType::i64), Scalar(-1), Scalar(true)}},
                             {{spec({}), Scalar(0)}},
                             {{spec({4}, DType::bf16), Scalar(0)}},
                             {{spec({2, 3}, DType::boolean), Scalar(1)}},
                             {{spec({0, 2}), Scalar(1)}},
                             {{spec({2, 0}), Scalar(1)}, true}};
  add_reduction(
      r, {.schema = str(name, ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"),
          .dims = ReduceDims::one,
          .types = both,
          .op = arg,
          .formula = extreme_both<largest>(),
          .needs_elements = true,
          .samples = one});
  std::vector<Sample> optional = one;
  optional.push_back({{spec({2, 3})}});
  optional.push_back({{spec({2, 3}), Argument::None{}, Scalar(true)}});
  add_reduction(r, {.schema = str("arg", name, "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"),
                    .dims = ReduceDims::optional,
                    .types = index,
                    .op = arg,
                    .finish = [](ReduceEmit&, const std::vector<ValueId>& acc) { return std::vector<ValueId>{acc[1]}; },
                    .formula = extreme_index<largest>(),
                    .needs_elements = true,
                    .samples = optional});
}

template <class T>
void both_extremes(ReferenceCall& call, const Groups<T>& groups) {
  for (bool largest : {false, true}) {
    std::vector<T> values;
    for (int64_t g = 0; g < groups.groups; ++g) {
      const T* x = groups.values.data() + g * groups.count;
      values.push_back(x[largest ? extreme<true>(x, groups.count) : extreme<false>(x, groups.count)]);
    }
    Tensor out = new_result(call, groups.sizes, largest ? 1 : 0);
    write_dense(out, values);
    call.results.push_back(Datum{out});
  }
}

void register_aminmax(Registry& r) {
  OpRecord record;
  record.schema_text = "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)";
  auto dims = [](const OpCall& call) {
    Argument::List list;
    if (call.given("dim")) list.push_back(Argument(Scalar(call.constant_integer("dim"))));
    return Argument(list);
  };
  record.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    refuse_complex(call, self.dtype);
    auto reduced = reduced_dims(call, ReduceDims::optional);
    TensorType type =
        contiguous_type(self.dtype, reduced_sizes(self.sizes, reduced, call.boolean("keepdim")), self.device);
    call.results = {type, type};
  };
  record.decompose = [dims](DecomposeCall& call) {
    Argument keep(Scalar(call.boolean("keepdim")));
    call.result(0, call.call("aten.amin.default", {call.tensor("self"), dims(call), keep}));
    call.result(1, call.call("aten.amax.default", {call.tensor("self"), dims(call), keep}));
  };
  record.reference = [](ReferenceCall& call) {
    Tensor self = call.tensor("self");
    std::vector<bool> reduced(self.sizes.size(), !call.given("dim"));
    if (call.given("dim") && !reduced.empty()) {
      int64_t dim = call.integer("dim");
      reduced[static_cast<size_t>(dim < 0 ? dim + self.rank() : dim)] = true;
    }
    if (reference_compute(call, nominal_argument_dtype(call, "self")) == DType::i64)
      both_extremes(call, read_groups<int64_t>(self, reduced, call.boolean("keepdim")));
    else
      both_extremes(call, read_groups<double>(self, reduced, call.boolean("keepdim")));
  };
  record.samples = {{{spec({2, 3})}},
                    {{spec({2, 3}), Scalar(1), Scalar(true)}},
                    {{spec({}), Scalar(0)}},
                    {{spec({3}, DType::i64)}},
                    {{spec({0, 2}), Scalar(1)}},
                    {{spec({0, 2}), Scalar(0)}, true}};
  add_needs(record, [](const OpCall& call, const NeedArgs& args) {
    return elements_along("aminmax", args.sizes("self"), reduced_dims(call, ReduceDims::optional));
  });
  r.add(std::move(record));
}

void register_logical(Registry& r) {
  auto types = [](const OpCall&, DType self) -> ReduceTypes {
    return {self, {self == DType::u8 ? DType::u8 : DType::boolean}};
  };
  auto truth = [](ReduceEmit& e, ValueId x) {
    if (e.dtype == DType::boolean) return x;
    return e.k.op(ScalarOp::ne, x, e.k.constant(e.dtype, is_float(e.dtype) ? Scalar(0.0) : Scalar(0)));
  };
  auto any = group_formula([](const auto* x, int64_t n, auto* out, double) {
    out[0] = 0;
    for (int64_t i = 0; i < n; ++i)
      if (x[i] != 0) out[0] = 1;
  });
  auto all = group_formula([](const auto* x, int64_t n, auto* out, double) {
    out[0] = 1;
    for (int64_t i = 0; i < n; ++i)
      if (x[i] == 0) out[0] = 0;
  });
  for (bool is_any : {true, false}) {
    const char* name = is_any ? "any" : "all";
    ReduceRow row{.schema = str(name, "(Tensor self) -> Tensor"),
                  .types = types,
                  .op = is_any ? ReduceOp::any : ReduceOp::all,
                  .yields = truth,
                  .formula = is_any ? any : all,
                  .samples = all_samples(whole_types)};
    row.samples.push_back({{spec({0})}});
    add_reduction(r, row);
    row.schema = str(name, ".dim(Tensor self, int dim, bool keepdim=False) -> Tensor");
    row.dims = ReduceDims::one;
    row.samples = {{{spec({2, 3}, DType::boolean), Scalar(-1)}},
                   {{spec({2, 3}), Scalar(0), Scalar(true)}},
                   {{spec({2, 0}), Scalar(1)}},
                   {{spec({}, DType::boolean), Scalar(0)}}};
    add_reduction(r, row);
    row.schema = str(name, ".dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor");
    row.dims = ReduceDims::list;
    row.samples = list_samples(whole_types);
    add_reduction(r, row);
  }
  ReduceRow count{.schema = "count_nonzero(Tensor self, int? dim=None) -> Tensor",
                  .dims = ReduceDims::optional,
                  .types = [](const OpCall&, DType self) -> ReduceTypes {
                    return {self, {DType::i64}};
                  },
                  .yields = truth,
                  .formula = group_formula([](const auto* x, int64_t n, auto* out, double) {
                    out[0] = 0;
                    for (int64_t i = 0; i < n; ++i) out[0] += x[i] != 0 ? 1 : 0;
                  }),
                  .accumulate = DType::i64,
                  .samples = all_samples(whole_types)};
  add_reduction(r, count);
  count.schema = "count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor";
  count.dims = ReduceDims::list;
  count.samples = {{{spec({3, 4}), std::vector<int64_t>{1}}}, {{spec({2, 3, 4}), std::vector<int64_t>{0, 2}}}};
  add_reduction(r, count);
}

}  // namespace

void register_reduce(Registry& registry) {
  register_reduced_sums(registry);
  register_reduced_products(registry);
  register_reduced_extremes<true>(registry);
  register_reduced_extremes<false>(registry);
  register_aminmax(registry);
  register_logical(registry);
  register_variance(registry);
  register_norms(registry);
  register_softmax(registry);
  register_scans(registry);
  registry.describe({"mean"}, complex_by(ComplexRule::mean));
  registry.describe({"sum"}, complex_by(ComplexRule::parts));
  registry.describe({"prod"}, complex_by(ComplexRule::product));
  registry.describe({"all", "any", "count_nonzero"}, complex_by(ComplexRule::truth));
  registry.describe({"prod"}, autocast_to(AutocastRule::single));
}

}  // namespace kiln
