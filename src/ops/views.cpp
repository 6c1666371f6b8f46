// Views: another layout over the same storage.
#include <numeric>

#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/view_table.h"

namespace kiln {

namespace {

using Index = std::vector<Expr>;

ViewLayout whole(const ViewArgs& args) { return {args.self().sizes, args.self().strides, args.self().offset}; }
Index same_index(const ViewArgs&, const Index& i, const Sizes&) { return i; }

template <class List>
void insert_at(List& list, size_t at, typename List::value_type value) {
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), std::move(value));
}
template <class List>
void erase_at(List& list, size_t at) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
}

[[noreturn]] void refuse(const ViewArgs& args, std::string_view why) {
  fail_user("K0208", str(args.call().schema().name, ": ", why), args.call().where());
}

// ---- Same elements, other order of dimensions
// ------------------------------------------------------------------------

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
  if (order.size() < 2) refuse(args, "needs at least 2 dimensions");
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return order;
}

std::vector<size_t> permuted(const ViewArgs& args) {
  std::vector<size_t> order;
  std::vector<bool> seen(static_cast<size_t>(args.rank()), false);
  for (const Expr& dim : args.numbers("dims")) {
    if (args.rank() == 0) refuse(args, "number of dimensions differs from the tensor's");
    size_t at = static_cast<size_t>(wrap_dim(args.call(), dim.value(), args.rank()));
    if (seen[at]) refuse(args, str("dimension ", at, " appears twice"));
    seen[at] = true;
    order.push_back(at);
  }
  if (order.size() != seen.size()) refuse(args, "number of dimensions differs from the tensor's");
  return order;
}

std::vector<size_t> moved(const ViewArgs& args) {
  Sizes source = args.numbers("source"), destination = args.numbers("destination");
  if (source.size() != destination.size()) refuse(args, "source and destination differ in number");
  constexpr size_t free = SIZE_MAX;
  std::vector<size_t> order(static_cast<size_t>(args.rank()), free);
  std::vector<bool> taken(order.size(), false);
  for (size_t i = 0; i < source.size() && !order.empty(); ++i) {
    size_t from = static_cast<size_t>(wrap_dim(args.call(), source[i].value(), args.rank()));
    size_t to = static_cast<size_t>(wrap_dim(args.call(), destination[i].value(), args.rank()));
    if (order[to] != free || taken[from]) refuse(args, "a dimension appears twice");
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

void reordering(Registry& r, std::string schema, OrderFn order, std::vector<Sample> samples, std::string copy = {}) {
  ViewRow row;
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
    if (args.rank() > 2) refuse(args, "needs at most 2 dimensions");
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
  reordering(r, "mH(Tensor(a) self) -> Tensor(a)", last_two_swapped, matrices);
  reordering(r, "adjoint(Tensor(a) self) -> Tensor(a)", last_two_swapped, matrices);
  reordering(r, "matrix_H(Tensor(a) self) -> Tensor(a)", flat_t, {{{spec({2, 3})}}, {{t234}, true}});
  reordering(
      r, "permute(Tensor(a) self, int[] dims) -> Tensor(a)", permuted,
      {{{t234, List{2, 0, -2}}}, {{spec({}), List{}}}, {{t234, List{0, 1}}, true}, {{t234, List{0, 1, 1}}, true}},
      "permute_copy(Tensor self, int[] dims) -> Tensor");
  std::vector<Sample> moves = {{{t234, List{0, 1}, List{-1, 0}}}};
  for (const char* name : {"movedim", "moveaxis"}) {
    reordering(r, str(name, ".intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"), moved, moves);
    reordering(r, str(name, ".int(Tensor(a) self, int source, int destination) -> Tensor(a)"), moved,
               {{{t234, Scalar(0), Scalar(-1)}}});
  }
}

// ---- Other sizes, same elements
// ----------------------------------------------------------------------------------------

using NewSizesFn = std::function<Sizes(const ViewArgs&)>;

// `copies`: a layout that no view can have gives a new tensor; otherwise it is an error.
void resizing(Registry& r, std::string schema, NewSizesFn new_sizes, bool copies, std::vector<Sample> samples,
              std::string copy = {}, bool always_copies = false) {
  ViewRow row;
  row.schema = std::move(schema);
  row.copy_schema = std::move(copy);
  row.samples = std::move(samples);
  row.always_copies = always_copies;
  row.layout = [new_sizes, copies](const ViewArgs& args) -> ViewLayout {
    const TensorType& self = args.self();
    Sizes sizes = new_sizes(args);
    if (auto strides = view_strides(self.sizes, self.strides, sizes, args.ranges()))
      return {std::move(sizes), *strides, self.offset};
    bool concrete =
        std::all_of(self.strides.begin(), self.strides.end(), [](const Expr& s) { return s.is_constant(); });
    if (!copies && concrete)
      refuse(args,
             "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
             "two contiguous subspaces). Use .reshape(...) instead.");
    Sizes strides = contiguous_strides(sizes);
    return {std::move(sizes), std::move(strides), Expr(0), copies};
  };
  row.index = [](const ViewArgs& args, const Index& i, const Sizes& sizes) {
    return reshape_index(args.self().sizes, sizes, i, args.ranges());
  };
  add_view(r, row);
}

Sizes flattened(const ViewArgs& args, int64_t first, int64_t last) {
  const Sizes& sizes = args.self().sizes;
  if (sizes.empty()) return {Expr(1)};
  if (first > last) refuse(args, "start_dim must not come after end_dim");
  Sizes out(sizes.begin(), sizes.begin() + first);
  out.push_back(product(Sizes(sizes.begin() + first, sizes.begin() + last + 1)));
  out.insert(out.end(), sizes.begin() + last + 1, sizes.end());
  return out;
}

void register_resizings(Registry& r) {
  using List = std::vector<int64_t>;
  auto wanted = [](const char* name) {
    return [name](const ViewArgs& args) {
      return resolve_view_sizes(args.call(), args.self().sizes, args.numbers(name), args.ranges());
    };
  };
  auto like_other = [](const ViewArgs& args) {
    return resolve_view_sizes(args.call(), args.self().sizes, args.sizes_of("other"), args.ranges());
  };
  std::vector<Sample> samples = {{{spec({2, 3, 4}), List{6, 4}}},     {{spec({6, 4}), List{2, 3, -1}}},
                                 {{spec({2, 6}), List{3, 4}}},        {{spec({}), List{1, 1}}},
                                 {{spec({0, 3}), List{3, 0}}},        {{spec({1}, DType::bf16), List{}}},
                                 {{spec({2, 3}), List{4, -1}}, true}, {{spec({2, 3}), List{7}}, true},
                                 {{spec({2, 3}), List{-1, -1}}, true}};
  resizing(r, "view(Tensor(a) self, SymInt[] size) -> Tensor(a)", wanted("size"), false, samples,
           "view_copy(Tensor self, SymInt[] size) -> Tensor");
  resizing(r, "_unsafe_view(Tensor self, SymInt[] size) -> Tensor", wanted("size"), false, samples);
  resizing(r, "reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", wanted("shape"), true, samples);
  resizing(r, "_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)", wanted("size"), true,
           {{{spec({2, 6}), List{3, 4}, List{4, 1}}}});
  std::vector<Sample> as_other = {{{spec({2, 6}), spec({3, 4})}}, {{spec({2, 6}), spec({5})}, true}};
  resizing(r, "view_as(Tensor(a) self, Tensor other) -> Tensor(a)", like_other, false, as_other);
  resizing(r, "reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", like_other, true, as_other);
  resizing(r, "flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)",
           [](const ViewArgs& args) { return flattened(args, args.dim("start_dim"), args.dim("end_dim")); }, true,
           {{{spec({2, 3, 4}), Scalar(1)}},
            {{spec({})}},
            {{spec({2, 0, 4})}},
            {{spec({2, 3}), Scalar(1), Scalar(0)}, true}});
  resizing(r, "ravel(Tensor(a) self) -> Tensor(a)",
           [](const ViewArgs& args) { return flattened(args, 0, std::max<int64_t>(args.rank() - 1, 0)); }, true,
           {{{spec({2, 3})}}, {{spec({})}}});
  resizing(r, "unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)",
           [](const ViewArgs& args) {
             Sizes out = args.self().sizes;
             size_t dim = args.at("dim");
             if (out.empty()) refuse(args, "needs at least one dimension");
             Sizes parts = resolve_view_sizes(args.call(), {out[dim]}, args.numbers("sizes"), args.ranges());
             erase_at(out, dim);
             out.insert(out.begin() + static_cast<std::ptrdiff_t>(dim), parts.begin(), parts.end());
             return out;
           },
           false, {{{spec({2, 12}), Scalar(-1), List{3, -1}}}, {{spec({2, 12}), Scalar(1), List{5, 2}}, true}});
  auto at_least = [](size_t rank) {
    return [rank](const ViewArgs& args) {
      Sizes out = args.self().sizes;
      // A vector becomes a row; a matrix gets its third dimension at the end.
      while (out.size() < rank) insert_at(out, rank == 3 && out.size() == 2 ? 2 : 0, Expr(1));
      return out;
    };
  };
  for (size_t rank : {size_t{1}, size_t{2}, size_t{3}})
    resizing(r, str("atleast_", rank, "d(Tensor self) -> Tensor"), at_least(rank), false,
             {{{spec({})}}, {{spec({3})}}, {{spec({2, 3})}}});
}

void register_unit_dims(Registry& r) {
  using List = std::vector<int64_t>;
  auto squeeze = [&](std::string schema, std::string copy, std::function<std::vector<bool>(const ViewArgs&)> chosen,
                     std::vector<Sample> samples) {
    auto drops = [chosen](const ViewArgs& args) {
      auto out = chosen(args);
      for (size_t d = 0; d < out.size(); ++d) out[d] = out[d] && is_one(args.self().sizes[d]);
      return out;
    };
    ViewRow row{schema,
                [drops](const ViewArgs& args) {
                  ViewLayout out = whole(args);
                  auto drop = drops(args);
                  for (size_t d = drop.size(); d-- > 0;) {
                    if (!drop[d]) continue;
                    erase_at(out.sizes, d);
                    erase_at(out.strides, d);
                  }
                  return out;
                },
                [drops](const ViewArgs& args, const Index& i, const Sizes&) {
                  Index out;
                  size_t next = 0;
                  for (bool dropped : drops(args)) out.push_back(dropped ? Expr(0) : i[next++]);
                  return out;
                },
                std::move(samples), copy};
    add_view(r, row);
  };
  std::vector<bool> (*all)(const ViewArgs&) = [](const ViewArgs& args) {
    return std::vector<bool>(static_cast<size_t>(args.rank()), true);
  };
  auto some = [](const ViewArgs& args) {
    std::vector<int64_t> dims = to_numbers(args.numbers("dim"));
    return wrap_dims(args.call(), dims, args.rank(), false);
  };
  squeeze("squeeze(Tensor(a) self) -> Tensor(a)", "squeeze_copy(Tensor self) -> Tensor", all,
          {{{spec({1, 3, 1})}}, {{spec({})}}, {{spec({1, 1})}}});
  squeeze("squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", "squeeze_copy.dim(Tensor self, int dim) -> Tensor", some,
          {{{spec({1, 3, 1}), Scalar(-1)}},
           {{spec({1, 3}), Scalar(1)}},
           {{spec({}), Scalar(0)}},
           {{spec({3}), Scalar(2)}, true}});
  squeeze("squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", "squeeze_copy.dims(Tensor self, int[] dim) -> Tensor",
          some, {{{spec({1, 3, 1}), List{0, 1}}}, {{spec({1}), List{}}}});

  ViewRow row;
  row.schema = "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)";
  row.copy_schema = "unsqueeze_copy(Tensor self, int dim) -> Tensor";
  auto place = [](const ViewArgs& args) {
    return static_cast<size_t>(wrap_dim(args.call(), args.number("dim").value(), args.rank() + 1));
  };
  row.layout = [place](const ViewArgs& args) {
    ViewLayout out = whole(args);
    size_t at = place(args);
    Expr stride = at < out.sizes.size() ? out.sizes[at] * out.strides[at] : Expr(1);
    insert_at(out.sizes, at, Expr(1));
    insert_at(out.strides, at, stride);
    return out;
  };
  row.index = [place](const ViewArgs& args, const Index& i, const Sizes&) {
    Index out = i;
    erase_at(out, place(args));
    return out;
  };
  row.samples = {{{spec({2, 3}), Scalar(1)}},
                 {{spec({2, 3}), Scalar(-1)}},
                 {{spec({}), Scalar(0)}},
                 {{spec({2}), Scalar(3)}, true}};
  add_view(r, row);
}

// ---- Broadcasting
// ------------------------------------------------------------------------------------------------------

void expanding(Registry& r, std::string schema, NewSizesFn new_sizes, std::vector<Sample> samples,
               std::string copy = {}) {
  ViewRow row;
  row.schema = std::move(schema);
  row.copy_schema = std::move(copy);
  row.samples = std::move(samples);
  row.layout = [new_sizes](const ViewArgs& args) {
    const TensorType& self = args.self();
    Sizes sizes = new_sizes(args);
    if (sizes.size() < self.sizes.size()) refuse(args, "fewer sizes than the tensor has dimensions");
    size_t lead = sizes.size() - self.sizes.size();
    Sizes strides(sizes.size(), Expr(0));
    for (size_t d = 0; d < sizes.size(); ++d) {
      bool keep = sizes[d].is_constant(-1);
      if (d < lead) {
        if (keep) refuse(args, "-1 is not allowed in a leading, non-existing dimension");
        continue;
      }
      const Expr& own = self.sizes[d - lead];
      if (keep) sizes[d] = own;
      if (is_one(own) && !is_one(sizes[d])) continue;
      if (prove_eq(own, sizes[d], args.ranges()) == Proof::no)
        refuse(args, str("the expanded size (", sizes[d].text(), ") must match the existing size (", own.text(), ")"));
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

// ---- Parts
// -------------------------------------------------------------------------------------------------------------

SliceBounds slice_of(const ViewArgs& args) {
  auto maybe = [&](const char* name) -> std::optional<Expr> {
    if (!args.given(name)) return std::nullopt;
    return args.number(name);
  };
  Expr step = args.number("step");
  if (step.is_constant() && step.value() <= 0) refuse(args, "step must be positive");
  if (args.rank() == 0) refuse(args, "needs at least one dimension");
  return slice_bounds(maybe("start"), maybe("end"), step, args.self().sizes[args.at("dim")], args.ranges());
}

SliceBounds narrow_of(const ViewArgs& args) {
  if (args.rank() == 0) refuse(args, "needs at least one dimension");
  Expr size = args.self().sizes[args.at("dim")];
  Expr start = wrap_index(args.number("start"), size, args.ranges()), length = args.number("length");
  if (prove_le(start + length, size, args.ranges()) == Proof::no ||
      prove_le(Expr(0), length, args.ranges()) == Proof::no)
    refuse(args, str("start (", start.text(), ") + length (", length.text(), ") exceeds the size (", size.text(), ")"));
  return {start, length, Expr(1)};
}

ViewRow slicing(std::string schema, std::string copy, SliceBounds (*bounds)(const ViewArgs&),
                std::vector<Sample> samples) {
  ViewRow row;
  row.schema = std::move(schema);
  row.copy_schema = std::move(copy);
  row.samples = std::move(samples);
  row.layout = [bounds](const ViewArgs& args) {
    ViewLayout out = whole(args);
    SliceBounds b = bounds(args);
    size_t dim = args.at("dim");
    out.offset = out.offset + b.start * out.strides[dim];
    out.sizes[dim] = b.length;
    out.strides[dim] = out.strides[dim] * b.step;
    return out;
  };
  row.index = [bounds](const ViewArgs& args, const Index& i, const Sizes&) {
    SliceBounds b = bounds(args);
    Index out = i;
    size_t dim = args.at("dim");
    out[dim] = b.start + i[dim] * b.step;
    return out;
  };
  return row;
}

Expr select_index(const ViewArgs& args) {
  if (args.rank() == 0) refuse(args, "needs at least one dimension");
  Expr size = args.self().sizes[args.at("dim")], index = wrap_index(args.number("index"), size, args.ranges());
  if (prove_lt(index, size, args.ranges()) == Proof::no || prove_le(Expr(0), index, args.ranges()) == Proof::no)
    refuse(args, str("index ", args.number("index").text(), " is out of range for a size of ", size.text()));
  return index;
}

ViewRow narrow_view() {
  return slicing("narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)",
                 "narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor", narrow_of,
                 {{{spec({5, 4}), Scalar(1), Scalar(1), Scalar(2)}},
                  {{spec({5}), Scalar(0), Scalar(-2), Scalar(2)}},
                  {{spec({5}), Scalar(0), Scalar(3), Scalar(3)}, true}});
}

struct Diagonal {
  size_t first, second;
  Expr start_first, start_second, length;
};

Diagonal diagonal_of(const ViewArgs& args) {
  if (args.rank() < 2) refuse(args, "needs at least 2 dimensions");
  Diagonal d;
  d.first = args.at("dim1");
  d.second = args.at("dim2");
  if (d.first == d.second) refuse(args, "dim1 and dim2 must differ");
  int64_t offset = args.number("offset").value();
  d.start_first = Expr(std::max<int64_t>(-offset, 0));
  d.start_second = Expr(std::max<int64_t>(offset, 0));
  Expr length = min_expr(args.self().sizes[d.first] - d.start_first, args.self().sizes[d.second] - d.start_second);
  d.length = simplify(max_expr(length, Expr(0)), args.ranges());
  return d;
}

}  // namespace

ViewRow slice_view() {
  return slicing(
      "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
      "slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
      slice_of,
      {{{spec({5, 4}), Scalar(0), Scalar(1), Scalar(4)}},
       {{spec({5, 4}), Scalar(-1), Scalar(-3), Argument::None{}, Scalar(2)}},
       {{spec({5}), Scalar(0), Scalar(4), Scalar(2)}},
       {{spec({5}), Scalar(0), Scalar(-9), Scalar(99)}},
       {{spec({5}), Scalar(0), Scalar(0), Scalar(5), Scalar(0)}, true},
       {{spec({})}, true}});
}

ViewRow select_view() {
  ViewRow select;
  select.schema = "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)";
  select.copy_schema = "select_copy.int(Tensor self, int dim, SymInt index) -> Tensor";
  select.layout = [](const ViewArgs& args) {
    ViewLayout out = whole(args);
    Expr index = select_index(args);
    size_t dim = args.at("dim");
    out.offset = out.offset + index * out.strides[dim];
    erase_at(out.sizes, dim);
    erase_at(out.strides, dim);
    return out;
  };
  select.index = [](const ViewArgs& args, const Index& i, const Sizes&) {
    Index out = i;
    insert_at(out, args.at("dim"), select_index(args));
    return out;
  };
  select.samples = {{{spec({3, 4}), Scalar(0), Scalar(1)}},
                    {{spec({3, 4}), Scalar(-1), Scalar(-1)}},
                    {{spec({3}), Scalar(0), Scalar(3)}, true},
                    {{spec({}), Scalar(0), Scalar(0)}, true}};
  return select;
}

ViewRow diagonal_view() {
  ViewRow diagonal;
  diagonal.schema = "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)";
  diagonal.copy_schema = "diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor";
  diagonal.layout = [](const ViewArgs& args) {
    ViewLayout out = whole(args);
    Diagonal d = diagonal_of(args);
    Expr stride = out.strides[d.first] + out.strides[d.second];
    if (!d.length.is_constant(0))
      out.offset = out.offset + d.start_first * out.strides[d.first] + d.start_second * out.strides[d.second];
    for (size_t dim : {std::max(d.first, d.second), std::min(d.first, d.second)}) {
      erase_at(out.sizes, dim);
      erase_at(out.strides, dim);
    }
    out.sizes.push_back(d.length);
    out.strides.push_back(stride);
    return out;
  };
  diagonal.index = [](const ViewArgs& args, const Index& i, const Sizes&) {
    Diagonal d = diagonal_of(args);
    Index out;
    size_t next = 0;
    for (size_t dim = 0; dim < args.self().sizes.size(); ++dim) {
      if (dim == d.first)
        out.push_back(i.back() + d.start_first);
      else if (dim == d.second)
        out.push_back(i.back() + d.start_second);
      else
        out.push_back(i[next++]);
    }
    return out;
  };
  diagonal.samples = {{{spec({3, 4})}},
                      {{spec({2, 3, 4}), Scalar(1), Scalar(-1), Scalar(0)}},
                      {{spec({3, 3}), Scalar(-5)}},
                      {{spec({3})}, true}};
  return diagonal;
}

namespace {

void register_unfold(Registry& r) {
  ViewRow unfold;
  unfold.schema = "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)";
  unfold.copy_schema = "unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor";
  unfold.layout = [](const ViewArgs& args) {
    ViewLayout out = whole(args);
    Expr size = args.number("size"), step = args.number("step");
    if (step.is_constant() && step.value() <= 0) refuse(args, "step must be positive");
    if (out.sizes.empty()) return ViewLayout{{size}, {Expr(1)}, out.offset};
    size_t dim = args.at("dimension");
    if (prove_le(size, out.sizes[dim], args.ranges()) == Proof::no) refuse(args, "size exceeds the dimension");
    out.sizes.push_back(size);
    out.strides.push_back(out.strides[dim]);
    out.sizes[dim] = simplify(floordiv(out.sizes[dim] - size, step) + Expr(1), args.ranges());
    out.strides[dim] = out.strides[dim] * step;
    return out;
  };
  unfold.index = [](const ViewArgs& args, const Index& i, const Sizes&) {
    if (args.rank() == 0) return Index{};
    Index out(i.begin(), i.end() - 1);
    size_t dim = args.at("dimension");
    out[dim] = i[dim] * args.number("step") + i.back();
    return out;
  };
  unfold.samples = {{{spec({2, 7}), Scalar(1), Scalar(3), Scalar(2)}},
                    {{spec({7}), Scalar(-1), Scalar(7), Scalar(1)}},
                    {{spec({3}), Scalar(0), Scalar(4), Scalar(1)}, true}};
  add_view(r, unfold);
}

// ---- Any strides
// -------------------------------------------------------------------------------------------------------

Expr strided_offset(const ViewArgs& args) {
  return args.given("storage_offset") ? args.number("storage_offset") : args.self().offset;
}

void register_strided(Registry& r) {
  using List = std::vector<int64_t>;
  ViewRow row;
  row.schema = "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)";
  row.copy_schema =
      "as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor";
  row.layout = [](const ViewArgs& args) {
    ViewLayout out{args.numbers("size"), args.numbers("stride"), strided_offset(args)};
    if (out.sizes.size() != out.strides.size()) refuse(args, "sizes and strides differ in number");
    for (const Expr& stride : out.strides)
      if (stride.is_constant() && stride.value() < 0) refuse(args, "strides must not be negative");
    return out;
  };
  row.index = [](const ViewArgs& args, const Index& i, const Sizes& sizes) {
    Expr address = strided_offset(args) - args.self().offset;
    Sizes strides = args.numbers("stride");
    for (size_t d = 0; d < i.size(); ++d) address = address + i[d] * strides[d];
    return index_of_address(args.call(), args.self(), address, with_indices(args.ranges(), i, sizes));
  };
  row.samples = {{{spec({3, 4}), List{2, 2}, List{1, 4}}},
                 {{spec({12}), List{3, 2}, List{3, 2}, Scalar(1)}},
                 {{spec({4}), List{}, List{}}},
                 {{spec({4}), List{2}, List{1, 1}}, true}};
  add_view(r, row);
}

void register_identities(Registry& r) {
  std::vector<Sample> samples = {{{spec({2, 3})}}, {{spec({}, DType::i64)}}, {{spec({0})}}};
  auto identity = [&](std::string schema, std::string copy = {}) {
    add_view(r, ViewRow{std::move(schema), whole, same_index, samples, std::move(copy)});
  };
  identity("alias(Tensor(a) self) -> Tensor(a)", "alias_copy(Tensor self) -> Tensor");
  identity("detach(Tensor(a) self) -> Tensor(a)", "detach_copy(Tensor self) -> Tensor");
  // Changes nothing that a program without gradients can see, so it is declared as the alias it gives.
  identity("detach_(Tensor(a) self) -> Tensor(a)");
  identity("lift(Tensor self) -> Tensor");
  identity("lift_fresh(Tensor(a) self) -> Tensor(a)");
  identity("positive(Tensor(a) self) -> Tensor(a)");
  // Of a real tensor these are itself; complex ones are rewritten by a graph pass before.
  for (const char* name : {"conj", "_conj", "real", "resolve_conj", "resolve_neg"}) {
    ViewRow row{str(name, "(Tensor(a) self) -> Tensor(a)"),
                [](const ViewArgs& args) {
                  if (is_complex(args.self().dtype)) refuse_dtype(args.call(), args.self().dtype);
                  return whole(args);
                },
                same_index, samples};
    add_view(r, row);
  }
}

}  // namespace

void register_views(Registry& registry) {
  register_identities(registry);
  register_reorderings(registry);
  register_resizings(registry);
  register_unit_dims(registry);
  register_expansions(registry);
  for (const ViewRow& row : {slice_view(), narrow_view(), select_view(), diagonal_view()}) add_view(registry, row);
  register_unfold(registry);
  register_strided(registry);
  register_splits(registry);
}

}  // namespace kiln
