// Operators that PyTorch itself composes of others and that belong to no family of their own: positions of what is
// true, histograms, tensor equations, products in a wider type, norms under their older names.
#include <cmath>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

// ---- Positions ----

// nonzero with the number of rows that the program says, where it says one.
Value* positions(Build& b, Value* x, const Value* typed, size_t rank) {
  if (!typed || typed->type.sizes.size() != rank) return b("nonzero", {x});
  Expr count = typed->type.sizes[0];
  TensorType type = strided_type(DType::i64, {count, Expr(rank_of(x))}, {Expr(1), count}, x->type.device);
  return b.call().call_as("aten.nonzero.default", {x}, {type})[0];
}

void build_positions_by_dimension(Build& b) {
  DecomposeCall& call = b.call();
  Value* condition = call.tensor(call.schema().args[0].name);
  const auto& results = call.node().results;
  const Value* typed = results.empty() || results[0]->items.empty() ? nullptr : results[0]->items[0];
  if (rank_of(condition) == 0) condition = b("unsqueeze", {condition, Scalar(0)});
  Value* found = positions(b, condition, typed, 1);
  for (int64_t d = 0; d < rank_of(condition); ++d)
    call.result(static_cast<int>(d), b("select.int", {found, Scalar(1), Scalar(d)}));
}

void register_positions(Registry& r) {
  add_composite(
      r, {.schema = "argwhere(Tensor self) -> Tensor",
          .build =
              [](Build& b) {
                const auto& results = b.call().node().results;
                b.call().result(positions(b, b.call().tensor("self"), results.empty() ? nullptr : results[0], 2));
              },
          .samples = {{{spec({3, 4}, DType::i64, -1, 1)}}, {{spec({5}, DType::boolean)}}}});
  for (const char* schema : {"where(Tensor condition) -> Tensor[]", "nonzero_numpy(Tensor self) -> Tensor[]"})
    add_composite(
        r, {.schema = schema,
            .build = build_positions_by_dimension,
            .samples = {
                {{spec({3, 4}, DType::boolean)}}, {{spec({3, 4}, DType::i64, -1, 1)}}, {{spec({}, DType::boolean)}}}});
}

// ---- Softmax of rows that may be masked altogether ----

void build_safe_softmax(Build& b) {
  DecomposeCall& call = b.call();
  Value* self = call.tensor("self");
  Value* plain = b("softmax.int", {self, call.arg("dim"), call.arg("dtype")});
  Value* masked = b("all.dim", {b("eq.Scalar", {self, Scalar(-INFINITY)}), call.arg("dim"), Scalar(true)});
  call.result(b("masked_fill.Scalar", {plain, masked, Scalar(0.0)}));
}

// ---- Products in a wider type ----

void register_wide_products(Registry& r) {
  struct Row {
    const char *schema, *target;
    std::vector<const char*> operands;
    std::vector<Sample> samples;
  };
  auto half = [](List sizes) { return spec(std::move(sizes), DType::bf16); };
  const Row rows[] = {
      {"mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor",
       "mm",
       {"self", "mat2"},
       {{{half({2, 3}), half({3, 4}), DType::f32}}, {{half({2, 3}), half({3, 4}), DType::i64}, true}}},
      {"bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor",
       "bmm",
       {"self", "mat2"},
       {{{half({2, 2, 3}), half({2, 3, 4}), DType::f32}}}},
      {"addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1) -> "
       "Tensor",
       "addmm",
       {"self", "mat1", "mat2"},
       {{{half({2, 4}), half({2, 3}), half({3, 4}), DType::f32, Scalar(0.5), Scalar(2.0)}}}},
      {"baddbmm.dtype(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, Scalar beta=1, Scalar "
       "alpha=1) -> Tensor",
       "baddbmm",
       {"self", "batch1", "batch2"},
       {{{half({2, 2, 4}), half({2, 2, 3}), half({2, 3, 4}), DType::f32}}}}};
  for (const Row& row : rows)
    add_composite(r, {.schema = row.schema,
                      .build =
                          [target = row.target, operands = row.operands](Build& b) {
                            DecomposeCall& call = b.call();
                            DType dtype = *call.dtype("out_dtype");
                            if (!is_float(dtype)) refuse_dtype(call, dtype);
                            std::vector<Argument> args;
                            for (const char* name : operands) args.emplace_back(b.to(call.tensor(name), dtype));
                            if (call.schema().find("beta") >= 0) {
                              args.push_back(call.arg("beta"));
                              args.push_back(call.arg("alpha"));
                            }
                            call.result(b(target, std::move(args)));
                          },
                      .samples = row.samples});
}

// ---- Norms under their older names ----

void register_older_norms(Registry& r) {
  add_composite(r, {.schema = "frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          if (call.constant_integers("dim").size() > 2)
                            refuse(call, "K0201", "Expected at most 2 dimensions");
                          call.result(b("linalg_vector_norm",
                                        {call.tensor("self"), Scalar(2.0), call.arg("dim"), call.arg("keepdim")}));
                        },
                    .samples = {{{spec({3, 4}), List{0, 1}}},
                                {{spec({3, 4}), List{1}, Scalar(true)}},
                                {{spec({3, 4, 2}), List{0, 1, 2}}, true}}});
  add_composite(r, {.schema = "nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          call.result(b("linalg_matrix_norm.str_ord", {call.tensor("self"), std::string("nuc"),
                                                                       call.arg("dim"), call.arg("keepdim")}));
                        },
                    .samples = {{{spec({3, 4, 2}), List{0, 2}}}, {{spec({3, 4}), List{0}}, true}}});
}

// ---- Tensor equations: matrices whose rows and columns are several dimensions ----

Expr product(Sizes::const_iterator first, Sizes::const_iterator last) {
  Expr out(1);
  for (; first != last; ++first) out = out * *first;
  return out;
}

void build_tensorsolve(Build& b) {
  DecomposeCall& call = b.call();
  Value *a = call.tensor("self"), *right = call.tensor("other");
  int64_t rank = rank_of(a), known = rank_of(right);
  if (call.given("dims")) {
    List dims = call.constant_integers("dims");
    Sizes from, to;
    for (size_t i = 0; i < dims.size(); ++i) {
      from.push_back(Expr(wrap_dim(call, dims[i], rank)));
      to.push_back(Expr(rank - static_cast<int64_t>(dims.size() - i)));
    }
    a = b("movedim.intlist", {a, b.ints(from), b.ints(to)});
  }
  if (rank < known) refuse(call, "K0201", "self must have at least as many dimensions as other");
  auto middle = a->type.sizes.begin() + known;
  Expr rows = product(a->type.sizes.begin(), middle), columns = product(middle, a->type.sizes.end());
  if (prove_eq(rows, columns, call.ranges()) == Proof::no)
    refuse(call, "K0201", "prod(self.shape[other.ndim:]) must equal prod(self.shape[:other.ndim])");
  Sizes out(middle, a->type.sizes.end());
  Value* solved = b("linalg_solve", {b.view(a, {columns, columns}), b.view(right, {columns})});
  call.result(b.view(solved, out));
}

void build_tensorinv(Build& b) {
  DecomposeCall& call = b.call();
  Value* a = call.tensor("self");
  int64_t ind = call.constant_integer("ind");
  if (ind <= 0 || ind > rank_of(a)) refuse(call, "K0201", "Expected a strictly positive integer for 'ind'");
  auto middle = a->type.sizes.begin() + ind;
  Expr rows = product(a->type.sizes.begin(), middle), columns = product(middle, a->type.sizes.end());
  if (prove_eq(rows, columns, call.ranges()) == Proof::no)
    refuse(call, "K0201", "self.shape[ind:] and self.shape[:ind] must have the same product");
  Sizes out(middle, a->type.sizes.end());
  out.insert(out.end(), a->type.sizes.begin(), middle);
  call.result(b.view(b("linalg_inv_ex", {b.view(a, {rows, rows}), Scalar(true)}), out));
}

void register_tensor_equations(Registry& r) {
  add_composite(r, {.schema = "linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
                    .build = build_tensorsolve,
                    .samples = {{{spec({1, 3, 3}), spec({1, 3})}}, {{spec({2, 3}), spec({2, 3, 4})}, true}}});
  add_composite(r, {.schema = "linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
                    .build = build_tensorinv,
                    .samples = {{{spec({3, 3, 1}), Scalar(1)}}, {{spec({3, 3}), Scalar(0)}, true}}});
}

// ---- Histograms ----

// Weights of the elements between two edges added up; the last step includes its end. NaN belongs nowhere.
void finish_histogram(Build& b, Value* self, Value* edges) {
  DecomposeCall& call = b.call();
  DType dtype = self->type.dtype;
  Value* x = b("reshape", {self, b.ints({-1})});
  Expr bins = edges->type.sizes[0] - Expr(1);
  auto number = [](const Expr& e) { return e.is_constant() ? Argument(Scalar(e.value())) : Argument(e); };
  Value* first = b("select.int", {edges, Scalar(0), Scalar(0)});
  Value* last = b("select.int", {edges, Scalar(0), number(bins)});
  Value* inside = b("logical_and", {b("ge.Tensor", {x, first}), b("le.Tensor", {x, last})});
  Value* place = b.sub(b("searchsorted.Tensor", {edges, x, Scalar(false), Scalar(true)}), Scalar(1));
  place = b("clamp", {place, Scalar(0), number(bins - Expr(1))});
  Value* weight = b.to(inside, dtype);
  if (call.given("weight")) {
    Value* given = b("reshape", {call.tensor("weight"), b.ints({-1})});
    if (given->type.dtype != dtype) refuse(call, "K0201", "weight must have the same dtype as the input");
    weight = b("where.ScalarOther", {inside, given, Scalar(0.0)});
  }
  Value* sums = b("index_add", {b("new_zeros", {x, b.ints(Sizes{bins})}), Scalar(0), place, weight});
  if (call.boolean("density")) sums = b.div(sums, b.mul(b("sum", {sums}), b("diff", {edges})));
  call.result(0, sums);
  call.result(1, edges);
}

Value* counted_edges(Build& b, Value* self) {
  DecomposeCall& call = b.call();
  int64_t bins = call.constant_integer("bins");
  if (bins <= 0) refuse(call, "K0201", "bins must be > 0");
  Value *low, *high;
  if (call.given("range")) {
    const Argument& range = call.arg("range");
    if (!range.is_list() || range.as_list().size() != 2) refuse(call, "K0201", "range should have 2 elements");
    double from = range.as_list()[0].as_scalar().as_double(), to = range.as_list()[1].as_scalar().as_double();
    if (from > to) refuse(call, "K0201", "min should not exceed max");
    low = b("new_full", {self, b.ints(Sizes{}), Scalar(from)});
    high = b("new_full", {self, b.ints(Sizes{}), Scalar(to)});
  } else if (is_zero_numel(self->type.sizes)) {
    low = b("new_full", {self, b.ints(Sizes{}), Scalar(0.0)});
    high = b("new_full", {self, b.ints(Sizes{}), Scalar(1.0)});
  } else {
    Value* flat = b("reshape", {self, b.ints({-1})});
    // Of no elements: 0 to 1.
    Value* none = b("full", {b.ints(Sizes{}), Expr::make(ExprOp::eq, {flat->type.sizes[0], Expr(0)}), DType::boolean});
    low = b("masked_fill.Scalar", {call.call("kiln.amin.default", {flat, b.ints({0})}), none, Scalar(0.0)});
    high = b("masked_fill.Scalar", {call.call("kiln.amax.default", {flat, b.ints({0})}), none, Scalar(1.0)});
  }
  // A single value stands in the middle of a range of 1.
  Value* half = b.mul(b.to(b("eq.Tensor", {low, high}), self->type.dtype), Scalar(0.5));
  return b("linspace.Tensor_Tensor", {b.sub(low, half), b.add(high, half), Scalar(bins + 1), self->type.dtype});
}

Value* histogram_input(Build& b) {
  Value* self = b.call().tensor("self");
  if (self->type.dtype != DType::f32 && self->type.dtype != DType::f64) refuse_dtype(b.call(), self->type.dtype);
  return self;
}

void register_histograms(Registry& r) {
  const char* tail = "Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)";
  add_composite(r, {.schema = str("histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, ", tail),
                    .build =
                        [](Build& b) {
                          Value* self = histogram_input(b);
                          finish_histogram(b, self, counted_edges(b, self));
                        },
                    .samples = {{{spec({3, 4}), Scalar(4), List{-1, 2}, spec({3, 4})}},
                                {{spec({9}, DType::f64), Scalar(3), List{-2, 1}, Argument::None{}, Scalar(true)}},
                                {{spec({9}), Scalar(3)}},
                                {{spec({3}), Scalar(0)}, true}}});
  add_composite(r, {.schema = str("histogram.bins_tensor(Tensor self, Tensor bins, *, ", tail),
                    .build =
                        [](Build& b) {
                          Value *self = histogram_input(b), *edges = b.call().tensor("bins");
                          if (rank_of(edges) != 1) refuse(b.call(), "K0201", "bins must be a 1-d tensor");
                          if (edges->type.dtype != self->type.dtype)
                            refuse(b.call(), "K0201", "bins must have the same dtype as the input");
                          finish_histogram(b, self, b("clone", {edges}));
                        },
                    .samples = {{{spec({3, 4}), spec({2}, DType::f32, 0, 0)}}, {{spec({3}), spec({2, 2})}, true}}});
}

// ---- Lists of tensors as one ----

// Sequences of different lengths beside one another, filled up at one end.
void build_pad_sequence(Build& b) {
  DecomposeCall& call = b.call();
  const auto sequences = call.tensors("sequences");
  if (sequences.empty()) refuse(call, "K0206", "received an empty list of sequences");
  const bool left = call.string("padding_side") == "left";
  Expr longest(0);
  for (const Value* sequence : sequences) {
    if (rank_of(sequence) == 0) refuse(call, "K0206", "a sequence must have a dimension");
    longest = max_expr(longest, sizes_of(sequence)[0]);
  }
  longest = simplify(longest, call.ranges());
  std::vector<Value*> padded;
  for (Value* sequence : sequences) {
    Sizes amounts(2 * static_cast<size_t>(rank_of(sequence)), Expr(0));  // of the last dimension first
    amounts[amounts.size() - (left ? 2 : 1)] = simplify(longest - sizes_of(sequence)[0], call.ranges());
    padded.push_back(b("constant_pad_nd", {sequence, b.ints(amounts), call.arg("padding_value")}));
  }
  call.result(b("stack", {list_of(padded), Scalar(call.boolean("batch_first") ? 0 : 1)}));
}

void register_lists_as_one(Registry& r) {
  const std::vector<Sample::TensorSpec> rows = {spec({3, 2}), spec({5, 2}), spec({1, 2})};
  add_composite(r, {.schema = "pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0.0, str "
                              "padding_side='right') -> Tensor",
                    .build = build_pad_sequence,
                    .samples = {{{rows}}, {{rows, Scalar(true), Scalar(-1.5), std::string("left")}}}});
  add_composite(r, {.schema = "flatten_dense_tensors(Tensor[] tensors) -> Tensor",
                    .build =
                        [](Build& b) {
                          std::vector<Value*> flat;
                          for (Value* x : b.call().tensors("tensors")) flat.push_back(b("reshape", {x, b.ints({-1})}));
                          b.call().result(b("cat", {list_of(flat), Scalar(0)}));
                        },
                    .samples = {{{rows}}}});
  add_composite(r,
                {.schema = "unflatten_dense_tensors(Tensor flat, Tensor[] tensors) -> Tensor[]",
                 .build =
                     [](Build& b) {
                       Expr at(0);
                       int i = 0;
                       for (const Value* x : b.call().tensors("tensors")) {
                         const Expr end = at + product(sizes_of(x));
                         Value* part = b("slice.Tensor", {b.call().tensor("flat"), Scalar(0), number(at), number(end)});
                         b.call().result(i++, b("view", {part, b.ints(sizes_of(x))}));
                         at = end;
                       }
                     },
                 .samples = {{{spec({18}), rows}}},
                 .early = true});
}

// ---- Others ----

// PyTorch's decompositions make tensors by the order of their dimensions in memory, and fill them afterwards.
void build_empty_permuted(Build& b) {
  DecomposeCall& call = b.call();
  const Sizes sizes = call.integers("size");
  const auto order = call.constant_integers("physical_layout");
  Sizes strides(sizes.size(), Expr(0));
  std::set<int64_t> seen(order.begin(), order.end());
  if (order.size() != sizes.size() || seen.size() != order.size() ||
      (!order.empty() && (*seen.begin() < 0 || *seen.rbegin() >= static_cast<int64_t>(order.size()))))
    refuse(call, "K0201", "physical_layout must have each dimension once");
  Expr stride(1);
  for (size_t i = order.size(); i-- > 0;) {
    strides[static_cast<size_t>(order[i])] = stride;
    stride = stride * max_expr(sizes[static_cast<size_t>(order[i])], Expr(1));
  }
  call.result(b("empty_strided", {b.ints(sizes), b.ints(strides), call.arg("dtype"), call.arg("layout"),
                                  call.arg("device"), call.arg("pin_memory")}));
}

void register_fused_products(Registry& r) {
  add_composite(
      r, {.schema = str("empty_permuted(SymInt[] size, int[] physical_layout, *, ", creation_options, ") -> Tensor"),
          .build = build_empty_permuted,
          .samples = {{{List{2, 3, 4}, List{0, 2, 1}}}, {{List{2, 3}, List{0, 0}}, true}},
          .facts = {.uninitialised = true}});
  add_composite(
      r, {.schema = "_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] "
                    "sumdim, int unroll_dim=1) -> Tensor",
          .build =
              [](Build& b) {
                DecomposeCall& call = b.call();
                auto widened = [&](const char* tensor, const char* dims) {
                  Value* x = call.tensor(tensor);
                  auto places = call.constant_integers(dims);
                  for (int64_t d : std::set<int64_t>(places.begin(), places.end())) x = b("unsqueeze", {x, Scalar(d)});
                  return x;
                };
                Value* product =
                    b.mul(b.mul(widened("i1", "expand1"), widened("i2", "expand2")), widened("i3", "expand3"));
                if (call.constant_integers("sumdim").empty()) return call.result(product);
                call.result(b("sum.dim_IntList", {product, call.arg("sumdim"), Scalar(false)}));
              },
          .samples = {{{spec({3, 4}), spec({2, 4, 5}), spec({3, 5}), List{1, 3}, List{0}, List{1, 2}, List{2, 3}}}}});
  add_composite(r,
                {.schema = "_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, "
                           "bool use_gelu=False) -> Tensor",
                 .build =
                     [](Build& b) {
                       DecomposeCall& call = b.call();
                       Value* sum = b("addmm", {call.tensor("self"), call.tensor("mat1"), call.tensor("mat2"),
                                                call.arg("beta"), call.arg("alpha")});
                       call.result(b(call.boolean("use_gelu") ? "gelu" : "relu", {sum}));
                     },
                 .samples = {{{spec({4}), spec({2, 3}), spec({3, 4})}},
                             {{spec({4}), spec({2, 3}), spec({3, 4}), Scalar(0.5), Scalar(2), Scalar(true)}}}});
  add_composite(
      r,
      {.schema = "conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor",
       .build =
           [](Build& b) {
             DecomposeCall& call = b.call();
             if (rank_of(call.tensor("self")) != 3 || rank_of(call.tensor("weight")) != 3)
               refuse(call, "K0206", "input and weight must have 3 dims: time, batch, channels");
             Value* x = b("permute", {call.tensor("self"), b.ints({1, 2, 0})});
             Value* w = b("permute", {call.tensor("weight"), b.ints({2, 1, 0})});
             Value* y = b("conv1d", {x, w, call.tensor("bias"), b.ints({1}), b.ints({call.constant_integer("pad")})});
             call.result(b.contiguous(b("permute", {y, b.ints({2, 0, 1})})));
           },
       .samples = {{{spec({5, 2, 3}), spec({3, 3, 4}), spec({4}), Scalar(1)}}}});
  add_composite(r, {.schema = "linalg__powsum(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
                              "ScalarType? dtype=None) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value* x = call.tensor("self");
                          if (call.given("dtype")) x = b.to(x, *call.dtype("dtype"));
                          Value* powers = b("pow.Tensor_Scalar", {b("abs", {x}), call.arg("ord")});
                          call.result(b("sum.dim_IntList", {powers, call.arg("dim"), call.arg("keepdim")}));
                        },
                    .samples = {{{spec({2, 3}), Scalar(3)}}, {{spec({2, 3}), Scalar(2), List{1}, Scalar(true)}}}});
}

}  // namespace

void register_by_composition(Registry& r) {
  register_lists_as_one(r);
  register_fused_products(r);
  register_positions(r);
  add_composite(r, {.schema = "_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
                    .build = build_safe_softmax,
                    .samples = {{{spec({3, 4}), Scalar(1)}},
                                {{spec({3, 4}, DType::bf16), Scalar(0), DType::f32}},
                                {{spec({3}), Scalar(1)}, true}}});
  add_composite(r, {.schema = "native_channel_shuffle(Tensor self, SymInt groups) -> Tensor",
                    .build =
                        [](Build& b) {
                          b.call().result(b("channel_shuffle", {b.call().tensor("self"), b.call().arg("groups")}));
                        },
                    .samples = {{{spec({1, 6, 2, 2}), Scalar(3)}}, {{spec({1, 5, 2}), Scalar(2)}, true}}});
  register_wide_products(r);
  register_older_norms(r);
  register_tensor_equations(r);
  register_histograms(r);
  r.describe({"linalg_tensorinv", "linalg_tensorsolve"}, complex_by(ComplexRule::native));
  r.describe({"where"}, complex_by(ComplexRule::parts));
  r.describe({"baddbmm"}, complex_product({"batch1", "batch2", "self"}));
  r.describe({"addmm"}, complex_product({"mat1", "mat2", "self"}));
  r.describe({"bmm", "mm"}, complex_product({"self", "mat2", ""}));
  r.describe({"addmm", "baddbmm", "bmm", "mm"}, autocast_to(AutocastRule::lower));
  r.describe({"linalg_tensorinv", "linalg_tensorsolve"}, autocast_to(AutocastRule::single));
  r.describe({"addmm", "bmm", "mm"}, {.matrix_product = true});
  r.describe({"addmm", "baddbmm", "bmm", "mm"}, {.rounds_factors = true});
}

}  // namespace kiln
