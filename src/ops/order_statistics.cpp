// Operators built on sorting: argsort, median, kthvalue.
#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

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

}  // namespace

void register_order_statistics(Registry& registry) {
  register_sorts(registry);
  register_medians(registry);
}

}  // namespace kiln
