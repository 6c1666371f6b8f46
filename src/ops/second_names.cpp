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
  r.describe({"arccos"}, complex_by(complex_formulas::acos));
  r.describe({"arccosh"}, complex_by(complex_formulas::acosh));
  r.describe({"arcsin"}, complex_by(complex_formulas::asin));
  r.describe({"arcsinh"}, complex_by(complex_formulas::asinh));
  r.describe({"arctan"}, complex_by(complex_formulas::atan));
  r.describe({"arctanh"}, complex_by(complex_formulas::atanh));
}

}  // namespace kiln
