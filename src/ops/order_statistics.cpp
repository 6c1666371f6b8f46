// Operators built on sorting: argsort, median, kthvalue.
#include <cmath>
#include <limits>

#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

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

void require_elements(Build& b, std::string_view name, const Value* x, int64_t dim) {
  if (rank_of(x) == 0) return;
  require(b.call(), {x->type.sizes[static_cast<size_t>(dim)], Expr(1),
                     str(name, "(): Expected reduction dim ", dim, " to have non-zero size")});
}

// What eager's kernel leaves of NaN, the median of nothing, in a type that has none.
Scalar nothing(DType dtype) {
  if (is_float(dtype)) return Scalar(NAN);
  if (dtype == DType::boolean) return Scalar(true);
  if (dtype == DType::i64) return Scalar(std::numeric_limits<int64_t>::min());
  return Scalar(dtype == DType::i32 ? int64_t{std::numeric_limits<int32_t>::min()} : int64_t{0});
}

// The median of all elements. Where there may be none, one is put behind the sorted ones: no rank but that of an empty
// row reaches it.
Value* median_of_all(Build& b, Value* flat, bool skips) {
  const Expr size = flat->type.sizes[0];
  const DType dtype = flat->type.dtype;
  if (prove_le(Expr(1), size, b.call().ranges()) == Proof::yes)
    return (skips ? nanmedian_along : median_along)(b, flat, 0, false).values;
  Value* end = b("full", {b.ints({1}), nothing(dtype), dtype});
  Value* rows = b("cat", {Argument::List{sorted(b, flat, 0, false)[0], end}, Scalar(0)});
  if (!is_float(dtype) || !skips) {
    Value* middle = b("select.int", {rows, Scalar(0), number(max_expr(floordiv(size - Expr(1), Expr(2)), Expr(0)))});
    if (!is_float(dtype)) return middle;
    return b("masked_fill.Scalar", {middle, b("any", {b("isnan", {flat})}), Scalar(NAN)});
  }
  Value* counted = b("sum", {b("logical_not", {b("isnan", {flat})})});
  Value* at =
      b("clamp_min", {b("div.Tensor_mode", {b.sub(counted, Scalar(1)), Scalar(2), std::string("trunc")}), Scalar(0)});
  return b("select.int", {b("gather", {rows, Scalar(0), b("unsqueeze", {at, Scalar(0)})}), Scalar(0), Scalar(0)});
}

void register_medians(Registry& r) {
  for (bool skips : {false, true}) {
    std::string name = skips ? "nanmedian" : "median";
    auto along = skips ? nanmedian_along : median_along;
    add_composite(r, {.schema = name + "(Tensor self) -> Tensor",
                      .build =
                          [skips](Build& b) {
                            Value* flat = b("reshape", {b.call().tensor("self"), b.ints({-1})});
                            b.call().result(median_of_all(b, flat, skips));
                          },
                      .samples = {{{spec({3, 4})}},
                                  {{spec({5}, DType::i64, -9, 9)}},
                                  {{spec({})}},
                                  {{spec({0, 2})}},
                                  {{spec({0}, DType::i32)}}}});
    add_composite(
        r,
        {.schema = name + ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
         .build =
             [along](Build& b) {
               DecomposeCall& call = b.call();
               Value* self = call.tensor("self");
               int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(self));
               require_elements(b, "median", self, dim);
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
             require_elements(b, "kthvalue", self, dim);
             const std::string message = str("kthvalue(): selected number k out of range for dimension ", dim);
             require(call, {k, Expr(1), message});
             require(call, {size, k, message});
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
