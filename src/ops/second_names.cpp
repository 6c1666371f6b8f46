// Operators that stand for others: second names, overloads for lists and numbers, and in-place forms of views, which
// change how a tensor is seen but not what it holds: their result is the view itself.
#include "ops/complex_formulas.h"
#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;
using Specs = std::vector<Sample::TensorSpec>;

// All arguments go to the target as they are.
void forward(Registry& r, std::string schema, std::string target, std::vector<Sample> samples, bool inplace = false,
             bool early = false) {
  add_composite(r, {.schema = std::move(schema),
                    .build =
                        [target = std::move(target)](Build& b) {
                          DecomposeCall& call = b.call();
                          std::vector<Argument> args;
                          for (const SchemaArg& declared : call.schema().args) args.push_back(call.arg(declared.name));
                          call.result(b(target, std::move(args)));
                        },
                    .samples = std::move(samples),
                    .inplace = inplace,
                    .early = early});
}

void register_functions(Registry& r) {
  struct Row {
    const char *name, *target;
    double low, high;
  };
  const Row rows[] = {{"arccos", "acos", -1, 1},  {"arcsin", "asin", -1, 1},   {"arctan", "atan", -2, 2},
                      {"arccosh", "acosh", 1, 4}, {"arcsinh", "asinh", -2, 2}, {"arctanh", "atanh", -0.9, 0.9}};
  for (const Row& row : rows)
    forward(r, str(row.name, "(Tensor self) -> Tensor"), row.target,
            {{{spec({2, 3}, DType::f32, row.low, row.high)}}, {{spec({}, DType::f64, row.low, row.high)}}}, true);
  forward(r, "arctan2(Tensor self, Tensor other) -> Tensor", "atan2", {{{spec({2, 3}), spec({3})}}}, true);
  forward(r, "special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", "softmax.int",
          {{{spec({2, 3}), Scalar(1)}}});
  forward(r, "special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", "log_softmax.int",
          {{{spec({2, 3}), Scalar(0)}}});
  forward(r, "special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", "logsumexp",
          {{{spec({2, 3}), List{1}}}});
  forward(r, "special_round(Tensor self, *, int decimals=0) -> Tensor", "round.decimals",
          {{{spec({2, 3}), Scalar(1)}}});
  forward(r, "special_logit(Tensor self, float? eps=None) -> Tensor", "logit",
          {{{spec({2, 3}, DType::f32, 0.1, 0.9)}}});
  forward(r, "special_xlogy.other_scalar(Tensor self, Scalar other) -> Tensor", "xlogy.Scalar_Other",
          {{{spec({2, 3}), Scalar(2.5)}}});
  forward(r, "special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor", "xlogy.Scalar_Self",
          {{{Scalar(2.5), spec({2, 3}, DType::f32, 0.1, 3)}}});
  forward(r, "subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", "sub.Tensor",
          {{{spec({2, 3}), spec({3}), Scalar(2)}}}, true);
  forward(r, "subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", "sub.Scalar",
          {{{spec({2, 3}), Scalar(2.5)}}}, true);
  forward(r, "_is_all_true(Tensor self) -> Tensor", "all", {{{spec({2, 3}, DType::boolean, 0, 1)}}});
  forward(r, "_is_any_true(Tensor self) -> Tensor", "any", {{{spec({2, 3}, DType::boolean, 0, 1)}}});
  forward(r, "row_stack(Tensor[] tensors) -> Tensor", "vstack", {{{Specs{spec({2, 3}), spec({2, 3})}}}});
}

void register_lists(Registry& r) {
  for (int rank : {1, 2, 3})
    add_composite(r, {.schema = str("atleast_", rank, "d.Sequence(Tensor[] tensors) -> Tensor[]"),
                      .build =
                          [rank](Build& b) {
                            int at = 0;
                            for (Value* tensor : b.call().tensors("tensors"))
                              b.call().result(at++, b(str("atleast_", rank, "d"), {tensor}));
                          },
                      .samples = {{{Specs{spec({3}), spec({}), spec({2, 2})}}}},
                      .early = true});
}

// Writes what `value` gives to self.
void in_place(Registry& r, std::string schema, std::function<Value*(Build&)> value, std::vector<Sample> samples) {
  add_composite(r, {.schema = std::move(schema),
                    .build =
                        [value = std::move(value)](Build& b) {
                          b.call().result(b("copy_", {b.call().tensor("self"), value(b)}));
                        },
                    .samples = std::move(samples),
                    .early = true});
}

// Python's x &= y, which PyTorch calls by names of its own.
void register_python_updates(Registry& r) {
  struct Row {
    const char *name, *target, *with_number;
  };
  const Row rows[] = {{"__iand__", "bitwise_and.Tensor", "bitwise_and.Scalar"},
                      {"__ior__", "bitwise_or.Tensor", "bitwise_or.Scalar"},
                      {"__ixor__", "bitwise_xor.Tensor", "bitwise_xor.Scalar"},
                      {"__ilshift__", "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar"},
                      {"__irshift__", "bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar"}};
  const auto whole = spec({2, 3}, DType::i64, 0, 9), few = spec({3}, DType::i64, 0, 3);
  for (const Row& row : rows) {
    in_place(r, str(row.name, ".Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"),
             [target = row.target](Build& b) {
               return b(target, {b.call().tensor("self"), b.call().tensor("other")});
             },
             {{{whole, few}}});
    in_place(r, str(row.name, ".Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)"),
             [target = row.with_number](Build& b) {
               return b(target, {b.call().tensor("self"), b.call().arg("other")});
             },
             {{{whole, Scalar(3)}}});
  }
  in_place(r, "polygamma_(Tensor(a!) self, int n) -> Tensor(a!)",
           [](Build& b) {
             return b("polygamma", {b.call().arg("n"), b.call().tensor("self")});
           },
           {{{spec({2, 3}, DType::f32, 0.5, 3), Scalar(2)}}});
}

// Where training draws slopes at random, evaluation takes the middle of their range and leaves the noise alone.
void register_rrelu(Registry& r) {
  auto middle = [](Build& b) {
    DecomposeCall& call = b.call();
    if (call.boolean("training")) refuse(call, "K0202", "draws random slopes in training");
    const double low = call.arg("lower").as_scalar().as_double(), high = call.arg("upper").as_scalar().as_double();
    return b("leaky_relu", {call.tensor("self"), Scalar((low + high) / 2)});
  };
  const std::string tail =
      "Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? generator=None) -> ";
  const std::vector<Sample> samples = {{{spec({2, 3}), spec({2, 3})}},
                                       {{spec({2, 3}), spec({2, 3}), Scalar(0.1), Scalar(0.3), Scalar(true)}, true}};
  add_composite(r, {.schema = str("rrelu_with_noise(Tensor self, Tensor noise, ", tail, "Tensor"),
                    .build = [middle](Build& b) { b.call().result(middle(b)); },
                    .samples = samples});
  add_composite(
      r, {.schema = str("rrelu_with_noise_functional(Tensor self, Tensor noise, ", tail, "(Tensor, Tensor noise_out)"),
          .build =
              [middle](Build& b) {
                b.call().result(0, middle(b));
                b.call().result(1, b("clone", {b.call().tensor("noise")}));
              },
          .samples = samples});
  in_place(r, str("rrelu_with_noise_(Tensor(a!) self, Tensor noise, ", tail, "Tensor(a!)"), middle, samples);
}

// Views under names that copy, where the view has a record of its own and not a row of the table of views.
void register_copies_of_views(Registry& r) {
  struct Row {
    const char *schema, *target;
    std::vector<Sample> samples;
  };
  const auto complex = spec({2, 3}, DType::c64);
  const Row rows[] = {
      {"view_as_real_copy(Tensor self) -> Tensor", "view_as_real", {{{complex}}}},
      {"view_as_complex_copy(Tensor self) -> Tensor", "view_as_complex", {{{spec({3, 2})}}}},
      {"view_copy.dtype(Tensor self, ScalarType dtype) -> Tensor", "view.dtype", {{{spec({2, 3}), DType::i32}}}},
      {"_reshape_copy(Tensor self, SymInt[] size) -> Tensor", "reshape", {{{spec({2, 3}), List{3, 2}}}}}};
  for (const Row& row : rows)
    add_composite(r, {.schema = row.schema,
                      .build =
                          [target = row.target](Build& b) {
                            std::vector<Argument> args;
                            for (const SchemaArg& declared : b.call().schema().args)
                              args.push_back(b.call().arg(declared.name));
                            b.call().result(b("clone", {b(target, std::move(args)), MemoryFormat::contiguous}));
                          },
                      .samples = row.samples});
  forward(r, "_conj_copy(Tensor self) -> Tensor", "conj_physical", {{{complex}}});
  forward(r, "_conj_physical(Tensor self) -> Tensor", "conj_physical", {{{complex}}});
  forward(r, "_neg_view_copy(Tensor self) -> Tensor", "neg", {{{spec({2, 3})}}});
  add_composite(r, {.schema = "_reshape_alias_copy(Tensor self, SymInt[] size, SymInt[] stride) -> Tensor",
                    .build =
                        [](Build& b) {
                          Value* shaped = b("reshape", {b.call().tensor("self"), b.call().arg("size")});
                          b.call().result(b("clone", {shaped, MemoryFormat::contiguous}));
                        },
                    .samples = {{{spec({2, 3}), List{3, 2}, List{2, 1}}}}});
}

void register_minima_and_maxima(Registry& r) {
  for (bool dim : {false, true})
    add_composite(r,
                  {.schema = str("_aminmax", dim ? ".dim(Tensor self, int dim, bool keepdim=False)" : "(Tensor self)",
                                 " -> (Tensor, Tensor)"),
                   .build =
                       [dim](Build& b) {
                         DecomposeCall& call = b.call();
                         std::vector<Argument> args = {call.tensor("self")};
                         if (dim) args.insert(args.end(), {call.arg("dim"), call.arg("keepdim")});
                         const auto both = b.all("aminmax", std::move(args));
                         call.result(0, both[0]);
                         call.result(1, both[1]);
                       },
                   .samples = {dim ? Sample{{spec({2, 3}), Scalar(1)}} : Sample{{spec({2, 3})}}}});
}

// The first elements of what a tensor holds in other sizes: a view, as long as there are enough of them.
void register_resizes(Registry& r) {
  auto resized = [](Build& b, const Sizes& sizes) {
    DecomposeCall& call = b.call();
    Value* self = call.tensor("self");
    const bool whole = is_contiguous(self->type.sizes, self->type.strides) && self->type.offset.is_constant(0);
    if (!whole || prove_le(product(sizes), product(self->type.sizes), call.ranges()) != Proof::yes)
      refuse(call, "K0202", "needs a contiguous tensor with at least as many elements as the new sizes");
    call.result(b("as_strided", {self, b.ints(sizes), b.ints(contiguous_strides(sizes))}));
  };
  add_composite(r,
                {.schema = "resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)",
                 .build = [resized](Build& b) { resized(b, b.call().integers("size")); },
                 .samples = {{{spec({2, 3}), List{2, 2}}}, {{spec({2, 3}), List{7}}, true}},
                 .early = true});
  add_composite(
      r,
      {.schema = "resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor(a!)",
       .build = [resized](Build& b) { resized(b, sizes_of(b.call().tensor("the_template"))); },
       .samples = {{{spec({2, 3}), spec({3})}}},
       .early = true});
}

// fill_diagonal_: of a matrix; of a cube, and what has more dimensions, the elements with equal indices. `wrap`: of a
// matrix that is taller than wide the diagonal begins again one row below its end.
void build_fill_diagonal(Build& b) {
  DecomposeCall& call = b.call();
  Value* self = call.tensor("self");
  const int64_t rank = rank_of(self);
  if (rank < 2) refuse(call, "K0206", "dimensions must larger than 1");
  auto fill = [&](Value* part) {
    for (int64_t d = 1; d < rank; ++d) part = b("diagonal", {part, Scalar(0), Scalar(0), Scalar(d == 1 ? 1 : -1)});
    b("fill_.Scalar", {part, call.arg("fill_value")});
  };
  if (call.boolean("wrap") && rank == 2) {
    // Every so many elements, counted through all rows.
    const Expr &rows = sizes_of(self)[0], &columns = sizes_of(self)[1];
    if (!rows.is_constant() || !columns.is_constant())
      fail_unsupported("K0202", "fill_diagonal_(wrap=True) needs constant sizes", call.where());
    const int64_t high = rows.value(), wide = columns.value();
    Value* number = b("arange", {Scalar(high * wide)});
    Value* on = b("eq.Scalar", {b("remainder.Scalar", {number, Scalar(wide + 1)}), Scalar(0)});
    b("masked_fill_.Scalar", {self, b("view", {on, b.ints({high, wide})}), call.arg("fill_value")});
  } else {
    fill(self);
  }
  call.result(b("alias", {self}));
}

void register_fill_diagonal(Registry& r) {
  add_composite(r, {.schema = "fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)",
                    .build = build_fill_diagonal,
                    .samples = {{{spec({3, 4}), Scalar(2.5)}},
                                {{spec({7, 2}), Scalar(2.5), Scalar(true)}},
                                {{spec({2, 2, 2}), Scalar(1)}}},
                    .early = true});
}

// x.t_() is x.t(): what the program calls x afterwards is the result.
void register_inplace_views(Registry& r) {
  std::vector<Sample> two = {{{spec({2, 3}), Scalar(0), Scalar(1)}}};
  forward(r, "t_(Tensor(a!) self) -> Tensor(a!)", "t", {{{spec({2, 3})}}}, false, true);
  forward(r, "transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", "transpose.int", two, false, true);
  forward(r, "swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", "transpose.int", two, false, true);
  forward(r, "swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)", "transpose.int", two, false, true);
  forward(r, "unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)", "unsqueeze", {{{spec({2, 3}), Scalar(-1)}}}, false,
          true);
  forward(r, "squeeze_(Tensor(a!) self) -> Tensor(a!)", "squeeze", {{{spec({2, 1, 3})}}}, false, true);
  forward(r, "squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)", "squeeze.dim", {{{spec({2, 1}), Scalar(1)}}},
          false, true);
  forward(r, "squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)", "squeeze.dims",
          {{{spec({2, 1, 1}), List{1, 2}}}}, false, true);
}

}  // namespace

void register_second_names(Registry& r) {
  register_functions(r);
  register_lists(r);
  register_inplace_views(r);
  register_python_updates(r);
  register_rrelu(r);
  register_copies_of_views(r);
  register_minima_and_maxima(r);
  register_resizes(r);
  register_fill_diagonal(r);
  r.describe({"arccos"}, complex_by(complex_formulas::acos));
  r.describe({"arccosh"}, complex_by(complex_formulas::acosh));
  r.describe({"arcsin"}, complex_by(complex_formulas::asin));
  r.describe({"arcsinh"}, complex_by(complex_formulas::asinh));
  r.describe({"arctan"}, complex_by(complex_formulas::atan));
  r.describe({"arctanh"}, complex_by(complex_formulas::atanh));
}

}  // namespace kiln
