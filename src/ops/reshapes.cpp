// Views with other sizes and the same elements: view, reshape, flatten, squeeze, unsqueeze.
#include "ops/elementwise.h"
#include "ops/view_inverse.h"
#include "ops/view_table.h"

namespace kiln {

namespace {

using Index = std::vector<Expr>;

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
      refuse_view(
          args,
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
  if (first > last) refuse_view(args, "start_dim must not come after end_dim");
  Sizes out(sizes.begin(), sizes.begin() + first);
  out.push_back(product(Sizes(sizes.begin() + first, sizes.begin() + last + 1)));
  out.insert(out.end(), sizes.begin() + last + 1, sizes.end());
  return out;
}

// contiguous() and then flat: what is not contiguous is copied, also where a view could be flat (every second element).
void register_ravel(Registry& r) {
  ViewRow row;
  row.schema = "ravel(Tensor(a) self) -> Tensor(a)";
  row.samples = {{{spec({2, 3})}}, {{spec({})}}};
  row.layout = [](const ViewArgs& args) -> ViewLayout {
    const TensorType& self = args.self();
    const bool copies = !is_contiguous(self.sizes, self.strides);
    return {
        flattened(args, 0, std::max<int64_t>(args.rank() - 1, 0)), {Expr(1)}, copies ? Expr(0) : self.offset, copies};
  };
  row.index = [](const ViewArgs& args, const Index& i, const Sizes& sizes) {
    return reshape_index(args.self().sizes, sizes, i, args.ranges());
  };
  add_view(r, row);
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
  resizing(r, "_unsafe_view(Tensor(a) self, SymInt[] size) -> Tensor(a)", wanted("size"), false, samples);
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
  register_ravel(r);
  resizing(r, "unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)",
           [](const ViewArgs& args) {
             Sizes out = args.self().sizes;
             size_t dim = args.at("dim");
             if (out.empty()) refuse_view(args, "needs at least one dimension");
             Sizes parts = resolve_view_sizes(args.call(), {out[dim]}, args.numbers("sizes"), args.ranges());
             erase_at(out, dim);
             out.insert(out.begin() + static_cast<std::ptrdiff_t>(dim), parts.begin(), parts.end());
             return out;
           },
           false, {{{spec({2, 12}), Scalar(-1), List{3, -1}}}, {{spec({2, 12}), Scalar(1), List{5, 2}}, true}});
  r.describe({"view.default", "view_copy.default", "_unsafe_view", "reshape", "_reshape_alias", "view_as", "reshape_as",
              "flatten", "unflatten"},
             {.same_count = true});
  auto at_least = [](size_t rank) {
    return [rank](const ViewArgs& args) {
      Sizes out = args.self().sizes;
      // A vector becomes a row; a matrix gets its third dimension at the end.
      while (out.size() < rank) insert_at(out, rank == 3 && out.size() == 2 ? 2 : 0, Expr(1));
      return out;
    };
  };
  for (size_t rank : {size_t{1}, size_t{2}, size_t{3}})
    resizing(r, str("atleast_", rank, "d(Tensor(a) self) -> Tensor(a)"), at_least(rank), false,
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
                  ViewLayout out = whole_view(args);
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
    ViewLayout out = whole_view(args);
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

}  // namespace

void register_reshapes(Registry& registry) {
  register_resizings(registry);
  register_unit_dims(registry);
  registry.describe({"_unsafe_view", "flatten", "ravel", "reshape", "reshape_as", "squeeze", "unflatten", "unsqueeze",
                     "view.default", "view_as"},
                    {.inverse_view = view_inverse::reshape});
  registry.describe({"flatten", "reshape", "squeeze", "unsqueeze", "view.default"}, {.moves_data = true});
  registry.describe({"ravel"}, {.shares = Sharing::dense});
  registry.describe({"flatten", "reshape", "reshape_as"}, {.shares = Sharing::viewable});
}

}  // namespace kiln
