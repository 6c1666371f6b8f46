// Convolutions. `convolution` is one nest: the axes of the result around a sum over the input channels of a group and
// the places of the kernel; what lies in the padding is masked off. conv1d … conv_transpose3d decompose to it.
#include "ops/convolution.h"

#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/matmul_reference.h"

namespace kiln {

using loops::KernelBuilder;
using loops::ReduceOp;

std::vector<int64_t> spatial_argument(const OpCall& call, std::string_view name, size_t spatial) {
  std::vector<int64_t> out = call.constant_integers(name);
  if (out.size() == 1) out.resize(spatial, out[0]);
  if (out.size() != spatial) {
    fail_user("K0201",
              str(call.schema().name, ": ", name, " has ", out.size(), " values for ", spatial, " spatial dimensions"),
              call.where());
  }
  return out;
}

Expr conv_output_size(const ConvGeometry& g, size_t d, const Expr& input, const Expr& kernel) {
  Expr reach = Expr(g.dilation[d]) * (kernel - Expr(1));
  if (g.transposed)
    return (input - Expr(1)) * Expr(g.stride[d]) - Expr(2 * g.padding[d]) + reach + Expr(g.output_padding[d]) + Expr(1);
  return floordiv(input + Expr(2 * g.padding[d]) - reach - Expr(1), Expr(g.stride[d])) + Expr(1);
}

namespace {

using List = std::vector<int64_t>;
using Index = std::vector<Expr>;

ConvGeometry geometry_of(const OpCall& call) {
  size_t rank = call.tensor("input")->type.sizes.size();
  if (rank < 3 || rank > 5) refuse(call, "K0215", str("the input has ", rank, " dimensions; 3 to 5 are supported"));
  size_t spatial = rank - 2;
  ConvGeometry g;
  g.stride = spatial_argument(call, "stride", spatial);
  g.padding = spatial_argument(call, "padding", spatial);
  g.dilation = spatial_argument(call, "dilation", spatial);
  g.output_padding = spatial_argument(call, "output_padding", spatial);
  g.groups = call.integer("groups");
  g.transposed = call.boolean("transposed");
  if (g.groups.is_constant() && g.groups.value() <= 0) refuse(call, "K0215", "groups must be positive");
  for (size_t d = 0; d < spatial; ++d) {
    if (g.stride[d] <= 0 || g.dilation[d] <= 0) refuse(call, "K0215", "stride and dilation must be positive");
    if (g.padding[d] < 0) refuse(call, "K0215", "negative padding is not supported");
  }
  return g;
}

void check_sizes(const OpCall& call, const ConvGeometry& g, const Sizes& input, const Sizes& weight,
                 const RangeEnv& ranges) {
  if (weight.size() != input.size())
    refuse(call, "K0215", str("the weight has ", weight.size(), " dimensions, the input ", input.size()));
  Expr channels = g.transposed ? weight[0] : weight[1] * g.groups;
  if (prove_eq(input[1], channels, ranges) == Proof::no) {
    refuse(call, "K0215",
           str("given groups=", g.groups.text(), " and weight of size [", shape_text(weight),
               "], expected input to have ", channels.text(), " channels, but got ", input[1].text()));
  }
  const Expr& first = weight[0];
  if (prove_eq(mod(first, g.groups), Expr(0), ranges) == Proof::no)
    refuse(call, "K0215", "the weight's first size must be divisible by groups");
}

Sizes result_sizes(const OpCall& call, const ConvGeometry& g, const Sizes& input, const Sizes& weight,
                   const RangeEnv& ranges) {
  check_sizes(call, g, input, weight, ranges);
  Sizes out = {input[0], g.transposed ? weight[1] * g.groups : weight[0]};
  for (size_t d = 0; d < g.spatial(); ++d) {
    out.push_back(simplify(conv_output_size(g, d, input[d + 2], weight[d + 2]), ranges));
    if (out.back().is_constant() && out.back().value() < 0)
      refuse(call, "K0215", "calculated padded input size per channel is smaller than the kernel size");
  }
  return out;
}

DType conv_dtype(const OpCall& call) {
  DType input = call.tensor("input")->type.dtype, weight = call.tensor("weight")->type.dtype;
  refuse_complex(call, input);
  if (input != weight)
    fail_user("K0203",
              str("Input type (", dtype_torch_name(input), ") and weight type (", dtype_torch_name(weight),
                  ") should be the same"),
              call.where());
  if (input == DType::boolean) refuse_dtype(call, input);
  return input;
}

void infer_convolution(InferCall& call) {
  const TensorType &input = call.tensor("input")->type, &weight = call.tensor("weight")->type;
  ConvGeometry g = geometry_of(call);
  Sizes sizes = result_sizes(call, g, input.sizes, weight.sizes, call.ranges());
  bool last = is_channels_last(input.sizes, input.strides) || is_channels_last(weight.sizes, weight.strides);
  Sizes strides = last ? channels_last_strides(sizes) : contiguous_strides(sizes);
  call.results = {strided_type(conv_dtype(call), std::move(sizes), std::move(strides), input.device)};
}

// Collects conditions that must all hold; no_value while there is none.
class Mask {
 public:
  explicit Mask(KernelBuilder& k) : k_(k) {}
  void require(ScalarOp op, const Expr& a, const Expr& b) {
    ValueId condition = k_.op(op, k_.index_value(a), k_.index_value(b));
    all_ = all_ == loops::no_value ? condition : k_.op(ScalarOp::logical_and, all_, condition);
  }
  ValueId value() const { return all_; }

 private:
  KernelBuilder& k_;
  ValueId all_ = loops::no_value;
};

// The places of the kernel along one dimension that meet the input at any position of the output. Under a window that
// is wider than the picture (dilations of 24 and 36 over 16 by 16 points) the outer ones see nothing but padding.
struct KernelPlaces {
  Expr first, count;
  bool before = true, behind = true;  // whether any of them, at any position, lies in the padding there
};

KernelPlaces places_that_meet(const ConvGeometry& g, size_t d, const Expr& input, const Expr& output,
                              const Expr& kernel) {
  KernelPlaces all{Expr(0), kernel, g.padding[d] > 0, g.padding[d] > 0};
  if (g.transposed || !input.is_constant() || !output.is_constant() || !kernel.is_constant()) return all;
  const int64_t reach = (output.value() - 1) * g.stride[d];
  const auto begin = [&](int64_t place) { return place * g.dilation[d] - g.padding[d]; };  // for the first position
  const auto meets = [&](int64_t place) {  // at the first position that is not in front of the input
    const int64_t skipped = std::max<int64_t>(0, (-begin(place) + g.stride[d] - 1) / g.stride[d]);
    return skipped < output.value() && begin(place) + skipped * g.stride[d] < input.value();
  };
  int64_t first = 0, last = kernel.value() - 1;
  while (first < last && !meets(first)) ++first;
  while (last > first && !meets(last)) --last;
  if (last < first) return all;
  return {Expr(first), Expr(last - first + 1), begin(first) < 0, begin(last) + reach >= input.value()};
}

// Where an output position and a place of the kernel read the input, along one dimension.
Expr input_position(const ConvGeometry& g, size_t d, const Expr& out, const Expr& place, const KernelPlaces& places,
                    const Expr& size, Mask& mask) {
  if (!g.transposed) {
    Expr at = out * Expr(g.stride[d]) + place * Expr(g.dilation[d]) - Expr(g.padding[d]);
    if (places.before) mask.require(ScalarOp::ge, at, Expr(0));
    if (places.behind) mask.require(ScalarOp::lt, at, size);
    return at;
  }
  Expr spread = out + Expr(g.padding[d]) - place * Expr(g.dilation[d]);
  Expr at = g.stride[d] == 1 ? spread : floordiv(spread, Expr(g.stride[d]));
  mask.require(ScalarOp::ge, spread, Expr(0));
  if (g.stride[d] != 1) mask.require(ScalarOp::eq, mod(spread, Expr(g.stride[d])), Expr(0));
  mask.require(ScalarOp::lt, at, size);
  return at;
}

void lower_convolution(LowerCall& call) {
  const Sizes &input = call.tensor("input")->type.sizes, &weight = call.tensor("weight")->type.sizes;
  ConvGeometry g = geometry_of(call);
  DType compute = compute_dtype(conv_dtype(call));
  const Value* bias = call.tensor_or_null("bias");
  const Sizes& sizes = call.output_type().sizes;
  const Expr of_weight = simplify(floordiv(weight[0], g.groups), call.ranges());
  const Expr in_per_group = g.transposed ? of_weight : weight[1], out_per_group = g.transposed ? weight[1] : of_weight;
  const bool grouped = !g.groups.is_constant(1);
  Sizes extents = {in_per_group};
  std::vector<KernelPlaces> places;
  for (size_t d = 0; d < g.spatial(); ++d) {
    places.push_back(places_that_meet(g, d, input[d + 2], sizes[d + 2], weight[d + 2]));
    extents.push_back(places.back().count);
  }
  call.kernel([&](KernelBuilder& k) {
    k.parallel(sizes, [&](const Index& i) {
      Expr group = grouped ? floordiv(i[1], out_per_group) : Expr(0);
      ValueId sum = k.reduce_one(ReduceOp::sum, compute, extents, [&](const Index& r) {
        Mask mask(k);
        Index at = {i[0], group * in_per_group + r[0]};
        Index w = g.transposed ? Index{group * in_per_group + r[0], grouped ? mod(i[1], out_per_group) : i[1]}
                               : Index{i[1], r[0]};
        for (size_t d = 0; d < g.spatial(); ++d) {
          w.push_back(places[d].first + r[d + 1]);
          at.push_back(input_position(g, d, i[d + 2], w.back(), places[d], input[d + 2], mask));
        }
        // Masked off loads give 0: they add nothing.
        ValueId x = k.load_compute(call.input("input"), at, mask.value());
        return k.op(ScalarOp::mul, x, k.load_compute(call.input("weight"), w));
      });
      if (bias) sum = k.op(ScalarOp::add, sum, k.as(compute, k.load_compute(call.buffer(bias), {i[1]})));
      k.store(call.output(), i, sum);
    });
  });
}

// ---- Reference: products of unfolded images ----

struct Unfolded {
  std::vector<int64_t> in, out, kernel;  // spatial sizes
  int64_t in_count, out_count, places;
};

Unfolded unfolded(const std::vector<int64_t>& input, const std::vector<int64_t>& weight,
                  const std::vector<int64_t>& result) {
  Unfolded u;
  u.in.assign(input.begin() + 2, input.end());
  u.kernel.assign(weight.begin() + 2, weight.end());
  u.out.assign(result.begin() + 2, result.end());
  u.in_count = count_elements(u.in);
  u.out_count = count_elements(u.out);
  u.places = count_elements(u.kernel);
  return u;
}

// Calls f(place of the kernel, position of the strided side, position of the dense side) for every pair that meets; the
// strided side is the output of a convolution or the input of a transposed one.
template <class F>
void for_each_meeting(const ConvGeometry& g, const std::vector<int64_t>& kernel, const std::vector<int64_t>& strided,
                      const std::vector<int64_t>& dense, F f) {
  if (count_elements(strided) == 0 || count_elements(kernel) == 0) return;
  std::vector<int64_t> place(kernel.size(), 0), at(strided.size(), 0);
  int64_t place_number = 0;
  do {
    int64_t number = 0;
    std::fill(at.begin(), at.end(), 0);
    do {
      int64_t to = 0;
      bool inside = true;
      for (size_t d = 0; d < at.size() && inside; ++d) {
        int64_t position = at[d] * g.stride[d] + place[d] * g.dilation[d] - g.padding[d];
        inside = position >= 0 && position < dense[d];
        to = to * dense[d] + position;
      }
      if (inside) f(place_number, number, to);
      ++number;
    } while (next_index(at, strided));
    ++place_number;
  } while (next_index(place, kernel));
}

template <class T>
std::vector<T> convolve(const ConvGeometry& g, const Tensor& input, const Tensor& weight,
                        const std::vector<int64_t>& result) {
  Unfolded u = unfolded(input.sizes, weight.sizes, result);
  std::vector<T> x = read_dense<T>(input), w = read_dense<T>(weight);
  std::vector<T> out(static_cast<size_t>(count_elements(result)));
  const int64_t groups = g.groups.value();
  int64_t in_channels = input.sizes[1] / groups, out_channels = result[1] / groups;
  std::vector<T> columns(static_cast<size_t>(in_channels * u.places * u.out_count));
  for (int64_t n = 0; n < input.sizes[0]; ++n) {
    for (int64_t group = 0; group < groups; ++group) {
      const T* image = x.data() + (n * groups + group) * in_channels * u.in_count;
      T* to = out.data() + (n * groups + group) * out_channels * u.out_count;
      std::fill(columns.begin(), columns.end(), T{0});
      for_each_meeting(g, u.kernel, u.out, u.in, [&](int64_t place, int64_t at, int64_t from) {
        for (int64_t c = 0; c < in_channels; ++c)
          columns[static_cast<size_t>((c * u.places + place) * u.out_count + at)] = image[c * u.in_count + from];
      });
      accumulate_product(w.data() + group * out_channels * in_channels * u.places, columns.data(), to, out_channels,
                         in_channels * u.places, u.out_count);
    }
  }
  return out;
}

template <class T>
std::vector<T> convolve_transposed(const ConvGeometry& g, const Tensor& input, const Tensor& weight,
                                   const std::vector<int64_t>& result) {
  Unfolded u = unfolded(input.sizes, weight.sizes, result);
  std::vector<T> x = read_dense<T>(input), w = read_dense<T>(weight);
  std::vector<T> out(static_cast<size_t>(count_elements(result)));
  const int64_t groups = g.groups.value();
  int64_t in_channels = input.sizes[1] / groups, out_channels = result[1] / groups;
  for (int64_t n = 0; n < input.sizes[0]; ++n) {
    for (int64_t group = 0; group < groups; ++group) {
      T* to = out.data() + (n * groups + group) * out_channels * u.out_count;
      for_each_meeting(g, u.kernel, u.in, u.out, [&](int64_t place, int64_t from, int64_t at) {
        for (int64_t c = 0; c < in_channels; ++c) {
          T value = x[static_cast<size_t>(((n * groups + group) * in_channels + c) * u.in_count + from)];
          const T* row = w.data() + ((group * in_channels + c) * out_channels) * u.places + place;
          for (int64_t o = 0; o < out_channels; ++o) to[o * u.out_count + at] += value * row[o * u.places];
        }
      });
    }
  }
  return out;
}

template <class T>
void evaluate(ReferenceCall& call, const ConvGeometry& g, const Sizes& sizes) {
  Tensor input = call.tensor("input"), weight = call.tensor("weight");
  std::vector<int64_t> result = to_numbers(sizes);
  auto values = g.transposed ? convolve_transposed<T>(g, input, weight, result) : convolve<T>(g, input, weight, result);
  if (auto bias = call.tensor_or_none("bias")) {
    std::vector<T> add = read_dense<T>(*bias);
    int64_t plane = count_elements({result.begin() + 2, result.end()});
    for (size_t i = 0; i < values.size(); ++i)
      values[i] += add[static_cast<size_t>(static_cast<int64_t>(i) / plane % result[1])];
  }
  bool last = is_channels_last(to_exprs(input.sizes), to_exprs(input.strides)) ||
              is_channels_last(to_exprs(weight.sizes), to_exprs(weight.strides));
  auto strides = last ? to_numbers(channels_last_strides(sizes)) : contiguous_strides(result);
  Tensor out = Tensor::empty_strided(call.result_dtype(), result, strides);
  write_dense(out, values);
  call.results = {Datum{out}};
}

void add_convolution(Registry& r) {
  OpRecord record;
  record.schema_text =
      "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
      "dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor";
  auto schema = std::make_shared<const Schema>(parse_schema(record.schema_text));
  record.infer = infer_convolution;
  record.lower = lower_convolution;
  record.reference = [schema](ReferenceCall& call) {
    OpCall typed(call.node(), *schema);
    ConvGeometry g = geometry_of(typed);
    g.groups = Expr(call.integer("groups"));
    Sizes sizes =
        result_sizes(typed, g, to_exprs(call.tensor("input").sizes), to_exprs(call.tensor("weight").sizes), {});
    if (reference_compute(call, conv_dtype(typed)) == DType::i64)
      evaluate<int64_t>(call, g, sizes);
    else
      evaluate<double>(call, g, sizes);
  };
  Argument::None none;
  auto sample = [&](Sample::TensorSpec x, Sample::TensorSpec w, Sample::SampleArg bias, List stride, List padding,
                    List dilation, bool transposed, List output_padding, int64_t groups, bool refused = false) {
    record.samples.push_back(
        {{x, w, bias, stride, padding, dilation, Scalar(transposed), output_padding, Scalar(groups)}, refused});
  };
  sample(spec({2, 3, 5, 6}), spec({4, 3, 3, 2}), spec({4}), {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1);
  sample(spec({1, 4, 5, 5}), spec({6, 2, 3, 3}), none, {2, 1}, {1, 2}, {1, 2}, false, {0, 0}, 2);
  sample(spec({2, 3, 7}, DType::bf16), spec({2, 3, 3}, DType::bf16), spec({2}, DType::bf16), {2}, {1}, {1}, false, {0},
         1);
  sample(spec({1, 2, 3, 4, 3}), spec({2, 2, 2, 2, 2}), none, {1, 1, 1}, {1, 0, 1}, {1, 1, 1}, false, {0, 0, 0}, 1);
  sample(spec({1, 4, 3, 4}), spec({4, 3, 3, 2}), spec({3}), {2, 1}, {1, 0}, {1, 1}, true, {1, 0}, 1);
  sample(spec({1, 4, 5}), spec({4, 2, 3}), spec({4}), {3}, {1}, {2}, true, {2}, 2);
  sample(spec({0, 3, 5, 5}), spec({2, 3, 3, 3}), none, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1);
  sample(spec({1, 3, 5, 5}), spec({2, 2, 3, 3}), none, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1, true);
  sample(spec({1, 3, 2, 2}), spec({2, 3, 5, 5}), none, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1, true);
  r.add(std::move(record));
}

// ---- conv1d … conv_transpose3d ----

// An input without a batch dimension gets one for the time of the call.
struct Batched {
  Value* input;
  bool added;
};
Batched batched(Build& b, size_t spatial) {
  Value* input = b.call().tensor("input");
  if (input->type.sizes.size() == spatial + 2) return {input, false};
  if (input->type.sizes.size() != spatial + 1)
    refuse(b.call(), "K0215",
           str("expected ", spatial + 1, "D (unbatched) or ", spatial + 2, "D (batched) input, but got ",
               input->type.sizes.size(), "D"));
  return {b("unsqueeze", {input, Scalar(0)}), true};
}

void finish(Build& b, const Batched& batch, Value* out) {
  b.call().result(batch.added ? b("squeeze.dim", {out, Scalar(0)}) : out);
}

Argument bias_of(Build& b) { return b.call().given("bias") ? Argument(b.call().tensor("bias")) : Argument(); }

void build_conv(Build& b, size_t spatial) {
  DecomposeCall& call = b.call();
  Batched batch = batched(b, spatial);
  std::vector<int64_t> zeros(spatial, 0);
  finish(b, batch,
         b("convolution",
           {batch.input, call.tensor("weight"), bias_of(b), list_of(spatial_argument(call, "stride", spatial)),
            list_of(spatial_argument(call, "padding", spatial)), list_of(spatial_argument(call, "dilation", spatial)),
            Scalar(false), list_of(zeros), call.arg("groups")}));
}

// padding = "same": the odd one goes to the end, which only an explicit pad can do.
void build_conv_padding(Build& b, size_t spatial) {
  DecomposeCall& call = b.call();
  Batched batch = batched(b, spatial);
  auto stride = spatial_argument(call, "stride", spatial), dilation = spatial_argument(call, "dilation", spatial);
  std::vector<int64_t> padding(spatial, 0);
  std::string how = call.string("padding");
  if (how != "same" && how != "valid") refuse(call, "K0215", "padding must be 'same' or 'valid'");
  if (how == "same") {
    std::vector<int64_t> extra(2 * spatial, 0);
    bool any = false;
    for (size_t d = 0; d < spatial; ++d) {
      const Expr& kernel = call.tensor("weight")->type.sizes.at(d + 2);
      if (stride[d] != 1) refuse(call, "K0215", "padding='same' is not supported for strided convolutions");
      if (!kernel.is_constant())
        fail_unsupported("K0202", "a convolution with padding='same' needs a kernel of known size", call.where());
      int64_t total = dilation[d] * (kernel.value() - 1);
      padding[d] = total / 2;
      if (total % 2) {
        extra[2 * (spatial - 1 - d) + 1] = 1;
        any = true;
      }
    }
    if (any) batch.input = b("constant_pad_nd", {batch.input, list_of(extra)});
  }
  finish(b, batch,
         b("convolution",
           {batch.input, call.tensor("weight"), bias_of(b), list_of(stride), list_of(padding), list_of(dilation),
            Scalar(false), list_of(std::vector<int64_t>(spatial, 0)), call.arg("groups")}));
}

void build_conv_transpose(Build& b, size_t spatial) {
  DecomposeCall& call = b.call();
  Batched batch = batched(b, spatial);
  finish(b, batch,
         b("convolution",
           {batch.input, call.tensor("weight"), bias_of(b), list_of(spatial_argument(call, "stride", spatial)),
            list_of(spatial_argument(call, "padding", spatial)), list_of(spatial_argument(call, "dilation", spatial)),
            Scalar(true), list_of(spatial_argument(call, "output_padding", spatial)), call.arg("groups")}));
}

}  // namespace

void register_convolution(Registry& r) {
  add_convolution(r);
  std::vector<std::vector<int64_t>> images = {{2, 3, 7}, {2, 3, 6, 5}, {1, 3, 4, 5, 4}};
  for (size_t spatial = 1; spatial <= 3; ++spatial) {
    std::string n = std::to_string(spatial);
    std::vector<int64_t> image = images[spatial - 1], kernel = {4, 3}, back = {3, 4},
                         single(image.begin() + 1, image.end());
    kernel.resize(spatial + 2, 3);
    back.resize(spatial + 2, 2);
    List ones(spatial, 1);
    add_composite(r, {.schema = str("conv", n, "d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[", n,
                                    "] stride=1, SymInt[", n, "] padding=0, SymInt[", n,
                                    "] dilation=1, SymInt groups=1) -> Tensor"),
                      .build = [spatial](Build& b) { build_conv(b, spatial); },
                      .samples = {{{spec(image), spec(kernel), spec({4})}},
                                  {{spec(single), spec(kernel)}},
                                  {{spec(image), spec(kernel), Argument::None{}, List(spatial, 2), ones}},
                                  {{spec({3}), spec(kernel)}, true}}});
    add_composite(r, {.schema = str("conv", n, "d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[", n,
                                    "] stride=1, str "
                                    "padding=\"valid\", SymInt[",
                                    n, "] dilation=1, SymInt groups=1) -> Tensor"),
                      .build = [spatial](Build& b) { build_conv_padding(b, spatial); },
                      .samples = {{{spec(image), spec(kernel), spec({4}), ones, std::string("same")}},
                                  {{spec(image), spec(kernel)}},
                                  {{spec(image), spec(kernel), Argument::None{}, ones, std::string("full")}, true}}});
    add_composite(r, {.schema = str("conv_transpose", n, "d", spatial == 1 ? "" : ".input",
                                    "(Tensor input, Tensor weight, Tensor? bias=None, SymInt[", n,
                                    "] stride=1, SymInt[", n, "] padding=0, SymInt[", n,
                                    "] output_padding=0, SymInt groups=1, SymInt[", n, "] dilation=1) -> Tensor"),
                      .build = [spatial](Build& b) { build_conv_transpose(b, spatial); },
                      .samples = {{{spec(image), spec(back), spec({4})}},
                                  {{spec(image), spec(back), Argument::None{}, List(spatial, 2), ones, ones}}}});
  }
  r.describe({"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"},
             complex_product({"input", "weight", "bias"}));
  r.describe({"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"},
             autocast_to(AutocastRule::lower));
  r.describe({"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"},
             {.rounds_factors = true, .convolves = true});
}

}  // namespace kiln
