// Operators whose work is a library kernel: nonzero, topk, sort.
#include <numeric>

#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/index_parts.h"
#include "ops/layout.h"
#include "ops/reduce_table.h"

namespace kiln {

namespace {

void add_nonzero(Registry& r) {
  OpRecord record;
  record.schema_text = "nonzero(Tensor self) -> Tensor";
  record.reads_data = true;
  record.library = "nonzero";
  record.infer = [](InferCall& call) {
    const Value* self = call.tensor("self");
    // How many there are is known only at run time: the file's symbol, or a new one.
    const auto& results = call.node().results;
    bool typed = !results.empty() && results[0]->type.sizes.size() == 2;
    Expr count = typed ? results[0]->type.sizes[0] : Expr::symbol(str("u_", call.node().name));
    call.results = {strided_type(DType::i64, {count, Expr(rank_of(self))}, {Expr(1), count}, self->type.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor self = call.tensor("self");
    Tensor truth = convert(self, DType::boolean);
    std::vector<int64_t> values = read_dense<int64_t>(truth), index(self.sizes.size(), 0), found;
    int64_t count = 0;
    for (int64_t value : values) {
      if (value) {
        found.insert(found.end(), index.begin(), index.end());
        ++count;
      }
      next_index(index, self.sizes);
    }
    Tensor out = Tensor::empty_strided(DType::i64, {count, self.rank()}, {1, std::max<int64_t>(count, 1)});
    write_dense(out, found);
    call.results = {Datum{out}};
  };
  record.samples = {{{spec({3, 4}, DType::i64, -1, 1)}}, {{spec({6}, DType::boolean)}}, {{spec({})}}, {{spec({0, 3})}}};
  r.add(std::move(record));
}

// The order of eager: NaN counts as larger than every number.
template <class T>
bool comes_before(T a, T b, bool descending) {
  if (descending) std::swap(a, b);
  return b != b ? a == a : a < b;
}

// How equal values are ordered: by position, or as the standard library's algorithms leave them, which eager uses.
enum class Ties : uint8_t { by_position, as_sorted, as_selected, as_selected_unsorted };

template <class T>
std::vector<int64_t> sorted_order(const T* row, int64_t n, int64_t keep, bool descending, Ties ties) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  auto before = [&](int64_t a, int64_t b) { return comes_before(row[a], row[b], descending); };
  auto end = order.begin() + keep;
  if (ties == Ties::by_position) {
    std::stable_sort(order.begin(), order.end(), before);
  } else if (ties == Ties::as_sorted) {
    std::sort(order.begin(), order.end(), before);
  } else if (keep > 0 && keep * 64 <= n) {
    std::partial_sort(order.begin(), end, order.end(), before);
  } else if (keep > 0) {
    std::nth_element(order.begin(), end - 1, order.end(), before);
    if (ties == Ties::as_selected) std::sort(order.begin(), end - 1, before);
  }
  return order;
}

// The first `keep` of each row along `dim` in sorted order, with their positions.
template <class T>
void reference_sorted(ReferenceCall& call, const Tensor& self, size_t dim, int64_t keep, bool descending, Ties ties,
                      std::vector<Tensor> out) {
  std::vector<bool> along(self.sizes.size(), false);
  if (!along.empty()) along[dim] = true;
  auto rows = read_groups<T>(self, along, true);
  std::vector<T> values;
  std::vector<int64_t> indices;
  for (int64_t g = 0; g < rows.groups; ++g) {
    const T* row = rows.values.data() + g * rows.count;
    auto order = sorted_order(row, rows.count, keep, descending, ties);
    for (int64_t i = 0; i < keep; ++i) {
      values.push_back(row[order[static_cast<size_t>(i)]]);
      indices.push_back(order[static_cast<size_t>(i)]);
    }
  }
  write_dense(innermost_view(out[0], along), values);
  write_dense(innermost_view(out[1], along), indices);
  call.results = {Datum{out[0]}, Datum{out[1]}};
}

void evaluate_sorted(ReferenceCall& call, int64_t dim, int64_t keep, bool descending, Ties ties,
                     std::vector<Tensor> out) {
  Tensor self = call.tensor("self");
  size_t at = static_cast<size_t>(dim < 0 ? dim + std::max<int64_t>(self.rank(), 1) : dim);
  if (reference_compute(call, nominal_argument_dtype(call, "self")) == DType::i64)
    reference_sorted<int64_t>(call, self, at, keep, descending, ties, std::move(out));
  else
    reference_sorted<double>(call, self, at, keep, descending, ties, std::move(out));
}

void add_topk(Registry& r) {
  OpRecord record;
  record.schema_text =
      "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, "
      "Tensor indices)";
  record.library = "topk";
  record.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    refuse_complex(call, self.dtype);
    if (self.dtype == DType::boolean) refuse_dtype(call, self.dtype);
    size_t dim = static_cast<size_t>(wrap_dim(call, call.constant_integer("dim"), rank_of(call.tensor("self"))));
    Expr k = call.integer("k"), size = self.sizes.empty() ? Expr(1) : self.sizes[dim];
    if (prove_le(k, size, call.ranges()) == Proof::no || prove_le(Expr(0), k, call.ranges()) == Proof::no)
      fail_user("K0213", str("selected index k out of range: k is ", k.text(), ", the dimension has ", size.text()),
                call.where());
    Sizes sizes = self.sizes;
    if (!sizes.empty()) sizes[dim] = k;
    call.results = {contiguous_type(self.dtype, sizes, self.device), contiguous_type(DType::i64, sizes, self.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor self = call.tensor("self");
    int64_t dim = call.integer("dim"), k = call.integer("k");
    std::vector<int64_t> sizes = self.sizes;
    if (!sizes.empty()) sizes[static_cast<size_t>(dim < 0 ? dim + self.rank() : dim)] = k;
    Ties ties = call.boolean("sorted") ? Ties::as_selected : Ties::as_selected_unsorted;
    evaluate_sorted(call, dim, k, call.boolean("largest"), ties,
                    {new_result(call, sizes, 0), new_result(call, sizes, 1)});
  };
  record.samples = {{{spec({3, 7}), Scalar(2)}},
                    {{spec({5, 3}), Scalar(4), Scalar(0), Scalar(false)}},
                    {{spec({}), Scalar(1)}},
                    {{spec({6}, DType::i64, -99, 99), Scalar(6)}},
                    {{spec({6}, DType::bf16), Scalar(0)}},
                    {{spec({3}), Scalar(4)}, true}};
  r.add(std::move(record));
}

void add_sort(Registry& r, const char* schema, std::vector<Sample> samples) {
  OpRecord record;
  record.schema_text = schema;
  record.library = "sort";
  record.samples = std::move(samples);
  record.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    refuse_complex(call, self.dtype);
    wrap_dim(call, call.constant_integer("dim"), rank_of(call.tensor("self")));
    Sizes strides = like_strides(self.sizes, self.strides, MemoryFormat::preserve, call.ranges());
    call.results = {strided_type(self.dtype, self.sizes, strides, self.device),
                    strided_type(DType::i64, self.sizes, strides, self.device)};
  };
  bool has_stable = std::string_view(schema).find("stable") != std::string_view::npos;
  record.reference = [has_stable](ReferenceCall& call) {
    Tensor self = call.tensor("self");
    int64_t dim = call.integer("dim"), length = 1;
    if (self.rank() > 0) length = self.sizes[static_cast<size_t>(dim < 0 ? dim + self.rank() : dim)];
    auto strides = to_numbers(like_strides(to_exprs(self.sizes), to_exprs(self.strides), MemoryFormat::preserve, {}));
    bool descending = call.boolean("descending");
    bool stable = has_stable && call.given("stable") && call.boolean("stable");
    // Eager sorts long vectors of integers by radix.
    bool radix = self.rank() == 1 && length >= 32768 && !descending && is_integer(nominal_argument_dtype(call, "self"));
    evaluate_sorted(call, dim, length, descending, stable || radix ? Ties::by_position : Ties::as_sorted,
                    {Tensor::empty_strided(call.result_dtype(0), self.sizes, strides),
                     Tensor::empty_strided(DType::i64, self.sizes, strides)});
  };
  r.add(std::move(record));
}

}  // namespace

void register_searches(Registry& r) {
  add_nonzero(r);
  add_topk(r);
  add_sort(r, "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
           {{{spec({3, 7})}},
            {{spec({5, 3}, DType::i64, -9, 9), Scalar(0), Scalar(true)}},
            {{spec({})}},
            {{spec({0, 2})}},
            {{spec({3}), Scalar(1)}, true}});
  add_sort(
      r,
      "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
      {{{spec({3, 7}), Scalar(true)}}, {{spec({5, 3}, DType::i64, -9, 9), Scalar(true), Scalar(0), Scalar(true)}}});
  r.describe({"nonzero"}, complex_by(ComplexRule::truth));
}

}  // namespace kiln
