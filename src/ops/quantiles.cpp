// Statistics of rows that go by order or frequency: quantile, mode, histc.
#include <cmath>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

// ---- quantile ----

enum class Between : uint8_t { linear, lower, higher, midpoint, nearest };

Between interpolation(const OpCall& call) {
  std::string name = call.string("interpolation");
  if (name == "linear") return Between::linear;
  if (name == "lower") return Between::lower;
  if (name == "higher") return Between::higher;
  if (name == "midpoint") return Between::midpoint;
  if (name == "nearest") return Between::nearest;
  refuse(call, "K0201", str("unknown interpolation ", name));
}

// Where the quantiles stand in sorted rows, as numbers between 0 and the last position. A NaN is last in its row: with
// one in it every quantile is that NaN, unless they are left out.
Value* ranks_of(Build& b, Value* sorted, Value* q, bool skips) {
  Expr last = sorted->type.sizes.back() - Expr(1);
  Value* nans = b("isnan", {sorted});
  if (skips) {
    Value* counted = b("sum.dim_IntList", {b("logical_not", {nans}), b.ints({-1}), Scalar(true)});
    Value* top = b("clamp_min", {b.sub(counted, Scalar(1)), Scalar(0)});
    return b.mul(q, b.to(top, q->type.dtype));
  }
  Sizes sizes = sorted->type.sizes;
  sizes.back() = q->type.sizes.back();
  Value* plain = b("expand", {b.mul(q, number(last)), b.ints(sizes)});
  Value* has_nan = b("any.dim", {nans, Scalar(-1), Scalar(true)});
  return b("where.self", {has_nan, b("full_like", {plain, number(last)}), plain});
}

Value* picked(Build& b, Value* sorted, Value* ranks) {
  return b("gather", {sorted, Scalar(-1), b.to(ranks, DType::i64)});
}

Value* quantiles(Build& b, Value* sorted, Value* ranks) {
  switch (Between how = interpolation(b.call()); how) {
    case Between::lower:
      return picked(b, sorted, b("floor", {ranks}));
    case Between::higher:
      return picked(b, sorted, b("ceil", {ranks}));
    case Between::nearest:
      return picked(b, sorted, b("round", {ranks}));
    default: {
      Value* below = b("floor", {ranks});
      Value *low = picked(b, sorted, below), *high = picked(b, sorted, b("ceil", {ranks}));
      Value* share = how == Between::midpoint ? b("full_like", {ranks, Scalar(0.5)}) : b.sub(ranks, below);
      return b("lerp.Tensor", {low, high, share});
    }
  }
}

void build_quantile(Build& b, bool skips, bool scalar) {
  DecomposeCall& call = b.call();
  Value* x = call.tensor("self");
  if (x->type.dtype != DType::f32 && x->type.dtype != DType::f64) refuse_dtype(call, x->type.dtype);
  int64_t rank = rank_of(x);
  Sizes kept(static_cast<size_t>(rank), Expr(1));  // result with keepdim
  Value* rows;
  if (call.given("dim")) {
    int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank);
    kept = x->type.sizes;
    if (rank > 0) kept[static_cast<size_t>(dim)] = Expr(1);
    // The reduced dimension goes last and leaves a 1 behind.
    rows = rank == 0 ? b.view(x, {Expr(1)})
                     : b("transpose.int", {b("unsqueeze", {x, Scalar(-1)}), Scalar(dim), Scalar(rank)});
  } else {
    rows = b("reshape", {x, b.ints({-1})});
  }
  for (const Expr& size : rows->type.sizes) require(call, {size, Expr(1), "quantile() input tensor must be non-empty"});
  bool keep = call.boolean("keepdim");
  // Only the values are wanted: equal ones may keep their order, which sorts faster.
  Value* sorted = b.all("sort.stable", {rows, Scalar(true), Scalar(-1)})[0];
  Value* q = scalar ? b("full", {b.ints({1}), call.arg("q"), x->type.dtype}) : call.tensor("q");
  if (!scalar && q->type.dtype != x->type.dtype) refuse(call, "K0201", "q must have the dtype of the input");
  if (rank_of(q) > 1) refuse(call, "K0201", "q must be a scalar or 1D tensor");
  bool single = scalar || rank_of(q) == 0;
  if (rank_of(q) == 0) q = b.view(q, {Expr(1)});
  Value* found = quantiles(b, sorted, ranks_of(b, sorted, q, skips));
  // [rows…, q] -> [q, rows…] with or without the reduced dimension.
  Sizes shape = kept;
  if (!keep) {
    shape.clear();
    if (call.given("dim"))
      for (int64_t d = 0; d < rank; ++d)
        if (d != wrap_dim(call, call.constant_integer("dim"), rank))
          shape.push_back(x->type.sizes[static_cast<size_t>(d)]);
  }
  if (!single) shape.push_back(q->type.sizes[0]);
  Value* out = b.view(found, shape);
  call.result(single ? out : b("movedim.int", {out, Scalar(-1), Scalar(0)}));
}

void register_quantiles(Registry& r) {
  std::string tail = "int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor";
  Sample::SampleArg none = Argument::None{};
  for (bool skips : {false, true}) {
    std::string name = skips ? "nanquantile" : "quantile";
    std::vector<Sample> single = {{{spec({3, 4}), Scalar(0.3)}},
                                  {{spec({3, 4}), Scalar(0.5), Scalar(0), Scalar(true)}},
                                  {{spec({}), Scalar(0.5)}},
                                  {{spec({3}, DType::bf16), Scalar(0.5)}, true}};
    for (const char* how : {"lower", "higher", "nearest", "midpoint"})
      single.push_back({{spec({3, 4}), Scalar(0.3), Scalar(1), Scalar(false), std::string(how)}});
    single.push_back({{spec({3, 4}), Scalar(0.3), Scalar(1), Scalar(false), std::string("other")}, true});
    add_composite(r, {.schema = name + ".scalar(Tensor self, float q, " + tail,
                      .build = [skips](Build& b) { build_quantile(b, skips, true); },
                      .samples = single});
    add_composite(r, {.schema = name + "(Tensor self, Tensor q, " + tail,
                      .build = [skips](Build& b) { build_quantile(b, skips, false); },
                      .samples = {{{spec({3, 4}), spec({2}, DType::f32, 0, 1)}},
                                  {{spec({3, 4, 2}), spec({2}, DType::f32, 0, 1), Scalar(1), Scalar(true)}},
                                  {{spec({3, 4}), spec({}, DType::f32, 0, 1), Scalar(0)}},
                                  {{spec({3}), spec({2}, DType::f64, 0, 1)}, true}}});
  }
}

// ---- mode ----

// The value that is there most often; of several the smallest. Its index is that of the last of the equals, in the
// order in which eager's std::sort leaves them, which aten.sort has too where stability was not asked for. NaNs come
// last, each of them by itself.
void build_mode(Build& b) {
  DecomposeCall& call = b.call();
  Value* self = call.tensor("self");
  refuse_complex(call, self->type.dtype);
  int64_t rank = rank_of(self), dim = wrap_dim(call, call.constant_integer("dim"), rank);
  if (rank == 0) {
    call.result(0, b("clone", {self}));
    return call.result(1, b("zeros_like", {self, DType::i64}));
  }
  bool flags = self->type.dtype == DType::boolean;
  Value* x = flags ? b.to(self, DType::u8) : self;
  Value* rows = b("movedim.int", {x, Scalar(dim), Scalar(-1)});
  const Expr size = rows->type.sizes.back();
  require(call, {size, Expr(1), str("mode(): Expected reduction dim ", dim, " to have non-zero size")});
  // A long vector of integers aten.sort sorts in another way than std::sort; one row of a matrix it does not.
  if (rank == 1) rows = b("unsqueeze", {rows, Scalar(0)});
  const std::vector<Value*> sorted = b.all("sort.stable", {rows, Scalar(false), Scalar(-1)});
  Value *values = sorted[0], *order = sorted[1], *places = b("arange", {number(size)});
  auto differs_from = [&](int64_t shift) {
    const int64_t last = std::max<int64_t>(rank, 2) - 1;
    return b("ne.Tensor", {values, b("roll", {values, b.ints({shift}), b.ints({last})})});
  };
  Value* begins = b("logical_or", {differs_from(1), b("eq.Scalar", {places, Scalar(0)})});
  Value* ends = b("logical_or", {differs_from(-1), b("eq.Scalar", {places, number(size - Expr(1))})});
  Value* begun = b.all("cummax", {b("where.ScalarOther", {begins, places, Scalar(0)}), Scalar(-1)})[0];
  // How many are equal, at the last of them; argmax gives the first of several.
  Value* counts = b("where.ScalarOther", {ends, b.add(b.sub(places, begun), Scalar(1)), Scalar(0)});
  Value* at = b("argmax", {counts, Scalar(-1), Scalar(true)});
  Value *value = b("gather", {values, Scalar(-1), at}), *index = b("gather", {order, Scalar(-1), at});
  auto shaped = [&](Value* v) {
    if (rank == 1) v = b("squeeze.dim", {v, Scalar(0)});
    v = call.boolean("keepdim") ? b("movedim.int", {v, Scalar(-1), Scalar(dim)}) : b("squeeze.dim", {v, Scalar(-1)});
    return b.contiguous(v);
  };
  call.result(0, b.to(shaped(value), self->type.dtype));
  call.result(1, shaped(index));
}

// ---- histc ----

// How many elements fall into each of `bins` equal steps between min and max; the last step includes max. Without
// bounds those of the data.
void build_histc(Build& b) {
  DecomposeCall& call = b.call();
  Value* self = call.tensor("self");
  if (!is_float(self->type.dtype)) refuse_dtype(call, self->type.dtype);
  int64_t bins = call.constant_integer("bins");
  if (bins <= 0) refuse(call, "K0201", "bins must be > 0");
  auto low = call.scalar("min"), high = call.scalar("max");
  const auto *from = std::get_if<Scalar>(&low), *to = std::get_if<Scalar>(&high);
  if (!from || !to) fail_unsupported("K0202", "histc: symbolic bounds are not supported", call.where());
  if (from->as_double() > to->as_double()) refuse(call, "K0201", "max must be larger than min");
  Value* x = b("reshape", {b.to(self, compute_dtype(self->type.dtype)), b.ints({-1})});
  Value *least, *most;
  if (from->as_double() == to->as_double() && !is_zero_numel(x->type.sizes)) {
    // Of no elements: 0 to 0, as of a static empty tensor.
    Value* none = b("full", {b.ints(Sizes{}), Expr::make(ExprOp::eq, {x->type.sizes[0], Expr(0)}), DType::boolean});
    auto known = [&](std::string_view op) {
      return b("masked_fill.Scalar", {call.call(op, {x, b.ints({0})}), none, Scalar(0.0)});
    };
    Value *lowest = known("kiln.amin.default"), *highest = known("kiln.amax.default");
    Value* alone = b("eq.Tensor", {lowest, highest});
    least = b("where.self", {alone, b.sub(lowest, Scalar(1)), lowest});
    most = b("where.self", {alone, b.add(highest, Scalar(1)), highest});
  } else {
    bool same = from->as_double() == to->as_double();
    least = b("new_full", {x, b.ints(Sizes{}), Scalar(from->as_double() - (same ? 1 : 0))});
    most = b("new_full", {x, b.ints(Sizes{}), Scalar(to->as_double() + (same ? 1 : 0))});
  }
  Value* inside = b("logical_and", {b("ge.Tensor", {x, least}), b("le.Tensor", {x, most})});
  Value* place = b.mul(b.div(b.sub(x, least), b.sub(most, least)), Scalar(static_cast<double>(bins)));
  place = b("masked_fill.Scalar", {b("floor", {place}), b("logical_not", {inside}), Scalar(0.0)});
  Value* bin = b("clamp", {b.to(place, DType::i64), Scalar(0), Scalar(bins - 1)});
  Value* counts = b("index_add", {b("new_zeros", {x, b.ints({bins})}), Scalar(0), bin, b.to(inside, x->type.dtype)});
  call.result(b.to(counts, self->type.dtype));
}

}  // namespace

void register_quantile_family(Registry& r) {
  register_quantiles(r);
  add_composite(r, {.schema = "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
                    .build = build_mode,
                    .samples = {{{spec({3, 6}, DType::i64, 0, 2)}},
                                {{spec({5, 2}, DType::i64, 0, 2), Scalar(0), Scalar(true)}},
                                {{spec({4}, DType::boolean)}},
                                {{spec({2, 3, 4}), Scalar(1)}},
                                {{spec({})}},
                                {{spec({3}), Scalar(1)}, true}}});
  add_composite(r, {.schema = "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
                    .build = build_histc,
                    .samples = {{{spec({20}), Scalar(5)}},
                                {{spec({4, 5}), Scalar(4), Scalar(-1), Scalar(1)}},
                                {{spec({3}), Scalar(0)}, true},
                                {{spec({3}), Scalar(4), Scalar(2), Scalar(1)}, true}}});
  r.describe({"nanquantile", "quantile"}, autocast_to(AutocastRule::single));
}

}  // namespace kiln
