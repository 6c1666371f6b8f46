// Operators that repeat, enumerate or lay out positions: repeat_interleave, combinations, triangles' indices,
// nonzero_static, _chunk_cat, affine grids.
#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;
using Specs = std::vector<Sample::TensorSpec>;

// ---- repeat_interleave ----

// Position i as often as repeats[i] says: a library kernel, since the length depends on data.
void add_repeated_positions(Registry& r) {
  OpRecord record;
  record.schema_text = "repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor";
  record.library = "repeat_interleave";
  record.reads_data = true;
  record.infer = [](InferCall& call) {
    const TensorType& repeats = call.tensor("repeats")->type;
    if (repeats.dtype != DType::i64 && repeats.dtype != DType::i32) refuse_dtype(call, repeats.dtype);
    if (repeats.sizes.size() != 1) refuse(call, "K0201", "only accept 1D vector as repeat");
    const auto& results = call.node().results;
    bool typed = !results.empty() && results[0]->type.sizes.size() == 1;
    Expr length = call.given("output_size") ? call.integer("output_size")
                  : typed                   ? results[0]->type.sizes[0]
                                            : Expr::symbol(str("u_", call.node().name));
    call.results = {contiguous_type(repeats.dtype, {length}, repeats.device)};
  };
  record.reference = [](ReferenceCall& call) {
    std::vector<int64_t> repeats = read_dense<int64_t>(call.tensor("repeats")), out;
    for (size_t i = 0; i < repeats.size(); ++i) {
      if (repeats[i] < 0) fail_user("K0630", "repeats can not be negative", call.node().where());
      out.insert(out.end(), static_cast<size_t>(repeats[i]), static_cast<int64_t>(i));
    }
    if (call.given("output_size") && call.integer("output_size") != static_cast<int64_t>(out.size()))
      fail_user("K0630", str("allocated size does not match required size ", out.size()), call.node().where());
    Tensor result = Tensor::empty(call.tensor("repeats").dtype, {static_cast<int64_t>(out.size())});
    write_dense(result, out);
    call.results = {Datum{result}};
  };
  record.samples = {{{spec({4}, DType::i64, 0, 3)}},
                    {{spec({3}, DType::i32, 1, 1), Scalar(3)}},
                    {{spec({0}, DType::i64)}},
                    {{spec({3})}, true},
                    {{spec({2, 2}, DType::i64)}, true}};
  r.add(std::move(record));
}

struct Repeated {
  Value* self;
  int64_t dim;
};
Repeated repeated_dim(Build& b) {
  DecomposeCall& call = b.call();
  Value* self = call.tensor("self");
  if (!call.given("dim")) return {b("reshape", {self, b.ints({-1})}), 0};
  int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(self));
  return {rank_of(self) == 0 ? b.view(self, {Expr(1)}) : self, dim};
}

void build_repeat_by_tensor(Build& b) {
  DecomposeCall& call = b.call();
  Repeated x = repeated_dim(b);
  Value* repeats = call.tensor("repeats");
  const Expr& size = x.self->type.sizes[static_cast<size_t>(x.dim)];
  if (rank_of(repeats) > 1) refuse(call, "K0201", "repeats must be 0-dim or 1-dim tensor");
  if (rank_of(repeats) == 0 || is_one(repeats->type.sizes[0])) {
    repeats = b("expand", {b.view(repeats, {Expr(1)}), b.ints(Sizes{size})});
  } else if (prove_eq(repeats->type.sizes[0], size, call.ranges()) == Proof::no) {
    refuse(call, "K0201", "repeats must have the same size as input along dim");
  }
  // The length is asked for, or the file's symbol for what depends on data.
  const auto& results = call.node().results;
  bool typed = !results.empty() && !results[0]->type.sizes.empty();
  std::vector<Argument> args = {repeats, call.given("output_size") ? call.arg("output_size") : Argument()};
  Value* positions;
  if (typed && !call.given("output_size")) {
    TensorType type = contiguous_type(repeats->type.dtype, {results[0]->type.sizes[static_cast<size_t>(x.dim)]},
                                      repeats->type.device);
    positions = call.call_as("aten.repeat_interleave.Tensor", args, {type})[0];
  } else {
    positions = b("repeat_interleave.Tensor", args);
  }
  call.result(b("index_select", {x.self, Scalar(x.dim), positions}));
}

void register_counted_repeats(Registry& r) {
  add_repeated_positions(r);
  add_composite(r, {.schema = "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? "
                              "output_size=None) -> Tensor",
                    .build = build_repeat_by_tensor,
                    .samples = {{{spec({2, 3}), spec({3}, DType::i64, 0, 2), Scalar(1)}},
                                {{spec({4}), spec({4}, DType::i64, 0, 2)}},
                                {{spec({4}), spec({1}, DType::i64, 2, 2)}},
                                {{spec({4}), spec({3}, DType::i64, 0, 2)}, true}}});
}

// ---- Positions ----

// Rows of positions where `mask` is true, when their number is known.
Value* positions_of(Build& b, Value* mask, const Expr& count) {
  TensorType type = strided_type(DType::i64, {count, Expr(rank_of(mask))}, {Expr(1), count}, mask->type.device);
  return b.call().call_as("aten.nonzero.default", {mask}, {type})[0];
}

void build_triangle(Build& b, bool upper) {
  DecomposeCall& call = b.call();
  int64_t rows = call.constant_integer("row"), columns = call.constant_integer("col"),
          offset = call.constant_integer("offset"), count = 0;
  if (rows < 0 || columns < 0) refuse(call, "K0201", "row and col must be non-negative");
  for (int64_t i = 0; i < rows; ++i) {
    int64_t below = std::min(std::max<int64_t>(i + offset + (upper ? 0 : 1), 0), columns);
    count += upper ? columns - below : below;
  }
  DType dtype = call.dtype("dtype") ? *call.dtype("dtype") : DType::i64;
  Value* ones = b("ones", {b.ints({rows, columns}), DType::boolean});
  Value* found = positions_of(b, b(upper ? "triu" : "tril", {ones, Scalar(offset)}), Expr(count));
  call.result(b.to(b.contiguous(b("t", {found})), dtype));
}

// C(n, r), or C(n + r - 1, r) with repetition.
Expr combination_count(const Expr& n, int64_t r, bool repeats) {
  Expr product(1);
  int64_t divisor = 1;
  for (int64_t i = 0; i < r; ++i) {
    product = product * (repeats ? n + Expr(i) : n - Expr(i));
    divisor *= i + 1;
  }
  return floordiv(product, Expr(divisor));
}

void build_combinations(Build& b) {
  DecomposeCall& call = b.call();
  Value* self = call.tensor("self");
  int64_t r = call.constant_integer("r");
  if (rank_of(self) != 1) refuse(call, "K0201", "Expect a 1D vector");
  if (r < 0) refuse(call, "K0201", "Expect a non-negative number");
  if (r > 12) fail_unsupported("K0202", "combinations of more than 12 elements are not supported", call.where());
  if (r == 0) return call.result(b("new_zeros", {self, b.ints({0})}));
  bool repeats = call.boolean("with_replacement");
  const Expr& n = self->type.sizes[0];
  Value* mask = b("ones", {b.ints(Sizes(static_cast<size_t>(r), n)), DType::boolean});
  auto coordinate = [&](int64_t d) {
    Sizes shape(static_cast<size_t>(r), Expr(1));
    shape[static_cast<size_t>(d)] = n;
    return b.view(b("arange", {number(n)}), shape);
  };
  for (int64_t d = 0; d + 1 < r; ++d)
    mask = b("logical_and", {mask, b(repeats ? "le.Tensor" : "lt.Tensor", {coordinate(d), coordinate(d + 1)})});
  // The file may have a symbol of its own for the number of rows.
  const auto& results = call.node().results;
  bool typed = !results.empty() && results[0]->type.sizes.size() == 2;
  Expr count = typed ? results[0]->type.sizes[0] : simplify(combination_count(n, r, repeats), call.ranges());
  Value* places = b.contiguous(positions_of(b, mask, count));
  call.result(b("take", {self, places}));
}

// The first `size` positions of what is not zero; `fill_value` where there are fewer.
void build_nonzero_static(Build& b) {
  DecomposeCall& call = b.call();
  Value* self = call.tensor("self");
  Expr size = call.integer("size"), elements(1);
  if (size.is_constant() && size.value() < 0) refuse(call, "K0201", "size must be non-negative");
  for (const Expr& s : self->type.sizes) elements = elements * s;
  int64_t rank = rank_of(self);
  if (rank == 0) return call.result(b("full", {b.ints(Sizes{size, Expr(0)}), call.arg("fill_value"), DType::i64}));
  Value* there = b("reshape", {b("ne.Scalar", {self, Scalar(0)}), b.ints({-1})});
  Value* order = b.sub(b("cumsum", {there, Scalar(0)}), Scalar(1));
  // One place more takes what does not fit.
  Value* fits = b("logical_and", {there, b("lt.Scalar", {order, number(size)})});
  Value* slot = b("where.ScalarOther", {fits, order, number(size)});
  Value* none = b("full", {b.ints(Sizes{size + Expr(1)}), Scalar(-1), DType::i64});
  Value* filled = b("index_put", {none, Argument(Argument::List{Argument(slot)}), b("arange", {number(elements)})});
  Value* linear = b("slice.Tensor", {filled, Scalar(0), Scalar(0), number(size)});
  Argument::List columns;
  Expr below(1);
  for (int64_t d = rank; d-- > 0;) {
    // Where there are no elements there are no positions: any number but 0 divides what is missing.
    Expr extent = simplify(max_expr(self->type.sizes[static_cast<size_t>(d)], Expr(1)), call.ranges());
    Value* part = b("div.Tensor_mode", {linear, number(below), std::string("floor")});
    columns.insert(columns.begin(), Argument(b("remainder.Scalar", {part, number(extent)})));
    below = below * extent;
  }
  Value* table = b("stack", {Argument(std::move(columns)), Scalar(1)});
  Value* missing = b("unsqueeze", {b("lt.Scalar", {linear, Scalar(0)}), Scalar(1)});
  call.result(b("masked_fill.Scalar", {table, missing, call.arg("fill_value")}));
}

void register_repeat_positions(Registry& r) {
  for (bool upper : {false, true})
    add_composite(r, {.schema = str(upper ? "triu_indices" : "tril_indices",
                                    "(int row, int col, int offset=0, *, ScalarType? dtype=long, Layout? layout=None, "
                                    "Device? device=None, bool? pin_memory=None) -> Tensor"),
                      .build = [upper](Build& b) { build_triangle(b, upper); },
                      .samples = {{{Scalar(3), Scalar(4)}},
                                  {{Scalar(4), Scalar(3), Scalar(-1)}},
                                  {{Scalar(3), Scalar(3), Scalar(2)}},
                                  {{Scalar(-1), Scalar(2)}, true}}});
  add_composite(r, {.schema = "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
                    .build = build_combinations,
                    .samples = {{{spec({4})}},
                                {{spec({4}), Scalar(3), Scalar(true)}},
                                {{spec({3}), Scalar(1)}},
                                {{spec({3}), Scalar(0)}},
                                {{spec({2}), Scalar(3)}},
                                {{spec({2, 2})}, true}}});
  add_composite(r, {.schema = "nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
                    .build = build_nonzero_static,
                    .samples = {{{spec({3, 4}, DType::i64, 0, 1), Scalar(3)}},
                                {{spec({5}, DType::boolean), Scalar(8), Scalar(7)}},
                                {{spec({}), Scalar(2)}},
                                {{spec({0, 3}), Scalar(2)}},
                                {{spec({3}), Scalar(-2)}, true}}});
}

// ---- _chunk_cat ----

// Each tensor padded to whole chunks, as [before dim…, chunks, rest], then side by side.
void build_chunk_cat(Build& b) {
  DecomposeCall& call = b.call();
  auto tensors = call.tensors("tensors");
  int64_t chunks = call.constant_integer("num_chunks");
  if (tensors.empty()) refuse(call, "K0201", "expects a non-empty list of tensors");
  if (chunks < 1) refuse(call, "K0201", "num_chunks must be positive");
  int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(tensors[0]));
  Argument::List parts;
  for (Value* x : tensors) {
    if (rank_of(x) <= dim) refuse(call, "K0201", "dim is out of range for one of the tensors");
    const Sizes& sizes = x->type.sizes;
    size_t at = static_cast<size_t>(dim);
    Expr step = ceildiv(sizes[at], Expr(chunks)), missing = simplify(step * Expr(chunks) - sizes[at], call.ranges());
    std::vector<Expr> pad(2 * (sizes.size() - at), Expr(0));
    pad.back() = missing;
    Value* whole = missing.is_constant(0) ? x : b("constant_pad_nd", {x, b.ints(pad), Scalar(0)});
    Sizes shape(sizes.begin(), sizes.begin() + dim);
    shape.emplace_back(chunks);
    Expr rest = step;
    for (size_t d = at + 1; d < sizes.size(); ++d) rest = rest * sizes[d];
    shape.push_back(simplify(rest, call.ranges()));
    parts.emplace_back(b.view(whole, shape));
  }
  call.result(b("cat", {Argument(std::move(parts)), Scalar(dim + 1)}));
}

// ---- affine_grid_generator ----

// -1 to 1 in equal steps: through the corners of the image, or through the middles of its border pixels.
Value* unit_steps(Build& b, Value* like, const Expr& count, bool align) {
  DType dtype = like->type.dtype;
  if (is_one(count)) return b("zeros", {b.ints({1}), dtype});
  Value* place = b("arange", {number(count), compute_dtype(dtype)});
  Value* span = align ? b.div(b.mul(place, Scalar(2.0)), number(count - Expr(1)))
                      : b.div(b.add(b.mul(place, Scalar(2.0)), Scalar(1.0)), number(count));
  return b.to(b.sub(span, Scalar(1.0)), dtype);
}

void build_affine_grid(Build& b) {
  DecomposeCall& call = b.call();
  Value* theta = call.tensor("theta");
  Sizes size = call.integers("size");
  if (size.size() != 4 && size.size() != 5) refuse(call, "K0201", "needs 4 or 5 sizes");
  if (!is_float(theta->type.dtype)) refuse_dtype(call, theta->type.dtype);
  bool align = call.boolean("align_corners");
  size_t spatial = size.size() - 2;
  Sizes shape(size.begin() + 2, size.end());
  Argument::List coordinates;  // x, y(, z), 1
  for (size_t d = spatial; d-- > 0;) {
    Sizes line(spatial, Expr(1));
    line[d] = shape[d];
    coordinates.emplace_back(b("expand", {b.view(unit_steps(b, theta, shape[d], align), line), b.ints(shape)}));
  }
  coordinates.emplace_back(b("new_ones", {theta, b.ints(shape)}));
  Value* base = b("stack", {Argument(std::move(coordinates)), Scalar(-1)});
  Expr places(1);
  for (const Expr& s : shape) places = places * s;
  Value* rows = b.view(base, {Expr(1), simplify(places, call.ranges()), Expr(static_cast<int64_t>(spatial) + 1)});
  Value* grid = b("matmul", {rows, b("transpose.int", {theta, Scalar(1), Scalar(2)})});
  Sizes out = {size[0]};
  out.insert(out.end(), shape.begin(), shape.end());
  out.emplace_back(static_cast<int64_t>(spatial));
  call.result(b.view(grid, out));
}

}  // namespace

void register_repeat_family(Registry& r) {
  register_counted_repeats(r);
  register_repeat_positions(r);
  add_composite(r, {.schema = "_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor",
                    .build = build_chunk_cat,
                    .samples = {{{Specs{spec({3, 2}), spec({3})}, Scalar(0), Scalar(2)}},
                                {{Specs{spec({2, 3, 2}), spec({2, 5})}, Scalar(1), Scalar(2)}},
                                {{Specs{spec({3})}, Scalar(0), Scalar(0)}, true}}});
  add_composite(r, {.schema = "affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
                    .build = build_affine_grid,
                    .samples = {{{spec({2, 2, 3}), List{2, 1, 3, 4}, Scalar(false)}},
                                {{spec({1, 3, 4}), List{1, 2, 2, 3, 1}, Scalar(true)}},
                                {{spec({2, 2, 3}), List{2, 3}, Scalar(true)}, true}}});
  r.describe({"repeat_interleave"}, complex_by(ComplexRule::parts));
}

}  // namespace kiln
