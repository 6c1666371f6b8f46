// Loss functions and distances, as decompositions.
#include <cmath>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

Argument number_argument(double value) { return Argument(Scalar(value)); }

double constant(const OpCall& call, std::string_view name) {
  auto value = call.scalar(name);
  const auto* scalar = std::get_if<Scalar>(&value);
  if (!scalar) fail_unsupported("K0202", str(call.schema().name, ": ", name, " must be a constant"), call.where());
  return scalar->as_double();
}

using LossFn = std::function<Value*(Build&, Value* self, Value* target)>;

// A loss of each element, then reduced.
void elementwise_loss(Registry& r, const std::string& name, const std::string& extra, LossFn loss,
                      std::vector<Sample> more = {}, double low = -2, double high = 2) {
  std::vector<Sample> samples = {{{spec({2, 3}, DType::f32, low, high), spec({2, 3}, DType::f32, low, high)}},
                                 {{spec({4}, DType::f32, low, high), spec({4}, DType::f32, low, high), Scalar(2)}},
                                 {{spec({4}, DType::f32, low, high), spec({4}, DType::f32, low, high), Scalar(0)}}};
  samples.insert(samples.end(), more.begin(), more.end());
  add_composite(r, {.schema = str(name, "(Tensor self, Tensor target, int reduction=Mean", extra, ") -> Tensor"),
                    .build =
                        [loss](Build& b) {
                          b.call().result(reduce_loss(b, loss(b, b.call().tensor("self"), b.call().tensor("target"))));
                        },
                    .samples = std::move(samples)});
}

void register_regression(Registry& r) {
  elementwise_loss(r, "mse_loss", "", [](Build& b, Value* x, Value* y) {
    Value* d = b.sub(x, y);
    return b.mul(d, d);
  });
  elementwise_loss(r, "l1_loss", "", [](Build& b, Value* x, Value* y) { return b("abs", {b.sub(x, y)}); });
  elementwise_loss(r, "smooth_l1_loss", ", float beta=1.0", [](Build& b, Value* x, Value* y) {
    double beta = constant(b.call(), "beta");
    if (beta < 0) refuse(b.call(), "K0201", "beta must not be negative");
    Value* size = b("abs", {b.sub(x, y)});
    if (beta == 0) return size;
    Value* small = b.mul(b.mul(size, size), number_argument(0.5 / beta));
    return b("where.self",
             {b("lt.Scalar", {size, number_argument(beta)}), small, b.sub(size, number_argument(0.5 * beta))});
  });
  elementwise_loss(r, "huber_loss", ", float delta=1.0", [](Build& b, Value* x, Value* y) {
    double delta = constant(b.call(), "delta");
    if (delta <= 0) refuse(b.call(), "K0201", "delta must be positive");
    // One kernel in eager: narrow floats are rounded once, before the reduction.
    Promotion promotion;
    for (const Value* v : {x, y}) promotion.add_tensor(v->type.dtype, !v->type.sizes.empty());
    DType wide = compute_dtype(promotion.result());
    Value* size = b("abs", {b.sub(b.to(x, wide), b.to(y, wide))});
    Value* small = b.mul(b.mul(size, size), number_argument(0.5));
    Value* large = b.mul(b.sub(size, number_argument(0.5 * delta)), number_argument(delta));
    return b.to(b("where.self", {b("le.Scalar", {size, number_argument(delta)}), small, large}), promotion.result());
  });
  elementwise_loss(r, "soft_margin_loss", "",
                   [](Build& b, Value* x, Value* y) { return b("log1p", {b("exp", {b("neg", {b.mul(y, x)})})}); });
  add_composite(
      r, {.schema = "hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=Mean) -> Tensor",
          .build =
              [](Build& b) {
                Value *x = b.call().tensor("self"), *y = b.call().tensor("target");
                Value* far =
                    b("clamp_min", {b("rsub.Scalar", {x, number_argument(constant(b.call(), "margin"))}), Scalar(0)});
                Value* negative = b("where.ScalarOther", {b("ne.Scalar", {y, Scalar(1)}), far, Scalar(0.0)});
                Value* positive = b("where.ScalarOther", {b("ne.Scalar", {y, Scalar(-1)}), x, Scalar(0.0)});
                b.call().result(reduce_loss(b, b.add(positive, negative)));
              },
          .samples = {{{spec({4}), spec({4}, DType::f32, -1, 1)}}}});
  add_composite(r, {.schema = "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int "
                              "reduction=Mean) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value* gap = b.sub(call.tensor("input1"), call.tensor("input2"));
                          Value* raw = b.add(b.mul(b("neg", {call.tensor("target")}), gap),
                                             number_argument(constant(call, "margin")));
                          call.result(reduce_loss(b, b("clamp_min", {raw, Scalar(0)})));
                        },
                    .samples = {{{spec({4}), spec({4}), spec({4}, DType::f32, -1, 1), Scalar(0.5)}}}});
}

void register_entropy(Registry& r) {
  add_composite(
      r, {.schema = "kl_div(Tensor self, Tensor target, int reduction=Mean, *, bool log_target=False) -> Tensor",
          .build =
              [](Build& b) {
                Value *x = b.call().tensor("self"), *y = b.call().tensor("target");
                Value* loss = b.call().boolean("log_target") ? b.mul(b("exp", {y}), b.sub(y, x))
                                                             : b.sub(b("xlogy.Tensor", {y, y}), b.mul(y, x));
                b.call().result(reduce_loss(b, loss));
              },
          .samples = {{{spec({4}), spec({4}, DType::f32, 0, 1)}}, {{spec({4}), spec({4}), Scalar(2), Scalar(true)}}}});
  add_composite(
      r,
      {.schema = "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor",
       .build =
           [](Build& b) {
             DecomposeCall& call = b.call();
             Value *x = call.tensor("self"), *y = call.tensor("target");
             // Logarithms are cut off at -100, as eager does.
             Value* log_x = b("clamp_min", {b("log", {x}), Scalar(-100)});
             Value* log_rest = b("clamp_min", {b("log1p", {b("neg", {x})}), Scalar(-100)});
             Value* loss = b.sub(b.mul(b.sub(y, Scalar(1)), log_rest), b.mul(y, log_x));
             if (call.given("weight")) loss = b.mul(loss, call.tensor("weight"));
             call.result(reduce_loss(b, loss));
           },
       .samples = {{{spec({4}, DType::f32, 0.1, 0.9), spec({4}, DType::f32, 0, 1)}},
                   {{spec({4}, DType::f32, 0.1, 0.9), spec({4}, DType::f32, 0, 1), spec({4}), Scalar(0)}}}});
  add_composite(r, {.schema = "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, "
                              "Tensor? pos_weight=None, int "
                              "reduction=Mean) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value *x = call.tensor("self"), *y = call.tensor("target");
                          Value* log_sigmoid = b("log_sigmoid", {x});
                          Value* rest = b.mul(b("rsub.Scalar", {y, Scalar(1)}), x);
                          Value* loss = nullptr;
                          if (call.given("pos_weight")) {
                            Value* weight = b.add(b.mul(b.sub(call.tensor("pos_weight"), Scalar(1)), y), Scalar(1));
                            loss = b.sub(rest, b.mul(weight, log_sigmoid));
                          } else {
                            loss = b.sub(rest, log_sigmoid);
                          }
                          if (call.given("weight")) loss = b.mul(loss, call.tensor("weight"));
                          call.result(reduce_loss(b, loss));
                        },
                    .samples = {{{spec({4}), spec({4}, DType::f32, 0, 1)}},
                                {{spec({2, 3}), spec({2, 3}, DType::f32, 0, 1), spec({3}), spec({3}), Scalar(2)}}}});
}

// ---- Classification ----

// -weight[target] * x[target] along the class dimension, with ignored targets left out.
struct Picked {
  Value* loss;    // of each sample, 0 where ignored
  Value* weight;  // of each sample, 0 where ignored
};

Picked pick(Build& b, Value* x, Value* target, int64_t dim) {
  DecomposeCall& call = b.call();
  Value* ignored = b("eq.Scalar", {target, call.arg("ignore_index")});
  Value* safe = b("masked_fill.Scalar", {target, ignored, Scalar(0)});
  Value* chosen = b("squeeze.dim", {b("gather", {x, Scalar(dim), b("unsqueeze", {safe, Scalar(dim)})}), Scalar(dim)});
  Value* weight = nullptr;
  if (call.given("weight")) {
    Sizes flat = {product(safe->type.sizes)};
    weight = b.view(b("index_select", {call.tensor("weight"), Scalar(0), b.view(safe, flat)}), safe->type.sizes);
  } else {
    weight = b("ones_like", {chosen});
  }
  weight = b("masked_fill.Scalar", {weight, ignored, Scalar(0.0)});
  Value* loss = b("neg", {b.mul(chosen, weight)});
  return {b("masked_fill.Scalar", {loss, ignored, Scalar(0.0)}), weight};
}

Value* reduce_picked(Build& b, const Picked& picked) {
  auto how = static_cast<LossReduction>(b.call().constant_integer("reduction"));
  if (how == LossReduction::none) return picked.loss;
  Value* sum = b("sum", {picked.loss});
  return how == LossReduction::sum ? sum : b.div(sum, b("sum", {picked.weight}));
}

void build_nll(Build& b, bool forward) {
  DecomposeCall& call = b.call();
  Value *x = call.tensor("self"), *target = call.tensor("target");
  if (rank_of(x) == 0) refuse(call, "K0201", "expects at least one dimension");
  int64_t dim = rank_of(x) == 1 ? 0 : 1;
  Picked picked = pick(b, x, target, dim);
  call.result(0, reduce_picked(b, picked));
  if (forward) call.result(1, b("sum", {picked.weight}));
}

// What label smoothing gives to each class: a number, or with a dynamic number of classes a tensor without dimensions.
Argument share_of_class(Build& b, double smoothing, const Expr& classes, DType dtype) {
  if (classes.is_constant()) return number_argument(smoothing / static_cast<double>(classes.value()));
  Value* all = b("full", {b.ints(Sizes{}), Scalar(smoothing), DType::f64});
  return b.to(b.div(all, number(classes)), dtype);
}

// Targets that are probabilities: the cross entropy of two distributions.
void build_soft_cross_entropy(Build& b, Value* logs, int64_t dim, double smoothing) {
  DecomposeCall& call = b.call();
  Value* target = call.tensor("target");
  if (smoothing > 0) {
    const Expr& classes = logs->type.sizes[static_cast<size_t>(dim)];
    target =
        b.add(b.mul(target, number_argument(1 - smoothing)), share_of_class(b, smoothing, classes, target->type.dtype));
  }
  Value* products = b.mul(logs, target);
  if (call.given("weight")) {
    Sizes sizes(logs->type.sizes.size(), Expr(1));
    sizes[static_cast<size_t>(dim)] = logs->type.sizes[static_cast<size_t>(dim)];
    products = b.mul(products, b.view(call.tensor("weight"), sizes));
  }
  Value* loss = b("neg", {b("sum.dim_IntList", {products, b.ints({dim}), Scalar(false)})});
  auto how = static_cast<LossReduction>(call.constant_integer("reduction"));
  if (how == LossReduction::none) return call.result(loss);
  Value* sum = b("sum", {loss});
  if (how == LossReduction::sum) return call.result(sum);
  Sizes samples = loss->type.sizes;
  Expr count = product(samples);
  call.result(b.div(sum, count.is_constant() ? Argument(Scalar(count.value())) : Argument(count)));
}

void build_cross_entropy(Build& b) {
  DecomposeCall& call = b.call();
  Value *x = call.tensor("self"), *target = call.tensor("target");
  if (rank_of(x) == 0) refuse(call, "K0201", "expects at least one dimension");
  int64_t dim = rank_of(x) == 1 ? 0 : 1;
  double smoothing = constant(call, "label_smoothing");
  Value* logs = b("log_softmax.int", {x, Scalar(dim)});
  if (is_float(target->type.dtype)) return build_soft_cross_entropy(b, logs, dim, smoothing);
  Picked picked = pick(b, logs, target, dim);
  Value* nll = reduce_picked(b, picked);
  if (smoothing == 0) return call.result(nll);
  // A part of the weight goes evenly to all classes.
  Value* ignored = b("eq.Scalar", {target, call.arg("ignore_index")});
  Value* weighted = logs;
  if (call.given("weight")) {
    Sizes sizes(logs->type.sizes.size(), Expr(1));
    sizes[static_cast<size_t>(dim)] = logs->type.sizes[static_cast<size_t>(dim)];
    weighted = b.mul(logs, b.view(call.tensor("weight"), sizes));
  }
  Value* even = b("neg", {b("sum.dim_IntList", {weighted, b.ints({dim}), Scalar(false)})});
  even = b("masked_fill.Scalar", {even, ignored, Scalar(0.0)});
  auto how = static_cast<LossReduction>(call.constant_integer("reduction"));
  if (how != LossReduction::none) even = b("sum", {even});
  if (how == LossReduction::mean) even = b.div(even, b("sum", {picked.weight}));
  const Expr& classes = x->type.sizes[static_cast<size_t>(dim)];
  call.result(b.add(b.mul(nll, number_argument(1 - smoothing)),
                    b.mul(even, share_of_class(b, smoothing, classes, even->type.dtype))));
}

void register_class_losses(Registry& r) {
  Sample::TensorSpec x = spec({4, 3}), target = spec({4}, DType::i64, 0, 2), image = spec({2, 3, 2, 2}),
                     pixels = spec({2, 2, 2}, DType::i64, 0, 2);
  std::vector<Sample> samples = {{{x, target}},
                                 {{x, target, spec({3}, DType::f32, 0.5, 1.5), Scalar(2)}},
                                 {{x, target, Argument::None{}, Scalar(0)}},
                                 {{spec({3}), spec({}, DType::i64, 0, 2)}},
                                 {{x, target, Argument::None{}, Scalar(1), Scalar(1)}}};
  std::string tail =
      "(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, SymInt ignore_index=-100) -> Tensor";
  for (const char* name : {"nll_loss", "nll_loss_nd", "nll_loss2d"}) {
    std::vector<Sample> own = samples;
    if (std::string_view(name) != "nll_loss") own = {{{image, pixels}}, {{image, pixels, Argument::None{}, Scalar(0)}}};
    add_composite(r, {.schema = name + tail, .build = [](Build& b) { build_nll(b, false); }, .samples = own});
  }
  for (const char* name : {"nll_loss_forward", "nll_loss2d_forward"})
    add_composite(r, {.schema = str(name,
                                    "(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) "
                                    "-> (Tensor output, Tensor total_weight)"),
                      .build = [](Build& b) { build_nll(b, true); },
                      .samples = {{{std::string_view(name) == "nll_loss_forward" ? x : image,
                                    std::string_view(name) == "nll_loss_forward" ? target : pixels, Argument::None{},
                                    Scalar(1), Scalar(-100)}}}});
  std::vector<Sample> entropy = samples;
  entropy.push_back({{x, spec({4, 3}, DType::f32, 0, 1)}});
  entropy.push_back({{x, target, Argument::None{}, Scalar(1), Scalar(-100), Scalar(0.2)}});
  entropy.push_back({{image, pixels}});
  entropy.push_back({{x, spec({4, 3}, DType::f32, 0, 1), Argument::None{}, Scalar(2), Scalar(-100), Scalar(0.3)}});
  add_composite(r, {.schema = "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, "
                              "SymInt ignore_index=-100, float "
                              "label_smoothing=0.0) -> Tensor",
                    .build = build_cross_entropy,
                    .samples = entropy});
}

// ---- Distances ----

Value* vector_norm(Build& b, Value* x, double p, int64_t dim, bool keep) {
  return b("linalg_vector_norm", {x, Scalar(p), b.ints({dim}), Scalar(keep)});
}

Value* pairwise(Build& b, Value* x, Value* y, double p, double eps, bool keep) {
  return vector_norm(b, b.add(b.sub(x, y), number_argument(eps)), p, -1, keep);
}

// The dot product over the product of both lengths, neither below eps.
Value* cosine(Build& b, Value* x, Value* y, int64_t dim, double eps) {
  Sizes sizes = broadcast_sizes(b.call(), {x->type.sizes, y->type.sizes}, b.call().ranges());
  Promotion promotion;
  promotion.add_tensor(x->type.dtype, true);
  promotion.add_tensor(y->type.dtype, true);
  DType dtype = promotion.result();
  if (!is_float(dtype)) refuse_dtype(b.call(), dtype);
  Value *a = b("expand", {b.to(x, dtype), b.ints(sizes)}), *c = b("expand", {b.to(y, dtype), b.ints(sizes)});
  Value* length_a = b("clamp_min", {vector_norm(b, a, 2, dim, true), number_argument(eps)});
  Value* length_c = b("clamp_min", {vector_norm(b, c, 2, dim, true), number_argument(eps)});
  return b("sum.dim_IntList", {b.mul(b.div(a, length_a), b.div(c, length_c)), b.ints({dim}), Scalar(false)});
}

void build_triplet(Build& b) {
  DecomposeCall& call = b.call();
  double p = constant(call, "p"), eps = constant(call, "eps");
  Value *anchor = call.tensor("anchor"), *positive = call.tensor("positive"), *negative = call.tensor("negative");
  Value *near = pairwise(b, anchor, positive, p, eps, false), *far = pairwise(b, anchor, negative, p, eps, false);
  if (call.boolean("swap")) far = b("minimum", {far, pairwise(b, positive, negative, p, eps, false)});
  Value* raw = b.sub(b.add(near, number_argument(constant(call, "margin"))), far);
  call.result(reduce_loss(b, b("clamp_min", {raw, Scalar(0)})));
}

void register_distance_losses(Registry& r) {
  add_composite(
      r, {.schema = "pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> Tensor",
          .build =
              [](Build& b) {
                DecomposeCall& call = b.call();
                call.result(pairwise(b, call.tensor("x1"), call.tensor("x2"), constant(call, "p"),
                                     constant(call, "eps"), call.boolean("keepdim")));
              },
          .samples = {{{spec({4, 3}), spec({4, 3})}},
                      {{spec({4, 3}), spec({3}), Scalar(1.0), Scalar(1e-6), Scalar(true)}}}});
  add_composite(
      r, {.schema = "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
          .build =
              [](Build& b) {
                b.call().result(b("linalg_vector_norm", {b.sub(b.call().tensor("self"), b.call().tensor("other")),
                                                         number_argument(constant(b.call(), "p"))}));
              },
          .samples = {{{spec({4, 3}), spec({3})}}, {{spec({3}), spec({3}), Scalar(1)}}}});
  add_composite(r, {.schema = "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          call.result(cosine(b, call.tensor("x1"), call.tensor("x2"), call.constant_integer("dim"),
                                             constant(call, "eps")));
                        },
                    .samples = {{{spec({4, 3}), spec({4, 3})}},
                                {{spec({4, 3}), spec({1, 3}), Scalar(-1), Scalar(1e-6)}},
                                {{spec({3}), spec({3}), Scalar(0)}}}});
  add_composite(
      r,
      {.schema = "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int "
                 "reduction=Mean) -> Tensor",
       .build =
           [](Build& b) {
             DecomposeCall& call = b.call();
             Value *x = call.tensor("input1"), *y = call.tensor("input2"), *target = call.tensor("target");
             // Eager's own formula: eps is added to the squares.
             int64_t dim = rank_of(target);
             Value* dot = b("sum.dim_IntList", {b.mul(x, y), b.ints({dim}), Scalar(false)});
             auto squares = [&](Value* v) {
               return b.add(b("sum.dim_IntList", {b.mul(v, v), b.ints({dim}), Scalar(false)}), number_argument(1e-12));
             };
             Value* cos = b.div(dot, b("sqrt", {b.mul(squares(x), squares(y))}));
             Value* zeros = b("zeros_like", {cos});
             Value* positive =
                 b("where.self", {b("eq.Scalar", {target, Scalar(1)}), b("rsub.Scalar", {cos, Scalar(1)}), zeros});
             Value* apart = b("clamp_min", {b.sub(cos, number_argument(constant(call, "margin"))), Scalar(0)});
             Value* negative = b("where.self", {b("eq.Scalar", {target, Scalar(-1)}), apart, zeros});
             call.result(reduce_loss(b, b.add(positive, negative)));
           },
       .samples = {{{spec({4, 3}), spec({4, 3}), spec({4}, DType::f32, -1, 1)}},
                   {{spec({3}), spec({3}), spec({}, DType::i64, -1, 1), Scalar(0.2), Scalar(2)}}}});
  add_composite(r, {.schema = "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, "
                              "float p=2, float eps=1e-06, bool "
                              "swap=False, int reduction=Mean) -> Tensor",
                    .build = build_triplet,
                    .samples = {{{spec({4, 3}), spec({4, 3}), spec({4, 3})}},
                                {{spec({4, 3}), spec({4, 3}), spec({4, 3}), Scalar(0.5), Scalar(2.0), Scalar(1e-6),
                                  Scalar(true), Scalar(0)}}}});
}

}  // namespace

void register_losses(Registry& registry) {
  register_regression(registry);
  register_entropy(registry);
  register_class_losses(registry);
  register_distance_losses(registry);
  registry.describe(
      {"binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy_loss",
       "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss", "nll_loss",
       "nll_loss2d", "nll_loss_nd", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss"},
      autocast_to(AutocastRule::single));
}

}  // namespace kiln
