// Composite operators of choice and membership: isclose, isin, take_along_dim, one_hot, masked_scatter and their
// relatives; finite differences and integrals.
#include <cmath>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;
using Specs = std::vector<Sample::TensorSpec>;

// ---- Membership ----

void build_isclose(Build& b) {
  DecomposeCall& call = b.call();
  Value *x = call.tensor("self"), *y = call.tensor("other");
  if (x->type.dtype != y->type.dtype) refuse(call, "K0201", "both tensors must have the same dtype");
  Value* close = b("eq.Tensor", {x, y});
  if (is_float(x->type.dtype) && call.boolean("equal_nan"))
    close = b("logical_or", {close, b("logical_and", {b("isnan", {x}), b("isnan", {y})})});
  // |x - y| <= atol + rtol * |y|, in floats; only finite differences count.
  auto widened = [&](Value* v) { return is_float(v->type.dtype) ? v : b.to(v, default_float); };
  Value *a = widened(x), *c = widened(y);
  Value* allowed = b.add(b("abs", {b.mul(c, call.arg("rtol"))}), call.arg("atol"));
  Value* distance = b("abs", {b.sub(a, c)});
  Value* near = b("logical_and", {b("isfinite", {distance}), b("le.Tensor", {distance, allowed})});
  call.result(b("logical_or", {close, near}));
}

Value* contained(Build& b, Value* elements, Value* set) {
  Value* flat = b("reshape", {set, b.ints({-1})});
  return b("any.dim", {b("eq.Tensor", {b("unsqueeze", {elements, Scalar(-1)}), flat}), Scalar(-1)});
}

void build_isin(Build& b, Value* elements, Value* set) {
  Value* found = contained(b, elements, set);
  b.call().result(b.call().boolean("invert") ? b("logical_not", {found}) : found);
}

void register_membership(Registry& r) {
  add_composite(
      r, {.schema =
              "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
          .build = build_isclose,
          .samples = {{{spec({4}), spec({4})}},
                      {{spec({4}), spec({4}), Scalar(0.5), Scalar(0.5), Scalar(true)}},
                      {{spec({4}, DType::i64), spec({4}, DType::i64)}},
                      {{spec({4}), spec({4}, DType::i64)}, true}}});
  std::string tail = "bool assume_unique=False, bool invert=False) -> Tensor";
  add_composite(r, {.schema = "isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, " + tail,
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value* set = call.tensor("test_elements");
                          auto given = call.scalar("element");
                          const auto* constant = std::get_if<Scalar>(&given);
                          Promotion promotion;
                          promotion.add_tensor(set->type.dtype, true);
                          promotion.add_number(constant ? number_kind(*constant) : DType::i64);
                          build_isin(b, b("scalar_tensor", {call.arg("element"), promotion.result()}), set);
                        },
                    .samples = {{{Scalar(2), spec({4}, DType::i64, 0, 3)}},
                                {{Scalar(2), spec({3}, DType::i64, 0, 3), Scalar(false), Scalar(true)}}}});
  add_composite(
      r, {.schema = "isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, " + tail,
          .build = [](Build& b) { build_isin(b, b.call().tensor("elements"), b.call().tensor("test_elements")); },
          .samples = {{{spec({2, 3}, DType::i64, 0, 3), spec({2}, DType::i64, 0, 3)}},
                      {{spec({3}, DType::i64), spec({0}, DType::i64), Scalar(false), Scalar(true)}}}});
  add_composite(r, {.schema = "isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, " + tail,
                    .build =
                        [](Build& b) {
                          Value* found = b("eq.Scalar", {b.call().tensor("elements"), b.call().arg("test_element")});
                          b.call().result(b.call().boolean("invert") ? b("logical_not", {found}) : found);
                        },
                    .samples = {{{spec({3}, DType::i64, 0, 3), Scalar(1)}}}});
  add_composite(
      r, {.schema = "one_hot(Tensor self, int num_classes=-1) -> Tensor",
          .build =
              [](Build& b) {
                Value* self = b.call().tensor("self");
                int64_t classes = b.call().constant_integer("num_classes");
                if (self->type.dtype != DType::i64) refuse_dtype(b.call(), self->type.dtype);
                if (classes < 1) fail_unsupported("K0202", "one_hot needs num_classes", b.call().where());
                require_all(b.call(), b("ge.Scalar", {self, Scalar(0)}), "one_hot: Class values must be non-negative.");
                require_all(b.call(), b("lt.Scalar", {self, Scalar(classes)}),
                            "one_hot: Class values must be smaller than num_classes.");
                Value* range = b("arange", {Scalar(classes)});
                range->type.device = self->type.device;
                b.call().result(b.to(b("eq.Tensor", {b("unsqueeze", {self, Scalar(-1)}), range}), DType::i64));
              },
          .samples = {{{spec({2, 3}, DType::i64, 0, 3), Scalar(4)}}, {{spec({3}), Scalar(4)}, true}}});
}

// ---- Indexing ----

void build_take_along(Build& b) {
  DecomposeCall& call = b.call();
  Value *self = call.tensor("self"), *indices = call.tensor("indices");
  // Indices may count from the end, which gather does not take.
  auto counted = [&](Value* index, const Expr& size) {
    return b("where.self", {b("lt.Scalar", {index, Scalar(0)}), b.add(index, number(size)), index});
  };
  if (!call.given("dim")) {
    Value* flat = b("reshape", {self, b.ints({-1})});
    Value* index = counted(b("reshape", {indices, b.ints({-1})}), flat->type.sizes[0]);
    return call.result(b("gather", {flat, Scalar(0), index}));
  }
  int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(self));
  if (rank_of(self) != rank_of(indices))
    refuse(call, "K0201", "input and indices should have the same number of dimensions");
  Sizes from = self->type.sizes, at = indices->type.sizes;
  for (size_t d = 0; d < from.size(); ++d) {
    if (static_cast<int64_t>(d) == dim) continue;
    from[d] = at[d] = broadcast_sizes(call, {{self->type.sizes[d]}, {indices->type.sizes[d]}}, call.ranges())[0];
  }
  if (rank_of(self) > 0) indices = counted(indices, self->type.sizes[static_cast<size_t>(dim)]);
  call.result(b("gather", {b("expand", {self, b.ints(from)}), Scalar(dim), b("expand", {indices, b.ints(at)})}));
}

// The n-th true element takes the n-th element of the source.
void build_masked_scatter(Build& b) {
  DecomposeCall& call = b.call();
  Value *self = call.tensor("self"), *mask = call.tensor("mask"), *source = call.tensor("source");
  if (mask->type.dtype != DType::boolean) refuse_dtype(call, mask->type.dtype);
  if (self->type.dtype != source->type.dtype) refuse(call, "K0201", "self and source must have the same dtype");
  Sizes sizes = broadcast_sizes(call, {self->type.sizes, mask->type.sizes}, call.ranges());
  Value *wide_self = b("expand", {self, b.ints(sizes)}), *wide_mask = b("expand", {mask, b.ints(sizes)});
  Value* flat = b("reshape", {wide_mask, b.ints({-1})});
  Value* order = b.sub(b("cumsum", {flat, Scalar(0)}), Scalar(1));
  // Where the mask is false the source may be too short, or empty.
  Value* chosen = b.view(call.call("kiln.masked_take.default", {source, flat, order}), sizes);
  call.result(b.contiguous(b("where.self", {wide_mask, chosen, wide_self})));
}

void build_masked_select(Build& b) {
  DecomposeCall& call = b.call();
  Value *self = call.tensor("self"), *mask = call.tensor("mask");
  Sizes sizes = broadcast_sizes(call, {self->type.sizes, mask->type.sizes}, call.ranges());
  if (sizes.empty()) sizes = {Expr(1)};
  Argument::List list = {Argument(b("expand", {mask, b.ints(sizes)}))};
  std::vector<Argument> args = {b("expand", {self, b.ints(sizes)}), Argument(std::move(list))};
  // How many are true the file says, with a symbol of its own.
  const auto& results = call.node().results;
  bool typed = !results.empty() && results[0]->type.sizes.size() == 1;
  call.result(typed ? call.call_as("aten.index.Tensor", args, {results[0]->type})[0] : b("index.Tensor", args));
}

void register_indexing(Registry& r) {
  add_composite(r, {.schema = "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
                    .build = build_take_along,
                    .samples = {{{spec({3, 4}), spec({3, 2}, DType::i64, -4, 3), Scalar(1)}},
                                {{spec({3, 4}), spec({1, 4}, DType::i64, 0, 2), Scalar(0)}},
                                {{spec({3, 4}), spec({5}, DType::i64, 0, 11)}},
                                {{spec({3, 4}), spec({5}, DType::i64), Scalar(0)}, true}}});
  add_composite(r, {.schema = "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
                    .build = build_masked_scatter,
                    .samples = {{{spec({2, 3}), spec({2, 3}, DType::boolean), spec({6})}},
                                {{spec({2, 3}), spec({3}, DType::boolean), spec({2, 3})}},
                                {{spec({2, 3}), spec({2, 3}, DType::boolean, 0, 0), spec({0})}},
                                {{spec({0, 3}), spec({0, 3}, DType::boolean), spec({0, 2})}},
                                {{spec({2}), spec({2}), spec({2})}, true}},
                    .inplace = true});
  add_composite(
      r, {.schema = "masked_select(Tensor self, Tensor mask) -> Tensor",
          .build = build_masked_select,
          .samples = {{{spec({2, 3}), spec({2, 3}, DType::boolean)}}, {{spec({2, 3}), spec({3}, DType::boolean)}}}});
  add_composite(r, {.schema = "_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
                    .build =
                        [](Build& b) {
                          b.call().result(b("index.Tensor", {b.call().tensor("self"), b.call().arg("indices")}));
                        },
                    .samples = {{{spec({5, 4}), Specs{spec({3}, DType::i64, 0, 4)}}}}});
  add_composite(r, {.schema = "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value* self = call.tensor("self");
                          if (self->type.dtype != call.tensor("source")->type.dtype)
                            refuse(call, "K0201", "self and source must have the same dtype");
                          Argument::List list = {Argument(b("reshape", {call.tensor("index"), b.ints({-1})}))};
                          Value* flat = b("reshape", {self, b.ints({-1})});
                          Value* changed = b("index_put", {flat, Argument(std::move(list)),
                                                           b("reshape", {call.tensor("source"), b.ints({-1})}),
                                                           call.arg("accumulate")});
                          call.result(b.view(changed, self->type.sizes));
                        },
                    .samples = {{{spec({2, 3}), spec({1}, DType::i64, -6, 5), spec({1})}},
                                {{spec({2, 3}), spec({2, 2}, DType::i64, 0, 5), spec({4}), Scalar(true)}}},
                    .inplace = true});
}

// ---- Differences and integrals ----

Value* part(Build& b, Value* x, int64_t dim, const Expr& from, const Expr& to) {
  return b("slice.Tensor", {x, Scalar(dim), number(from), number(to)});
}

// x[1:] op x[:-1]
Value* neighbours(Build& b, Value* x, int64_t dim, std::string_view op) {
  const Expr& size = x->type.sizes[static_cast<size_t>(dim)];
  return b(op, {part(b, x, dim, Expr(1), size), part(b, x, dim, Expr(0), size - Expr(1))});
}

void build_diff(Build& b) {
  DecomposeCall& call = b.call();
  Value* x = call.tensor("self");
  if (rank_of(x) == 0) refuse(call, "K0201", "expects at least one dimension");
  int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(x)), times = call.constant_integer("n");
  if (times < 0) refuse(call, "K0201", "order must be non-negative");
  // Without a difference nothing is put before or after either.
  if (times == 0) return call.result(b("clone", {x, MemoryFormat::contiguous}));
  Argument::List list;
  if (call.given("prepend")) list.push_back(Argument(call.tensor("prepend")));
  list.push_back(Argument(x));
  if (call.given("append")) list.push_back(Argument(call.tensor("append")));
  if (list.size() > 1) x = b("cat", {Argument(std::move(list)), Scalar(dim)});
  for (int64_t i = 0; i < times; ++i) {
    const Expr& size = x->type.sizes[static_cast<size_t>(dim)];
    if (size.is_constant() && size.value() <= 1) {
      x = part(b, x, dim, Expr(0), Expr(0));
      break;
    }
    x = neighbours(b, x, dim, x->type.dtype == DType::boolean ? "logical_xor" : "sub.Tensor");
  }
  call.result(b.contiguous(x));
}

// Widths of the intervals, aligned with y's dimension.
Value* widths(Build& b, Value* x, Value* y, int64_t dim) {
  if (rank_of(x) == 1 && rank_of(y) > 1) {
    Sizes sizes(y->type.sizes.size(), Expr(1));
    sizes[static_cast<size_t>(dim)] = x->type.sizes[0];
    x = b.view(x, sizes);
    return neighbours(b, x, dim, "sub.Tensor");
  }
  return neighbours(b, x, rank_of(x) == rank_of(y) ? dim : dim - (rank_of(y) - rank_of(x)), "sub.Tensor");
}

void build_trapezoid(Build& b, bool with_x, bool cumulative) {
  DecomposeCall& call = b.call();
  Value* y = call.tensor("y");
  if (rank_of(y) == 0) refuse(call, "K0201", "expects at least one dimension");
  int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(y));
  Value* sums = neighbours(b, y, dim, "add.Tensor");
  Value* areas = with_x ? b.mul(widths(b, call.tensor("x"), y, dim), sums) : sums;
  if (cumulative) {
    Value* halves = with_x ? b.div(areas, Scalar(2.0)) : b.mul(b.mul(areas, call.arg("dx")), Scalar(0.5));
    return call.result(b("cumsum", {halves, Scalar(dim)}));
  }
  Value* total = b("sum.dim_IntList", {areas, b.ints({dim}), Scalar(false)});
  call.result(with_x ? b.div(total, Scalar(2.0)) : b.mul(b.mul(total, call.arg("dx")), Scalar(0.5)));
}

void register_calculus(Registry& r) {
  add_composite(
      r, {.schema = "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
          .build = build_diff,
          .samples = {{{spec({2, 5})}},
                      {{spec({5}, DType::boolean)}},
                      {{spec({4, 3}), Scalar(2), Scalar(0)}},
                      {{spec({2}), Scalar(3)}},
                      {{spec({3}), Scalar(1), Scalar(-1), spec({1}), spec({2})}},
                      {{spec({3}), Scalar(0), Scalar(-1), spec({1}), spec({2})}},
                      {{spec({})}, true}}});
  std::vector<Sample> plain = {{{spec({2, 5})}}, {{spec({5, 2}), Scalar(2.0), Scalar(0)}}, {{spec({})}, true}};
  std::vector<Sample> with = {
      {{spec({2, 5}), spec({5})}}, {{spec({2, 5}), spec({2, 5})}}, {{spec({5, 2}), spec({5}), Scalar(0)}}};
  for (const char* name : {"trapezoid", "trapz", "cumulative_trapezoid"}) {
    bool cumulative = std::string_view(name) == "cumulative_trapezoid";
    const char* dx = std::string_view(name) == "trapz" ? "float dx=1" : "Scalar dx=1";
    add_composite(r, {.schema = str(name, ".dx(Tensor y, *, ", dx, ", int dim=-1) -> Tensor"),
                      .build = [cumulative](Build& b) { build_trapezoid(b, false, cumulative); },
                      .samples = plain});
    add_composite(r, {.schema = str(name, ".x(Tensor y, Tensor x, *, int dim=-1) -> Tensor"),
                      .build = [cumulative](Build& b) { build_trapezoid(b, true, cumulative); },
                      .samples = with});
  }
}

}  // namespace

void register_selection(Registry& registry) {
  register_membership(registry);
  register_indexing(registry);
  register_calculus(registry);
  registry.describe({"_unsafe_index", "diff", "masked_scatter", "masked_select", "put"},
                    complex_by(ComplexRule::parts));
}

}  // namespace kiln
