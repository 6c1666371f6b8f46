// Views: another layout over the same storage.
#include <numeric>

#include "ops/complex_formulas.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/view_inverse.h"
#include "ops/view_table.h"

namespace kiln {

namespace {

using Index = std::vector<Expr>;

Index same_index(const ViewArgs&, const Index& i, const Sizes&) { return i; }

// ---- Same elements, other order of dimensions ----

// result dimension -> dimension of self
using OrderFn = std::function<std::vector<size_t>(const ViewArgs&)>;

std::vector<size_t> identity_order(const ViewArgs& args) {
  std::vector<size_t> order(static_cast<size_t>(args.rank()));
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

std::vector<size_t> swapped(const ViewArgs& args, std::string_view a, std::string_view b) {
  auto order = identity_order(args);
  size_t first = args.at(a), second = args.at(b);
  if (!order.empty()) std::swap(order[first], order[second]);
  return order;
}

std::vector<size_t> last_two_swapped(const ViewArgs& args) {
  auto order = identity_order(args);
  if (order.size() < 2) refuse_view(args, "needs at least 2 dimensions");
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return order;
}

std::vector<size_t> permuted_order(const ViewArgs& args) {
  std::vector<size_t> order;
  std::vector<bool> seen(static_cast<size_t>(args.rank()), false);
  for (const Expr& dim : args.numbers("dims")) {
    if (args.rank() == 0) refuse_view(args, "number of dimensions differs from the tensor's");
    size_t at = static_cast<size_t>(wrap_dim(args.call(), dim.value(), args.rank()));
    if (seen[at]) refuse_view(args, str("dimension ", at, " appears twice"));
    seen[at] = true;
    order.push_back(at);
  }
  if (order.size() != seen.size()) refuse_view(args, "number of dimensions differs from the tensor's");
  return order;
}

std::vector<size_t> moved_order(const ViewArgs& args) {
  Sizes source = args.numbers("source"), destination = args.numbers("destination");
  if (source.size() != destination.size()) refuse_view(args, "source and destination differ in number");
  constexpr size_t free = SIZE_MAX;
  std::vector<size_t> order(static_cast<size_t>(args.rank()), free);
  std::vector<bool> taken(order.size(), false);
  for (size_t i = 0; i < source.size() && !order.empty(); ++i) {
    size_t from = static_cast<size_t>(wrap_dim(args.call(), source[i].value(), args.rank()));
    size_t to = static_cast<size_t>(wrap_dim(args.call(), destination[i].value(), args.rank()));
    if (order[to] != free || taken[from]) refuse_view(args, "a dimension appears twice");
    order[to] = from;
    taken[from] = true;
  }
  size_t next = 0;
  for (size_t& at : order) {
    if (at != free) continue;
    while (taken[next]) ++next;
    at = next++;
  }
  return order;
}

void reordering(Registry& r, std::string schema, OrderFn order, std::vector<Sample> samples, std::string copy = {},
                OpFacts facts = complex_by(ComplexRule::parts)) {
  ViewRow row;
  row.facts = facts;
  row.schema = std::move(schema);
  row.copy_schema = std::move(copy);
  row.samples = std::move(samples);
  row.layout = [order](const ViewArgs& args) {
    ViewLayout out{{}, {}, args.self().offset};
    for (size_t from : order(args)) {
      out.sizes.push_back(args.self().sizes[from]);
      out.strides.push_back(args.self().strides[from]);
    }
    return out;
  };
  row.index = [order](const ViewArgs& args, const Index& i, const Sizes&) {
    Index out(i.size());
    auto from = order(args);
    for (size_t d = 0; d < from.size(); ++d) out[from[d]] = i[d];
    return out;
  };
  add_view(r, row);
}

void register_reorderings(Registry& r) {
  using List = std::vector<int64_t>;
  Sample::SampleArg t234 = spec({2, 3, 4});
  auto two = [](const char* a, const char* b) { return [a, b](const ViewArgs& args) { return swapped(args, a, b); }; };
  std::vector<Sample> swaps = {{{t234, Scalar(0), Scalar(-1)}},
                               {{spec({}), Scalar(0), Scalar(-1)}},
                               {{spec({0, 2}), Scalar(1), Scalar(0)}},
                               {{t234, Scalar(0), Scalar(3)}, true}};
  reordering(r, "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", two("dim0", "dim1"), swaps,
             "transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor");
  reordering(r, "swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)", two("axis0", "axis1"), swaps);
  reordering(r, "swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", two("dim0", "dim1"), swaps);
  auto flat_t = [](const ViewArgs& args) {
    if (args.rank() > 2) refuse_view(args, "needs at most 2 dimensions");
    return args.rank() < 2 ? identity_order(args) : last_two_swapped(args);
  };
  reordering(r, "t(Tensor(a) self) -> Tensor(a)", flat_t,
             {{{spec({2, 3})}}, {{spec({3})}}, {{spec({})}}, {{t234}, true}}, "t_copy(Tensor self) -> Tensor");
  auto reversed = [](const ViewArgs& args) {
    auto order = identity_order(args);
    std::reverse(order.begin(), order.end());
    return order;
  };
  reordering(r, "numpy_T(Tensor(a) self) -> Tensor(a)", reversed, {{{t234}}, {{spec({})}}});
  std::vector<Sample> matrices = {{{t234}},
                                  {{
                                       spec({3}),
                                   },
                                   true}};
  reordering(r, "mT(Tensor(a) self) -> Tensor(a)", last_two_swapped, matrices);
  const OpFacts conjugates = complex_by(ComplexRule::conjugate_moves);
  reordering(r, "mH(Tensor(a) self) -> Tensor(a)", last_two_swapped, matrices, {}, conjugates);
  reordering(r, "adjoint(Tensor(a) self) -> Tensor(a)", last_two_swapped, matrices, {}, conjugates);
  reordering(r, "matrix_H(Tensor(a) self) -> Tensor(a)", flat_t, {{{spec({2, 3})}}, {{t234}, true}}, {}, conjugates);
  reordering(
      r, "permute(Tensor(a) self, int[] dims) -> Tensor(a)", permuted_order,
      {{{t234, List{2, 0, -2}}}, {{spec({}), List{}}}, {{t234, List{0, 1}}, true}, {{t234, List{0, 1, 1}}, true}},
      "permute_copy(Tensor self, int[] dims) -> Tensor");
  std::vector<Sample> moves = {{{t234, List{0, 1}, List{-1, 0}}}};
  for (const char* name : {"movedim", "moveaxis"}) {
    reordering(r, str(name, ".intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"), moved_order,
               moves);
    reordering(r, str(name, ".int(Tensor(a) self, int source, int destination) -> Tensor(a)"), moved_order,
               {{{t234, Scalar(0), Scalar(-1)}}});
  }
}

// ---- Broadcasting ----

using NewSizesFn = std::function<Sizes(const ViewArgs&)>;

void expanding(Registry& r, std::string schema, NewSizesFn new_sizes, std::vector<Sample> samples,
               std::string copy = {}) {
  ViewRow row;
  row.schema = std::move(schema);
  row.copy_schema = std::move(copy);
  row.samples = std::move(samples);
  row.layout = [new_sizes](const ViewArgs& args) {
    const TensorType& self = args.self();
    Sizes sizes = new_sizes(args);
    if (sizes.size() < self.sizes.size()) refuse_view(args, "fewer sizes than the tensor has dimensions");
    size_t lead = sizes.size() - self.sizes.size();
    Sizes strides(sizes.size(), Expr(0));
    for (size_t d = 0; d < sizes.size(); ++d) {
      bool keep = sizes[d].is_constant(-1);
      if (d < lead) {
        if (keep) refuse_view(args, "-1 is not allowed in a leading, non-existing dimension");
        continue;
      }
      if (!keep && range_of(sizes[d], args.ranges()).high < 0) refuse_view(args, "a negative size other than -1");
      const Expr& own = self.sizes[d - lead];
      if (keep) sizes[d] = own;
      if (is_one(own) && !is_one(sizes[d])) continue;
      if (prove_eq(own, sizes[d], args.ranges()) == Proof::no)
        refuse_view(args,
                    str("the expanded size (", sizes[d].text(), ") must match the existing size (", own.text(), ")"));
      strides[d] = self.strides[d - lead];
    }
    return ViewLayout{std::move(sizes), std::move(strides), self.offset};
  };
  row.index = [](const ViewArgs& args, const Index& i, const Sizes& sizes) {
    const Sizes& own = args.self().sizes;
    size_t lead = sizes.size() - own.size();
    Index out;
    for (size_t d = 0; d < own.size(); ++d) {
      if (is_one(own[d])) {
        out.push_back(Expr(0));
      } else if (own[d] == sizes[lead + d] || !range_of(own[d], args.ranges()).contains(1)) {
        out.push_back(i[lead + d]);
      } else {
        out.push_back(min_expr(i[lead + d], own[d] - Expr(1)));
      }
    }
    return out;
  };
  add_view(r, row);
}

void register_expansions(Registry& r) {
  using List = std::vector<int64_t>;
  auto wanted = [](const ViewArgs& args) { return args.numbers("size"); };
  auto like_other = [](const ViewArgs& args) { return args.sizes_of("other"); };
  std::vector<Sample> samples = {{{spec({3, 1}), List{2, 3, 4}}}, {{spec({3, 1}), List{-1, 4}}},
                                 {{spec({}), List{2}}},           {{spec({1}), List{0}}},
                                 {{spec({3}), List{2}}, true},    {{spec({2, 3}), List{3}}, true}};
  expanding(r, "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", wanted, samples,
            "expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor");
  expanding(r, "broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)", wanted, samples);
  expanding(r, "expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", like_other, {{{spec({3, 1}), spec({2, 3, 4})}}});
}

void register_identities(Registry& r) {
  std::vector<Sample> samples = {{{spec({2, 3})}}, {{spec({}, DType::i64)}}, {{spec({0})}}};
  auto identity = [&](std::string schema, std::string copy = {}, OpFacts facts = complex_by(ComplexRule::parts)) {
    add_view(r, ViewRow{std::move(schema), whole_view, same_index, samples, std::move(copy), false, facts});
  };
  identity("alias(Tensor(a) self) -> Tensor(a)", "alias_copy(Tensor self) -> Tensor");
  identity("detach(Tensor(a) self) -> Tensor(a)", "detach_copy(Tensor self) -> Tensor");
  // Changes nothing that a program without gradients can see, so it is declared as the alias it gives.
  identity("detach_(Tensor(a) self) -> Tensor(a)");
  identity("lift(Tensor(a) self) -> Tensor(a)");  // PyTorch's schema does not say so, but what it gives is self
  identity("lift_fresh(Tensor(a) self) -> Tensor(a)");
  identity("positive(Tensor(a) self) -> Tensor(a)");
  // Of a real tensor these are itself. Tensors have no conjugate bit here: conj of a complex one is a new tensor.
  samples.push_back({{spec({2, 3}, DType::c64)}});
  for (const char* name : {"resolve_conj", "resolve_neg"}) identity(str(name, "(Tensor(a) self) -> Tensor(a)"));
  OpFacts conjugate = complex_by(complex_formulas::conj);
  conjugate.conjugate_view = true;
  for (const char* name : {"conj", "_conj"}) identity(str(name, "(Tensor(a) self) -> Tensor(a)"), {}, conjugate);
}

}  // namespace

void register_views(Registry& registry) {
  register_identities(registry);
  register_reorderings(registry);
  register_reshapes(registry);
  register_expansions(registry);
  register_view_parts(registry);
  register_splits(registry);
  registry.describe({"alias", "detach", "lift", "lift_fresh", "positive"}, {.inverse_view = view_inverse::itself});
  registry.describe({"permute"}, {.inverse_view = view_inverse::permute});
  registry.describe({"_conj", "conj", "t"}, {.inverse_view = view_inverse::same_view});
  registry.describe({"transpose"}, {.inverse_view = view_inverse::transpose});
  registry.describe({"alias", "detach", "expand", "permute", "t", "transpose"}, {.moves_data = true});
}

}  // namespace kiln
