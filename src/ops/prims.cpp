// prims.*: the small operators that PyTorch's own decompositions are written in. Each is an operator of ATen under
// another name, or with its arguments in another order; none promotes types, and so none differs where dtypes agree.
#include "ops/composite.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;
using Specs = std::vector<Sample::TensorSpec>;

void add(Registry& r, std::string schema, std::function<Value*(Build&)> value, std::vector<Sample> samples) {
  const bool view = schema.find("(a)") != std::string::npos;
  add_composite(r, {.schema = std::move(schema),
                    .build = [value = std::move(value)](Build& b) { b.call().result(value(b)); },
                    .samples = std::move(samples),
                    .early = view,
                    .name_space = "prims"});
}

struct Named {
  const char *name, *target;
  double low = -2, high = 2;
  DType dtype = DType::f32;
};

void register_of_one(Registry& r) {
  const Named rows[] = {{"abs", "abs"},
                        {"acos", "acos", -1, 1},
                        {"acosh", "acosh", 1, 3},
                        {"asin", "asin", -1, 1},
                        {"asinh", "asinh"},
                        {"atan", "atan"},
                        {"atanh", "atanh", -0.9, 0.9},
                        {"bessel_i0", "i0"},
                        {"bessel_i0e", "special_i0e"},
                        {"bessel_i1", "special_i1"},
                        {"bessel_i1e", "special_i1e"},
                        {"bessel_j0", "special_bessel_j0"},
                        {"bessel_j1", "special_bessel_j1"},
                        {"bitwise_not", "bitwise_not", -9, 9, DType::i64},
                        {"ceil", "ceil"},
                        {"conj_physical", "conj_physical", -2, 2, DType::c64},
                        {"cos", "cos"},
                        {"cosh", "cosh"},
                        {"digamma", "digamma", 0.5, 3},
                        {"erf", "erf"},
                        {"erf_inv", "erfinv", -0.9, 0.9},
                        {"erfc", "erfc"},
                        {"erfcx", "special_erfcx"},
                        {"exp", "exp"},
                        {"exp2", "exp2"},
                        {"expm1", "expm1"},
                        {"floor", "floor"},
                        {"isfinite", "isfinite"},
                        {"lgamma", "lgamma", 0.5, 3},
                        {"log", "log", 0.1, 3},
                        {"log10", "log10", 0.1, 3},
                        {"log1p", "log1p", 0.1, 3},
                        {"log2", "log2", 0.1, 3},
                        {"ndtri", "special_ndtri", 0.1, 0.9},
                        {"neg", "neg"},
                        {"reciprocal", "reciprocal", 0.5, 2},
                        {"round", "round"},
                        {"rsqrt", "rsqrt", 0.5, 2},
                        {"sign", "sign"},
                        {"sin", "sin"},
                        {"sinh", "sinh"},
                        {"spherical_bessel_j0", "special_spherical_bessel_j0"},
                        {"sqrt", "sqrt", 0.1, 3},
                        {"tan", "tan", -1, 1},
                        {"tanh", "tanh"},
                        {"trunc", "trunc"}};
  for (const Named& row : rows)
    add(r, str(row.name, "(Tensor self) -> Tensor"),
        [target = row.target](Build& b) { return b(target, {b.call().tensor("self")}); },
        {{{spec({2, 3}, row.dtype, row.low, row.high)}}});
}

void register_of_two(Registry& r) {
  const Named rows[] = {{"add", "add.Tensor"},
                        {"atan2", "atan2"},
                        {"bitwise_and", "bitwise_and.Tensor", 0, 9, DType::i64},
                        {"bitwise_or", "bitwise_or.Tensor", 0, 9, DType::i64},
                        {"bitwise_xor", "bitwise_xor.Tensor", 0, 9, DType::i64},
                        {"eq", "eq.Tensor"},
                        {"fmax", "fmax"},
                        {"fmin", "fmin"},
                        {"fmod", "fmod.Tensor", 0.5, 3},
                        {"gcd", "gcd", 1, 30, DType::i64},
                        {"ge", "ge.Tensor"},
                        {"gt", "gt.Tensor"},
                        {"hypot", "hypot"},
                        {"igamma", "igamma", 0.5, 3},
                        {"igammac", "igammac", 0.5, 3},
                        {"le", "le.Tensor"},
                        {"lt", "lt.Tensor"},
                        {"maximum", "maximum"},
                        {"minimum", "minimum"},
                        {"mul", "mul.Tensor"},
                        {"ne", "ne.Tensor"},
                        {"nextafter", "nextafter"},
                        {"pow", "pow.Tensor_Tensor", 0.5, 2},
                        {"remainder", "remainder.Tensor", 0.5, 3},
                        {"shift_left", "bitwise_left_shift.Tensor", 0, 4, DType::i64},
                        {"shift_right_arithmetic", "bitwise_right_shift.Tensor", 0, 4, DType::i64},
                        {"sub", "sub.Tensor"},
                        {"zeta", "special_zeta", 1.5, 3}};
  for (const Named& row : rows)
    add(r, str(row.name, "(Tensor self, Tensor other) -> Tensor"),
        [target = row.target](Build& b) {
          return b(target, {b.call().tensor("self"), b.call().tensor("other")});
        },
        {{{spec({2, 3}, row.dtype, row.low, row.high), spec({2, 3}, row.dtype, row.low, row.high)}}});
  add(r, "div(Tensor self, Tensor other) -> Tensor",
      [](Build& b) {
        Value *x = b.call().tensor("self"), *y = b.call().tensor("other");
        if (is_float(x->type.dtype) || is_complex(x->type.dtype)) return b.div(x, y);
        return b("div.Tensor_mode", {x, y, std::string("trunc")});  // integers stay integers
      },
      {{{spec({2, 3}), spec({2, 3}, DType::f32, 0.5, 2)}},
       {{spec({2, 3}, DType::i64, -9, 9), spec({2, 3}, DType::i64, 1, 4)}}});
  add(r, "where(Tensor pred, Tensor a, Tensor b) -> Tensor",
      [](Build& b) {
        return b("where.self", {b.call().tensor("pred"), b.call().tensor("a"), b.call().tensor("b")});
      },
      {{{spec({2, 3}, DType::boolean, 0, 1), spec({2, 3}), spec({2, 3})}}});
}

// dims=None: all of them.
Argument dims_or_all(Build& b, Value* x) {
  if (b.call().given("dims")) return b.call().arg("dims");
  Sizes all;
  for (int64_t d = 0; d < rank_of(x); ++d) all.push_back(Expr(d));
  return b.ints(all);
}

void register_sums(Registry& r) {
  const std::vector<Sample> samples = {{{spec({2, 3, 4}), List{0, 2}}}};
  for (const char* name : {"amax", "amin"})
    add(
        r, str(name, "(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor"),
        [name](Build& b) {
          Value* x = b.call().tensor("inp");
          return b(name, {x, dims_or_all(b, x)});
        },
        samples);
  add(
      r, "sum(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor",
      [](Build& b) {
        Value* x = b.call().tensor("inp");
        return b("sum.dim_IntList",
                 {x, dims_or_all(b, x), Scalar(false),
                  b.call().given("output_dtype") ? b.call().arg("output_dtype") : Argument(x->type.dtype)});
      },
      samples);
  add(r, "var(Tensor inp, int[]? dims, float? correction=1, *, ScalarType? output_dtype=None) -> Tensor",
      [](Build& b) {
        Value* x = b.call().tensor("inp");
        return b("var.correction", {x, dims_or_all(b, x), b.call().arg("correction")});
      },
      {{{spec({2, 3, 4}), List{0, 2}, Scalar(1.0)}}});
}

void register_layouts(Registry& r) {
  add(r, "broadcast_in_dim(Tensor(a) a, SymInt[] shape, int[] broadcast_dimensions) -> Tensor(a)",
      [](Build& b) {
        Value* x = b.call().tensor("a");
        const auto places = b.call().constant_integers("broadcast_dimensions");
        const Sizes shape = b.call().integers("shape");
        std::set<int64_t> taken(places.begin(), places.end());
        for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
          if (!taken.contains(d)) x = b("unsqueeze", {x, Scalar(d)});
        return b("expand", {x, b.ints(shape)});
      },
      {{{spec({3}), List{2, 3, 4}, List{1}}}, {{spec({3, 1}), List{2, 3, 4}, List{1, 2}}}});
  add(r, "transpose(Tensor(a) a, int[] permutation) -> Tensor(a)",
      [](Build& b) {
        return b("permute", {b.call().tensor("a"), b.call().arg("permutation")});
      },
      {{{spec({2, 3, 4}), List{2, 0, 1}}}});
  add(r, "squeeze(Tensor(a) a, int[] dimensions) -> Tensor(a)",
      [](Build& b) {
        return b("squeeze.dims", {b.call().tensor("a"), b.call().arg("dimensions")});
      },
      {{{spec({2, 1, 3}), List{1}}}});
  for (const char* name : {"collapse_view(Tensor(a) a, int start, int end) -> Tensor(a)",
                           "collapse(Tensor a, int start, int end) -> Tensor"})
    add(r, name,
        [](Build& b) {
          return b("flatten.using_ints", {b.call().tensor("a"), b.call().arg("start"), b.call().arg("end")});
        },
        {{{spec({2, 3, 4}), Scalar(0), Scalar(1)}}});
  add(r, "split_dim(Tensor(a) a, int dim, SymInt outer_length) -> Tensor(a)",
      [](Build& b) {
        Value* x = b.call().tensor("a");
        const auto dim = static_cast<size_t>(b.call().constant_integer("dim"));
        const Expr outer = b.call().integer("outer_length");
        Sizes sizes = sizes_of(x);
        const Expr inner = floordiv(sizes.at(dim), outer);
        sizes[dim] = outer;
        sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dim) + 1, inner);
        return b("view", {x, b.ints(sizes)});
      },
      {{{spec({2, 6}), Scalar(1), Scalar(2)}}});
  add(r, "view_of(Tensor(a) a) -> Tensor(a)", [](Build& b) { return b("alias", {b.call().tensor("a")}); },
      {{{spec({2, 3})}}});
  add(r, "reshape(Tensor a, SymInt[] shape) -> Tensor",
      [](Build& b) {
        Value* shaped = b("reshape", {b.call().tensor("a"), b.call().arg("shape")});
        return b("clone", {shaped, MemoryFormat::contiguous});
      },
      {{{spec({2, 3}), List{3, 2}}}});
  add(r, "rev(Tensor a, int[] dims) -> Tensor",
      [](Build& b) {
        return b("flip", {b.call().tensor("a"), b.call().arg("dims")});
      },
      {{{spec({2, 3}), List{1}}}});
  add(r, "cat(Tensor[] tensors, int dim) -> Tensor",
      [](Build& b) {
        return b("cat", {b.call().arg("tensors"), b.call().arg("dim")});
      },
      {{{Specs{spec({2, 3}), spec({1, 3})}, Scalar(0)}}});
  add(r, "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
      [](Build& b) {
        return b("clone", {b.call().tensor("self"), b.call().arg("memory_format")});
      },
      {{{spec({2, 3})}}});
}

void register_types(Registry& r) {
  add(r, "convert_element_type(Tensor a, ScalarType dtype) -> Tensor",
      [](Build& b) {
        return b("_to_copy", {b.call().tensor("a"), b.call().arg("dtype")});
      },
      {{{spec({2, 3}), DType::i64}}, {{spec({2, 3}, DType::i64, -9, 9), DType::bf16}}});
  add(r, "device_put(Tensor a, Device device, bool non_blocking=False) -> Tensor",
      [](Build& b) { return b("clone", {b.call().tensor("a")}); }, {{{spec({2, 3}), std::string("cpu")}}});
  add(r, "fill(Tensor self, Scalar value) -> Tensor",
      [](Build& b) {
        return b("full_like", {b.call().tensor("self"), b.call().arg("value")});
      },
      {{{spec({2, 3}), Scalar(2.5)}}});
}

// The numbers from start on, with a step; prims has no other arange.
void register_iota(Registry& r) {
  add(r,
      "iota(SymInt length, *, SymInt start, SymInt step, ScalarType dtype, Device device, bool requires_grad) -> "
      "Tensor",
      [](Build& b) {
        DecomposeCall& call = b.call();
        Value* count = b("arange", {number(call.integer("length")), DType::i64});
        Value* steps = b.mul(count, number(call.integer("step")));
        return b.to(b.add(steps, number(call.integer("start"))), call.dtype("dtype").value_or(DType::i64));
      },
      {{{Scalar(5), Scalar(2), Scalar(3), DType::i64, std::string("cpu"), Scalar(false)}}});
}

}  // namespace

void register_prims(Registry& r) {
  register_of_one(r);
  register_of_two(r);
  register_sums(r);
  register_layouts(r);
  register_types(r);
  register_iota(r);
}

}  // namespace kiln
