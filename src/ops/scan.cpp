// Cumulative operators along one dimension.
#include <cmath>

#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/reduce_parts.h"
#include "ops/reduce_table.h"

namespace kiln {

namespace {

using loops::KernelBuilder;

// out[0 … results) for each of the n elements of one row.
struct RowFormula {
  void (*real)(const double* x, int64_t n, double* const* out) = nullptr;
  void (*whole)(const int64_t* x, int64_t n, int64_t* const* out) = nullptr;
};
template <class F>
RowFormula row_formula(F) {
  return {[](const double* x, int64_t n, double* const* out) { F{}(x, n, out); },
          [](const int64_t* x, int64_t n, int64_t* const* out) { F{}(x, n, out); }};
}

struct ScanRow {
  std::string schema;
  bool sums = false;  // integers become i64, and there is an argument dtype
  bool with_index = false;
  bool floats_only = false;
  std::function<void(LowerCall&, KernelBuilder&, DType, const Expr& extent,
                     const std::function<std::vector<Expr>(const Expr&)>&)>
      lower;
  RowFormula formula;
};

DType scan_dtype(const OpCall& call, const ScanRow& row) {
  DType self = call.tensor("self")->type.dtype;
  refuse_complex(call, self);
  if (row.floats_only && !is_float(self)) refuse_dtype(call, self);
  if (!row.sums) return self;
  return call.dtype("dtype").value_or(is_integral(self) ? DType::i64 : self);
}

void infer_scan(InferCall& call, const ScanRow& row) {
  const TensorType& self = call.tensor("self")->type;
  wrap_dim(call, call.constant_integer("dim"), rank_of(call.tensor("self")));
  call.results = {contiguous_type(scan_dtype(call, row), self.sizes, self.device)};
  if (row.with_index) call.results.push_back(contiguous_type(DType::i64, self.sizes, self.device));
}

void lower_scan(LowerCall& call, const ScanRow& row) {
  const TensorType& self = call.tensor("self")->type;
  DType dtype = scan_dtype(call, row);
  size_t dim = static_cast<size_t>(wrap_dim(call, call.constant_integer("dim"), rank_of(call.tensor("self"))));
  bool scalar = self.sizes.empty();
  Sizes outer;
  for (size_t d = 0; d < self.sizes.size(); ++d)
    if (d != dim) outer.push_back(self.sizes[d]);
  call.kernel([&](KernelBuilder& k) {
    k.parallel(outer, [&](const std::vector<Expr>& i) {
      auto at = [&](const Expr& r) {
        std::vector<Expr> index = i;
        if (!scalar) index.insert(index.begin() + static_cast<std::ptrdiff_t>(dim), r);
        return index;
      };
      row.lower(call, k, dtype, scalar ? Expr(1) : self.sizes[dim], at);
    });
  });
}

ValueId load_as(LowerCall& call, KernelBuilder& k, DType dtype, DType wanted, const std::vector<Expr>& index) {
  ValueId x = k.load(call.input("self"), index);
  return k.as(wanted, call.tensor("self")->type.dtype == dtype ? x : k.as(dtype, x));
}

// Running sums of f32 are kept in f64, as eager's are.
void lower_running(ReduceOp op, LowerCall& call, KernelBuilder& k, DType dtype, const Expr& extent,
                   const std::function<std::vector<Expr>(const Expr&)>& at) {
  DType accumulate = dtype == DType::f32 ? DType::f64 : dtype == DType::boolean ? DType::u8 : compute_dtype(dtype);
  k.scan(
      op, accumulate, extent,
      [&](const Expr& r) { return std::vector<ValueId>{load_as(call, k, dtype, accumulate, at(r))}; },
      [&](const Expr& r, const std::vector<ValueId>& running) {
        k.store(call.output(), at(r), k.as(compute_dtype(dtype), running[0]));
      });
}

// Among equal values the last one counts: yielding the negated position makes the smaller one win.
void lower_running_extreme(ReduceOp op, LowerCall& call, KernelBuilder& k, DType dtype, const Expr& extent,
                           const std::function<std::vector<Expr>(const Expr&)>& at) {
  DType accumulate = dtype == DType::boolean ? DType::u8 : compute_dtype(dtype);
  k.scan(
      op, accumulate, extent,
      [&](const Expr& r) {
        return std::vector<ValueId>{load_as(call, k, dtype, accumulate, at(r)), k.index_value(-r)};
      },
      [&](const Expr& r, const std::vector<ValueId>& running) {
        k.store(call.output(0), at(r), running[0]);
        k.store(call.output(1), at(r), k.op(ScalarOp::neg, running[1]));
      });
}

// log(sum(exp(x[0..i]))) with the prefix's own maximum, so that no prefix underflows: two passes per element.
void lower_log_sum(LowerCall& call, KernelBuilder& k, DType dtype, const Expr& extent,
                   const std::function<std::vector<Expr>(const Expr&)>& at) {
  DType compute = compute_dtype(dtype);
  k.parallel({extent}, [&](const std::vector<Expr>& i) {
    auto inside = [&](const Expr& r) { return k.op(ScalarOp::le, k.index_value(r), k.index_value(i[0])); };
    ValueId lowest = k.constant(compute, Scalar(-INFINITY)), zero = k.constant(compute, Scalar(0.0));
    ValueId top = k.reduce_one(ReduceOp::max, compute, {extent}, [&](const std::vector<Expr>& r) {
      return k.select(inside(r[0]), load_as(call, k, dtype, compute, at(r[0])), lowest);
    });
    ValueId shift = k.select(k.op(ScalarOp::is_inf, top), zero, top);
    ValueId sum = k.reduce_one(ReduceOp::sum, compute, {extent}, [&](const std::vector<Expr>& r) {
      ValueId term = k.op(ScalarOp::exp, k.op(ScalarOp::sub, load_as(call, k, dtype, compute, at(r[0])), shift));
      return k.select(inside(r[0]), term, zero);
    });
    k.store(call.output(), at(i[0]), k.op(ScalarOp::add, k.op(ScalarOp::log, sum), shift));
  });
}

template <class T>
void reference_rows(ReferenceCall& call, const Tensor& self, const std::vector<bool>& along, size_t results,
                    void (*formula)(const T*, int64_t, T* const*)) {
  auto groups = read_groups<T>(self, along, true);
  std::vector<std::vector<T>> columns(results, std::vector<T>(groups.values.size()));
  for (int64_t g = 0; g < groups.groups; ++g) {
    std::vector<T*> out;
    for (auto& column : columns) out.push_back(column.data() + g * groups.count);
    formula(groups.values.data() + g * groups.count, groups.count, out.data());
  }
  for (size_t i = 0; i < results; ++i) {
    Tensor result = new_result(call, self.sizes, static_cast<int>(i));
    write_dense(innermost_view(result, along), columns[i]);
    call.results.push_back(Datum{result});
  }
}

void reference_scan(ReferenceCall& call, const ScanRow& row) {
  Tensor self = call.tensor("self");
  DType nominal = call.nominal_dtype();
  if (!(call.fp64 && is_float(nominal)) && nominal_argument_dtype(call, "self") != nominal)
    self = convert(self, nominal);
  std::vector<bool> along(self.sizes.size(), false);
  int64_t dim = call.integer("dim");
  if (!along.empty()) along[static_cast<size_t>(dim < 0 ? dim + self.rank() : dim)] = true;
  size_t results = row.with_index ? 2 : 1;
  if (reference_compute(call, nominal) == DType::i64)
    reference_rows<int64_t>(call, self, along, results, row.formula.whole);
  else
    reference_rows<double>(call, self, along, results, row.formula.real);
}

template <bool largest>
RowFormula running_extreme() {
  return row_formula([](const auto* x, int64_t n, auto* const* out) {
    using T = std::remove_cvref_t<decltype(x[0])>;
    int64_t best = 0;
    for (int64_t i = 0; i < n; ++i) {
      bool better = largest ? x[i] >= x[best] : x[i] <= x[best];
      if (x[i] != x[i] || (x[best] == x[best] && better)) best = i;
      out[0][i] = x[best];
      out[1][i] = static_cast<T>(best);
    }
  });
}

void add_scan(Registry& r, ScanRow row) {
  auto shared = std::make_shared<const ScanRow>(std::move(row));
  OpRecord record;
  record.schema_text = shared->schema;
  record.inplace = shared->sums;
  record.infer = [shared](InferCall& call) { infer_scan(call, *shared); };
  record.lower = [shared](LowerCall& call) { lower_scan(call, *shared); };
  record.reference = [shared](ReferenceCall& call) { reference_scan(call, *shared); };
  record.samples = {
      {{spec({2, 3, 4}), Scalar(1)}}, {{spec({5}, DType::f64), Scalar(-1)}}, {{spec({}), Scalar(0)}},
      {{spec({0, 3}), Scalar(0)}},    {{spec({6}, DType::bf16), Scalar(0)}}, {{spec({2}), Scalar(1)}, true}};
  if (!shared->floats_only) {
    record.samples.push_back({{spec({2, 5}, DType::i64, -3, 3), Scalar(1)}});
    record.samples.push_back({{spec({5}, DType::boolean), Scalar(0)}});
  }
  r.add(std::move(record));
}

}  // namespace

void register_scans(Registry& r) {
  using namespace std::placeholders;
  add_scan(r, {.schema = "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
               .sums = true,
               .lower = std::bind(lower_running, ReduceOp::sum, _1, _2, _3, _4, _5),
               .formula = row_formula([](const auto* x, int64_t n, auto* const* out) {
                 std::remove_cvref_t<decltype(x[0])> sum = 0;
                 for (int64_t i = 0; i < n; ++i) out[0][i] = sum += x[i];
               })});
  add_scan(r, {.schema = "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
               .sums = true,
               .lower = std::bind(lower_running, ReduceOp::prod, _1, _2, _3, _4, _5),
               .formula = row_formula([](const auto* x, int64_t n, auto* const* out) {
                 std::remove_cvref_t<decltype(x[0])> product = 1;
                 for (int64_t i = 0; i < n; ++i) out[0][i] = product *= x[i];
               })});
  add_scan(r, {.schema = "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
               .with_index = true,
               .lower = std::bind(lower_running_extreme, ReduceOp::argmax, _1, _2, _3, _4, _5),
               .formula = running_extreme<true>()});
  add_scan(r, {.schema = "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
               .with_index = true,
               .lower = std::bind(lower_running_extreme, ReduceOp::argmin, _1, _2, _3, _4, _5),
               .formula = running_extreme<false>()});
  add_scan(r, {.schema = "logcumsumexp(Tensor self, int dim) -> Tensor",
               .floats_only = true,
               .lower = lower_log_sum,
               .formula = {[](const double* x, int64_t n, double* const* out) {
                 double top = -INFINITY, sum = 0;
                 for (int64_t i = 0; i < n; ++i) {
                   double next = std::fmax(top, x[i]), shift = std::isinf(next) ? 0 : next;
                   sum = sum * (std::isinf(top) ? 0 : std::exp(top - shift)) + std::exp(x[i] - shift);
                   top = next;
                   out[0][i] = x[i] != x[i] ? NAN : std::log(sum) + shift;
                 }
               }}});
  r.describe({"cumsum"}, complex_by(ComplexRule::parts));
  r.describe({"cumprod"}, complex_by(ComplexRule::running_product));
}

}  // namespace kiln
