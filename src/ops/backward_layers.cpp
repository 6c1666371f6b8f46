// Gradients of layers: convolution, pooling, normalisation, embedding. All are compositions: the gradients of a
// convolution are convolutions, those of a pool add up the windows that contain an element. They compute in the compute
// type and round once. A gradient that `output_mask` leaves out is an empty tensor here and None in the program.
#include "ops/composite.h"
#include "ops/convolution.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

Value* computed(Build& b, Value* x) { return b.to(x, compute_dtype(x->type.dtype)); }
bool wanted(const OpCall& call, size_t which) {
  const Argument& mask = call.arg("output_mask");
  if (!mask.is_list() || mask.as_list().size() != 3) refuse(call, "K0201", "output_mask needs three values");
  return mask.as_list()[which].as_scalar().as_double() != 0;
}
// The gradient if it is asked for.
void give(Build& b, size_t which, Value* like, const std::function<Value*()>& gradient) {
  Value* none = wanted(b.call(), which) ? nullptr : b("new_zeros", {like, b.ints({0})});
  b.call().result(static_cast<int>(which), none ? none : gradient());
}

// ---- Convolution ----

// The first `size` elements of a dimension, where there may be more.
Value* cut(Build& b, Value* x, int64_t dim, const Expr& size) {
  if (prove_eq(x->type.sizes[static_cast<size_t>(dim)], size, b.call().ranges()) == Proof::yes) return x;
  return b("slice.Tensor", {x, Scalar(dim), Scalar(0), number(size)});
}

class ConvolutionGradient {
 public:
  explicit ConvolutionGradient(Build& b)
      : b_(b),
        grad_(b.call().tensor("grad_output")),
        input_(b.call().tensor("input")),
        weight_(b.call().tensor("weight")),
        transposed_(b.call().boolean("transposed")) {
    DecomposeCall& call = b.call();
    if (rank_of(input_) < 3 || rank_of(grad_) != rank_of(input_) || rank_of(weight_) != rank_of(input_))
      refuse(call, "K0201", "gradient, input and weight need the same number of dimensions, at least 3");
    spatial_ = input_->type.sizes.size() - 2;
    stride_ = spatial_argument(call, "stride", spatial_);
    padding_ = spatial_argument(call, "padding", spatial_);
    dilation_ = spatial_argument(call, "dilation", spatial_);
    groups_ = call.constant_integer("groups");
    if (groups_ <= 0) refuse(call, "K0201", "groups must be positive");
  }

  // The other kind of convolution with the same weight. What a stride skipped at the end comes back by output padding:
  // as much as there can be, and what is too much is cut.
  Value* of_input() {
    List extra(spatial_, 0);
    if (!transposed_)
      for (size_t d = 0; d < spatial_; ++d) extra[d] = stride_[d] - 1;
    Value* out = b_("convolution", {grad_, weight_, Argument(), list_of(stride_), list_of(padding_), list_of(dilation_),
                                    Scalar(!transposed_), list_of(extra), Scalar(groups_)});
    return cut_all(out, input_->type.sizes);
  }

  // Of the weight: the image convolved with the gradient, batch and channels exchanged, stride and dilation too.
  Value* of_weight() {
    Value *image = transposed_ ? grad_ : input_, *kernel = transposed_ ? input_ : grad_;
    Sizes sizes = image->type.sizes, split = sizes;
    Expr per_group = floordiv(sizes[1], Expr(groups_));
    split[1] = Expr(groups_);
    split.insert(split.begin() + 2, per_group);
    Sizes order = {Expr(2), Expr(1), Expr(0)}, joined = {per_group, sizes[0] * Expr(groups_)};
    for (size_t d = 0; d < spatial_; ++d) {
      order.push_back(Expr(static_cast<int64_t>(d) + 3));
      joined.push_back(sizes[d + 2]);
    }
    Value* rows = b_.view(b_("permute", {b_.view(image, split), b_.ints(order)}), joined);
    Value* out = b_("convolution",
                    {rows, b_("transpose.int", {kernel, Scalar(0), Scalar(1)}), Argument(), list_of(dilation_),
                     list_of(padding_), list_of(stride_), Scalar(false), list_of(List(spatial_, 0)), Scalar(groups_)});
    return cut_all(b_("transpose.int", {out, Scalar(0), Scalar(1)}), weight_->type.sizes);
  }

  Value* of_bias() {
    Sizes dims = {Expr(0)};
    for (size_t d = 0; d < spatial_; ++d) dims.push_back(Expr(static_cast<int64_t>(d) + 2));
    return b_("sum.dim_IntList", {grad_, b_.ints(dims), Scalar(false)});
  }

 private:
  Value* cut_all(Value* out, const Sizes& sizes) {
    for (size_t d = 2; d < sizes.size(); ++d) out = cut(b_, out, static_cast<int64_t>(d), sizes[d]);
    return b_.contiguous(out);
  }
  Build& b_;
  Value *grad_, *input_, *weight_;
  bool transposed_;
  size_t spatial_ = 0;
  List stride_, padding_, dilation_;
  int64_t groups_ = 1;
};

void build_convolution(Build& b) {
  ConvolutionGradient gradient(b);
  Value* grad = b.call().tensor("grad_output");
  give(b, 0, grad, [&] { return gradient.of_input(); });
  give(b, 1, grad, [&] { return gradient.of_weight(); });
  give(b, 2, grad, [&] { return gradient.of_bias(); });
}

void register_convolution_backward(Registry& r) {
  List all = {1, 1, 1}, one = {1, 1}, zero = {0, 0}, two = {2, 2};
  auto sample = [&](List grad, List input, List weight, List stride, List padding, List dilation, bool transposed,
                    List extra, int64_t groups, List mask, bool refused = false) {
    return Sample{{spec(grad), spec(input), spec(weight), Argument::None{}, stride, padding, dilation,
                   Scalar(transposed), extra, Scalar(groups), mask},
                  refused};
  };
  add_composite(
      r, {.schema = "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, "
                    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, "
                    "SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
          .build = build_convolution,
          .samples = {sample({2, 4, 3, 3}, {2, 3, 5, 5}, {4, 3, 3, 3}, one, zero, one, false, zero, 1, all),
                      sample({2, 4, 3, 4}, {2, 6, 6, 8}, {4, 3, 3, 3}, two, one, one, false, zero, 2, all),
                      sample({2, 4, 3}, {2, 3, 7}, {4, 3, 3}, {1}, {0}, {2}, false, {0}, 1, {0, 1, 0}),
                      sample({2, 4, 10, 10}, {2, 6, 5, 5}, {6, 2, 3, 3}, two, one, one, true, one, 2, all),
                      sample({2, 4, 3}, {2, 3, 5, 5}, {4, 3, 3, 3}, one, zero, one, false, zero, 1, all, true)}});
}

// ---- Pooling ----

// Which of the output's windows along one dimension contain each input element: the `nth` candidate.
struct Candidate {
  Value *window, *inside;  // one per input element
  Value* length;           // of each window, as far as it counts; null: not divided
};

Value* gathered(Build& b, Value* x, int64_t dim, const Candidate& c, const Expr& windows) {
  Value* safe = b("clamp", {c.window, Scalar(0), number(windows - Expr(1))});
  Sizes shape(x->type.sizes.size(), Expr(1));
  shape[static_cast<size_t>(dim)] = c.window->type.sizes[0];
  Value* found = b("index_select", {x, Scalar(dim), safe});
  if (c.length) found = b.div(found, b.view(b.to(c.length, x->type.dtype), shape));
  return b("where.ScalarOther", {b.view(c.inside, shape), found, Scalar(0.0)});
}

Value* floor_divide(Build& b, Value* x, const Expr& by) {
  return b("div.Tensor_mode", {x, number(by), std::string("floor")});
}
Value* within(Build& b, Value* x, const Argument& low, const Argument& high) {  // low <= x < high
  auto compare = [&](const char* op, const Argument& with) {
    bool tensor = with.is_value() && with.as_value()->kind == ValueKind::tensor;
    return b(str(op, tensor ? ".Tensor" : ".Scalar"), {x, with});
  };
  return b("logical_and", {compare("ge", low), compare("lt", high)});
}

// Sums over the candidates of one dimension.
Value* spread_adaptive(Build& b, Value* x, int64_t dim, const Expr& size) {
  Expr windows = x->type.sizes[static_cast<size_t>(dim)];
  if (!windows.is_constant())
    fail_unsupported("K0202", str(b.call().schema().name, ": the pooled sizes must be constant"), b.call().where());
  bool shrinks = prove_le(windows, size, b.call().ranges()) == Proof::yes;
  int64_t terms = windows.value();
  if (shrinks)
    terms = std::min<int64_t>(terms, 2);
  else if (size.is_constant())
    terms = std::min(terms, windows.value() / std::max<int64_t>(size.value(), 1) + 2);
  Value *place = b("arange", {number(size)}), *sum = nullptr;
  Value* base = floor_divide(b, b.mul(place, number(windows)), size);
  for (int64_t t = 0; t < terms; ++t) {
    Value* w = b.add(base, Scalar(t));
    Value* start = floor_divide(b, b.mul(w, number(size)), windows);
    Value* end = b("neg", {floor_divide(b, b("neg", {b.mul(b.add(w, Scalar(1)), number(size))}), windows)});
    Value* inside = b("logical_and", {within(b, place, start, end), b("lt.Scalar", {w, number(windows)})});
    Value* term = gathered(b, x, dim, {w, inside, b("clamp_min", {b.sub(end, start), Scalar(1)})}, windows);
    sum = sum ? b.add(sum, term) : term;
  }
  return sum;
}

struct Window {
  int64_t kernel, stride, padding;
  bool counts_padding, divided;
};

Value* spread_windows(Build& b, Value* x, int64_t dim, const Expr& size, const Window& p) {
  Expr windows = x->type.sizes[static_cast<size_t>(dim)];
  Value *place = b("arange", {number(size)}), *sum = nullptr;
  for (int64_t t = 0; t < (p.kernel + p.stride - 1) / p.stride; ++t) {
    Value* last = floor_divide(b, b.add(place, Scalar(p.padding)), Expr(p.stride));
    Value* w = b.sub(last, Scalar(t));
    Value* start = b.sub(b.mul(w, Scalar(p.stride)), Scalar(p.padding));
    Value* end = b("clamp_max", {b.add(start, Scalar(p.kernel)), number(size + Expr(p.padding))});
    Value* inside = b("logical_and", {within(b, place, start, end), within(b, w, Scalar(0), number(windows))});
    Value* length = nullptr;
    if (p.divided) {
      Value *from = start, *to = end;
      if (!p.counts_padding) {
        from = b("clamp_min", {start, Scalar(0)});
        to = b("clamp_max", {end, number(size)});
      }
      length = b("clamp_min", {b.sub(to, from), Scalar(1)});
    }
    Value* term = gathered(b, x, dim, {w, inside, length}, windows);
    sum = sum ? b.add(sum, term) : term;
  }
  return sum;
}

Value* pooled_gradient(Build& b, size_t spatial) {
  DecomposeCall& call = b.call();
  Value *grad = call.tensor("grad_output"), *self = call.tensor("self");
  size_t rank = self->type.sizes.size();
  if (rank < spatial + 1 || rank > spatial + 2 || grad->type.sizes.size() != rank)
    refuse(call, "K0201", str("gradient and input need ", spatial + 1, " or ", spatial + 2, " dimensions"));
  if (!is_float(grad->type.dtype)) refuse_dtype(call, grad->type.dtype);
  return computed(b, grad);
}

void build_average(Build& b, size_t spatial) {
  DecomposeCall& call = b.call();
  Value *x = pooled_gradient(b, spatial), *self = call.tensor("self");
  List kernel = spatial_argument(call, "kernel_size", spatial), padding = spatial_argument(call, "padding", spatial);
  List stride = call.constant_integers("stride").empty() ? kernel : spatial_argument(call, "stride", spatial);
  bool overridden = call.given("divisor_override");
  for (size_t d = 0; d < spatial; ++d) {
    if (kernel[d] <= 0 || stride[d] <= 0 || padding[d] < 0)
      refuse(call, "K0201", "kernel size and stride must be positive");
    size_t dim = self->type.sizes.size() - spatial + d;
    x = spread_windows(b, x, static_cast<int64_t>(dim), self->type.sizes[dim],
                       {kernel[d], stride[d], padding[d], call.boolean("count_include_pad"), !overridden});
  }
  if (overridden) x = b.div(x, call.arg("divisor_override"));
  call.result(b.to(x, self->type.dtype));
}

void build_adaptive(Build& b, size_t spatial) {
  Value *x = pooled_gradient(b, spatial), *self = b.call().tensor("self");
  for (size_t d = self->type.sizes.size() - spatial; d < self->type.sizes.size(); ++d)
    x = spread_adaptive(b, x, static_cast<int64_t>(d), self->type.sizes[d]);
  b.call().result(b.to(x, self->type.dtype));
}

// The indices say where in the flat image each gradient goes.
void build_max(Build& b, size_t spatial) {
  Value *x = pooled_gradient(b, spatial), *self = b.call().tensor("self"), *indices = b.call().tensor("indices");
  const Sizes& sizes = self->type.sizes;
  auto lead = sizes.end() - static_cast<std::ptrdiff_t>(spatial);
  Sizes flat(sizes.begin(), lead), pooled = flat;
  Expr elements(1), windows(1);
  for (size_t d = sizes.size() - spatial; d < sizes.size(); ++d) {
    elements = elements * sizes[d];
    windows = windows * x->type.sizes[d];
  }
  flat.push_back(elements);
  pooled.push_back(windows);
  Value* none = b("new_zeros", {x, b.ints(flat)});
  Value* sums = b("scatter_add", {none, Scalar(-1), b.view(indices, pooled), b.view(x, pooled)});
  Value* grad = b.to(b.view(sums, sizes), self->type.dtype);
  if (is_channels_last(sizes, self->type.strides))
    grad = b("clone", {grad, spatial == 2 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d});
  b.call().result(grad);
}

void register_pooling_backward(Registry& r) {
  for (size_t spatial : {size_t{2}, size_t{3}}) {
    std::string n = str(spatial), nd = str("int[", n, "] ");
    List image = {2, 3, 7, 6, 5}, pooled = {2, 3, 3, 3, 2}, wider = {2, 3, 3, 2, 2};
    for (List* sizes : {&image, &pooled, &wider}) sizes->resize(spatial + 2);
    List three(spatial, 3), two(spatial, 2), one(spatial, 1), zero(spatial, 0);
    wider.assign(pooled.begin(), pooled.end());
    wider[2] = 4;  // what ceil_mode gives
    add_composite(
        r,
        {.schema =
             str("avg_pool", n, "d_backward(Tensor grad_output, Tensor self, ", nd, "kernel_size, ", nd, "stride, ", nd,
                 "padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor"),
         .build = [spatial](Build& b) { build_average(b, spatial); },
         .samples = {{{spec(pooled), spec(image), two, two, zero, Scalar(false), Scalar(true), Argument::None{}}},
                     {{spec(pooled), spec(image), three, two, one, Scalar(false), Scalar(false), Argument::None{}}},
                     {{spec(wider), spec(image), three, two, one, Scalar(true), Scalar(true), Argument::None{}}},
                     {{spec(pooled), spec(image), two, List{}, zero, Scalar(false), Scalar(true), Scalar(3)}},
                     {{spec({3}), spec({3}), two, two, zero, Scalar(false), Scalar(true), Argument::None{}}, true}}});
    add_composite(r, {.schema = str("_adaptive_avg_pool", n, "d_backward(Tensor grad_output, Tensor self) -> Tensor"),
                      .build = [spatial](Build& b) { build_adaptive(b, spatial); },
                      .samples = {{{spec(pooled), spec(image)}}, {{spec({3}), spec({3})}, true}}});
    Sample::TensorSpec places = spec(pooled, DType::i64, 0, 29);
    add_composite(r, {.schema = str("max_pool", n, "d_with_indices_backward(Tensor grad_output, Tensor self, ", nd,
                                    "kernel_size, ", nd, "stride, ", nd, "padding, ", nd,
                                    "dilation, bool ceil_mode, Tensor indices) -> Tensor"),
                      .build = [spatial](Build& b) { build_max(b, spatial); },
                      .samples = {{{spec(pooled), spec(image), two, two, zero, one, Scalar(false), places}}}});
    add_composite(r, {.schema = str("adaptive_max_pool", n,
                                    "d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor"),
                      .build = [spatial](Build& b) { build_max(b, spatial); },
                      .samples = {{{spec(pooled), spec(image), places}}}});
  }
}

// ---- Normalisation ----

Argument dims_from(Build& b, int64_t first, int64_t last) {
  Sizes dims;
  for (int64_t d = first; d < last; ++d) dims.push_back(Expr(d));
  return b.ints(dims);
}

// rstd * (g - mean(g) - x̂ * mean(g x̂)), the means over `dims`.
Value* normalised_gradient(Build& b, Value* g, Value* x_hat, Value* rstd, const Argument& dims) {
  auto mean = [&](Value* v) { return b("mean.dim", {v, dims, Scalar(true)}); };
  Value* inner = b.sub(b.sub(g, mean(g)), b.mul(x_hat, mean(b.mul(g, x_hat))));
  return b.mul(inner, rstd);
}

Value* summed(Build& b, Value* x, const Argument& dims, bool any) {
  return any ? b("sum.dim_IntList", {x, dims, Scalar(false)}) : x;
}

void build_layer_norm(Build& b) {
  DecomposeCall& call = b.call();
  Value *input = call.tensor("input"), *grad = computed(b, call.tensor("grad_out"));
  Value* weight = call.tensor_or_null("weight");
  auto rank = rank_of(input), outer = rank - static_cast<int64_t>(call.integers("normalized_shape").size());
  if (outer < 0) refuse(call, "K0201", "normalized_shape has more dimensions than the input");
  Value* rstd = computed(b, call.tensor("rstd"));
  Value* x_hat = b.mul(b.sub(computed(b, input), computed(b, call.tensor("mean"))), rstd);
  DType dtype = weight ? weight->type.dtype : input->type.dtype;
  Argument before = dims_from(b, 0, outer);
  give(b, 0, grad, [&] {
    Value* g = weight ? b.mul(grad, computed(b, weight)) : grad;
    return b.to(normalised_gradient(b, g, x_hat, rstd, dims_from(b, outer, rank)), input->type.dtype);
  });
  give(b, 1, grad, [&] { return b.to(summed(b, b.mul(grad, x_hat), before, outer > 0), dtype); });
  give(b, 2, grad, [&] { return b.to(summed(b, grad, before, outer > 0), dtype); });
}

void build_group_norm(Build& b) {
  DecomposeCall& call = b.call();
  Value *input = call.tensor("input"), *weight = call.tensor_or_null("weight");
  Expr n = call.integer("N"), c = call.integer("C"), hw = call.integer("HxW");
  int64_t groups = call.constant_integer("group");
  if (groups <= 0 || (c.is_constant() && c.value() % groups))
    refuse(call, "K0201", "channels must be divisible by groups");
  Expr per_group = floordiv(c, Expr(groups));
  auto grouped = [&](Value* x) { return b.view(computed(b, x), {n, Expr(groups), per_group, hw}); };
  auto one_per_group = [&](const char* arg) {
    return b.view(computed(b, call.tensor(arg)), {n, Expr(groups), Expr(1), Expr(1)});
  };
  Value *grad = grouped(call.tensor("grad_out")), *rstd = one_per_group("rstd");
  Value* x_hat = b.mul(b.sub(grouped(input), one_per_group("mean")), rstd);
  DType dtype = weight ? weight->type.dtype : input->type.dtype;
  auto per_channel = [&](Value* x) {
    return b.to(b.view(b("sum.dim_IntList", {x, b.ints({0, 3}), Scalar(false)}), {c}), dtype);
  };
  give(b, 0, grad, [&] {
    Value* g = grad;
    if (weight) g = b.mul(g, b.view(computed(b, weight), {Expr(1), Expr(groups), per_group, Expr(1)}));
    Value* out = normalised_gradient(b, g, x_hat, rstd, dims_from(b, 2, 4));
    return b.to(b.view(out, input->type.sizes), input->type.dtype);
  });
  give(b, 1, grad, [&] { return per_channel(b.mul(grad, x_hat)); });
  give(b, 2, grad, [&] { return per_channel(grad); });
}

void build_batch_norm(Build& b) {
  DecomposeCall& call = b.call();
  Value *input = call.tensor("input"), *weight = call.tensor_or_null("weight");
  if (rank_of(input) < 2) refuse(call, "K0201", "input needs at least two dimensions");
  bool train = call.boolean("train");
  const char *mean_name = train ? "save_mean" : "running_mean", *spread = train ? "save_invstd" : "running_var";
  if (!call.given(mean_name) || !call.given(spread)) refuse(call, "K0201", str("needs ", mean_name, " and ", spread));
  Sizes shape(input->type.sizes.size(), Expr(1)), dims = {Expr(0)};
  shape[1] = input->type.sizes[1];
  for (int64_t d = 2; d < rank_of(input); ++d) dims.push_back(Expr(d));
  Value *grad = computed(b, call.tensor("grad_out")), *mean = b.view(computed(b, call.tensor(mean_name)), shape);
  Value* rstd = b.view(computed(b, call.tensor(spread)), shape);
  if (!train) rstd = b("rsqrt", {b.add(rstd, call.arg("eps"))});
  Value* x_hat = b.mul(b.sub(computed(b, input), mean), rstd);
  DType dtype = weight ? weight->type.dtype : input->type.dtype;
  auto per_channel = [&](Value* x) { return b.to(b("sum.dim_IntList", {x, b.ints(dims), Scalar(false)}), dtype); };
  give(b, 0, grad, [&] {
    Value* g = weight ? b.mul(grad, b.view(computed(b, weight), shape)) : grad;
    Value* out = train ? normalised_gradient(b, g, x_hat, rstd, b.ints(dims)) : b.mul(g, rstd);
    return b.to(out, input->type.dtype);
  });
  give(b, 1, grad, [&] { return per_channel(b.mul(grad, x_hat)); });
  give(b, 2, grad, [&] { return per_channel(grad); });
}

void register_normalization_backward(Registry& r) {
  List all = {1, 1, 1};
  auto positive = [](List sizes) { return spec(std::move(sizes), DType::f32, 0.5, 2); };
  add_composite(
      r, {.schema = "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, "
                    "Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, "
                    "Tensor, Tensor)",
          .build = build_layer_norm,
          .samples = {
              {{spec({3, 4}), spec({3, 4}), List{4}, spec({3, 1}), positive({3, 1}), spec({4}), spec({4}), all}},
              {{spec({4}), spec({4}), List{4}, spec({1}), positive({1}), Argument::None{}, Argument::None{},
                List{1, 0, 0}}},
              {{spec({4}), spec({4}), List{1, 4}, spec({1}), positive({1}), Argument::None{}, Argument::None{}, all},
               true}}});
  add_composite(r, {.schema = "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, "
                              "Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> "
                              "(Tensor, Tensor, Tensor)",
                    .build = build_group_norm,
                    .samples = {{{spec({2, 6, 5}), spec({2, 6, 5}), spec({2, 3}), positive({2, 3}), spec({6}),
                                  Scalar(2), Scalar(6), Scalar(5), Scalar(3), all}},
                                {{spec({1, 5, 1}), spec({1, 5, 1}), spec({1, 2}), positive({1, 2}), Argument::None{},
                                  Scalar(1), Scalar(5), Scalar(1), Scalar(2), all},
                                 true}}});
  add_composite(r, {.schema = "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? "
                              "running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, "
                              "float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
                    .build = build_batch_norm,
                    .samples = {{{spec({2, 3, 4}), spec({2, 3, 4}), spec({3}), Argument::None{}, Argument::None{},
                                  spec({3}), positive({3}), Scalar(true), Scalar(1e-5), all}},
                                {{spec({2, 3, 4}), spec({2, 3, 4}), Argument::None{}, spec({3}), positive({3}),
                                  Argument::None{}, Argument::None{}, Scalar(false), Scalar(1e-5), all}},
                                {{spec({2, 3}), spec({2, 3}), Argument::None{}, Argument::None{}, Argument::None{},
                                  Argument::None{}, Argument::None{}, Scalar(true), Scalar(1e-5), all},
                                 true}}});
}

// ---- Embedding ----

void build_embedding(Build& b) {
  DecomposeCall& call = b.call();
  Value *grad = call.tensor("grad_output"), *indices = call.tensor("indices");
  if (!is_float(grad->type.dtype) || grad->type.sizes.empty())
    refuse(call, "K0201", "the gradient must be a float tensor");
  Expr rows(1), count = call.integer("num_weights");
  for (const Expr& size : indices->type.sizes) rows = rows * size;
  Value* index = b.to(b.view(indices, {rows}), DType::i64);
  Value* g = b.view(computed(b, grad), {rows, grad->type.sizes.back()});
  if (call.boolean("scale_grad_by_freq")) {
    Value* none = b("new_zeros", {g, b.ints(Sizes{count})});
    Value* often = b("index_add", {none, Scalar(0), index, b("new_ones", {g, b.ints(Sizes{rows})})});
    g = b.div(g, b("unsqueeze", {b("index_select", {often, Scalar(0), index}), Scalar(1)}));
  }
  // A padding index of -1 names no row.
  Value* skipped = b("unsqueeze", {b("eq.Scalar", {index, call.arg("padding_idx")}), Scalar(1)});
  g = b("masked_fill.Scalar", {g, skipped, Scalar(0.0)});
  Value* none = b("new_zeros", {g, b.ints(Sizes{count, grad->type.sizes.back()})});
  call.result(b.to(b("index_add", {none, Scalar(0), index, g}), grad->type.dtype));
}

void register_embedding_backward(Registry& r) {
  Sample::TensorSpec index = spec({2, 3}, DType::i64, 0, 4);
  add_composite(r, {.schema = "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt "
                              "padding_idx, bool scale_grad_by_freq) -> Tensor",
                    .build = build_embedding,
                    .samples = {{{spec({2, 3, 4}), index, Scalar(5), Scalar(-1), Scalar(false)}},
                                {{spec({2, 3, 4}), index, Scalar(5), Scalar(2), Scalar(true)}},
                                {{spec({2, 3, 4}, DType::bf16), index, Scalar(5), Scalar(1), Scalar(false)}},
                                {{spec({2, 3, 4}, DType::i64), index, Scalar(5), Scalar(-1), Scalar(false)}, true}}});
}

}  // namespace

void register_backward_layers(Registry& r) {
  register_convolution_backward(r);
  register_pooling_backward(r);
  register_normalization_backward(r);
  register_embedding_backward(r);
}

}  // namespace kiln
