// Distances between rows (cdist, pdist) and the norm that bounds them (renorm).
#include <cmath>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

double constant_number(const OpCall& call, std::string_view arg) {
  auto number = call.scalar(arg);
  const auto* known = std::get_if<Scalar>(&number);
  if (!known) fail_unsupported("K0202", str(call.schema().name, ": ", arg, " is symbolic"), call.where());
  return known->as_double();
}

// The p-norm over some dimensions; 0 counts what is not zero.
Value* p_norm(Build& b, Value* x, double p, const std::vector<int64_t>& dims, bool keep) {
  Argument along = b.ints(to_exprs(dims));
  auto sum = [&](Value* v) { return b("sum.dim_IntList", {v, along, Scalar(keep)}); };
  bool empty = false;
  for (int64_t d : dims) empty |= x->type.sizes[static_cast<size_t>(d < 0 ? d + rank_of(x) : d)].is_constant(0);
  if (empty) return sum(x);
  Value* size = b("abs", {x});
  // Without coordinates two points are at the same place.
  if (std::isinf(p)) return largest_or_zero(b.call(), size, dims, keep);
  if (p == 0) return sum(b.to(b("ne.Scalar", {x, Scalar(0)}), x->type.dtype));
  if (p == 1) return sum(size);
  if (p == 2) return b("sqrt", {sum(b.mul(x, x))});
  return b("pow.Tensor_Scalar", {sum(b("pow.Tensor_Scalar", {size, Scalar(p)})), Scalar(1 / p)});
}

Value* widened(Build& b, Value* x) { return b.to(x, compute_dtype(x->type.dtype)); }

void build_cdist(Build& b, double p) {
  DecomposeCall& call = b.call();
  Value *x = call.tensor("x1"), *y = call.tensor("x2");
  if (!is_float(x->type.dtype)) refuse_dtype(call, x->type.dtype);
  if (rank_of(x) < 2 || rank_of(y) < 2) refuse(call, "K0201", "needs at least two dimensions");
  if (p < 0) refuse(call, "K0201", "only supports non-negative p values");
  if (prove_eq(x->type.sizes.back(), y->type.sizes.back(), call.ranges()) == Proof::no)
    refuse(call, "K0201", "X1 and X2 must have the same number of columns");
  Promotion promotion;
  promotion.add_tensor(x->type.dtype, true);
  promotion.add_tensor(y->type.dtype, true);
  Value* apart = b.sub(b("unsqueeze", {widened(b, x), Scalar(-2)}), b("unsqueeze", {widened(b, y), Scalar(-3)}));
  call.result(b.contiguous(b.to(p_norm(b, apart, p, {-1}, false), promotion.result())));
}

// All pairs of rows i < j, in order: the upper triangle of a matrix, row by row.
void build_pdist(Build& b) {
  DecomposeCall& call = b.call();
  Value* x = call.tensor("self");
  double p = constant_number(call, "p");
  if (!is_float(x->type.dtype)) refuse_dtype(call, x->type.dtype);
  if (rank_of(x) != 2) refuse(call, "K0201", "only supports 2D tensors");
  if (p < 0) refuse(call, "K0201", "only supports non-negative p values");
  Expr rows = x->type.sizes[0], pairs = simplify(floordiv(rows * (rows - Expr(1)), Expr(2)), call.ranges());
  Value* ones = b("new_ones", {x, b.ints(Sizes{rows, rows}), DType::boolean});
  Value* found = call.call_as("aten.nonzero.default", {b("triu", {ones, Scalar(1)})},
                              {strided_type(DType::i64, {pairs, Expr(2)}, {Expr(1), pairs}, x->type.device)})[0];
  auto row = [&](int64_t which) {
    return widened(b, b("index_select", {x, Scalar(0), b("select.int", {found, Scalar(1), Scalar(which)})}));
  };
  call.result(b.to(p_norm(b, b.sub(row(0), row(1)), p, {-1}, false), x->type.dtype));
}

// Slices along `dim` whose norm is too large are scaled to the largest allowed norm.
void build_renorm(Build& b) {
  DecomposeCall& call = b.call();
  Value* x = call.tensor("self");
  if (!is_float(x->type.dtype)) refuse_dtype(call, x->type.dtype);
  if (rank_of(x) < 2) refuse(call, "K0201", "needs at least 2 dimensions");
  double p = constant_number(call, "p"), largest = constant_number(call, "maxnorm");
  if (p <= 0) refuse(call, "K0201", "non-positive-norm not supported");
  if (largest < 0) refuse(call, "K0201", "expected maxnorm to be >= 0");
  int64_t kept = wrap_dim(call, call.constant_integer("dim"), rank_of(x));
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < rank_of(x); ++d)
    if (d != kept) dims.push_back(d);
  Value* wide = widened(b, x);
  Value* norm = p_norm(b, wide, p, dims, true);
  Value* shrunk = b.div(b("full_like", {norm, Scalar(largest)}), b.add(norm, Scalar(1e-7)));
  Value* factor = b("where.ScalarOther", {b("gt.Scalar", {norm, Scalar(largest)}), shrunk, Scalar(1.0)});
  call.result(b.contiguous(b.to(b.mul(wide, factor), x->type.dtype)));
}

}  // namespace

void register_distances(Registry& r) {
  std::vector<Sample> pairs = {{{spec({3, 4}), spec({2, 4})}},
                               {{spec({2, 3, 4}), spec({5, 4}), Scalar(1.0)}},
                               {{spec({3, 4}), spec({2, 4}), Scalar(INFINITY)}},
                               {{spec({3, 4}), spec({2, 4}), Scalar(0.0)}},
                               {{spec({3, 4}), spec({2, 4}), Scalar(3.0)}},
                               {{spec({3, 0}), spec({2, 0})}},
                               {{spec({3, 4}), spec({2, 5})}, true},
                               {{spec({3, 4}), spec({2, 4}), Scalar(-1.0)}, true}};
  add_composite(r, {.schema = "cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor",
                    .build = [](Build& b) { build_cdist(b, constant_number(b.call(), "p")); },
                    .samples = pairs});
  add_composite(r, {.schema = "_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
                    .build = [](Build& b) { build_cdist(b, constant_number(b.call(), "p")); },
                    .samples = {{{spec({3, 4}), spec({2, 4}), Scalar(2.0), Argument::None{}}}}});
  add_composite(r, {.schema = "_euclidean_dist(Tensor x1, Tensor x2) -> Tensor",
                    .build = [](Build& b) { build_cdist(b, 2); },
                    .samples = {{{spec({3, 4}), spec({2, 4})}}}});
  for (const char* name : {"pdist", "_pdist_forward"})
    add_composite(r, {.schema = str(name, "(Tensor self, float p=2.) -> Tensor"),
                      .build = build_pdist,
                      .samples = {{{spec({4, 3})}},
                                  {{spec({4, 3}), Scalar(1.5)}},
                                  {{spec({1, 3})}},
                                  {{spec({3, 0})}},
                                  {{spec({3})}, true}}});
  add_composite(r, {.schema = "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
                    .build = build_renorm,
                    .samples = {{{spec({3, 4}), Scalar(2), Scalar(0), Scalar(1.5)}},
                                {{spec({2, 3, 4}), Scalar(1), Scalar(-1), Scalar(2)}},
                                {{spec({3, 4}, DType::bf16), Scalar(3), Scalar(1), Scalar(0.5)}},
                                {{spec({3}), Scalar(2), Scalar(0), Scalar(1)}, true}},
                    .inplace = true});
  r.describe({"cdist"}, autocast_to(AutocastRule::single));
}

}  // namespace kiln
