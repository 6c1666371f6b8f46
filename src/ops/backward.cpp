// Gradients of pointwise operators, losses, softmax and views: the *_backward operators that a program holds when it
// was exported together with its backward pass. Each computes in the compute type and rounds once, as one ATen kernel.
#include <cmath>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

Value* wide(Build& b, Value* x) { return b.to(x, compute_dtype(x->type.dtype)); }
Value* wide(Build& b, const char* arg) { return wide(b, b.call().tensor(arg)); }

// `f` gives the gradient in the compute type; the result has the type of the two operands together.
void pointwise(Registry& r, const char* schema, std::vector<Sample> samples, std::function<Value*(Build&)> f,
               const char* other = "self") {
  add_composite(r, {.schema = schema,
                    .build =
                        [f, other](Build& b) {
                          Promotion promotion;
                          for (const char* name : {"grad_output", other}) {
                            Value* x = b.call().tensor(name);
                            if (!is_float(x->type.dtype)) refuse_dtype(b.call(), x->type.dtype);
                            promotion.add_tensor(x->type.dtype, !x->type.sizes.empty());
                          }
                          b.call().result(b.to(f(b), promotion.result()));
                        },
                    .samples = std::move(samples)});
}

std::vector<Sample> two(std::vector<Sample::SampleArg> more, double low = -2, double high = 2) {
  std::vector<Sample> out;
  for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    Sample s{{spec({3, 4}, dtype), spec({3, 4}, dtype, low, high)}};
    s.args.insert(s.args.end(), more.begin(), more.end());
    out.push_back(s);
  }
  Sample bad{{spec({3}), spec({3}, DType::i64)}, true};
  bad.args.insert(bad.args.end(), more.begin(), more.end());
  out.push_back(bad);
  return out;
}

// ---- Activations ----

Value* gelu_slope(Build& b, Value* x) {
  if (b.call().string("approximate") == "tanh") {
    double beta = std::sqrt(2.0) * (2 / std::sqrt(3.14159265358979323846)) * 0.5, kappa = 0.044715;
    Value* square = b.mul(x, x);
    Value* inner = b.mul(b.add(x, b.mul(b.mul(square, x), Scalar(kappa))), Scalar(beta));
    Value* t = b("tanh", {inner});
    Value* left = b.mul(b.add(t, Scalar(1.0)), Scalar(0.5));
    Value* slope = b.mul(b.add(b.mul(square, Scalar(3 * kappa)), Scalar(1.0)), Scalar(beta));
    Value* right = b.mul(b.mul(b.mul(x, Scalar(0.5)), b.sub(Scalar(1.0), b.mul(t, t))), slope);
    return b.add(left, right);
  }
  Value* cdf = b.mul(b.add(b("erf", {b.mul(x, Scalar(std::sqrt(0.5)))}), Scalar(1.0)), Scalar(0.5));
  Value* pdf = b.mul(b("exp", {b.mul(b.mul(x, x), Scalar(-0.5))}), Scalar(1 / std::sqrt(2 * 3.14159265358979323846)));
  return b.add(cdf, b.mul(x, pdf));
}

// The gradient where `condition` holds and `other` elsewhere.
Value* chosen(Build& b, Value* condition, Value* gradient, double other = 0) {
  return b("where.ScalarOther", {condition, gradient, Scalar(other)});
}

void register_activation_gradients(Registry& r) {
  pointwise(
      r, "tanh_backward(Tensor grad_output, Tensor output) -> Tensor", two({}, -1, 1),
      [](Build& b) {
        Value* y = wide(b, "output");
        return b.mul(wide(b, "grad_output"), b.sub(Scalar(1.0), b.mul(y, y)));
      },
      "output");
  pointwise(
      r, "sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", two({}, 0, 1),
      [](Build& b) {
        Value* y = wide(b, "output");
        return b.mul(b.mul(wide(b, "grad_output"), b.sub(Scalar(1.0), y)), y);
      },
      "output");
  pointwise(r, "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor", two({Scalar(0.5)}),
            [](Build& b) {
              Value* below = b("le.Scalar", {wide(b, "self"), b.call().arg("threshold")});
              return b("masked_fill.Scalar", {wide(b, "grad_output"), below, Scalar(0.0)});
            });
  pointwise(
      r, "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
      [] {
        auto samples = two({});
        for (Sample& s : two({std::string("tanh")})) samples.push_back(s);
        return samples;
      }(),
      [](Build& b) { return b.mul(wide(b, "grad_output"), gelu_slope(b, wide(b, "self"))); });
  pointwise(r, "silu_backward(Tensor grad_output, Tensor self) -> Tensor", two({}), [](Build& b) {
    Value *x = wide(b, "self"), *s = b("sigmoid", {x});
    Value* slope = b.mul(s, b.add(b.mul(x, b.sub(Scalar(1.0), s)), Scalar(1.0)));
    return b.mul(wide(b, "grad_output"), slope);
  });
  pointwise(r, "mish_backward(Tensor grad_output, Tensor self) -> Tensor", two({}), [](Build& b) {
    Value *x = wide(b, "self"), *s = b("sigmoid", {x}), *t = b("tanh", {b("softplus", {x})});
    Value* slope = b.add(t, b.mul(b.mul(x, s), b.sub(Scalar(1.0), b.mul(t, t))));
    return b.mul(wide(b, "grad_output"), slope);
  });
  pointwise(
      r, "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor",
      two({Scalar(0.1), Scalar(false)}), [](Build& b) {
        Value* g = wide(b, "grad_output");
        Value* positive = b("gt.Scalar", {wide(b, "self"), Scalar(0)});
        return b("where.self", {positive, g, b.mul(g, b.call().arg("negative_slope"))});
      });
  pointwise(r, "hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
            two({Scalar(-1.0), Scalar(1.0)}), [](Build& b) {
              Value* x = wide(b, "self");
              Value* outside = b("logical_or", {b("le.Scalar", {x, b.call().arg("min_val")}),
                                                b("ge.Scalar", {x, b.call().arg("max_val")})});
              return b("masked_fill.Scalar", {wide(b, "grad_output"), outside, Scalar(0.0)});
            });
  pointwise(r, "hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor", two({}, -5, 5), [](Build& b) {
    Value* x = wide(b, "self");
    Value* inside = b("logical_and", {b("gt.Scalar", {x, Scalar(-3.0)}), b("lt.Scalar", {x, Scalar(3.0)})});
    return chosen(b, inside, b.mul(wide(b, "grad_output"), Scalar(1.0 / 6)));
  });
  pointwise(r, "hardswish_backward(Tensor grad_output, Tensor self) -> Tensor", two({}, -5, 5), [](Build& b) {
    Value *x = wide(b, "self"), *g = wide(b, "grad_output");
    Value* middle = b.mul(g, b.add(b.div(x, Scalar(3.0)), Scalar(0.5)));
    Value* rising = b("where.self", {b("lt.Scalar", {x, Scalar(3.0)}), middle, g});
    return chosen(b, b("gt.Scalar", {x, Scalar(-3.0)}), rising);
  });
  pointwise(r, "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
            two({Scalar(1.5), Scalar(2.0)}), [](Build& b) {
              Value *g = wide(b, "grad_output"), *scaled = b.mul(wide(b, "self"), b.call().arg("beta"));
              Value* linear = b("gt.Scalar", {scaled, b.call().arg("threshold")});
              return b("where.self", {linear, g, b.mul(g, b("sigmoid", {scaled}))});
            });
  pointwise(r, "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor", two({spec({0})}),
            [](Build& b) { return b.mul(wide(b, "grad_output"), b("sigmoid", {b("neg", {wide(b, "self")})})); });
  pointwise(
      r,
      "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor "
      "self_or_result) -> Tensor",
      {{{spec({3, 4}), Scalar(1.5), Scalar(1.1), Scalar(0.9), Scalar(false), spec({3, 4})}},
       {{spec({3, 4}), Scalar(1.5), Scalar(1.0), Scalar(1.0), Scalar(true), spec({3, 4})}},
       {{spec({3}), Scalar(1.0), Scalar(1.0), Scalar(1.0), Scalar(true), spec({3}, DType::i64)}, true}},
      [](Build& b) {
        DecomposeCall& call = b.call();
        Value *g = wide(b, "grad_output"), *x = wide(b, "self_or_result");
        auto times = [&](Value* v, const char* arg) { return b.mul(v, call.arg(arg)); };
        Value* low;
        if (call.boolean("is_result")) {  // scale and alpha are in the result already
          Value* moved = b.add(x, b.mul(b("full_like", {x, call.arg("scale")}), call.arg("alpha")));
          low = times(b.mul(g, moved), "input_scale");
        } else {
          low = times(times(times(b.mul(g, b("exp", {times(x, "input_scale")})), "scale"), "alpha"), "input_scale");
        }
        return b("where.self", {b("le.Scalar", {x, Scalar(0)}), low, times(g, "scale")});
      },
      "self_or_result");
}

// ---- Softmax and dropout ----

void register_softmax_gradients(Registry& r) {
  for (bool log : {false, true})
    add_composite(r, {.schema = str(log ? "_log_softmax" : "_softmax",
                                    "_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType "
                                    "input_dtype) -> Tensor"),
                      .build =
                          [log](Build& b) {
                            DecomposeCall& call = b.call();
                            Value *g = wide(b, "grad_output"), *y = wide(b, "output");
                            int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(y));
                            Value* gy = log ? g : b.mul(g, y);
                            Value* sum = rank_of(y) ? b.sum(gy, {dim}, true) : gy;
                            Value* whole = b.mul(log ? b("exp", {y}) : y, sum);
                            call.result(b.to(b.sub(gy, whole), *call.dtype("input_dtype")));
                          },
                      .samples = {{{spec({3, 4}), spec({3, 4}, DType::f32, 0, 1), Scalar(1), DType::f32}},
                                  {{spec({3, 4}, DType::f16), spec({3, 4}, DType::f16, -1, 0), Scalar(0), DType::f16}},
                                  {{spec({3}), spec({3}), Scalar(1), DType::f32}, true}}});
  add_composite(r, {.schema = "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
                    .build =
                        [](Build& b) {
                          Value* g = b.call().tensor("grad_output");
                          Value* kept = b.mul(wide(b, g), b.to(b.call().tensor("mask"), compute_dtype(g->type.dtype)));
                          b.call().result(b.to(b.mul(kept, b.call().arg("scale")), g->type.dtype));
                        },
                    .samples = {{{spec({3, 4}), spec({3, 4}, DType::boolean), Scalar(2.0)}}}});
}

void register_more_activation_gradients(Registry& r) {
  for (const char* name : {"hardshrink", "softshrink"}) {
    const bool hard = name[0] == 'h';
    add_composite(r, {.schema = str(name, "_backward(Tensor ", hard ? "grad_out" : "grad_output",
                                    ", Tensor self, Scalar lambd) -> Tensor"),
                      .build =
                          [hard](Build& b) {
                            Value *g = b.call().tensor(hard ? "grad_out" : "grad_output"), *x = b.call().tensor("self");
                            if (!is_float(x->type.dtype)) refuse_dtype(b.call(), x->type.dtype);
                            Value* inside = b("le.Scalar", {b("abs", {wide(b, x)}), b.call().arg("lambd")});
                            b.call().result(b("masked_fill.Scalar", {g, inside, Scalar(0.0)}));
                          },
                      .samples = two({Scalar(0.5)})});
  }
  pointwise(
      r, "logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor", two({Scalar(0.1)}, 0, 1),
      [](Build& b) {
        Value *x = wide(b, "self"), *g = wide(b, "grad_output");
        Value* slope = b.div(g, b.mul(x, b.sub(Scalar(1.0), x)));
        const bool given = b.call().given("eps");
        const double eps = given ? b.call().arg("eps").as_scalar().as_double() : 0;
        Value* inside = b("logical_and", {b("ge.Scalar", {x, Scalar(eps)}), b("le.Scalar", {x, Scalar(1 - eps)})});
        return chosen(b, inside, slope, given && eps >= 0 ? 0.0 : std::nan(""));
      });
  add_composite(r,
                {.schema = "glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor",
                 .build =
                     [](Build& b) {
                       DecomposeCall& call = b.call();
                       Value *x = wide(b, "self"), *g = wide(b, "grad_output");
                       if (rank_of(x) == 0) refuse(call, "K0206", "glu does not support 0-dimensional tensors");
                       const int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(x));
                       const Expr whole = sizes_of(x)[static_cast<size_t>(dim)], half = floordiv(whole, Expr(2));
                       Value* first = b("slice.Tensor", {x, Scalar(dim), Scalar(0), number(half)});
                       Value* gate = b("sigmoid", {b("slice.Tensor", {x, Scalar(dim), number(half), number(whole)})});
                       Value* second = b.mul(b.mul(b.mul(b.sub(Scalar(1.0), gate), gate), g), first);
                       Value* both = b("cat", {list_of(std::vector<Value*>{b.mul(gate, g), second}), call.arg("dim")});
                       call.result(b.to(both, call.tensor("self")->type.dtype));
                     },
                 .samples = {{{spec({3, 2}), spec({3, 4}), Scalar(-1)}},
                             {{spec({2, 3}, DType::bf16), spec({4, 3}, DType::bf16), Scalar(0)}}}});
}

// ---- Losses ----

// The share of one element in a mean.
Value* shared_out(Build& b, Value* gradient, Value* like) {
  if (b.call().constant_integer("reduction") != static_cast<int64_t>(LossReduction::mean)) return gradient;
  Expr count(1);
  for (const Expr& size : like->type.sizes) count = count * size;
  return b.div(gradient, count.is_constant() ? Argument(Scalar(count.value())) : Argument(count));
}

void register_loss_gradients(Registry& r) {
  std::vector<Sample> samples;
  for (int64_t how : {0, 1, 2})
    samples.push_back({{how ? spec({}) : spec({3, 4}), spec({3, 4}), spec({3, 4}), Scalar(how)}});
  auto with = [&](double more) {
    auto out = samples;
    for (Sample& s : out) s.args.emplace_back(Scalar(more));
    return out;
  };
  auto difference = [](Build& b) { return b.sub(wide(b, "self"), wide(b, "target")); };
  pointwise(r, "soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
            samples, [](Build& b) {
              Value *x = wide(b, "self"), *y = wide(b, "target");
              Value* z = b("exp", {b("neg", {b.mul(y, x)})});
              Value* slope = b("neg", {b.div(b.mul(y, z), b.add(z, Scalar(1.0)))});
              return shared_out(b, b.mul(slope, wide(b, "grad_output")), x);
            });
  pointwise(r, "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor", samples,
            [difference](Build& b) {
              Value* d = difference(b);
              return shared_out(b, b.mul(b.mul(d, Scalar(2.0)), wide(b, "grad_output")), d);
            });
  pointwise(
      r, "smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor",
      with(0.7), [difference](Build& b) {
        Value *d = difference(b), *g = wide(b, "grad_output");
        Value* inside = b("lt.Scalar", {b("abs", {d}), b.call().arg("beta")});
        Value* slope = b("where.self", {inside, b.div(d, b.call().arg("beta")), b("sign", {d})});
        return shared_out(b, b.mul(slope, g), d);
      });
  pointwise(r,
            "huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> Tensor",
            with(0.7), [difference](Build& b) {
              Value *d = difference(b), *g = wide(b, "grad_output");
              Value* inside = b("le.Scalar", {b("abs", {d}), b.call().arg("delta")});
              Value* slope = b("where.self", {inside, d, b.mul(b("sign", {d}), b.call().arg("delta"))});
              return shared_out(b, b.mul(slope, g), d);
            });
}

// nll: minus the weight at the target's place, 0 elsewhere and where the target is to be ignored.
void build_nll(Build& b) {
  DecomposeCall& call = b.call();
  Value *self = call.tensor("self"), *target = call.tensor("target"), *g = wide(b, "grad_output");
  int64_t rank = rank_of(self), dim = rank == 1 ? 0 : 1;
  if (rank < 1) fail_user("K0201", str(call.schema().name, ": input tensor should be 1D or 2D"), call.where());
  Value* index = b("unsqueeze", {target, Scalar(dim)});
  Value* ignored = b("eq.Scalar", {index, call.arg("ignore_index")});
  Value* safe = b("masked_fill.Scalar", {index, ignored, Scalar(0)});
  Value* weight = b("new_full", {g, b.ints(index->type.sizes), Scalar(-1.0)});
  if (call.given("weight")) {
    Value* flat = b("reshape", {safe, b.ints({-1})});
    Value* found = b("index_select", {wide(b, "weight"), Scalar(0), flat});
    weight = b("neg", {b.view(found, index->type.sizes)});
  }
  auto how = static_cast<LossReduction>(call.constant_integer("reduction"));
  if (how == LossReduction::mean) weight = b.div(weight, wide(b, "total_weight"));
  Value* part = b.mul(weight, how == LossReduction::none ? b("unsqueeze", {g, Scalar(dim)}) : g);
  part = b("masked_fill.Scalar", {part, ignored, Scalar(0.0)});
  Value* none = b("new_zeros", {g, b.ints(self->type.sizes)});
  call.result(b.to(b("scatter.src", {none, Scalar(dim), safe, part}), self->type.dtype));
}

void register_nll_gradients(Registry& r) {
  Sample::TensorSpec target = spec({3}, DType::i64, 0, 3), image = spec({2, 3, 2}, DType::i64, 0, 3);
  const char* tail =
      "_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, "
      "Tensor total_weight) -> Tensor";
  add_composite(
      r, {.schema = str("nll_loss", tail),
          .build = build_nll,
          .samples = {
              {{spec({}), spec({3, 4}), target, spec({4}, DType::f32, 0.5, 2), Scalar(1), Scalar(2),
                spec({}, DType::f32, 2, 3)}},
              {{spec({3}), spec({3, 4}), target, Argument::None{}, Scalar(0), Scalar(-100), spec({})}},
              {{spec({}), spec({}), spec({}, DType::i64, 0, 0), Argument::None{}, Scalar(2), Scalar(-100), spec({})},
               true}}});
  add_composite(r, {.schema = str("nll_loss2d", tail),
                    .build = build_nll,
                    .samples = {{{spec({}), spec({2, 4, 3, 2}), image, spec({4}, DType::f32, 0.5, 2), Scalar(2),
                                  Scalar(2), spec({}, DType::f32, 2, 3)}}}});
}

// ---- Views: the gradient goes to the part that was seen, 0 elsewhere ----

void register_view_gradients(Registry& r) {
  auto add = [&](const char* schema, const char* scatter, std::vector<const char*> args, std::vector<Sample> samples) {
    add_composite(r, {.schema = schema,
                      .build =
                          [scatter, args](Build& b) {
                            DecomposeCall& call = b.call();
                            Value* g = call.tensor("grad_output");
                            std::vector<Argument> parts = {b("new_zeros", {g, call.arg("input_sizes")}), g};
                            for (const char* name : args) parts.push_back(call.arg(name));
                            call.result(b(scatter, std::move(parts)));
                          },
                      .samples = std::move(samples)});
  };
  add("select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor", "select_scatter",
      {"dim", "index"}, {{{spec({3}), List{3, 4}, Scalar(1), Scalar(-1)}}});
  add("slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> "
      "Tensor",
      "slice_scatter", {"dim", "start", "end", "step"},
      {{{spec({3, 2}), List{3, 6}, Scalar(1), Scalar(1), Scalar(5), Scalar(2)}}});
  add("diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
      "diagonal_scatter", {"offset", "dim1", "dim2"}, {{{spec({3}), List{3, 4}, Scalar(1), Scalar(0), Scalar(1)}}});
}

}  // namespace

void register_backward(Registry& r) {
  register_activation_gradients(r);
  register_more_activation_gradients(r);
  register_softmax_gradients(r);
  register_loss_gradients(r);
  register_nll_gradients(r);
  register_view_gradients(r);
}

}  // namespace kiln
