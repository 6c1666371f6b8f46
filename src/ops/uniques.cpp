// Distinct values and counts: unique and its relatives, bincount. The size of their results depends on data, so they
// are library kernels.
#include <algorithm>
#include <numeric>

#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/layout.h"

namespace kiln {

namespace {

struct UniqueRow {
  std::string schema;
  bool sorts = true;
  std::vector<Sample> samples = {};
};

bool by_slices(const OpCall& call) { return call.schema().find("dim") >= 0 && call.given("dim"); }

// With a dimension eager's CPU kernels always give places and counts.
bool wants(const OpCall& call, std::string_view what) {
  return by_slices(call) || (call.schema().find(what) >= 0 && call.boolean(what));
}

// One dimension put elsewhere: eager works with slices in front and moves that dimension back at the end.
template <class List>
List moved(List list, size_t from, size_t to) {
  if (list.empty()) return list;
  auto item = list[from];
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(from));
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(to), item);
  return list;
}

void infer_unique(InferCall& call, const UniqueRow&) {
  const Value* self = call.tensor("self");
  refuse_complex(call, self->type.dtype);
  Sizes sizes = self->type.sizes;
  int64_t dim = by_slices(call) ? wrap_dim(call, call.constant_integer("dim"), rank_of(self)) : 0;
  bool sliced = by_slices(call) && rank_of(self) > 0;
  Expr items = sliced ? sizes[static_cast<size_t>(dim)] : Expr(1);
  const auto& results = call.node().results;
  size_t at = sliced ? static_cast<size_t>(dim) : 0;
  bool typed = !results.empty() && results[0]->type.sizes.size() == (sliced ? sizes.size() : 1);
  Expr count = typed ? results[0]->type.sizes[at] : Expr::symbol(str("u_", call.node().name));
  if (sliced) {
    sizes[at] = count;
  } else {
    sizes = {count};
  }
  Device device = self->type.device;
  Sizes places = !wants(call, "return_inverse") ? Sizes{Expr(0)} : sliced ? Sizes{items} : self->type.sizes;
  if (by_slices(call) && rank_of(self) == 0) places = {Expr(1)};
  Sizes strides = contiguous_strides(moved(sizes, at, 0));
  call.results = {strided_type(self->type.dtype, sizes, moved(strides, 0, at), device),
                  contiguous_type(DType::i64, places, device)};
  bool pair = call.schema().returns.size() == 2;
  if (!pair)
    call.results.push_back(contiguous_type(DType::i64, {wants(call, "return_counts") ? count : Expr(0)}, device));
}

// Items as rows of numbers in the order of comparison.
template <class T>
struct ItemRows {
  std::vector<T> values;
  size_t count = 0, width = 1;
  const T* row(size_t i) const { return values.data() + i * width; }
};

template <class T>
ItemRows<T> item_rows(const Tensor& self, std::optional<size_t> dim) {
  ItemRows<T> out;
  Tensor view = self;
  if (dim) {
    std::rotate(view.sizes.begin(), view.sizes.begin() + static_cast<std::ptrdiff_t>(*dim),
                view.sizes.begin() + static_cast<std::ptrdiff_t>(*dim) + 1);
    std::rotate(view.strides.begin(), view.strides.begin() + static_cast<std::ptrdiff_t>(*dim),
                view.strides.begin() + static_cast<std::ptrdiff_t>(*dim) + 1);
  }
  out.values = read_dense<T>(view);
  out.count = dim ? static_cast<size_t>(view.sizes[0]) : out.values.size();
  out.width = dim ? (out.count == 0 ? 0 : out.values.size() / out.count) : 1;
  return out;
}

// NaN is larger than every number, and equal to nothing.
template <class T>
bool before(const T* a, const T* b, size_t width) {
  for (size_t i = 0; i < width; ++i) {
    bool less = b[i] != b[i] ? a[i] == a[i] : a[i] < b[i], more = a[i] != a[i] ? b[i] == b[i] : b[i] < a[i];
    if (less || more) return less;
  }
  return false;
}

template <class T>
void evaluate_unique(ReferenceCall& call, const UniqueRow& row, const Schema& schema) {
  OpCall typed(call.node(), schema);
  Tensor self = call.tensor("self");
  std::optional<size_t> dim;
  if (by_slices(typed) && self.rank() > 0) {
    int64_t given = call.integer("dim");
    dim = static_cast<size_t>(given < 0 ? given + self.rank() : given);
  }
  ItemRows<T> items = item_rows<T>(self, dim);
  std::vector<size_t> order(items.count);
  std::iota(order.begin(), order.end(), size_t{0});
  if (row.sorts)
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return before(items.row(a), items.row(b), items.width); });
  std::vector<int64_t> places(items.count, 0), counts;
  std::vector<T> kept;
  for (size_t i = 0; i < order.size(); ++i) {
    const T* value = items.row(order[i]);
    if (i == 0 || !std::equal(value, value + items.width, items.row(order[i - 1]))) {
      counts.push_back(0);
      kept.insert(kept.end(), value, value + items.width);
    }
    ++counts.back();
    places[order[i]] = static_cast<int64_t>(counts.size()) - 1;
  }
  std::vector<int64_t> sizes = {static_cast<int64_t>(counts.size())};
  if (dim) {
    sizes = self.sizes;
    sizes[*dim] = static_cast<int64_t>(counts.size());
  }
  Tensor out = Tensor::empty(call.result_dtype(0), moved(sizes, dim.value_or(0), 0));
  write_dense(out, kept);
  out.sizes = sizes;
  out.strides = moved(out.strides, 0, dim.value_or(0));
  auto integers = [](const std::vector<int64_t>& values, std::vector<int64_t> shape) {
    Tensor made = Tensor::empty(DType::i64, std::move(shape));
    write_dense(made, values);
    return Datum{made};
  };
  std::vector<int64_t> shape = by_slices(typed) ? std::vector<int64_t>{static_cast<int64_t>(items.count)} : self.sizes;
  call.results = {Datum{out}, wants(typed, "return_inverse") ? integers(places, shape) : integers({}, {0})};
  if (schema.returns.size() == 3)
    call.results.push_back(wants(typed, "return_counts") ? integers(counts, {static_cast<int64_t>(counts.size())})
                                                         : integers({}, {0}));
}

void add_unique(Registry& r, UniqueRow row) {
  auto schema = std::make_shared<const Schema>(parse_schema(row.schema));
  OpRecord record;
  record.schema_text = row.schema;
  record.samples = row.samples;
  record.library = row.sorts ? "unique" : "unique_consecutive";
  record.reads_data = true;
  record.infer = [row](InferCall& call) { infer_unique(call, row); };
  record.reference = [row, schema](ReferenceCall& call) {
    if (reference_compute(call, nominal_argument_dtype(call, "self")) == DType::i64)
      evaluate_unique<int64_t>(call, row, *schema);
    else
      evaluate_unique<double>(call, row, *schema);
  };
  r.add(std::move(record));
}

void register_uniques(Registry& r) {
  Sample::TensorSpec x = spec({3, 4}, DType::i64, 0, 3), flags = spec({4, 2}, DType::boolean);
  std::string ask = "bool return_inverse=False, bool return_counts=False", three = ") -> (Tensor, Tensor, Tensor)";
  add_unique(r, {"_unique2(Tensor self, bool sorted=True, " + ask + three,
                 true,
                 {{{x}}, {{x, Scalar(true), Scalar(true), Scalar(true)}}, {{spec({0})}}, {{spec({})}}}});
  add_unique(
      r, {"unique_dim(Tensor self, int dim, bool sorted=True, " + ask + three,
          true,
          {{{flags, Scalar(0), Scalar(true), Scalar(true), Scalar(true)}}, {{x, Scalar(-1)}}, {{x, Scalar(2)}, true}}});
  add_unique(r, {"unique_consecutive(Tensor self, " + ask + ", int? dim=None" + three,
                 false,
                 {{{x}},
                  {{x, Scalar(true), Scalar(true)}},
                  {{flags, Scalar(true), Scalar(true), Scalar(0)}},
                  {{x, Scalar(true), Scalar(true), Scalar(2)}, true}}});
  add_unique(r, {"unique_dim_consecutive(Tensor self, int dim, " + ask + three,
                 false,
                 {{{flags, Scalar(0), Scalar(true), Scalar(true)}}}});
  add_unique(r,
             {"_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)", true, {{{x}}}});
}

void register_bincount(Registry& r) {
  OpRecord record;
  record.schema_text = "bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor";
  record.library = "bincount";
  record.reads_data = true;
  record.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    if (!is_integral(self.dtype)) refuse_dtype(call, self.dtype);
    if (self.sizes.size() != 1)
      fail_user("K0201", "bincount only supports 1-d non-negative integral inputs", call.where());
    DType dtype = DType::i64;
    // Of an empty input eager looks at no weights.
    const bool empty = self.sizes[0].is_constant() && self.sizes[0].value() == 0;
    if (const Value* weights = call.tensor_or_null("weights"); weights && !empty)
      dtype = weights->type.dtype == DType::f32 ? DType::f32 : DType::f64;
    const auto& results = call.node().results;
    bool typed = !results.empty() && results[0]->type.sizes.size() == 1;
    Expr bins = typed ? results[0]->type.sizes[0] : Expr::symbol(str("u_", call.node().name));
    call.results = {contiguous_type(dtype, {bins}, self.device)};
  };
  record.reference = [](ReferenceCall& call) {
    std::vector<int64_t> values = read_dense<int64_t>(call.tensor("self"));
    int64_t bins = call.integer("minlength");
    for (int64_t value : values) {
      if (value < 0) fail_user("K0630", "bincount only supports non-negative inputs", call.node().where());
      bins = std::max(bins, value + 1);
    }
    Tensor out = new_result(call, {bins});
    std::vector<double> sums(static_cast<size_t>(bins), 0),
        weights = call.given("weights") ? read_dense<double>(call.tensor("weights")) : std::vector<double>();
    for (size_t i = 0; i < values.size(); ++i)
      sums[static_cast<size_t>(values[i])] += call.given("weights") ? weights.at(i) : 1;
    write_dense(out, sums);
    call.results = {Datum{out}};
  };
  record.samples = {{{spec({6}, DType::i64, 0, 4)}},
                    {{spec({6}, DType::i64, 0, 4), spec({6})}},
                    {{spec({6}, DType::i32, 0, 4), Argument::None{}, Scalar(9)}},
                    {{spec({0}, DType::i64)}},
                    {{spec({0}, DType::i64), spec({0}), Scalar(3)}},
                    {{spec({3})}, true},
                    {{spec({3, 2}, DType::i64)}, true}};
  r.add(std::move(record));
}

}  // namespace

void register_unique_family(Registry& r) {
  register_uniques(r);
  register_bincount(r);
}

}  // namespace kiln
