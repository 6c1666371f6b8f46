// Views of a part of a tensor: slice, narrow, select, diagonal, unfold, as_strided.
#include "ops/elementwise.h"
#include "ops/view_inverse.h"
#include "ops/view_table.h"

namespace kiln {

namespace {

using Index = std::vector<Expr>;

SliceBounds slice_of(const ViewArgs& args) {
  auto maybe = [&](const char* name) -> std::optional<Expr> {
    if (!args.given(name)) return std::nullopt;
    return args.number(name);
  };
  Expr step = args.number("step");
  if (step.is_constant() && step.value() <= 0) refuse_view(args, "step must be positive");
  if (args.rank() == 0) refuse_view(args, "needs at least one dimension");
  return slice_bounds(maybe("start"), maybe("end"), step, args.self().sizes[args.at("dim")], args.ranges());
}

SliceBounds narrow_of(const ViewArgs& args) {
  if (args.rank() == 0) refuse_view(args, "needs at least one dimension");
  Expr size = args.self().sizes[args.at("dim")];
  Expr start = wrap_index(args.number("start"), size, args.ranges()), length = args.number("length");
  if (prove_le(start + length, size, args.ranges()) == Proof::no ||
      prove_le(Expr(0), length, args.ranges()) == Proof::no)
    refuse_view(args,
                str("start (", start.text(), ") + length (", length.text(), ") exceeds the size (", size.text(), ")"));
  return {start, length, Expr(1)};
}

ViewRow slicing(std::string schema, std::string copy, SliceBounds (*bounds)(const ViewArgs&),
                std::vector<Sample> samples) {
  ViewRow row;
  row.schema = std::move(schema);
  row.copy_schema = std::move(copy);
  row.samples = std::move(samples);
  row.layout = [bounds](const ViewArgs& args) {
    ViewLayout out = whole_view(args);
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
  if (args.rank() == 0) refuse_view(args, "needs at least one dimension");
  Expr size = args.self().sizes[args.at("dim")], index = wrap_index(args.number("index"), size, args.ranges());
  if (prove_lt(index, size, args.ranges()) == Proof::no || prove_le(Expr(0), index, args.ranges()) == Proof::no)
    refuse_view(args, str("index ", args.number("index").text(), " is out of range for a size of ", size.text()));
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
  if (args.rank() < 2) refuse_view(args, "needs at least 2 dimensions");
  Diagonal d;
  d.first = args.at("dim1");
  d.second = args.at("dim2");
  if (d.first == d.second) refuse_view(args, "dim1 and dim2 must differ");
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
    ViewLayout out = whole_view(args);
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
    ViewLayout out = whole_view(args);
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
    ViewLayout out = whole_view(args);
    Expr size = args.number("size"), step = args.number("step");
    if (step.is_constant() && step.value() <= 0) refuse_view(args, "step must be positive");
    if (out.sizes.empty()) return ViewLayout{{size}, {Expr(1)}, out.offset};
    size_t dim = args.at("dimension");
    if (prove_le(size, out.sizes[dim], args.ranges()) == Proof::no) refuse_view(args, "size exceeds the dimension");
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

// ---- Any strides ----

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
    if (out.sizes.size() != out.strides.size()) refuse_view(args, "sizes and strides differ in number");
    for (const Expr& stride : out.strides)
      if (stride.is_constant() && stride.value() < 0) refuse_view(args, "strides must not be negative");
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

}  // namespace

void register_view_parts(Registry& registry) {
  for (const ViewRow& row : {slice_view(), narrow_view(), select_view(), diagonal_view()}) add_view(registry, row);
  register_unfold(registry);
  register_strided(registry);
  registry.describe({"narrow"}, {.inverse_view = view_inverse::narrow});
  registry.describe({"select"}, {.inverse_view = view_inverse::select});
  registry.describe({"slice"}, {.inverse_view = view_inverse::slice});
  registry.describe({"select", "slice"}, {.moves_data = true});
  registry.describe({"as_strided"}, {.sees_storage = true});
}

}  // namespace kiln
