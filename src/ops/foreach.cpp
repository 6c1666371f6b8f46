// aten._foreach_*: one operator for each tensor of a list, as optimisers call them. A row of the table says which
// operator; its forms (a list, a number, a list of numbers, a tensor on the other side; in place) follow from it.
#include "ops/composite.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;
using Specs = std::vector<Sample::TensorSpec>;
// The result for one tensor of the list.
using EachFn = std::function<Value*(Build&, size_t, Value*)>;

Specs pair_of(double low, double high) {
  return {spec({2, 3}, DType::f32, low, high), spec({2}, DType::f32, low, high)};
}

void add_only(Registry& r, const std::string& schema, const EachFn& each, const std::vector<Sample>& samples) {
  add_composite(r, {.schema = schema,
                    .build =
                        [each](Build& b) {
                          const auto tensors = b.call().tensors("self");
                          for (size_t i = 0; i < tensors.size(); ++i)
                            b.call().result(static_cast<int>(i), each(b, i, tensors[i]));
                        },
                    .samples = samples});
}

// Both forms: "name.overload(Tensor[] self, rest) -> Tensor[]", and the one that writes to the tensors of self.
void add_both(Registry& r, const std::string& name, const std::string& rest, const EachFn& each,
              const std::vector<Sample>& samples) {
  const size_t dot = name.find('.');
  const std::string base = name.substr(0, dot), overload = dot == std::string::npos ? "" : name.substr(dot);
  add_only(r, str("_foreach_", name, "(Tensor[] self", rest, ") -> Tensor[]"), each, samples);
  add_composite(r, {.schema = str("_foreach_", base, "_", overload, "(Tensor(a!)[] self", rest, ") -> ()"),
                    .build =
                        [each](Build& b) {
                          const auto tensors = b.call().tensors("self");
                          for (size_t i = 0; i < tensors.size(); ++i) b("copy_", {tensors[i], each(b, i, tensors[i])});
                        },
                    .samples = samples,
                    .early = true});
}

Argument number_at(Build& b, std::string_view list, size_t i) { return b.call().arg(list).as_list().at(i); }

void register_unary(Registry& r) {
  for (const char* name :
       {"abs",   "acos",  "asin",    "atan",   "ceil", "cos",   "cosh",  "erf",  "erfc", "exp",
        "expm1", "floor", "frac",    "lgamma", "log",  "log10", "log1p", "log2", "neg",  "reciprocal",
        "round", "rsqrt", "sigmoid", "sign",   "sin",  "sinh",  "sqrt",  "tan",  "tanh", "trunc"})
    add_both(r, name, "", [name](Build& b, size_t, Value* x) { return b(name, {x}); }, {{{pair_of(0.1, 0.9)}}});
  add_both(r, "zero", "", [](Build& b, size_t, Value* x) { return b("zeros_like", {x}); }, {{{pair_of(-2, 2)}}});
  add_both(r, "copy", ", Tensor[] src, bool non_blocking=False",
           [](Build& b, size_t i, Value* x) {
             return b("copy", {x, b.call().tensors("src").at(i)});
           },
           {{{pair_of(-2, 2), pair_of(-2, 2)}}});
  add_only(r, "_foreach_clone(Tensor[] self, *, MemoryFormat? memory_format=None) -> Tensor[]",
           [](Build& b, size_t, Value* x) {
             return b("clone", {x, b.call().arg("memory_format")});
           },
           {{{pair_of(-2, 2)}}});
}

struct BinaryRow {
  const char *name, *with_tensor, *with_number;
  bool alpha = false;
  bool one_tensor = false;  // there is a form with one tensor for all
  const char* exponent = nullptr;
};

void register_binary(Registry& r) {
  // Eager computes maximum and minimum as clamps, too.
  const BinaryRow rows[] = {{"add", "add.Tensor", "add.Scalar", true, true},
                            {"sub", "sub.Tensor", "sub.Scalar", true},
                            {"mul", "mul.Tensor", "mul.Scalar", false, true},
                            {"div", "div.Tensor", "div.Scalar", false, true},
                            {"maximum", "clamp_min.Tensor", "clamp_min"},
                            {"minimum", "clamp_max.Tensor", "clamp_max"},
                            {"clamp_min", "clamp_min.Tensor", "clamp_min"},
                            {"clamp_max", "clamp_max.Tensor", "clamp_max"},
                            {"pow", "pow.Tensor_Tensor", "pow.Tensor_Scalar", false, false, "exponent"}};
  for (const BinaryRow& row : rows) {
    const std::string name = row.name, one = row.exponent ? row.exponent : "scalar",
                      many = row.exponent ? row.exponent : "scalars", other = row.exponent ? row.exponent : "other";
    const Specs base = pair_of(0.1, 2);
    auto with_tensor = [row](Build& b, Value* x, Value* y) {
      std::vector<Argument> args = {x, y};
      if (row.alpha) args.push_back(b.call().arg("alpha"));
      return b(row.with_tensor, std::move(args));
    };
    add_both(
        r, name + ".List", str(", Tensor[] ", other, row.alpha ? ", *, Scalar alpha=1" : ""),
        [with_tensor, other](Build& b, size_t i, Value* x) { return with_tensor(b, x, b.call().tensors(other).at(i)); },
        {{{base, base}}});
    add_both(r, name + ".Scalar", str(", Scalar ", one),
             [row, one](Build& b, size_t, Value* x) {
               return b(row.with_number, {x, b.call().arg(one)});
             },
             {{{base, Scalar(1.5)}}});
    add_both(r, name + ".ScalarList", str(", Scalar[] ", many),
             [row, many](Build& b, size_t i, Value* x) {
               return b(row.with_number, {x, number_at(b, many, i)});
             },
             {{{base, List{1, 2}}}});
    if (row.one_tensor)
      add_both(r, name + ".Tensor", str(", Tensor other", row.alpha ? ", *, Scalar alpha=1" : ""),
               [with_tensor](Build& b, size_t, Value* x) { return with_tensor(b, x, b.call().tensor("other")); },
               {{{base, spec({})}}});
  }
  add_composite(r, {.schema = "_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]",
                    .build =
                        [](Build& b) {
                          int at = 0;
                          for (Value* exponent : b.call().tensors("exponent"))
                            b.call().result(at++, b("pow.Scalar", {b.call().arg("self"), exponent}));
                        },
                    .samples = {{{Scalar(2.5), pair_of(-2, 2)}}}});
}

// self + number * (one ∘ two), where the numbers of the overload "Tensor" are read from a tensor.
void register_ternary(Registry& r) {
  const Specs base = pair_of(0.5, 2);
  for (const std::string name : {"addcmul", "addcdiv"}) {
    const std::string lists = ", Tensor[] tensor1, Tensor[] tensor2, ";
    auto factors = [](Build& b, size_t i) {
      return std::pair{b.call().tensors("tensor1").at(i), b.call().tensors("tensor2").at(i)};
    };
    add_both(r, name + ".Scalar", lists + "Scalar value=1",
             [name, factors](Build& b, size_t i, Value* x) {
               auto [one, two] = factors(b, i);
               return b(name, {x, one, two, b.call().arg("value")});
             },
             {{{base, base, base, Scalar(0.5)}}});
    add_both(r, name + ".ScalarList", lists + "Scalar[] scalars",
             [name, factors](Build& b, size_t i, Value* x) {
               auto [one, two] = factors(b, i);
               return b(name, {x, one, two, number_at(b, "scalars", i)});
             },
             {{{base, base, base, List{2, 3}}}});
    add_both(
        r, name + ".Tensor", lists + "Tensor scalars",
        [name, factors](Build& b, size_t i, Value* x) {
          auto [one, two] = factors(b, i);
          Value* number = b("select.int", {b.call().tensor("scalars"), Scalar(0), Scalar(static_cast<int64_t>(i))});
          Value* scaled = b.mul(b.to(number, x->type.dtype), one);
          return b.add(x, name == "addcmul" ? b.mul(scaled, two) : b.div(scaled, two));
        },
        {{{base, base, base, spec({2})}}});
  }
  add_both(r, "lerp.List", ", Tensor[] tensors1, Tensor[] weights",
           [](Build& b, size_t i, Value* x) {
             return b("lerp.Tensor", {x, b.call().tensors("tensors1").at(i), b.call().tensors("weights").at(i)});
           },
           {{{base, base, base}}});
  add_both(r, "lerp.Scalar", ", Tensor[] tensors1, Scalar weight",
           [](Build& b, size_t i, Value* x) {
             return b("lerp.Scalar", {x, b.call().tensors("tensors1").at(i), b.call().arg("weight")});
           },
           {{{base, base, Scalar(0.25)}}});
  add_both(r, "lerp.ScalarList", ", Tensor[] tensors1, Scalar[] weight",
           [](Build& b, size_t i, Value* x) {
             return b("lerp.Scalar", {x, b.call().tensors("tensors1").at(i), number_at(b, "weight", i)});
           },
           {{{base, base, List{0, 1}}}});
}

void register_reductions(Registry& r) {
  add_only(r, "_foreach_max(Tensor[] self) -> Tensor[]", [](Build& b, size_t, Value* x) { return b("max", {x}); },
           {{{pair_of(-2, 2)}}});
  add_only(r, "_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]",
           [](Build& b, size_t, Value* x) {
             return b("linalg_vector_norm", {x, b.call().arg("ord"), Argument(), Scalar(false), b.call().arg("dtype")});
           },
           {{{pair_of(-2, 2)}}, {{pair_of(-2, 2), Scalar(1)}}});
  add_only(r, "_foreach_mm(Tensor[] self, Tensor[] mat2) -> Tensor[]",
           [](Build& b, size_t i, Value* x) {
             return b("mm", {x, b.call().tensors("mat2").at(i)});
           },
           {{{Specs{spec({2, 3}), spec({1, 2})}, Specs{spec({3, 2}), spec({2, 2})}}}});
}

}  // namespace

void register_foreach(Registry& r) {
  register_unary(r);
  register_binary(r);
  register_ternary(r);
  register_reductions(r);
}

}  // namespace kiln
