// Losses over class margins, and cross entropy of a linear layer's result.
#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

Value* classes(Build& b, const Expr& count) { return b("arange", {number(count)}); }
Value* last(Build& b, Value* x) { return b("unsqueeze", {x, Scalar(-1)}); }

// A loss per row; one sample without a batch dimension gives a number.
struct Rows {
  Value *x, *target;
  bool single;
};
Rows rows_of(Build& b, int64_t target_rank) {
  DecomposeCall& call = b.call();
  Value *x = call.tensor("self"), *target = call.tensor("target");
  if (!is_float(x->type.dtype)) refuse_dtype(call, x->type.dtype);
  if (rank_of(x) > 2) refuse(call, "K0201", "expected a vector or a matrix");
  bool single = rank_of(x) < 2;
  if (rank_of(x) == 0) x = b("unsqueeze", {x, Scalar(0)});
  x = b.to(x, compute_dtype(x->type.dtype));
  if (single) x = b("unsqueeze", {x, Scalar(0)});
  while (rank_of(target) < target_rank) target = b("unsqueeze", {target, Scalar(0)});
  if (rank_of(target) != target_rank || prove_eq(target->type.sizes[0], x->type.sizes[0], call.ranges()) == Proof::no)
    refuse(call, "K0201", "inconsistent target size");
  return {x, target, single};
}

// `per_row` as the argument "reduction" asks, in the type of self.
Value* reduced(Build& b, Value* per_row, bool single) {
  auto how = static_cast<LossReduction>(b.call().constant_integer("reduction"));
  if (how == LossReduction::none && single) per_row = b("squeeze.dim", {per_row, Scalar(0)});
  return b.to(reduce_loss(b, per_row), b.call().tensor("self")->type.dtype);
}

void build_multi_margin(Build& b) {
  DecomposeCall& call = b.call();
  Rows rows = rows_of(b, 1);
  Expr count = rows.x->type.sizes[1];
  auto p = call.scalar("p");
  double power = std::holds_alternative<Scalar>(p) ? std::get<Scalar>(p).as_double() : 0;
  if (power != 1 && power != 2) refuse(call, "K0201", "only p == 1 and p == 2 supported");
  Value* target = last(b, rows.target);
  Value* own = b("gather", {rows.x, Scalar(1), target});
  Value* margin = b("clamp_min", {b.add(b.sub(rows.x, own), call.arg("margin")), Scalar(0)});
  if (power == 2) margin = b.mul(margin, margin);
  if (Value* weight = call.tensor_or_null("weight"))
    margin = b.mul(margin, last(b, b("index_select", {b.to(weight, rows.x->type.dtype), Scalar(0), rows.target})));
  margin = b("masked_fill.Scalar", {margin, b("eq.Tensor", {classes(b, count), target}), Scalar(0)});
  Value* sum = b("sum.dim_IntList", {margin, b.ints({1}), Scalar(false)});
  call.result(reduced(b, b.div(sum, number(count)), rows.single));
}

// Labels are listed up to the first -1. Gives the loss and which classes are labels.
void build_multilabel_margin(Build& b, bool with_labels) {
  DecomposeCall& call = b.call();
  Rows rows = rows_of(b, 2);
  Expr count = rows.x->type.sizes[1];
  if (prove_eq(rows.target->type.sizes[1], count, call.ranges()) == Proof::no)
    refuse(call, "K0201", "inconsistent target size");
  Value* ends = b("cumsum", {b("lt.Scalar", {rows.target, Scalar(0)}), Scalar(1)});
  Value* listed = b("eq.Scalar", {ends, Scalar(0)});
  Value* label = b("masked_fill.Scalar", {rows.target, b("logical_not", {listed}), Scalar(0)});
  Value* hit = b("logical_and", {b("eq.Tensor", {last(b, label), classes(b, count)}), last(b, listed)});
  Value* is_label = b("any.dim", {hit, Scalar(1)});
  Value* own = last(b, b("gather", {rows.x, Scalar(1), label}));
  Value* margin =
      b("clamp_min", {b("rsub.Scalar", {b.sub(own, b("unsqueeze", {rows.x, Scalar(1)})), Scalar(1.0)}), Scalar(0)});
  Value* counts = b("logical_and", {last(b, listed), b("unsqueeze", {b("logical_not", {is_label}), Scalar(1)})});
  Value* sum = b.sum(b("where.ScalarOther", {counts, margin, Scalar(0.0)}), {1, 2}, false);
  call.result(0, reduced(b, b.div(sum, number(count)), rows.single));
  if (with_labels)
    call.result(1, b.view(b.to(is_label, call.tensor("self")->type.dtype), call.tensor("target")->type.sizes));
}

// Cross entropy of input @ weight^T + bias. The chunks that eager works in save memory and change nothing but rounding.
Value* linear_cross_entropy(Build& b, int64_t reduction, Argument smoothing) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor("input");
  DType wide = compute_dtype(input->type.dtype);
  auto widened = [&](std::string_view arg) -> Argument {
    Value* x = call.tensor_or_null(arg);
    return x ? Argument(b.to(x, wide)) : Argument();
  };
  Value* target = call.tensor("target");
  if (is_float(target->type.dtype)) target = b.to(target, wide);
  Value* logits = b("linear", {b.to(input, wide), widened("linear_weight"), widened("linear_bias")});
  Value* loss = b("cross_entropy_loss", {logits, target, widened("weight"), Scalar(reduction), call.arg("ignore_index"),
                                         std::move(smoothing)});
  return b.to(loss, input->type.dtype);
}

void build_linear_cross_entropy(Build& b) {
  DecomposeCall& call = b.call();
  std::string how = call.string("reduction");
  if (how != "mean" && how != "sum") refuse(call, "K0201", str("reduction ", how, " is not mean or sum"));
  for (const char* grad : {"compute_input_grad", "compute_linear_weight_grad", "compute_linear_bias_grad"})
    if (call.boolean(grad))
      fail_unsupported("K0202", str(call.schema().name, ": ", grad, " is for training; export under no_grad"),
                       call.where());
  call.result(0, linear_cross_entropy(b, how == "mean" ? 1 : 2, call.arg("label_smoothing")));
  Value* input = call.tensor("input");
  call.result(1, b("new_zeros", {input, b.ints({0, 0})}));
  call.result(2, b("new_zeros", {input, b.ints({0, 0})}));
  call.result(3, b("new_zeros", {input, b.ints({0})}));
}

}  // namespace

void register_margin_losses(Registry& r) {
  Sample::TensorSpec labels = spec({3}, DType::i64, 0, 3);
  add_composite(
      r, {.schema = "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? "
                    "weight=None, int reduction=1) -> Tensor",
          .build = build_multi_margin,
          .samples = {{{spec({3, 4}), labels}},
                      {{spec({3, 4}), labels, Scalar(2), Scalar(0.5), spec({4}), Scalar(0)}},
                      {{spec({4}), spec({}, DType::i64, 0, 3), Scalar(1), Scalar(1), Argument::None{}, Scalar(2)}},
                      {{spec({3, 4}), labels, Scalar(3)}, true}}});
  Sample::TensorSpec lists = spec({3, 4}, DType::i64, -1, 3);
  add_composite(r, {.schema = "multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
                    .build = [](Build& b) { build_multilabel_margin(b, false); },
                    .samples = {{{spec({3, 4}), lists}},
                                {{spec({4}), spec({4}, DType::i64, -1, 3), Scalar(0)}},
                                {{spec({3, 4}), lists, Scalar(2)}},
                                {{spec({3, 4}), spec({3, 5}, DType::i64, -1, 3)}, true}}});
  add_composite(r, {.schema = "multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor "
                              "output, Tensor is_target)",
                    .build = [](Build& b) { build_multilabel_margin(b, true); },
                    .samples = {{{spec({3, 4}), lists, Scalar(0)}}}});
  Sample::TensorSpec rows = spec({3, 5}), weight = spec({4, 5});
  add_composite(r, {.schema = "_linear_cross_entropy_batch_chunked(Tensor input, Tensor linear_weight, Tensor target, "
                              "Tensor? linear_bias, Tensor? weight, str reduction, int ignore_index, float "
                              "label_smoothing, SymInt batch_chunk_size, str acc_policy, ScalarType acc_dtype, bool "
                              "allow_retain_graph, bool compute_input_grad, bool compute_linear_weight_grad, bool "
                              "compute_linear_bias_grad) -> (Tensor, Tensor, Tensor, Tensor)",
                    .build = build_linear_cross_entropy,
                    .samples = {{{rows, weight, labels, spec({4}), Argument::None{}, std::string("mean"), Scalar(-100),
                                  Scalar(0.0), Scalar(1), std::string("compact"), DType::f32, Scalar(true),
                                  Scalar(false), Scalar(false), Scalar(false)}}},
                    .name_space = "torch_nn"});
  add_composite(r, {.schema = "_linear_cross_entropy_batch_chunked_no_reduction(Tensor input, Tensor linear_weight, "
                              "Tensor target, Tensor? linear_bias, Tensor? weight, int ignore_index, SymInt "
                              "batch_chunk_size, str acc_policy, ScalarType acc_dtype) -> Tensor",
                    .build = [](Build& b) { b.call().result(linear_cross_entropy(b, 0, Argument(Scalar(0.0)))); },
                    .samples = {{{rows, weight, labels, Argument::None{}, spec({4}, DType::f32, 0.1, 1), Scalar(1),
                                  Scalar(1), std::string("compact"), DType::f32}}},
                    .name_space = "torch_nn"});
  r.describe({"multi_margin_loss", "multilabel_margin_loss", "multilabel_margin_loss_forward"},
             autocast_to(AutocastRule::single));
}

}  // namespace kiln
