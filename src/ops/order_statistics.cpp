// Operators built on sorting: argsort, median, kthvalue; and searching in sorted sequences.
#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using loops::KernelBuilder;
using loops::ReduceOp;
using List = std::vector<int64_t>;
using Index = std::vector<Expr>;

[[noreturn]] void refuse(const OpCall& call, std::string_view why) {
  fail_user("K0213", str(call.schema().name, ": ", why), call.where());
}

// ---- Sorting ----

std::vector<Value*> sorted(Build& b, Value* x, int64_t dim, bool descending) {
  return b.all("sort.stable", {x, Scalar(true), Scalar(dim), Scalar(descending)});
}

void register_sorts(Registry& r) {
  auto build = [](Build& b) {
    DecomposeCall& call = b.call();
    bool stable = call.schema().find("stable") >= 0 && call.boolean("stable");
    call.result(b.all("sort.stable", {call.tensor("self"), Scalar(stable), Scalar(call.constant_integer("dim")),
                                      Scalar(call.boolean("descending"))})[1]);
  };
  add_composite(
      r,
      {.schema = "argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
       .build = build,
       .samples = {
           {{spec({3, 4})}}, {{spec({4, 3}), Scalar(0), Scalar(true)}}, {{spec({})}}, {{spec({3}), Scalar(1)}, true}}});
  add_composite(r,
                {.schema = "argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
                 .build = build,
                 .samples = {{{spec({3, 4}), Scalar(true)}},
                             {{spec({4, 3}, DType::i64), Scalar(true), Scalar(0), Scalar(true)}}}});
  add_composite(r, {.schema = "msort(Tensor self) -> Tensor",
                    .build = [](Build& b) { b.call().result(sorted(b, b.call().tensor("self"), 0, false)[0]); },
                    .samples = {{{spec({3, 4})}}, {{spec({})}}}});
}

// The element of a rank along a dimension, from the sorted rows.
struct Ranked {
  Value *values, *indices;
};
Ranked ranked(Build& b, const std::vector<Value*>& rows, int64_t dim, const Expr& rank, bool keep) {
  if (rows[0]->type.sizes.empty()) return {rows[0], rows[1]};
  Argument at = rank.is_constant() ? Argument(Scalar(rank.value())) : Argument(rank);
  Value *value = b("select.int", {rows[0], Scalar(dim), at}), *index = b("select.int", {rows[1], Scalar(dim), at});
  if (!keep) return {value, index};
  return {b("unsqueeze", {value, Scalar(dim)}), b("unsqueeze", {index, Scalar(dim)})};
}

// The lower of the two middle elements. NaN counts as larger than all numbers, so it is the last one of a row: then the
// median is NaN.
Ranked median_along(Build& b, Value* x, int64_t dim, bool keep) {
  auto rows = sorted(b, x, dim, false);
  Expr size = x->type.sizes.empty() ? Expr(1) : x->type.sizes[static_cast<size_t>(dim)];
  if (size.is_constant(0)) refuse(b.call(), "expected a dimension with elements");
  Ranked middle = ranked(b, rows, dim, floordiv(size - Expr(1), Expr(2)), keep);
  if (!is_float(x->type.dtype)) return middle;
  Value* nans = b("isnan", {x});
  Value* has_nan = x->type.sizes.empty() ? nans : b("any.dim", {nans, Scalar(dim), Scalar(keep)});
  Value* first = b("argmax", {b.to(nans, DType::u8), Scalar(dim), Scalar(keep)});
  return {b("masked_fill.Scalar", {middle.values, has_nan, Scalar(NAN)}),
          b("where.self", {has_nan, first, middle.indices})};
}

// As median, with NaN left out: the middle of the elements before the first NaN.
Ranked nanmedian_along(Build& b, Value* x, int64_t dim, bool keep) {
  if (!is_float(x->type.dtype) || x->type.sizes.empty()) return median_along(b, x, dim, keep);
  auto rows = sorted(b, x, dim, false);
  Value* counted = b("sum.dim_IntList", {b("logical_not", {b("isnan", {x})}), b.ints({dim}), Scalar(true)});
  Value* at =
      b("clamp_min", {b("div.Tensor_mode", {b.sub(counted, Scalar(1)), Scalar(2), std::string("trunc")}), Scalar(0)});
  Value *value = b("gather", {rows[0], Scalar(dim), at}), *index = b("gather", {rows[1], Scalar(dim), at});
  if (keep) return {value, index};
  return {b("squeeze.dim", {value, Scalar(dim)}), b("squeeze.dim", {index, Scalar(dim)})};
}

void register_medians(Registry& r) {
  for (bool skips : {false, true}) {
    std::string name = skips ? "nanmedian" : "median";
    auto along = skips ? nanmedian_along : median_along;
    add_composite(r, {.schema = name + "(Tensor self) -> Tensor",
                      .build =
                          [along](Build& b) {
                            Value* flat = b("reshape", {b.call().tensor("self"), b.ints({-1})});
                            b.call().result(along(b, flat, 0, false).values);
                          },
                      .samples = {{{spec({3, 4})}}, {{spec({5}, DType::i64, -9, 9)}}, {{spec({})}}}});
    add_composite(
        r,
        {.schema = name + ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
         .build =
             [along](Build& b) {
               DecomposeCall& call = b.call();
               Value* self = call.tensor("self");
               int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(self));
               Ranked out = along(b, self, dim, call.boolean("keepdim") && rank_of(self) > 0);
               call.result(0, b.contiguous(out.values));
               call.result(1, b.contiguous(out.indices));
             },
         .samples = {
             {{spec({3, 4}), Scalar(1)}}, {{spec({3, 4}), Scalar(0), Scalar(true)}}, {{spec({3}), Scalar(1)}, true}}});
  }
  add_composite(
      r,
      {.schema = "kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
       .build =
           [](Build& b) {
             DecomposeCall& call = b.call();
             Value* self = call.tensor("self");
             int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(self));
             Expr k = call.integer("k"),
                  size = self->type.sizes.empty() ? Expr(1) : self->type.sizes[static_cast<size_t>(dim)];
             if (prove_le(k, size, call.ranges()) == Proof::no || prove_lt(Expr(0), k, call.ranges()) == Proof::no)
               refuse(call, "selected number k out of range for dimension");
             Ranked out =
                 ranked(b, sorted(b, self, dim, false), dim, k - Expr(1), call.boolean("keepdim") && rank_of(self) > 0);
             call.result(0, b.contiguous(out.values));
             call.result(1, b.contiguous(out.indices));
           },
       .samples = {{{spec({3, 4}), Scalar(2)}},
                   {{spec({3, 4}), Scalar(1), Scalar(0), Scalar(true)}},
                   {{spec({3}), Scalar(4)}, true}}});
}

// ---- Searching ----

// The place of a value in a sorted row is the number of elements before it: `right` counts equal ones too.
struct SearchRow {
  std::string schema;
  std::string rows, values;  // names of the arguments
  std::vector<Sample> samples = {};
};

bool searches_right(const OpCall& call) {
  bool right = call.boolean("right");
  if (call.schema().find("side") < 0 || !call.given("side")) return right;
  std::string side = call.string("side");
  if (side != "left" && side != "right") refuse(call, "side can only be 'left' or 'right'");
  return side == "right";
}

DType search_type(const OpCall& call) { return call.boolean("out_int32") ? DType::i32 : DType::i64; }

void infer_search(InferCall& call, const SearchRow& row) {
  const Value* rows = call.tensor(row.rows);
  Operand values = operand(call, row.values);
  if (rank_of(rows) == 0) refuse(call, "boundaries must have at least one dimension");
  if (call.schema().find("sorter") >= 0 && call.given("sorter"))
    fail_unsupported("K0213", str(call.schema().name, ": sorter is not supported"), call.where());
  searches_right(call);
  Sizes sizes = values.tensor ? values.tensor->type.sizes : Sizes{};
  if (rank_of(rows) > 1) {
    bool same = sizes.size() == rows->type.sizes.size();
    for (size_t d = 0; same && d + 1 < sizes.size(); ++d)
      same = prove_eq(sizes[d], rows->type.sizes[d], call.ranges()) != Proof::no;
    if (!same) refuse(call, "boundaries tensor should be 1 dimension or the first N-1 dimensions must match");
  }
  call.results = {contiguous_type(search_type(call), std::move(sizes), rows->type.device)};
}

void lower_search(LowerCall& call, const SearchRow& row) {
  const Value* rows = call.tensor(row.rows);
  Operand values = operand(call, row.values);
  Promotion promotion;
  add_operand(promotion, values);
  promotion.add_tensor(rows->type.dtype, true);
  DType common = promotion.result(), compute = compute_dtype(common);
  bool right = searches_right(call);
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const Index& i) {
      ValueId value = load_operand(call, k, values, common, i);
      ValueId before = k.reduce_one(ReduceOp::sum, DType::i64, {rows->type.sizes.back()}, [&](const Index& r) {
        Index at = rank_of(rows) == 1 ? Index{} : Index(i.begin(), i.end() - 1);
        at.push_back(r[0]);
        ValueId edge = k.as(compute, k.load_compute(call.buffer(rows), at));
        // Negated, so that a NaN is after everything.
        ValueId after = k.op(right ? ScalarOp::gt : ScalarOp::ge, edge, value);
        return k.as(DType::i64, k.op(ScalarOp::logical_not, after));
      });
      k.store(call.output(), i, before);
    });
  });
}

void reference_search(ReferenceCall& call, const SearchRow& row, const Schema& schema) {
  OpCall typed(call.node(), schema);
  bool right = searches_right(typed);
  Tensor rows = call.tensor(row.rows);
  const Datum& given = call.values.find(row.values)->second;
  Tensor values = given.is_tensor() ? given.tensor() : Tensor::scalar(number_kind(given.scalar()), given.scalar());
  std::vector<double> edges = read_dense<double>(rows), x = read_dense<double>(values);
  int64_t length = rows.sizes.back(), per_row = rows.rank() == 1 ? values.numel() : values.sizes.back();
  std::vector<int64_t> out;
  for (size_t i = 0; i < x.size(); ++i) {
    const double* begin =
        edges.data() + (rows.rank() == 1 ? 0 : static_cast<int64_t>(i) / std::max<int64_t>(per_row, 1) * length);
    auto place = right ? std::partition_point(begin, begin + length, [&](double e) { return !(e > x[i]); })
                       : std::partition_point(begin, begin + length, [&](double e) { return !(e >= x[i]); });
    out.push_back(place - begin);
  }
  Tensor result = Tensor::empty(search_type(typed), values.sizes);
  write_dense(result, out);
  call.results = {Datum{result}};
}

void add_search(Registry& r, SearchRow row) {
  auto schema = std::make_shared<const Schema>(parse_schema(row.schema));
  OpRecord record;
  record.schema_text = row.schema;
  record.samples = row.samples;
  record.infer = [row](InferCall& call) { infer_search(call, row); };
  record.lower = [row](LowerCall& call) { lower_search(call, row); };
  record.reference = [row, schema](ReferenceCall& call) { reference_search(call, row, *schema); };
  r.add(std::move(record));
}

void register_searching(Registry& r) {
  // Samples of equal values: any row of one constant is sorted.
  Sample::TensorSpec row = spec({4}, DType::f32, 0.5, 0.5), rows = spec({2, 4}, DType::i64, 1, 1), x = spec({2, 3});
  std::string tail = "bool out_int32=False, bool right=False) -> Tensor";
  std::string more = "bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor";
  add_search(
      r, {"bucketize.Tensor(Tensor self, Tensor boundaries, *, " + tail,
          "boundaries",
          "self",
          {{{x, row}}, {{x, row, Scalar(true), Scalar(true)}}, {{spec({3}, DType::i64), row}}, {{x, spec({})}, true}}});
  add_search(
      r, {"bucketize.Scalar(Scalar self, Tensor boundaries, *, " + tail, "boundaries", "self", {{{Scalar(1), row}}}});
  add_search(r, {"searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, " + more,
                 "sorted_sequence",
                 "self",
                 {{{row, x}},
                  {{rows, x}},
                  {{row, x, Scalar(false), Scalar(false), std::string("right")}},
                  {{row, x, Scalar(false), Scalar(false), std::string("up")}, true}}});
  add_search(r, {"searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, " + more,
                 "sorted_sequence",
                 "self",
                 {{{row, Scalar(1.5)}}}});
}

}  // namespace

void register_order_statistics(Registry& registry) {
  register_sorts(registry);
  register_medians(registry);
  register_searching(registry);
}

}  // namespace kiln
