// scaled_dot_product_attention, and gated and learned activations, as decompositions.
#include <cmath>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

// softmax(q @ k^T * scale + mask) @ v, computed in f32 for narrow floats. Each side takes the square root of the scale,
// as eager's kernel does, so that products of narrow floats do not overflow.
struct Attention {
  Value *query, *key, *value;
};

// Grouped queries: every key and value serves several heads.
Value* repeat_heads(Build& b, Value* x, const Expr& heads) {
  size_t at = x->type.sizes.size() - 3;
  if (x->type.sizes[at] == heads) return x;
  const Sizes& s = x->type.sizes;
  Expr times = floordiv(heads, s[at]);
  Sizes split = s, wide = s, joined = s;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(at) + 1, Expr(1));
  wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(at) + 1, times);
  joined[at] = heads;
  return b.view(b("expand", {b.view(x, split), b.ints(wide)}), joined);
}

// True where attention is allowed.
Value* causal_mask(Build& b, Value* scores, const Expr& rows, const Expr& columns) {
  Value* ones = b("new_ones", {scores, b.ints({rows, columns}), DType::boolean});
  return b("tril", {ones});
}

// Computed in compute_dtype; the scores before the softmax, masked.
struct Attended {
  Value *scores, *weights, *output;
};

Attended attend(Build& b) {
  DecomposeCall& call = b.call();
  Attention a{call.tensor("query"), call.tensor("key"), call.tensor("value")};
  DType dtype = a.query->type.dtype;
  if (!is_float(dtype)) refuse_dtype(call, dtype);
  if (a.query->type.sizes.size() < 2 || a.key->type.sizes.size() < 2)
    refuse(call, "K0217", "needs at least 2 dimensions");
  DType compute = compute_dtype(dtype);
  Value *q = b.to(a.query, compute), *k = b.to(a.key, compute), *v = b.to(a.value, compute);
  // The kernel behind the operator shares keys among heads whenever there are fewer of them.
  bool grouped = call.schema().find("enable_gqa") < 0 ? q->type.sizes.size() > 2 : call.boolean("enable_gqa");
  if (grouped) {
    const Expr& heads = q->type.sizes.at(q->type.sizes.size() - 3);
    k = repeat_heads(b, k, heads);
    v = repeat_heads(b, v, heads);
  }
  Argument scale;
  const Expr& width = q->type.sizes.back();
  if (call.given("scale")) {
    scale = call.arg("scale");
  } else if (width.is_constant()) {
    scale = Argument(Scalar(1 / std::sqrt(static_cast<double>(width.value()))));
  } else {
    scale = Argument(Expr::make(ExprOp::truediv, {Expr::float_constant(1.0),
                                                  Expr::make(ExprOp::sqrt, {Expr::make(ExprOp::to_float, {width})})}));
  }
  Value* scores = b.mul(b("matmul", {q, b("transpose.int", {k, Scalar(-2), Scalar(-1)})}), scale);
  Value* mask = call.tensor_or_null("attn_mask");
  if (mask && call.boolean("is_causal"))
    refuse(call, "K0217", "explicit attn_mask should not be set when is_causal=True");
  const Expr &rows = q->type.sizes[q->type.sizes.size() - 2], &columns = k->type.sizes[k->type.sizes.size() - 2];
  if (call.boolean("is_causal")) {
    // Eager's kernel does not look at later keys, whatever they hold.
    mask = causal_mask(b, scores, rows, columns);
    scores = b("where.ScalarOther", {mask, scores, Scalar(-INFINITY)});
  } else if (mask && mask->type.dtype == DType::boolean) {
    // Eager makes numbers of a mask and adds them, so that NaN of a key that is masked off still shows.
    scores = b("where.self", {mask, scores, b.add(scores, Scalar(-INFINITY))});
  } else if (mask) {
    scores = b.add(scores, b.to(mask, compute));
  }
  Value* weights = b("softmax.int", {scores, Scalar(-1)});
  // A row in which nothing is allowed has no weights, not NaN.
  if (mask) {
    Value* top = b.call().call("kiln.amax.default", {scores, b.ints({-1}), Scalar(true)});
    weights = b("masked_fill.Scalar", {weights, b("eq.Scalar", {top, Scalar(-INFINITY)}), Scalar(0.0)});
  }
  auto dropout = call.scalar("dropout_p");
  if (const auto* p = std::get_if<Scalar>(&dropout); !p || p->as_double() != 0)
    weights = b("dropout", {weights, call.arg("dropout_p"), Scalar(true)});
  return {scores, weights, b("matmul", {weights, v})};
}

void build_attention(Build& b) {
  DecomposeCall& call = b.call();
  call.result(b.to(attend(b).output, call.tensor("query")->type.dtype));
}

void build_attention_math(Build& b) {
  DecomposeCall& call = b.call();
  if (call.given("dropout_mask"))
    fail_unsupported("K0217", str(call.schema().name, ": dropout_mask is not supported"), call.where());
  DType dtype = call.tensor("query")->type.dtype;
  Attended a = attend(b);
  call.result(0, b.to(a.output, dtype));
  call.result(1, b.to(a.weights, dtype));
}

void build_flash_attention(Build& b) {
  DecomposeCall& call = b.call();
  if (rank_of(call.tensor("query")) != 4) refuse(call, "K0217", "Accept only 4 dims inputs shape of {B, H, T, K}");
  Attended a = attend(b);
  call.result(0, b.to(a.output, call.tensor("query")->type.dtype));
  // The kernel keeps it as (batch, rows, heads).
  auto flip = [&](Value* x) { return b("transpose.int", {x, Scalar(1), Scalar(2)}); };
  call.result(1, flip(b.contiguous(flip(b("logsumexp", {a.scores, b.ints({-1})})))));
}

void register_gates(Registry& r) {
  add_composite(
      r, {.schema = "glu(Tensor self, int dim=-1) -> Tensor",
          .build =
              [](Build& b) {
                DecomposeCall& call = b.call();
                Value* self = call.tensor("self");
                if (rank_of(self) == 0) refuse(call, "K0217", "does not support 0-dimensional tensors");
                int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(self));
                Expr size = self->type.sizes[static_cast<size_t>(dim)], half = floordiv(size, Expr(2));
                if (size.is_constant() && size.value() % 2 != 0)
                  refuse(call, "K0217", "halving dimension must be even");
                auto bound = [](const Expr& e) { return e.is_constant() ? Argument(Scalar(e.value())) : Argument(e); };
                Value* a = b("slice.Tensor", {self, Scalar(dim), Scalar(0), bound(half)});
                Value* gate = b("slice.Tensor", {self, Scalar(dim), bound(half), bound(size)});
                call.result(b.mul(a, b("sigmoid", {gate})));
              },
          .samples = {{{spec({2, 6})}}, {{spec({4, 3}), Scalar(0)}}, {{spec({3})}, true}, {{spec({})}, true}}});
  auto prelu = [](Build& b, std::string_view) {
    DecomposeCall& call = b.call();
    Value *self = call.tensor("self"), *weight = call.tensor("weight");
    Value* slope = weight;
    // One slope per channel, the second dimension.
    if (weight->type.sizes.size() == 1 && self->type.sizes.size() > 1 && !is_one(weight->type.sizes[0])) {
      Sizes sizes(self->type.sizes.size(), Expr(1));
      sizes[1] = weight->type.sizes[0];
      slope = b.view(weight, sizes);
    } else if (weight->type.sizes.size() == 1 && self->type.sizes.empty()) {
      slope = b.view(weight, {});
    }
    call.result(b("where.self", {b("gt.Scalar", {self, Scalar(0)}), self, b.mul(slope, self)}));
  };
  add_composite(r, {.schema = "prelu(Tensor self, Tensor weight) -> Tensor",
                    .build = [prelu](Build& b) { prelu(b, "weight"); },
                    .samples = {{{spec({2, 3, 4}), spec({3})}}, {{spec({2, 3}), spec({1})}}, {{spec({}), spec({1})}}}});
  add_composite(r, {.schema = "_prelu_kernel(Tensor self, Tensor weight) -> Tensor",
                    .build =
                        [](Build& b) {
                          Value* self = b.call().tensor("self");
                          Value* scaled = b.mul(b.call().tensor("weight"), self);
                          b.call().result(b("where.self", {b("gt.Scalar", {self, Scalar(0)}), self, scaled}));
                        },
                    .samples = {{{spec({2, 3, 4}), spec({1, 3, 1})}}}});
}

}  // namespace

void register_attention(Registry& r) {
  Sample::TensorSpec q = spec({2, 2, 3, 4}), kv = spec({2, 2, 5, 4});
  add_composite(
      r,
      {.schema = "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
                 "dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
       .build = build_attention,
       .samples = {
           {{q, kv, kv}},
           {{q, q, q, Argument::None{}, Scalar(0.0), Scalar(true)}},
           {{q, kv, kv, spec({3, 5}, DType::boolean)}},
           {{q, kv, kv, spec({3, 5}), Scalar(0.0), Scalar(false), Scalar(0.3)}},
           {{spec({1, 4, 3, 4}), spec({1, 2, 5, 4}), spec({1, 2, 5, 4}), Argument::None{}, Scalar(0.0), Scalar(false),
             Argument::None{}, Scalar(true)}},
           {{spec({2, 2, 3, 4}, DType::bf16), spec({2, 2, 5, 4}, DType::bf16), spec({2, 2, 5, 4}, DType::bf16)}},
           {{q, kv, kv, Argument::None{}, Scalar(1.5)}, true}}});
  add_composite(r,
                {.schema = "_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? "
                           "attn_mask=None, float dropout_p=0.0, bool is_causal=False, Tensor? dropout_mask=None, "
                           "*, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)",
                 .build = build_attention_math,
                 .samples = {{{q, kv, kv}},
                             {{q, kv, kv, spec({3, 5})}},
                             {{q, q, q, Argument::None{}, Scalar(0.0), Scalar(true)}},
                             {{spec({2, 3, 4}, DType::f16), spec({2, 5, 4}, DType::f16), spec({2, 5, 4}, DType::f16)}},
                             {{q, kv, kv, spec({3, 5}), Scalar(0.0), Scalar(true)}, true}}});
  add_composite(r, {.schema = "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, "
                              "float dropout_p=0.0, bool is_causal=False, *, Tensor? attn_mask=None, float? "
                              "scale=None) -> (Tensor output, Tensor logsumexp)",
                    .build = build_flash_attention,
                    .samples = {{{q, kv, kv}},
                                {{q, q, q, Scalar(0.0), Scalar(true)}},
                                {{q, kv, kv, Scalar(0.0), Scalar(false), spec({3, 5}), Scalar(0.5)}},
                                {{spec({1, 4, 3, 4}), spec({1, 2, 5, 4}), spec({1, 2, 5, 4})}},
                                {{spec({3, 4}), spec({5, 4}), spec({5, 4})}, true}}});
  register_gates(r);
  r.describe({"scaled_dot_product_attention", "_scaled_dot_product_attention_math",
              "_scaled_dot_product_flash_attention_for_cpu"},
             {.rounds_weights = true});
  r.describe({"prelu", "scaled_dot_product_attention"}, autocast_to(AutocastRule::lower));
}

}  // namespace kiln
