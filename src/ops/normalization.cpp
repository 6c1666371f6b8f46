// Normalisations, as decompositions to a mean and a variance over dimensions and pointwise operators: fusion makes one
// or two kernels of them. Narrow floats are computed in f32 and rounded once at the end, as eager's kernels do.
#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

DType float_type(const OpCall& call, const Value* input) {
  if (!is_float(input->type.dtype)) refuse_dtype(call, input->type.dtype);
  return input->type.dtype;
}

Value* optional_tensor(Build& b, std::string_view name) { return b.call().tensor_or_null(name); }

struct Normalised {
  Value* values;  // in the compute type
  Value* mean;    // with the reduced dimensions kept
  Value* rstd;
};

// (x - mean) / sqrt(var + eps) over these dimensions.
Normalised normalise(Build& b, Value* x, const Sizes& dims, Argument eps) {
  auto moments = b.all("var_mean.correction", {x, b.ints(dims), Scalar(0), Scalar(true)});
  Value* rstd = b("rsqrt", {b.add(moments[0], std::move(eps))});
  return {b.mul(b.sub(x, moments[1]), rstd), moments[1], rstd};
}

// x * weight + bias, where given, both widened.
Value* affine(Build& b, Value* x, Value* weight, Value* bias) {
  if (weight) x = b.mul(x, b.to(weight, x->type.dtype));
  return bias ? b.add(x, b.to(bias, x->type.dtype)) : x;
}

Sizes last_dims(const OpCall& call, const Value* input, const Sizes& shape) {
  const Sizes& sizes = input->type.sizes;
  if (shape.empty() || shape.size() > sizes.size()) refuse(call, "K0216", "normalized_shape does not fit the input");
  Sizes dims;
  for (size_t d = sizes.size() - shape.size(); d < sizes.size(); ++d) dims.push_back(Expr(static_cast<int64_t>(d)));
  return dims;
}

void check_shape(DecomposeCall& call, const Value* input, const Sizes& shape) {
  const Sizes& sizes = input->type.sizes;
  size_t lead = sizes.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d)
    if (prove_eq(sizes[lead + d], shape[d], call.ranges()) == Proof::no)
      refuse(
          call, "K0216",
          str("given normalized_shape=[", shape_text(shape), "], but the input has sizes [", shape_text(sizes), "]"));
}

void build_layer_norm(Build& b, bool native) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor("input");
  DType dtype = float_type(call, input);
  Sizes shape = call.integers("normalized_shape"), dims = last_dims(call, input, shape);
  check_shape(call, input, shape);
  Normalised n = normalise(b, b.to(input, compute_dtype(dtype)), dims, call.arg("eps"));
  Value* out = affine(b, n.values, optional_tensor(b, "weight"), optional_tensor(b, "bias"));
  call.result(0, b.contiguous(b.to(out, dtype)));
  if (!native) return;
  // On a GPU they are f32 also where the input is narrower: the program says which.
  auto statistics = [&](size_t i) { return call.declared(i, dtype) == DType::f32 ? DType::f32 : dtype; };
  call.result(1, b.to(n.mean, statistics(1)));
  call.result(2, b.to(n.rstd, statistics(2)));
}

void build_rms_norm(Build& b, bool fused) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor("input");
  DType dtype = float_type(call, input);
  Sizes shape = call.integers("normalized_shape"), dims = last_dims(call, input, shape);
  check_shape(call, input, shape);
  Value* x = b.to(input, compute_dtype(dtype));
  // Without eps: the machine epsilon of the type that is computed in.
  Argument eps = call.given("eps")
                     ? call.arg("eps")
                     : Argument(Scalar(dtype == DType::f64 ? 2.220446049250313e-16 : 1.1920928955078125e-07));
  Value* mean = b("mean.dim", {b.mul(x, x), b.ints(dims), Scalar(true)});
  Value* rstd = b("rsqrt", {b.add(mean, eps)});
  Value* out = affine(b, b.mul(x, rstd), optional_tensor(b, "weight"), nullptr);
  call.result(0, b.to(out, dtype));
  if (fused) call.result(1, rstd);
}

// Per-channel numbers as [1, C, 1, …].
Value* per_channel(Build& b, Value* x, size_t rank, DType dtype) {
  if (!x) return nullptr;
  Sizes sizes(rank, Expr(1));
  sizes[1] = x->type.sizes.empty() ? Expr(1) : product(x->type.sizes);
  return b.view(b.to(x, dtype), sizes);
}

// [N, C, …] as [N, groups, C / groups * …].
void build_group_norm(Build& b, bool native) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor("input");
  DType dtype = float_type(call, input);
  const Sizes& sizes = input->type.sizes;
  if (sizes.size() < 2) refuse(call, "K0216", "needs at least 2 dimensions");
  int64_t groups = call.constant_integer(native ? "group" : "num_groups");
  if (groups <= 0 || (sizes[1].is_constant() && sizes[1].value() % groups != 0))
    refuse(call, "K0216",
           str("the number of channels (", sizes[1].text(), ") must be divisible by num_groups (", groups, ")"));
  Sizes rest(sizes.begin() + 1, sizes.end());
  Sizes grouped = {sizes[0], Expr(groups), floordiv(product(rest), Expr(groups))};
  Value* x = b.view(b.to(input, compute_dtype(dtype)), grouped);
  Normalised n = normalise(b, x, {Expr(2)}, call.arg("eps"));
  Value* out =
      affine(b, b.view(n.values, sizes), per_channel(b, optional_tensor(b, "weight"), sizes.size(), x->type.dtype),
             per_channel(b, optional_tensor(b, "bias"), sizes.size(), x->type.dtype));
  call.result(0, b.contiguous(b.to(out, dtype)));
  if (!native) return;
  call.result(1, b.to(b.view(n.mean, {sizes[0], Expr(groups)}), dtype));
  call.result(2, b.to(b.view(n.rstd, {sizes[0], Expr(groups)}), dtype));
}

struct BatchStatistics {
  Value *mean, *rstd, *variance;  // [C]; variance without correction
};

Sizes all_but_channels(const Sizes& sizes) {
  Sizes dims;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (d != 1) dims.push_back(Expr(static_cast<int64_t>(d)));
  return dims;
}

Value* batch_normalised(Build& b, Value* input, Value* mean, Value* rstd) {
  size_t rank = input->type.sizes.size();
  DType compute = compute_dtype(input->type.dtype);
  Value* x = b.to(input, compute);
  Value* scale = per_channel(b, rstd, rank, compute);
  Value* weight = per_channel(b, optional_tensor(b, "weight"), rank, compute);
  // One factor and one addend per channel: a convolution before can take them in.
  if (weight) scale = b.mul(scale, weight);
  Value* out = b.mul(b.sub(x, per_channel(b, mean, rank, compute)), scale);
  Value* bias = per_channel(b, optional_tensor(b, "bias"), rank, compute);
  return b.to(bias ? b.add(out, bias) : out, input->type.dtype);
}

// Without elements there is nothing to normalise, whatever the number of dimensions.
// Eager still multiplies and adds, which promotes.
Value* empty_batch(Build& b, Value* input) {
  if (!is_zero_numel(input->type.sizes)) return nullptr;
  Value* out = b("clone", {input});
  auto first = [&](const char* name) -> Value* {
    Value* x = optional_tensor(b, name);
    return x ? b("select.int", {x, Scalar(0), Scalar(0)}) : nullptr;
  };
  if (Value* weight = first("weight")) out = b.mul(out, weight);
  if (Value* bias = first("bias")) out = b.add(out, bias);
  return out;
}

// With running statistics (evaluation).
void build_batch_norm_eval(Build& b, std::vector<int> empty_results) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor("input");
  float_type(call, input);
  if (Value* empty = empty_batch(b, input); empty && empty_results.empty()) return call.result(empty);
  if (input->type.sizes.size() < 2) refuse(call, "K0216", "needs at least 2 dimensions");
  Value *mean = call.tensor("running_mean"), *variance = call.tensor("running_var");
  Value* rstd = b("rsqrt", {b.add(b.to(variance, compute_dtype(variance->type.dtype)), call.arg("eps"))});
  call.result(0, batch_normalised(b, input, mean, rstd));
  for (int index : empty_results) call.result(index, b("new_empty", {input, b.ints(Sizes{Expr(0)}), mean->type.dtype}));
}

BatchStatistics batch_statistics(Build& b, Value* input, Argument eps) {
  const Sizes& sizes = input->type.sizes;
  if (sizes.size() < 2) refuse(b.call(), "K0216", "needs at least 2 dimensions");
  Value* x = b.to(input, compute_dtype(input->type.dtype));
  auto moments = b.all("var_mean.correction", {x, b.ints(all_but_channels(sizes)), Scalar(0), Scalar(false)});
  return {moments[1], b("rsqrt", {b.add(moments[0], std::move(eps))}), moments[0]};
}

// What eager saves the statistics in: the input's type, unless a narrow input has parameters in f32.
DType saved_dtype(const OpCall& call, const Value* input) {
  for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
    if (call.schema().find(name) < 0 || !call.given(name)) continue;
    if (call.tensor(name)->type.dtype == DType::f32 && compute_dtype(input->type.dtype) == DType::f32)
      return DType::f32;
  }
  return input->type.dtype;
}

// With the statistics of the batch; save_mean and save_invstd are results.
void build_batch_norm_train(Build& b, bool saves) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor("input");
  float_type(call, input);
  BatchStatistics s = batch_statistics(b, input, call.arg("eps"));
  call.result(0, batch_normalised(b, input, s.mean, s.rstd));
  if (!saves) return;
  call.result(1, b.to(s.mean, saved_dtype(call, input)));
  call.result(2, b.to(s.rstd, saved_dtype(call, input)));
}

// The running statistics after a training step: (1 - momentum) * old + momentum * new, the variance unbiased.
Value* moved(Build& b, Value* running, Value* fresh, Argument momentum) {
  Value* old = b.to(running, fresh->type.dtype);
  return b.to(b.add(old, b.mul(b.sub(fresh, old), std::move(momentum))), running->type.dtype);
}

void build_batch_norm_functional(Build& b) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor("input");
  if (!call.boolean("training")) {
    build_batch_norm_eval(b, {1, 2});
    call.result(3, call.tensor("running_mean"));
    call.result(4, call.tensor("running_var"));
    return;
  }
  BatchStatistics s = batch_statistics(b, input, call.arg("eps"));
  call.result(0, batch_normalised(b, input, s.mean, s.rstd));
  call.result(1, b.to(s.mean, saved_dtype(call, input)));
  call.result(2, b.to(s.rstd, saved_dtype(call, input)));
  Expr count(1);
  for (size_t d = 0; d < input->type.sizes.size(); ++d)
    if (d != 1) count = count * input->type.sizes[d];
  Value* numerator = b.mul(s.variance, count.is_constant() ? Argument(Scalar(count.value())) : Argument(count));
  Expr below = count - Expr(1);
  Value* unbiased = b.div(numerator, below.is_constant() ? Argument(Scalar(below.value())) : Argument(below));
  call.result(3, moved(b, call.tensor("running_mean"), s.mean, call.arg("momentum")));
  call.result(4, moved(b, call.tensor("running_var"), unbiased, call.arg("momentum")));
}

// What other backends keep for the gradient: on the CPU nothing, as bytes.
Value* no_reserve(Build& b) { return b("new_empty", {b.call().tensor("input"), b.ints(Sizes{Expr(0)}), DType::u8}); }

// Training with running statistics: they are written.
void build_batch_norm_update(Build& b, std::vector<int> saved, int reserved = -1) {
  DecomposeCall& call = b.call();
  Value *mean = call.tensor("running_mean"), *variance = call.tensor("running_var");
  auto optional = [&](const char* name) { return call.given(name) ? Argument(call.tensor(name)) : Argument(); };
  auto parts =
      b.all("_native_batch_norm_legit_functional", {call.tensor("input"), optional("weight"), optional("bias"), mean,
                                                    variance, Scalar(true), call.arg("momentum"), call.arg("eps")});
  b("copy_", {mean, parts[3]});
  b("copy_", {variance, parts[4]});
  call.result(0, parts[0]);
  for (size_t i = 0; i < saved.size(); ++i) call.result(saved[i], parts[i + 1]);
  if (reserved >= 0) call.result(reserved, no_reserve(b));
}

// batch_norm and native_batch_norm: with running statistics it evaluates or updates them, without it uses the batch's.
void build_batch_norm(Build& b, bool native) {
  DecomposeCall& call = b.call();
  bool running = call.given("running_mean");
  if (Value* empty = native ? nullptr : empty_batch(b, call.tensor("input"))) return call.result(empty);
  std::vector<int> saved = native ? std::vector<int>{1, 2} : std::vector<int>{};
  if (!call.boolean("training") && running) return build_batch_norm_eval(b, saved);
  if (running) return build_batch_norm_update(b, saved);
  build_batch_norm_train(b, native);
}

// Statistics of each image; the running ones move towards their means over the batch.
void update_instance_statistics(Build& b, Value* x, const Sizes& dims) {
  DecomposeCall& call = b.call();
  auto moments = b.all("var_mean.correction", {x, b.ints(dims), Scalar(1), Scalar(false)});
  auto update = [&](const char* name, Value* fresh) {
    Value* running = call.tensor(name);
    Value* mean = b("mean.dim", {fresh, b.ints({0}), Scalar(false)});
    b("copy_", {running, moved(b, running, mean, call.arg("momentum"))});
  };
  update("running_mean", moments[1]);
  update("running_var", moments[0]);
}

void build_instance_norm(Build& b) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor("input");
  DType dtype = float_type(call, input);
  const Sizes& sizes = input->type.sizes;
  if (sizes.size() < 2) refuse(call, "K0216", "needs at least 2 dimensions");
  if (!call.boolean("use_input_stats")) {
    build_batch_norm_eval(b, {});
    return;
  }
  Sizes dims;
  for (size_t d = 2; d < sizes.size(); ++d) dims.push_back(Expr(static_cast<int64_t>(d)));
  if (call.given("running_mean")) update_instance_statistics(b, b.to(input, compute_dtype(dtype)), dims);
  Normalised n = normalise(b, b.to(input, compute_dtype(dtype)), dims, call.arg("eps"));
  DType compute = compute_dtype(dtype);
  Value* out = affine(b, n.values, per_channel(b, optional_tensor(b, "weight"), sizes.size(), compute),
                      per_channel(b, optional_tensor(b, "bias"), sizes.size(), compute));
  call.result(b.contiguous(b.to(out, dtype)));
}

void register_layer_norms(Registry& r) {
  add_composite(
      r, {.schema = "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float "
                    "eps=1e-05, bool cudnn_enable=True) -> Tensor",
          .build = [](Build& b) { build_layer_norm(b, false); },
          .samples = {{{spec({2, 3, 4}), List{4}, spec({4}), spec({4})}},
                      {{spec({2, 3, 4}), List{3, 4}}},
                      {{spec({2, 6}, DType::bf16), List{6}, spec({6}, DType::bf16)}},
                      {{spec({0, 4}), List{4}}},
                      {{spec({2, 3}), List{4}}, true},
                      {{spec({2, 3}, DType::i64), List{3}}, true}}});
  add_composite(
      r, {.schema =
              "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
              "(Tensor, Tensor, Tensor)",
          .build = [](Build& b) { build_layer_norm(b, true); },
          .samples = {{{spec({2, 3, 4}), List{4}, spec({4}), spec({4}), Scalar(1e-5)}},
                      {{spec({2, 3, 4}), List{3, 4}, Argument::None{}, Argument::None{}, Scalar(0.1)}}}});
  add_composite(
      r, {.schema = "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
          .build = [](Build& b) { build_rms_norm(b, false); },
          .samples = {{{spec({2, 3, 4}), List{4}, spec({4}), Scalar(1e-6)}}, {{spec({2, 6}, DType::bf16), List{6}}}}});
  add_composite(
      r, {.schema =
              "_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
          .build = [](Build& b) { build_rms_norm(b, true); },
          .samples = {{{spec({2, 3, 4}), List{4}, spec({4}), Scalar(1e-6)}}}});
  add_composite(
      r, {.schema =
              "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool "
              "cudnn_enabled=True) -> Tensor",
          .build = [](Build& b) { build_group_norm(b, false); },
          .samples = {{{spec({2, 6, 3}), Scalar(3), spec({6}), spec({6})}},
                      {{spec({2, 4}), Scalar(2)}},
                      {{spec({2, 5, 3}), Scalar(2)}, true}}});
  add_composite(
      r,
      {.schema =
           "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, "
           "float eps) -> (Tensor, Tensor, Tensor)",
       .build = [](Build& b) { build_group_norm(b, true); },
       .samples = {
           {{spec({2, 6, 3}), spec({6}), spec({6}), Scalar(2), Scalar(6), Scalar(3), Scalar(3), Scalar(1e-5)}}}});
}

void register_batch_norms(Registry& r) {
  Sample::TensorSpec image = spec({2, 3, 4, 5}), channel = spec({3}), positive = spec({3}, DType::f32, 0.5, 2.0);
  add_composite(
      r, {.schema =
              "_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
              "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
          .build =
              [](Build& b) {
                build_batch_norm_eval(b, {1, 2});
              },
          .samples = {{{image, channel, channel, channel, positive, Scalar(0.1), Scalar(1e-5)}}}});
  add_composite(
      r,
      {.schema = "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float "
                 "momentum, float eps) -> (Tensor, Tensor, Tensor)",
       .build = [](Build& b) { build_batch_norm_train(b, true); },
       .samples = {{{image, channel, channel, Scalar(true), Scalar(0.1), Scalar(1e-5)}}}});
  add_composite(r,
                {.schema = "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor "
                           "running_mean, Tensor "
                           "running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor "
                           "running_mean_out, "
                           "Tensor running_var_out)",
                 .build = build_batch_norm_functional,
                 .samples = {{{image, channel, channel, channel, positive, Scalar(true), Scalar(0.1), Scalar(1e-5)}}}});
  add_composite(r, {.schema = "_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
                              "Tensor? running_var, "
                              "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
                    .build =
                        [](Build& b) {
                          build_batch_norm_eval(b, {1, 2});
                          b.call().result(3, no_reserve(b));
                        },
                    .samples = {{{image, channel, channel, channel, positive, Scalar(0.1), Scalar(1e-5)}}}});
  // PyTorch's schemas do not say that these two write; they do when training with running statistics.
  std::string whole = "Tensor input, Tensor? weight, Tensor? bias, Tensor(a!)? running_mean, Tensor(b!)? running_var, ";
  Argument::None none;
  add_composite(
      r,
      {.schema = str("batch_norm(", whole, "bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor"),
       .build = [](Build& b) { build_batch_norm(b, false); },
       .samples =
           {{{image, channel, channel, channel, positive, Scalar(false), Scalar(0.1), Scalar(1e-5), Scalar(false)}},
            {{image, channel, channel, channel, positive, Scalar(true), Scalar(0.1), Scalar(1e-5), Scalar(false)}},
            {{image, none, none, none, none, Scalar(true), Scalar(0.1), Scalar(1e-5), Scalar(false)}}},
       .early = true});
  add_composite(
      r, {.schema =
              str("native_batch_norm(", whole, "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"),
          .build = [](Build& b) { build_batch_norm(b, true); },
          .samples = {{{image, channel, channel, channel, positive, Scalar(true), Scalar(0.1), Scalar(1e-5)}}},
          .early = true});
  std::string given = "Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, ";
  add_composite(r,
                {.schema = str("_native_batch_norm_legit(", given,
                               "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"),
                 .build = [](Build& b) { build_batch_norm(b, true); },
                 .samples = {{{image, channel, channel, channel, positive, Scalar(true), Scalar(0.1), Scalar(1e-5)}}},
                 .early = true});
  add_composite(r, {.schema = str("_batch_norm_with_update(", given,
                                  "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)"),
                    .build =
                        [](Build& b) {
                          build_batch_norm_update(b, {1, 2}, 3);
                        },
                    .samples = {{{image, channel, channel, channel, positive, Scalar(0.1), Scalar(1e-5)}}},
                    .early = true});
  add_composite(
      r, {.schema = str("instance_norm(", whole,
                        "bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"),
          .build = build_instance_norm,
          .samples = {{{image, channel, channel, none, none, Scalar(true), Scalar(0.1), Scalar(1e-5), Scalar(false)}},
                      {{image, channel, channel, channel, positive, Scalar(true), Scalar(0.1), Scalar(1e-5),
                        Scalar(false)}}},
          .early = true});
}

// The norm of v over all dimensions but one; -1 stands for none kept.
Value* norm_except(Build& b, Value* v, Argument power) {
  DecomposeCall& call = b.call();
  int64_t kept = call.constant_integer("dim"), rank = static_cast<int64_t>(v->type.sizes.size());
  if (kept == -1) return b("linalg_vector_norm", {v, power});
  Sizes dims;
  for (int64_t d = 0; d < rank; ++d)
    if (d != kept) dims.push_back(Expr(d));
  if (static_cast<int64_t>(dims.size()) == rank)
    fail_user("K0201", str(call.schema().name, ": there is no dimension ", kept), call.where());
  if (dims.empty()) return b("abs", {v});
  return b("linalg_vector_norm", {v, power, b.ints(dims), Scalar(true)});
}

void register_weight_norms(Registry& r) {
  Sample::TensorSpec v = spec({4, 3, 2}), rows = spec({4, 1, 1}), columns = spec({1, 1, 2});
  auto normed = [](Build& b, bool with_norms) {
    DecomposeCall& call = b.call();
    Value* norms = norm_except(b, call.tensor("v"), Scalar(2));
    call.result(0, b.mul(call.tensor("v"), b.div(call.tensor("g"), norms)));
    if (with_norms) call.result(1, norms);
  };
  add_composite(r, {.schema = "_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor",
                    .build = [normed](Build& b) { normed(b, false); },
                    .samples = {{{v, rows}}, {{v, columns, Scalar(2)}}, {{v, spec({}), Scalar(-1)}}}});
  add_composite(r, {.schema = "_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)",
                    .build = [normed](Build& b) { normed(b, true); },
                    .samples = {{{v, rows}}, {{v, columns, Scalar(2)}}}});
  add_composite(r, {.schema = "norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          call.result(norm_except(b, call.tensor("v"), call.arg("pow")));
                        },
                    .samples = {{{v}}, {{v, Scalar(1), Scalar(1)}}, {{v, Scalar(2), Scalar(-1)}}}});
}

}  // namespace

void register_normalization(Registry& registry) {
  register_weight_norms(registry);
  register_layer_norms(registry);
  register_batch_norms(registry);
}

}  // namespace kiln
