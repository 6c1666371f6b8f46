// Cumulative operators along one dimension.
#include <cmath>

#include "base/text.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/reduce_parts.h"
#include "ops/reduce_table.h"

namespace kiln {

namespace {

using loops::BufferId;
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

// One line along the dimension, as its loops are built.
struct Line {
  DType dtype;
  Expr extent;
  std::vector<Expr> outer;     // the indices of the other dimensions
  std::vector<BufferId> kept;  // of `outer`: what is kept from element to element
  std::function<std::vector<Expr>(const Expr&)> at;
};

struct ScanRow {
  std::string schema;
  bool sums = false;  // integers become i64, and there is an argument dtype
  bool with_index = false;
  bool floats_only = false;
  int kept = 0;  // numbers of f64 kept from element to element of a line
  std::function<void(LowerCall&, KernelBuilder&, const Line&)> lower;
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
  Line line{dtype, scalar ? Expr(1) : self.sizes[dim], {}, {}, {}};
  for (int n = 0; n < row.kept; ++n) line.kept.push_back(call.temp(DType::f64, outer, str("kept", n)));
  call.kernel([&](KernelBuilder& k) {
    k.parallel(outer, [&](const std::vector<Expr>& i) {
      line.outer = i;
      line.at = [&](const Expr& r) {
        std::vector<Expr> index = i;
        if (!scalar) index.insert(index.begin() + static_cast<std::ptrdiff_t>(dim), r);
        return index;
      };
      row.lower(call, k, line);
    });
  });
}

ValueId load_as(LowerCall& call, KernelBuilder& k, DType dtype, DType wanted, const std::vector<Expr>& index) {
  ValueId x = k.load(call.input("self"), index);
  return k.as(wanted, call.tensor("self")->type.dtype == dtype ? x : k.as(dtype, x));
}

// Running sums of f32 are kept in f64, as eager's are.
void lower_running(ReduceOp op, LowerCall& call, KernelBuilder& k, const Line& line) {
  const DType dtype = line.dtype;
  DType accumulate = dtype == DType::f32 ? DType::f64 : dtype == DType::boolean ? DType::u8 : compute_dtype(dtype);
  k.scan(
      op, accumulate, line.extent,
      [&](const Expr& r) { return std::vector<ValueId>{load_as(call, k, dtype, accumulate, line.at(r))}; },
      [&](const Expr& r, const std::vector<ValueId>& running) {
        k.store(call.output(), line.at(r), k.as(compute_dtype(dtype), running[0]));
      });
}

// Among equal values the last one counts: yielding the negated position makes the smaller one win.
void lower_running_extreme(ReduceOp op, LowerCall& call, KernelBuilder& k, const Line& line) {
  const DType dtype = line.dtype;
  DType accumulate = dtype == DType::boolean ? DType::u8 : compute_dtype(dtype);
  k.scan(
      op, accumulate, line.extent,
      [&](const Expr& r) {
        return std::vector<ValueId>{load_as(call, k, dtype, accumulate, line.at(r)), k.index_value(-r)};
      },
      [&](const Expr& r, const std::vector<ValueId>& running) {
        k.store(call.output(0), line.at(r), running[0]);
        k.store(call.output(1), line.at(r), k.op(ScalarOp::neg, running[1]));
      });
}

// log(sum(exp(x[0..i]))) as top + log1p(rest), where top is the greatest so far and rest what the others add to its 1:
// where top is 0, a small rest is all there is of the result. Both are kept in f64, as eager's are; of the two
// exponentials of a step, of what the sum is scaled by and of the new term, one is always 1.
void lower_log_sum(LowerCall& call, KernelBuilder& k, const Line& line) {
  constexpr DType wide = DType::f64;
  const BufferId tops = line.kept[0], rests = line.kept[1];
  const ValueId zero = k.constant(wide, Scalar(0.0)), one = k.constant(wide, Scalar(1.0));
  k.store(tops, line.outer, k.constant(wide, Scalar(-INFINITY)));
  k.store(rests, line.outer, zero);
  k.serial({line.extent}, [&](const std::vector<Expr>& i) {
    const ValueId x = load_as(call, k, line.dtype, wide, line.at(i[0]));
    const ValueId before = k.load(tops, line.outer), rest = k.load(rests, line.outer);
    const ValueId far = k.op(ScalarOp::neg, k.op(ScalarOp::abs, k.op(ScalarOp::sub, x, before)));
    // Equal infinities are no distance apart.
    const ValueId scale = k.select(k.op(ScalarOp::eq, x, before), one, k.op(ScalarOp::exp, far));
    const ValueId scaled = k.op(ScalarOp::mul, k.op(ScalarOp::add, rest, one), scale);
    const ValueId others = k.select(k.op(ScalarOp::gt, x, before), scaled, k.op(ScalarOp::add, rest, scale));
    const ValueId top = k.op(ScalarOp::max, before, x);
    k.store(tops, line.outer, top);
    k.store(rests, line.outer, others);
    k.store(call.output(), line.at(i[0]),
            k.as(compute_dtype(line.dtype), k.op(ScalarOp::add, k.op(ScalarOp::log1p, others), top)));
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
               .lower = std::bind(lower_running, ReduceOp::sum, _1, _2, _3),
               .formula = row_formula([](const auto* x, int64_t n, auto* const* out) {
                 std::remove_cvref_t<decltype(x[0])> sum = 0;
                 for (int64_t i = 0; i < n; ++i) out[0][i] = sum += x[i];
               })});
  add_scan(r, {.schema = "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
               .sums = true,
               .lower = std::bind(lower_running, ReduceOp::prod, _1, _2, _3),
               .formula = row_formula([](const auto* x, int64_t n, auto* const* out) {
                 std::remove_cvref_t<decltype(x[0])> product = 1;
                 for (int64_t i = 0; i < n; ++i) out[0][i] = product *= x[i];
               })});
  add_scan(r, {.schema = "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
               .with_index = true,
               .lower = std::bind(lower_running_extreme, ReduceOp::argmax, _1, _2, _3),
               .formula = running_extreme<true>()});
  add_scan(r, {.schema = "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
               .with_index = true,
               .lower = std::bind(lower_running_extreme, ReduceOp::argmin, _1, _2, _3),
               .formula = running_extreme<false>()});
  add_scan(r, {.schema = "logcumsumexp(Tensor self, int dim) -> Tensor",
               .floats_only = true,
               .kept = 2,
               .lower = lower_log_sum,
               .formula = {[](const double* x, int64_t n, double* const* out) {
                 double so_far = -INFINITY;
                 for (int64_t i = 0; i < n; ++i) {
                   const double high = std::fmax(so_far, x[i]), low = std::fmin(so_far, x[i]);
                   const bool is_number = so_far == so_far && x[i] == x[i];
                   so_far = !is_number ? NAN : std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
                   out[0][i] = so_far;
                 }
               }}});
  r.describe({"cumsum"}, complex_by(ComplexRule::parts));
  r.describe({"cumprod"}, complex_by(ComplexRule::running_product));
}

}  // namespace kiln
