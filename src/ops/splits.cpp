// Views that give a list of tensors: split, chunk, unbind and their relatives.
#include "ops/elementwise.h"
#include "ops/view_table.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

Expr dim_size(const ViewArgs& args, int64_t dim) {
  if (args.rank() == 0)
    fail_user("K0205", str(args.call().schema().name, ": needs at least one dimension"), args.call().where());
  return args.self().sizes[static_cast<size_t>(dim)];
}

// How many pieces there are must be known: the node's results are counted when the program is read.
int64_t piece_count(const ViewArgs& args, const Expr& count) {
  Expr known = simplify(count, args.ranges());
  if (known.is_constant()) return known.value();
  fail_unsupported("K0202",
                   str(args.call().schema().name, ": the number of pieces (", known.text(), ") depends on sizes"),
                   args.call().where());
}

// Pieces of `step`, the last one shorter.
std::vector<Piece> equal_steps(const ViewArgs& args, const Expr& size, const Expr& step) {
  if (size.is_constant(0)) return {{Expr(0), Expr(0)}};
  if (step.is_constant() && step.value() <= 0)
    fail_user("K0201", str(args.call().schema().name, ": the size of a piece must be positive"), args.call().where());
  int64_t count;
  const std::vector<Value*>& results = args.call().node().results;
  if (!size.is_constant() && results.size() == 1 && !results[0]->items.empty()) {
    count = static_cast<int64_t>(results[0]->items.size());  // as the file says
  } else {
    count = piece_count(args, ceildiv(size, step));
  }
  std::vector<Piece> out;
  for (int64_t i = 0; i < count; ++i) {
    Expr start = step * Expr(i);
    Expr length = i + 1 < count ? step : size - start;
    out.push_back({start, simplify(length, args.ranges())});
  }
  return out;
}

std::vector<Piece> given_sizes(const ViewArgs& args, const Expr& size, const Sizes& lengths) {
  std::vector<Piece> out;
  Expr start(0);
  for (const Expr& length : lengths) {
    if (length.is_constant() && length.value() < 0)
      fail_user("K0201", str(args.call().schema().name, ": sizes must not be negative"), args.call().where());
    out.push_back({start, length});
    start = start + length;
  }
  if (prove_eq(start, size, args.ranges()) == Proof::no) {
    fail_user(
        "K0207",
        str(args.call().schema().name, ": the pieces have ", start.text(), " elements, the dimension ", size.text()),
        args.call().where());
  }
  return out;
}

std::vector<Piece> chunks(const ViewArgs& args, int64_t dim) {
  Expr size = dim_size(args, dim), count = args.number("chunks");
  if (count.is_constant() && count.value() <= 0)
    fail_user("K0201", "chunk expects `chunks` to be greater than 0", args.call().where());
  if (size.is_constant(0)) return std::vector<Piece>(static_cast<size_t>(count.value()), Piece{Expr(0), Expr(0)});
  return equal_steps(args, size, ceildiv(size, count));
}

// tensor_split: the first size % n pieces have one element more.
std::vector<Piece> sections(const ViewArgs& args, const Expr& size, int64_t count) {
  if (count <= 0)
    fail_user("K0201", str(args.call().schema().name, ": the number of sections must be positive"),
              args.call().where());
  Expr base = floordiv(size, Expr(count)), longer = mod(size, Expr(count));
  std::vector<Piece> out;
  for (int64_t i = 0; i < count; ++i) {
    Expr start = base * Expr(i) + min_expr(Expr(i), longer), end = base * Expr(i + 1) + min_expr(Expr(i + 1), longer);
    out.push_back({simplify(start, args.ranges()), simplify(end - start, args.ranges())});
  }
  return out;
}

std::vector<Piece> cuts(const ViewArgs& args, const Expr& size, const Sizes& places) {
  std::vector<Piece> out;
  Expr begin(0);
  for (size_t i = 0; i <= places.size(); ++i) {
    std::optional<Expr> end;
    if (i < places.size()) end = places[i];
    SliceBounds bounds = slice_bounds(begin, end, Expr(1), size, args.ranges());
    out.push_back({bounds.start, bounds.length});
    if (end) begin = *end;
  }
  return out;
}

void equal_parts(const ViewArgs& args, const Expr& size, const Expr& count) {
  if (size.is_constant() && count.is_constant() && size.value() % count.value() != 0)
    fail_user("K0201", str(args.call().schema().name, ": ", size.value(), " is not divisible by ", count.value()),
              args.call().where());
}

// hsplit, vsplit, dsplit: a fixed dimension.
void fixed_dimension(Registry& r, const std::string& name, int64_t min_rank,
                     std::function<int64_t(const ViewArgs&)> dim) {
  auto checked = [name, min_rank, dim](const ViewArgs& args) {
    if (args.rank() < min_rank)
      fail_user("K0205", str(name, " needs at least ", min_rank, " dimensions"), args.call().where());
    return dim(args);
  };
  std::vector<int64_t> sizes = {4, 4, 4};
  add_split(r, {.schema = name + ".int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
                .pieces =
                    [checked](const ViewArgs& args) {
                      Expr size = dim_size(args, checked(args)), count = args.number("sections");
                      if (count.is_constant() && count.value() > 0) equal_parts(args, size, count);
                      return sections(args, size, count.value());
                    },
                .dim = checked,
                .samples = {{{spec(sizes), Scalar(2)}}, {{spec(sizes), Scalar(3)}, true}}});
  add_split(r, {.schema = name + ".array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]",
                .pieces =
                    [checked](const ViewArgs& args) {
                      return cuts(args, dim_size(args, checked(args)), args.numbers("indices"));
                    },
                .dim = checked,
                .samples = {{{spec(sizes), List{1, 3}}}}});
}

}  // namespace

void register_splits(Registry& r) {
  auto by_size = [](const ViewArgs& args) {
    return equal_steps(args, dim_size(args, args.dim("dim")), args.number("split_size"));
  };
  auto by_sizes = [](const char* name) {
    return
        [name](const ViewArgs& args) { return given_sizes(args, dim_size(args, args.dim("dim")), args.numbers(name)); };
  };
  auto by_chunks = [](const ViewArgs& args) { return chunks(args, args.dim("dim")); };
  std::vector<Sample> size_samples = {{{spec({5, 4}), Scalar(2)}},
                                      {{spec({5, 4}), Scalar(4), Scalar(-1)}},
                                      {{spec({0, 2}), Scalar(3)}},
                                      {{spec({4}), Scalar(0)}, true}};
  add_split(r, {.schema = "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
                .pieces = by_size,
                .samples = size_samples});
  add_split(r, {.schema = "split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
                .pieces = by_size,
                .copies = true,
                .samples = size_samples});
  add_split(r, {.schema = "unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
                .pieces = by_size,
                .samples = size_samples});
  std::vector<Sample> list_samples = {
      {{spec({5, 4}), List{1, 4}}}, {{spec({5, 4}), List{4, 0}, Scalar(1)}}, {{spec({5}), List{1, 1}}, true}};
  add_split(r, {.schema = "split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]",
                .pieces = by_sizes("split_size"),
                .samples = list_samples});
  add_split(r, {.schema = "split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
                .pieces = by_sizes("split_sizes"),
                .samples = list_samples});
  add_split(r, {.schema = "split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
                .pieces = by_sizes("split_sizes"),
                .copies = true,
                .samples = list_samples});
  add_split(r, {.schema = "unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
                .pieces = by_sizes("split_sizes"),
                .samples = list_samples});
  std::vector<Sample> chunk_samples = {
      {{spec({5, 4}), Scalar(2)}}, {{spec({5}), Scalar(9)}}, {{spec({5}), Scalar(0)}, true}};
  add_split(r, {.schema = "chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
                .pieces = by_chunks,
                .samples = chunk_samples});
  add_split(r, {.schema = "unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
                .pieces = by_chunks,
                .samples = chunk_samples});
  auto each = [](const ViewArgs& args) {
    int64_t count = piece_count(args, dim_size(args, args.dim("dim")));
    std::vector<Piece> out;
    for (int64_t i = 0; i < count; ++i) out.push_back({Expr(i), Expr(1)});
    return out;
  };
  std::vector<Sample> unbind_samples = {{{spec({3, 2})}}, {{spec({3, 2}), Scalar(-1)}}, {{spec({})}, true}};
  add_split(r, {.schema = "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
                .pieces = each,
                .selects = true,
                .samples = unbind_samples});
  add_split(r, {.schema = "unbind_copy.int(Tensor self, int dim=0) -> Tensor[]",
                .pieces = each,
                .selects = true,
                .copies = true,
                .samples = unbind_samples});
  add_split(r, {.schema = "tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]",
                .pieces =
                    [](const ViewArgs& args) {
                      return sections(args, dim_size(args, args.dim("dim")),
                                      piece_count(args, args.number("sections")));
                    },
                .samples = {{{spec({7, 2}), Scalar(3)}}, {{spec({2, 7}), Scalar(3), Scalar(1)}}}});
  add_split(
      r, {.schema = "tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]",
          .pieces =
              [](const ViewArgs& args) { return cuts(args, dim_size(args, args.dim("dim")), args.numbers("indices")); },
          .samples = {{{spec({7, 2}), List{2, 5}}}, {{spec({7}), List{5, 2, 9}}}}});
  fixed_dimension(r, "hsplit", 1, [](const ViewArgs& args) { return args.rank() == 1 ? int64_t{0} : int64_t{1}; });
  fixed_dimension(r, "vsplit", 2, [](const ViewArgs&) { return int64_t{0}; });
  fixed_dimension(r, "dsplit", 3, [](const ViewArgs&) { return int64_t{2}; });
}

}  // namespace kiln
