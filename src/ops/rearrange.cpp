// New tensors whose elements come from other places of one tensor: flip, roll, repeat, triangles, diagonals, shuffles.
#include "ops/rearrange.h"

#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using loops::KernelBuilder;
using List = std::vector<int64_t>;
using Index = std::vector<Expr>;

}  // namespace

void add_rearrangement(Registry& r, RearrangeRow row) {
  auto shared = std::make_shared<const RearrangeRow>(std::move(row));
  auto schema = std::make_shared<const Schema>(parse_schema(shared->schema));
  OpRecord record;
  record.schema_text = shared->schema;
  record.samples = shared->samples;
  auto strides = [shared](const ViewArgs& args, const Sizes& sizes) {
    const TensorType& self = args.self();
    return shared->keeps_layout ? like_strides(self.sizes, self.strides, MemoryFormat::preserve, args.ranges())
                                : contiguous_strides(sizes);
  };
  record.infer = [shared, strides](InferCall& call) {
    SymbolicViewArgs args(call, call.ranges());
    Sizes sizes = shared->sizes(args);
    Sizes layout = strides(args, sizes);
    call.results = {strided_type(args.self().dtype, std::move(sizes), std::move(layout), args.self().device)};
  };
  record.lower = [shared](LowerCall& call) {
    SymbolicViewArgs args(call, call.ranges());
    call.kernel([&](KernelBuilder& k) {
      const Sizes& sizes = call.output_type().sizes;
      k.parallel(sizes, [&](const Index& i) {
        RangeEnv env = with_indices(args.ranges(), i, sizes);
        Index from = shared->index(args, i);
        for (Expr& e : from) e = simplify(e, env);
        k.store(call.output(), i, k.load(call.input("self"), from));
      });
    });
  };
  record.reference = [shared, schema, strides](ReferenceCall& call) {
    OpCall typed(call.node(), *schema);
    ConcreteViewArgs args(typed, call);
    Tensor self = call.tensor("self");
    Sizes sizes = shared->sizes(args);
    Tensor out = Tensor::empty_strided(self.dtype, to_numbers(sizes), to_numbers(strides(args, sizes)));
    size_t bytes = static_cast<size_t>(dtype_bytes(self.dtype));
    std::vector<int64_t> at(out.sizes.size(), 0);
    for (int64_t linear = 0, total = out.numel(); linear < total; ++linear) {
      std::vector<int64_t> from = shared->source(call, self, at);
      int64_t to_offset = 0, from_offset = 0;
      for (size_t d = 0; d < at.size(); ++d) to_offset += at[d] * out.strides[d];
      for (size_t d = 0; d < from.size(); ++d) from_offset += from[d] * self.strides[d];
      std::memcpy(out.data() + to_offset * static_cast<int64_t>(bytes),
                  self.data() + from_offset * static_cast<int64_t>(bytes), bytes);
      next_index(at, out.sizes);
    }
    call.results = {Datum{out}};
  };
  if (shared->needs) add_needs(record, shared->needs);
  r.add(std::move(record));
}

namespace {

std::vector<bool> chosen_dims(const OpCall& call, const Sizes& dims, int64_t rank) {
  return wrap_dims(call, to_numbers(dims), rank, false);
}
size_t wrapped(int64_t dim, const Tensor& self) {
  return static_cast<size_t>(dim < 0 ? dim + std::max<int64_t>(self.rank(), 1) : dim);
}

void register_flips(Registry& r) {
  RearrangeRow flip;
  flip.schema = "flip(Tensor self, int[] dims) -> Tensor";
  flip.keeps_layout = true;
  flip.sizes = [](const ViewArgs& args) {
    chosen_dims(args.call(), args.numbers("dims"), args.rank());
    return args.self().sizes;
  };
  flip.index = [](const ViewArgs& args, const Index& i) {
    auto flipped = chosen_dims(args.call(), args.numbers("dims"), args.rank());
    Index out = i;
    for (size_t d = 0; d < out.size(); ++d)
      if (flipped[d]) out[d] = args.self().sizes[d] - Expr(1) - i[d];
    return out;
  };
  flip.source = [](const ReferenceCall& call, const Tensor& self, const std::vector<int64_t>& at) {
    std::vector<int64_t> out = at;
    if (out.empty()) return out;
    for (int64_t dim : call.integers("dims"))
      out[wrapped(dim, self)] = self.sizes[wrapped(dim, self)] - 1 - at[wrapped(dim, self)];
    return out;
  };
  flip.samples = {
      {{spec({2, 3, 4}), List{0, -1}}}, {{spec({3}), List{}}},           {{spec({}), List{}}},
      {{spec({0, 2}), List{1}}},        {{spec({2, 3}), List{2}}, true}, {{spec({2, 3}), List{1, 1}}, true}};
  add_rearrangement(r, flip);
  add_composite(r, {.schema = "fliplr(Tensor self) -> Tensor",
                    .build =
                        [](Build& b) {
                          b.call().result(b("flip", {b.call().tensor("self"), b.ints({1})}));
                        },
                    .samples = {{{spec({2, 3})}}, {{spec({3})}, true}}});
  add_composite(r, {.schema = "flipud(Tensor self) -> Tensor",
                    .build =
                        [](Build& b) {
                          if (b.call().tensor("self")->type.sizes.empty())
                            fail_user("K0206", "aten.flipud.default: the tensor must have at least 1 dimension",
                                      b.call().where());
                          b.call().result(b("flip", {b.call().tensor("self"), b.ints({0})}));
                        },
                    .samples = {{{spec({2, 3})}}, {{spec({})}, true}}});
  add_composite(r,
                {.schema = "rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
                 .build =
                     [](Build& b) {
                       Value* self = b.call().tensor("self");
                       auto dims = b.call().constant_integers("dims");
                       if (dims.size() != 2) fail_user("K0201", "rot90 needs two dimensions", b.call().where());
                       int64_t first = wrap_dim(b.call(), dims[0], rank_of(self)),
                               second = wrap_dim(b.call(), dims[1], rank_of(self));
                       if (first == second || rank_of(self) < 2)
                         fail_user("K0201", "rot90 needs two different dimensions", b.call().where());
                       int64_t k = ((b.call().constant_integer("k") % 4) + 4) % 4;
                       Value* out = self;
                       if (k == 1)
                         out = b("transpose.int", {b("flip", {self, b.ints({second})}), Scalar(first), Scalar(second)});
                       if (k == 2) out = b("flip", {self, b.ints({first, second})});
                       if (k == 3)
                         out = b("transpose.int", {b("flip", {self, b.ints({first})}), Scalar(first), Scalar(second)});
                       if (k == 0) out = b("clone", {self, MemoryFormat::contiguous});
                       b.call().result(out);
                     },
                 .samples = {{{spec({2, 3})}},
                             {{spec({2, 3, 4}), Scalar(2), List{2, 0}}},
                             {{spec({2, 3}), Scalar(-1)}},
                             {{spec({2, 3}), Scalar(4)}},
                             {{spec({2, 3}), Scalar(1), List{0, 0}}, true}}});
}

// One shift per dimension; without dimensions the tensor is rolled as one row.
void register_roll(Registry& r) {
  RearrangeRow roll;
  roll.schema = "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor";
  auto shifts = [](const ViewArgs& args) {
    Sizes by_dim(static_cast<size_t>(args.rank()), Expr(0)), given = args.numbers("shifts"),
                                                             dims = args.numbers("dims");
    if (given.size() != dims.size() || given.empty())
      fail_user("K0201", "roll: shifts and dimensions must align", args.call().where());
    for (size_t i = 0; i < dims.size() && !by_dim.empty(); ++i) {
      size_t dim = static_cast<size_t>(wrap_dim(args.call(), dims[i].value(), args.rank()));
      by_dim[dim] = by_dim[dim] + given[i];
    }
    return by_dim;
  };
  auto flat = [](const ViewArgs& args) { return args.numbers("dims").empty() && args.numbers("shifts").size() == 1; };
  roll.sizes = [shifts, flat](const ViewArgs& args) {
    if (!flat(args)) shifts(args);
    return args.self().sizes;
  };
  roll.index = [shifts, flat](const ViewArgs& args, const Index& i) {
    const Sizes& sizes = args.self().sizes;
    if (is_zero_numel(sizes)) return i;
    if (flat(args)) {
      Expr position(0), total = product(sizes), inner(1);
      for (size_t d = 0; d < sizes.size(); ++d) position = position * sizes[d] + i[d];
      position = mod(position - args.numbers("shifts")[0], total);
      Index out(i.size());
      for (size_t d = sizes.size(); d-- > 0;) {
        out[d] = mod(floordiv(position, inner), sizes[d]);
        inner = inner * sizes[d];
      }
      return out;
    }
    Sizes by = shifts(args);
    Index out = i;
    for (size_t d = 0; d < out.size(); ++d)
      if (!by[d].is_constant(0)) out[d] = mod(i[d] - by[d], sizes[d]);
    return out;
  };
  roll.source = [](const ReferenceCall& call, const Tensor& self, const std::vector<int64_t>& at) {
    auto shift = call.integers("shifts"), dims = call.integers("dims");
    auto wrap = [](int64_t x, int64_t n) { return ((x % n) + n) % n; };
    std::vector<int64_t> out = at;
    if (dims.empty()) {
      int64_t position = 0;
      for (size_t d = 0; d < at.size(); ++d) position = position * self.sizes[d] + at[d];
      position = wrap(position - shift[0], self.numel());
      for (size_t d = at.size(); d-- > 0;) {
        out[d] = position % self.sizes[d];
        position /= self.sizes[d];
      }
      return out;
    }
    for (size_t i = 0; i < dims.size() && !out.empty(); ++i) {
      size_t d = wrapped(dims[i], self);
      out[d] = wrap(out[d] - shift[i], self.sizes[d]);
    }
    return out;
  };
  roll.samples = {{{spec({5}), List{2}}},
                  {{spec({2, 3}), List{1, -1}, List{0, 1}}},
                  {{spec({2, 3}), List{7}}},
                  {{spec({3, 4}), List{1, 2}, List{0, 0}}},
                  {{spec({0, 3}), List{1}, List{0}}},
                  {{spec({2, 3}), List{1}, List{0, 1}}, true}};
  add_rearrangement(r, roll);
}

void register_repeats(Registry& r) {
  RearrangeRow repeat;
  repeat.schema = "repeat(Tensor self, SymInt[] repeats) -> Tensor";
  repeat.sizes = [](const ViewArgs& args) {
    Sizes out = args.numbers("repeats");
    const Sizes& sizes = args.self().sizes;
    if (out.size() < sizes.size())
      fail_user("K0201", "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
                args.call().where());
    for (size_t d = 0; d < sizes.size(); ++d) {
      Expr& n = out[out.size() - sizes.size() + d];
      n = n * sizes[d];
    }
    return out;
  };
  repeat.index = [](const ViewArgs& args, const Index& i) {
    const Sizes& sizes = args.self().sizes;
    Index out;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const Expr& at = i[i.size() - sizes.size() + d];
      out.push_back(is_one(sizes[d]) || sizes[d].is_constant(0) ? Expr(0) : mod(at, sizes[d]));
    }
    return out;
  };
  repeat.source = [](const ReferenceCall&, const Tensor& self, const std::vector<int64_t>& at) {
    std::vector<int64_t> out;
    for (size_t d = 0; d < self.sizes.size(); ++d) out.push_back(at[at.size() - self.sizes.size() + d] % self.sizes[d]);
    return out;
  };
  repeat.samples = {{{spec({2, 3}), List{2, 1}}},
                    {{spec({3}), List{2, 2}}},
                    {{spec({}), List{3}}},
                    {{spec({3}), List{0}}},
                    {{spec({2, 3}), List{2}}, true}};
  add_rearrangement(r, repeat);
  add_composite(r, {.schema = "tile(Tensor self, SymInt[] dims) -> Tensor",
                    .build =
                        [](Build& b) {
                          Value* self = b.call().tensor("self");
                          Sizes dims = b.call().integers("dims");
                          while (dims.size() < self->type.sizes.size()) dims.insert(dims.begin(), Expr(1));
                          b.call().result(b("repeat", {self, b.ints(dims)}));
                        },
                    .samples = {{{spec({2, 3}), List{2}}}, {{spec({3}), List{2, 2}}}}});

  RearrangeRow each;
  each.schema =
      "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor";
  auto flat = [](const ViewArgs& args) { return !args.given("dim"); };
  each.sizes = [flat](const ViewArgs& args) -> Sizes {
    const Sizes& sizes = args.self().sizes;
    Expr n = args.number("repeats");
    if (n.is_constant() && n.value() < 0) fail_user("K0201", "repeats can not be negative", args.call().where());
    if (flat(args)) return {product(sizes) * n};
    Sizes out = sizes;
    if (out.empty()) return {n};
    out[args.at("dim")] = out[args.at("dim")] * n;
    return out;
  };
  each.index = [flat](const ViewArgs& args, const Index& i) {
    const Sizes& sizes = args.self().sizes;
    Expr n = args.number("repeats");
    if (n.is_constant(0) || is_zero_numel(sizes)) return Index(sizes.size(), Expr(0));
    if (!flat(args) && !sizes.empty()) {
      Index out = i;
      out[args.at("dim")] = floordiv(i[args.at("dim")], n);
      return out;
    }
    Index out(sizes.size());
    Expr position = floordiv(i[0], n), inner(1);
    for (size_t d = sizes.size(); d-- > 0;) {
      out[d] = d > 0 ? mod(floordiv(position, inner), sizes[d]) : floordiv(position, inner);
      inner = inner * sizes[d];
    }
    return out;
  };
  each.source = [](const ReferenceCall& call, const Tensor& self, const std::vector<int64_t>& at) {
    int64_t n = call.integer("repeats");
    std::vector<int64_t> out = at;
    if (call.given("dim") && self.rank() > 0) {
      out[wrapped(call.integer("dim"), self)] /= n;
      return out;
    }
    int64_t position = at[0] / n;
    out.assign(self.sizes.size(), 0);
    for (size_t d = out.size(); d-- > 0;) {
      out[d] = position % self.sizes[d];
      position /= self.sizes[d];
    }
    return out;
  };
  each.samples = {{{spec({2, 3}), Scalar(2), Scalar(1)}},
                  {{spec({2, 3}), Scalar(3)}},
                  {{spec({3}), Scalar(0), Scalar(0)}},
                  {{spec({}), Scalar(2)}}};
  add_rearrangement(r, each);
}

// ---- Triangles ----

void add_triangle(Registry& r, bool lower) {
  OpRecord record;
  record.schema_text = str(lower ? "tril" : "triu", "(Tensor self, SymInt diagonal=0) -> Tensor");
  record.inplace = true;
  record.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    if (self.sizes.size() < 2)
      fail_user("K0201", str(call.schema().name, ": input tensor must have at least 2 dimensions"), call.where());
    call.results = {contiguous_type(self.dtype, self.sizes, self.device)};
  };
  record.lower = [lower](LowerCall& call) {
    DType dtype = call.output_type().dtype;
    refuse_complex(call, dtype);
    Expr diagonal = call.integer("diagonal");
    call.kernel([&](KernelBuilder& k) {
      k.parallel(call.output_type().sizes, [&](const Index& i) {
        ValueId column = k.index_value(i[i.size() - 1]), edge = k.index_value(i[i.size() - 2] + diagonal);
        ValueId kept = k.op(lower ? ScalarOp::le : ScalarOp::ge, column, edge);
        ValueId zero = k.constant(dtype, scalar_as(Scalar(0), dtype));
        k.store(call.output(), i, k.select(kept, k.load(call.input("self"), i), zero));
      });
    });
  };
  record.reference = [lower](ReferenceCall& call) {
    Tensor self = call.tensor("self"), out = self.clone();
    int64_t diagonal = call.integer("diagonal"), rows = self.sizes[self.sizes.size() - 2], columns = self.sizes.back();
    int64_t matrix = rows * columns;
    size_t bytes = static_cast<size_t>(dtype_bytes(self.dtype));
    for (int64_t i = 0, total = out.numel(); i < total; ++i) {
      int64_t row = i % matrix / columns, column = i % columns;
      bool keep = lower ? column - row <= diagonal : column - row >= diagonal;
      if (!keep) std::memset(out.data() + static_cast<size_t>(i) * bytes, 0, bytes);
    }
    call.results = {Datum{out}};
  };
  record.samples = {{{spec({3, 4})}}, {{spec({2, 4, 3}), Scalar(-1)}},  {{spec({3, 3}, DType::i64), Scalar(1)}},
                    {{spec({0, 3})}}, {{spec({3, 3}, DType::boolean)}}, {{spec({3})}, true}};
  r.add(std::move(record));
}

// ---- Diagonals ----

void register_diagonals(Registry& r) {
  // A tensor of zeros with self written along a diagonal.
  auto embed = [](Build& b, Value* self, int64_t offset, int64_t dim1, int64_t dim2) {
    Sizes sizes(self->type.sizes.begin(), self->type.sizes.end() - 1);
    Expr side = self->type.sizes.back() + Expr(std::abs(offset));
    sizes.push_back(side);
    sizes.push_back(side);
    int64_t rank = static_cast<int64_t>(sizes.size());
    dim1 = wrap_dim(b.call(), dim1, rank);
    dim2 = wrap_dim(b.call(), dim2, rank);
    if (dim1 == dim2) fail_user("K0201", "diagonal dimensions cannot be identical", b.call().where());
    // The two new dimensions are last; then they go where they belong.
    Value* zeros = b("new_zeros", {self, b.ints(sizes)});
    Value* filled = b("diagonal_scatter", {zeros, self, Scalar(offset), Scalar(rank - 2), Scalar(rank - 1)});
    Sizes order;
    for (int64_t d = 0, next = 0; d < rank; ++d)
      order.push_back(Expr(d == dim1 ? rank - 2 : d == dim2 ? rank - 1 : next++));
    bool moved = !(dim1 == rank - 2 && dim2 == rank - 1);
    return moved ? b("clone", {b("permute", {filled, b.ints(order)}), MemoryFormat::contiguous}) : filled;
  };
  add_composite(
      r, {.schema = "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
          .build =
              [embed](Build& b) {
                DecomposeCall& call = b.call();
                Value* self = call.tensor("self");
                if (self->type.sizes.empty())
                  fail_user("K0201", "diag_embed needs at least one dimension", call.where());
                call.result(embed(b, self, call.constant_integer("offset"), call.constant_integer("dim1"),
                                  call.constant_integer("dim2")));
              },
          .samples = {{{spec({2, 3})}}, {{spec({3}), Scalar(-1)}}, {{spec({2, 3}), Scalar(1), Scalar(0), Scalar(2)}}}});
  add_composite(r, {.schema = "diag(Tensor self, int diagonal=0) -> Tensor",
                    .build =
                        [embed](Build& b) {
                          Value* self = b.call().tensor("self");
                          int64_t offset = b.call().constant_integer("diagonal");
                          if (rank_of(self) == 1) return b.call().result(embed(b, self, offset, 0, 1));
                          if (rank_of(self) != 2)
                            fail_user("K0201", "diag(): Supports 1D or 2D tensors", b.call().where());
                          b.call().result(b("diagonal_copy", {self, Scalar(offset)}));
                        },
                    .samples = {{{spec({3})}}, {{spec({3, 4}), Scalar(1)}}, {{spec({2, 2, 2})}, true}}});
  add_composite(r, {.schema = "diagflat(Tensor self, int offset=0) -> Tensor",
                    .build =
                        [embed](Build& b) {
                          Value* flat = b("reshape", {b.call().tensor("self"), b.ints({-1})});
                          b.call().result(embed(b, flat, b.call().constant_integer("offset"), 0, 1));
                        },
                    .samples = {{{spec({2, 2})}}, {{spec({3}), Scalar(1)}}, {{spec({})}}}});
  add_composite(r, {.schema = "trace(Tensor self) -> Tensor",
                    .build =
                        [](Build& b) {
                          Value* self = b.call().tensor("self");
                          if (rank_of(self) != 2) fail_user("K0201", "trace: expected a matrix", b.call().where());
                          b.call().result(b("sum", {b("diagonal", {self})}));
                        },
                    .samples = {{{spec({3, 4})}}, {{spec({3, 3}, DType::i64)}}, {{spec({3})}, true}}});
}

void register_shuffles(Registry& r) {
  add_composite(
      r,
      {.schema = "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
       .build =
           [](Build& b) {
             Value* self = b.call().tensor("self");
             int64_t f = b.call().constant_integer("upscale_factor");
             size_t rank = self->type.sizes.size();
             if (rank < 3 || f <= 0)
               fail_user("K0201", "pixel_shuffle expects at least 3 dimensions and a positive factor",
                         b.call().where());
             const Sizes& s = self->type.sizes;
             Sizes lead(s.begin(), s.end() - 3), split = lead, out = lead, order;
             Expr channels = floordiv(s[rank - 3], Expr(f * f)), h = s[rank - 2], w = s[rank - 1];
             if (s[rank - 3].is_constant() && s[rank - 3].value() % (f * f) != 0)
               fail_user("K0201", "pixel_shuffle: channels must be divisible by the square of upscale_factor",
                         b.call().where());
             for (const Expr& e : {channels, Expr(f), Expr(f), h, w}) split.push_back(e);
             int64_t n = static_cast<int64_t>(lead.size());
             for (int64_t d = 0; d < n; ++d) order.push_back(Expr(d));
             for (int64_t d : {0, 3, 1, 4, 2}) order.push_back(Expr(n + d));
             for (const Expr& e : {channels, h * Expr(f), w * Expr(f)}) out.push_back(e);
             b.call().result(b.contiguous(b.view(b("permute", {b.view(self, split), b.ints(order)}), out)));
           },
       .samples = {
           {{spec({1, 8, 2, 3}), Scalar(2)}}, {{spec({4, 1, 1}), Scalar(2)}}, {{spec({3, 1, 1}), Scalar(2)}, true}}});
  add_composite(r,
                {.schema = "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
                 .build =
                     [](Build& b) {
                       Value* self = b.call().tensor("self");
                       int64_t f = b.call().constant_integer("downscale_factor");
                       size_t rank = self->type.sizes.size();
                       if (rank < 3 || f <= 0)
                         fail_user("K0201", "pixel_unshuffle expects at least 3 dimensions and a positive factor",
                                   b.call().where());
                       const Sizes& s = self->type.sizes;
                       Sizes lead(s.begin(), s.end() - 3), split = lead, out = lead, order;
                       Expr c = s[rank - 3], h = floordiv(s[rank - 2], Expr(f)), w = floordiv(s[rank - 1], Expr(f));
                       for (const Expr& e : {c, h, Expr(f), w, Expr(f)}) split.push_back(e);
                       int64_t n = static_cast<int64_t>(lead.size());
                       for (int64_t d = 0; d < n; ++d) order.push_back(Expr(d));
                       for (int64_t d : {0, 2, 4, 1, 3}) order.push_back(Expr(n + d));
                       for (const Expr& e : {c * Expr(f * f), h, w}) out.push_back(e);
                       b.call().result(b.contiguous(b.view(b("permute", {b.view(self, split), b.ints(order)}), out)));
                     },
                 .samples = {{{spec({1, 2, 4, 6}), Scalar(2)}}, {{spec({3}), Scalar(2)}, true}}});
  add_composite(r, {.schema = "channel_shuffle(Tensor self, SymInt groups) -> Tensor",
                    .build =
                        [](Build& b) {
                          Value* self = b.call().tensor("self");
                          int64_t groups = b.call().constant_integer("groups");
                          Sizes s = self->type.sizes;
                          if (s.size() < 3 || groups <= 0)
                            fail_user("K0201", "channel_shuffle expects at least 3 dimensions and positive groups",
                                      b.call().where());
                          if (s[1].is_constant() && s[1].value() % groups != 0)
                            fail_user("K0201", "channel_shuffle: number of channels must be divisible by groups",
                                      b.call().where());
                          Sizes split = s;
                          split[1] = Expr(groups);
                          split.insert(split.begin() + 2, floordiv(s[1], Expr(groups)));
                          Value* swapped = b("transpose.int", {b.view(self, split), Scalar(1), Scalar(2)});
                          b.call().result(b.contiguous(b.view(swapped, s)));
                        },
                    .samples = {{{spec({1, 6, 2, 2}), Scalar(3)}}, {{spec({1, 5, 2}), Scalar(2)}, true}}});
}

}  // namespace

void register_rearrangements(Registry& registry) {
  register_flips(registry);
  register_roll(registry);
  register_repeats(registry);
  add_triangle(registry, true);
  add_triangle(registry, false);
  register_diagonals(registry);
  register_shuffles(registry);
  registry.describe({"diag", "diag_embed", "flip", "pixel_shuffle", "pixel_unshuffle", "repeat", "repeat_interleave",
                     "roll", "rot90", "tile", "trace", "tril", "triu"},
                    complex_by(ComplexRule::parts));
  registry.describe({"trace"}, autocast_to(AutocastRule::single));
}

}  // namespace kiln
