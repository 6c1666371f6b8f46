// Pooling: each element of the result looks at a window of the input. Windows of fixed size (max_pool, avg_pool) and
// those that divide the input evenly (adaptive) differ in where they start and how long they are.
#include <cmath>
#include <limits>

#include "ops/convolution.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

using loops::KernelBuilder;
using loops::ReduceOp;
using List = std::vector<int64_t>;
using Index = std::vector<Expr>;

enum class Pool : uint8_t { max, max_with_index, average };

struct PoolRow {
  std::string schema;
  size_t spatial = 1;
  Pool pool = Pool::max;
  bool adaptive = false;
  std::vector<Sample> samples = {};
};

// Windows along one dimension. Adaptive ones have no kernel: they run from floor(o * in / out) to ceil((o + 1) * in /
// out).
struct Axis {
  bool adaptive = false;
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool ceil_mode = false;
  Expr input, output;

  // What an adaptive pool divides by: an output without elements has no window, yet its formulas must have a value.
  Expr parts() const { return max_expr(output, Expr(1)); }
  Expr places() const { return adaptive ? ceildiv(input, parts()) + Expr(1) : Expr(kernel); }
  Expr start(const Expr& o) const { return adaptive ? floordiv(o * input, parts()) : o * Expr(stride) - Expr(padding); }
  Expr end(const Expr& o) const {  // of an adaptive window
    return ceildiv((o + Expr(1)) * input, parts());
  }
  bool divides() const {
    return adaptive && input.is_constant() && output.is_constant() && input.value() % parts().value() == 0;
  }
  bool may_leave() const { return !adaptive && (padding > 0 || ceil_mode); }
};

Expr pooled_size(const Axis& axis, const RangeEnv& ranges) {
  Expr reach = Expr(axis.dilation * (axis.kernel - 1) + 1);
  Expr room = axis.input + Expr(2 * axis.padding) - reach + Expr(axis.ceil_mode ? axis.stride - 1 : 0);
  Expr out = floordiv(room, Expr(axis.stride)) + Expr(1);
  // The last window must start inside the input or its left padding.
  if (axis.ceil_mode) {
    Expr beyond = compare_le(axis.input + Expr(axis.padding), (out - Expr(1)) * Expr(axis.stride));
    Proof proof = prove(beyond, ranges);
    if (proof == Proof::yes) out = out - Expr(1);
    if (proof == Proof::unknown) out = Expr::make(ExprOp::ite, {beyond, out - Expr(1), out});
  }
  return simplify(out, ranges);
}

// `concrete`: the output sizes of an adaptive pool, where they are known as numbers.
std::vector<Axis> axes_of(const OpCall& call, const PoolRow& row, const Sizes& sizes, const RangeEnv& ranges,
                          std::optional<Sizes> concrete = std::nullopt) {
  if (sizes.size() != row.spatial + 1 && sizes.size() != row.spatial + 2)
    refuse(call, "K0219",
           str("expected an input with ", row.spatial + 1, " or ", row.spatial + 2, " dimensions, not ", sizes.size()));
  std::vector<Axis> axes(row.spatial);
  size_t lead = sizes.size() - row.spatial;
  if (row.adaptive) {
    Sizes wanted = concrete ? *concrete : call.integers("output_size");
    if (wanted.size() == 1) wanted.resize(row.spatial, wanted[0]);
    if (wanted.size() != row.spatial) refuse(call, "K0219", "output_size has the wrong number of values");
    for (size_t d = 0; d < row.spatial; ++d) {
      axes[d].adaptive = true;
      axes[d].input = sizes[lead + d];
      axes[d].output = wanted[d];
    }
    return axes;
  }
  auto kernel = spatial_argument(call, "kernel_size", row.spatial);
  auto stride = call.constant_integers("stride").empty() ? kernel : spatial_argument(call, "stride", row.spatial);
  auto padding = spatial_argument(call, "padding", row.spatial);
  std::vector<int64_t> dilation(row.spatial, 1);
  if (call.schema().find("dilation") >= 0) dilation = spatial_argument(call, "dilation", row.spatial);
  for (size_t d = 0; d < row.spatial; ++d) {
    Axis& axis = axes[d];
    axis.kernel = kernel[d];
    axis.stride = stride[d];
    axis.padding = padding[d];
    axis.dilation = dilation[d];
    axis.ceil_mode = call.boolean("ceil_mode");
    axis.input = sizes[lead + d];
    if (axis.kernel <= 0 || axis.stride <= 0 || axis.dilation <= 0)
      refuse(call, "K0219", "kernel size, stride and dilation must be positive");
    if (axis.padding < 0 || axis.padding > axis.kernel / 2)
      refuse(call, "K0219", "pad should be at most half of effective kernel size");
    axis.output = pooled_size(axis, ranges);
    if (axis.output.is_constant() && axis.output.value() <= 0) refuse(call, "K0219", "the output would be empty");
  }
  return axes;
}

Sizes result_sizes(const Sizes& input, const std::vector<Axis>& axes) {
  Sizes out(input.begin(), input.end() - static_cast<std::ptrdiff_t>(axes.size()));
  for (const Axis& axis : axes) out.push_back(axis.output);
  return out;
}

void infer_pool(InferCall& call, const PoolRow& row) {
  const TensorType& self = call.tensor("self")->type;
  refuse_complex(call, self.dtype);
  const bool whole = self.dtype == DType::i64 && !row.adaptive;
  if (self.dtype == DType::boolean || (row.pool == Pool::average && !is_float(self.dtype) && !whole))
    refuse_dtype(call, self.dtype);
  Sizes sizes = result_sizes(self.sizes, axes_of(call, row, self.sizes, call.ranges()));
  bool last = is_channels_last(self.sizes, self.strides);
  Sizes strides = last ? channels_last_strides(sizes) : contiguous_strides(sizes);
  call.results = {strided_type(self.dtype, sizes, strides, self.device)};
  if (row.pool == Pool::max_with_index) call.results.push_back(strided_type(DType::i64, sizes, strides, self.device));
}

ValueId both(KernelBuilder& k, ValueId a, ValueId b) {
  return a == loops::no_value ? b : k.op(ScalarOp::logical_and, a, b);
}

// The index into self for a place of the window, and whether it is one.
struct Place {
  Index at;
  ValueId inside = loops::no_value;
};
Place place_of(KernelBuilder& k, const std::vector<Axis>& axes, const Index& i, const Index& r) {
  Place out;
  size_t lead = i.size() - axes.size();
  out.at.assign(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(lead));
  for (size_t d = 0; d < axes.size(); ++d) {
    const Axis& axis = axes[d];
    Expr position = axis.start(i[lead + d]) + r[d] * Expr(axis.dilation);
    if (axis.may_leave()) {
      out.inside = both(k, out.inside, k.op(ScalarOp::ge, k.index_value(position), k.index_value(Expr(0))));
      out.inside = both(k, out.inside, k.op(ScalarOp::lt, k.index_value(position), k.index_value(axis.input)));
    } else if (axis.adaptive && !axis.divides()) {
      out.inside =
          both(k, out.inside, k.op(ScalarOp::lt, k.index_value(position), k.index_value(axis.end(i[lead + d]))));
    }
    out.at.push_back(position);
  }
  return out;
}

Sizes window(const std::vector<Axis>& axes) {
  Sizes out;
  for (const Axis& axis : axes) out.push_back(axis.divides() ? floordiv(axis.input, axis.parts()) : axis.places());
  return out;
}

Scalar lowest(DType dtype) { return is_float(dtype) ? Scalar(-INFINITY) : Scalar(integers_of(dtype).lowest); }

// The flat position in the input's spatial dimensions.
Expr flat_place(const std::vector<Axis>& axes, const std::function<Expr(size_t)>& position) {
  Expr flat(0);
  for (size_t d = 0; d < axes.size(); ++d) flat = flat * axes[d].input + position(d);
  return flat;
}

// Where the place that won is: of several that are as high the first, of several NaN the last. One number says which
// goes before which: the position of a NaN, of what is as high as the best -1 less its position, and of all others the
// lowest.
ValueId winner(LowerCall& call, KernelBuilder& k, const std::vector<Axis>& axes, const Index& i, const Sizes& extents,
               ValueId best, const std::function<ValueId(const Index&)>& element) {
  const size_t lead = i.size() - axes.size();
  const Expr count = flat_place(axes, [&](size_t d) { return axes[d].input; });
  const bool narrow = prove_lt(count, Expr(int64_t{1} << 31), call.ranges()) == Proof::yes;  // twice as many lanes
  const DType dtype = narrow ? DType::i32 : DType::i64;
  const ValueId lowest = k.constant(dtype, Scalar(integers_of(dtype).lowest));
  ValueId rank = k.reduce_one(ReduceOp::max, dtype, extents, [&](const Index& r) {
    Place place = place_of(k, axes, i, r);
    const ValueId x = element(r);
    const Expr flat = flat_place(axes, [&](size_t d) { return place.at[lead + d]; });
    const ValueId equal = both(k, place.inside, k.op(ScalarOp::eq, x, best));
    const ValueId ranked = k.select(equal, k.index_value(Expr(-1) - flat, dtype), lowest);
    return is_float(k.type(x)) ? k.select(k.op(ScalarOp::is_nan, x), k.index_value(flat, dtype), ranked) : ranked;
  });
  // A window may have no place in the input at all: then the first behind the padding.
  const Expr first = flat_place(axes, [&](size_t d) {
    return max_expr(axes[d].start(i[lead + d]), mod(axes[d].start(i[lead + d]), Expr(axes[d].dilation)));
  });
  const ValueId zero = k.constant(dtype, Scalar(int64_t{0})), last = k.constant(dtype, Scalar(int64_t{-1}));
  const ValueId found = k.select(k.op(ScalarOp::lt, rank, zero), k.op(ScalarOp::sub, last, rank), rank);
  return k.as(DType::i64, k.select(k.op(ScalarOp::eq, rank, lowest), k.index_value(first, dtype), found));
}

void lower_max(LowerCall& call, const PoolRow& row, const std::vector<Axis>& axes) {
  DType dtype = call.tensor("self")->type.dtype, compute = compute_dtype(dtype);
  Sizes extents = window(axes);
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const Index& i) {
      auto element = [&](const Index& r) {
        Place place = place_of(k, axes, i, r);
        ValueId x = k.load_compute(call.input("self"), place.at, place.inside);
        return place.inside == loops::no_value ? x : k.select(place.inside, x, k.constant(compute, lowest(compute)));
      };
      const ValueId best = k.reduce_one(ReduceOp::max, compute, extents, element);
      k.store(call.output(0), i, best);
      if (row.pool == Pool::max_with_index)
        k.store(call.output(1), i, winner(call, k, axes, i, extents, best, element));
    });
  });
}

// What a sum is divided by.
Expr divisor(const OpCall& call, const PoolRow& row, const std::vector<Axis>& axes, const Index& i) {
  if (!row.adaptive && call.schema().find("divisor_override") >= 0 && call.given("divisor_override"))
    return call.integer("divisor_override");
  size_t lead = i.size() - axes.size();
  Expr count(1);
  for (size_t d = 0; d < axes.size(); ++d) {
    const Axis& axis = axes[d];
    Expr start = axis.start(i[lead + d]);
    if (axis.adaptive) {
      count = count * (axis.divides() ? floordiv(axis.input, axis.parts()) : axis.end(i[lead + d]) - start);
    } else if (!axis.may_leave()) {
      count = count * Expr(axis.kernel);
    } else {
      Expr end = min_expr(start + Expr(axis.kernel), axis.input + Expr(axis.padding));
      if (!call.boolean("count_include_pad")) {
        start = max_expr(start, Expr(0));
        end = min_expr(end, axis.input);
      }
      count = count * (end - start);
    }
  }
  return count;
}

void lower_average(LowerCall& call, const PoolRow& row, const std::vector<Axis>& axes) {
  DType compute = compute_dtype(call.tensor("self")->type.dtype);
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const Index& i) {
      ValueId sum = k.reduce_one(ReduceOp::sum, compute, window(axes), [&](const Index& r) {
        Place place = place_of(k, axes, i, r);
        return k.load_compute(call.input("self"), place.at, place.inside);
      });
      k.store(call.output(), i, k.op(ScalarOp::div, sum, k.index_value(divisor(call, row, axes, i), compute)));
    });
  });
}

// ---- Reference ----

struct Span {
  int64_t begin, end, step,
      full;  // positions begin, begin + step, … < end that exist; full: the window with its padding
};

Span span_of(const Axis& axis, int64_t o) {
  int64_t in = axis.input.value();
  if (axis.adaptive) {
    int64_t out = axis.output.value(), begin = o * in / out, end = ((o + 1) * in + out - 1) / out;
    return {begin, end, 1, end - begin};
  }
  int64_t begin = o * axis.stride - axis.padding, end = begin + (axis.kernel - 1) * axis.dilation + 1;
  int64_t full = std::min(begin + axis.kernel, in + axis.padding) - begin;
  while (begin < 0) begin += axis.dilation;
  return {begin, std::min(end, in), axis.dilation, full};
}

template <class T>
void reference_pool_of(ReferenceCall& call, const PoolRow& row, const Schema& schema) {
  OpCall typed(call.node(), schema);
  Tensor self = call.tensor("self");
  std::optional<Sizes> wanted;
  if (row.adaptive) wanted = to_exprs(call.integers("output_size"));
  std::vector<Axis> axes = axes_of(typed, row, to_exprs(self.sizes), RangeEnv{}, wanted);
  std::vector<int64_t> sizes = to_numbers(result_sizes(to_exprs(self.sizes), axes)), windows;
  bool last = is_channels_last(to_exprs(self.sizes), to_exprs(self.strides));
  auto strides = last ? to_numbers(channels_last_strides(to_exprs(sizes))) : contiguous_strides(sizes);
  Tensor result = Tensor::empty_strided(call.result_dtype(), sizes, strides);  // first: sizes may be absurd
  size_t lead = sizes.size() - axes.size();
  int64_t plane = 1;
  for (const Axis& axis : axes) {
    plane *= axis.input.value();
    windows.push_back(axis.output.value());
  }
  std::vector<T> x = read_dense<T>(self), out;
  std::vector<int64_t> indices;
  for (int64_t image = 0, images = count_elements({sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(lead)});
       image < images; ++image) {
    std::vector<int64_t> o(axes.size(), 0);
    if (count_elements(windows) == 0) break;
    do {
      std::vector<Span> spans;
      std::vector<int64_t> counts, at(axes.size(), 0);
      int64_t full = 1, valid = 1;
      for (size_t d = 0; d < axes.size(); ++d) {
        spans.push_back(span_of(axes[d], o[d]));
        counts.push_back(std::max<int64_t>((spans[d].end - spans[d].begin + spans[d].step - 1) / spans[d].step, 0));
        full *= spans[d].full;
        valid *= counts[d];
      }
      using Limits = std::numeric_limits<T>;
      T best = Limits::has_infinity ? -Limits::infinity() : Limits::lowest(), sum = 0;
      int64_t best_at = -1;
      if (valid > 0) {
        do {
          int64_t flat = 0;
          for (size_t d = 0; d < axes.size(); ++d)
            flat = flat * axes[d].input.value() + spans[d].begin + at[d] * spans[d].step;
          T value = x[static_cast<size_t>(image * plane + flat)];
          if (best_at < 0 || value > best || value != value) {  // of several NaN the last
            best = value;
            best_at = flat;
          }
          sum += value;
        } while (next_index(at, counts));
      }
      if (row.pool != Pool::average) {
        out.push_back(best);
        indices.push_back(best_at);
      } else {
        bool overridden = !row.adaptive && schema.find("divisor_override") >= 0 && call.given("divisor_override");
        bool padded = !row.adaptive && call.boolean("count_include_pad");
        int64_t by = overridden ? call.integer("divisor_override") : padded ? full : valid;
        out.push_back(sum / static_cast<T>(by));
      }
    } while (next_index(o, windows));
  }
  write_dense(result, out);
  call.results = {Datum{result}};
  if (row.pool != Pool::max_with_index) return;
  Tensor where = Tensor::empty_strided(DType::i64, sizes, strides);
  write_dense(where, indices);
  call.results.push_back(Datum{where});
}

void reference_pool(ReferenceCall& call, const PoolRow& row, const Schema& schema) {
  if (reference_compute(call, nominal_argument_dtype(call, "self")) == DType::i64)
    reference_pool_of<int64_t>(call, row, schema);
  else
    reference_pool_of<double>(call, row, schema);
}

void add_pool(Registry& r, PoolRow row) {
  auto shared = std::make_shared<const PoolRow>(std::move(row));
  auto schema = std::make_shared<const Schema>(parse_schema(shared->schema));
  OpRecord record;
  record.schema_text = shared->schema;
  record.samples = shared->samples;
  record.infer = [shared](InferCall& call) { infer_pool(call, *shared); };
  record.lower = [shared](LowerCall& call) {
    auto axes = axes_of(call, *shared, call.tensor("self")->type.sizes, call.ranges());
    if (shared->pool == Pool::average)
      lower_average(call, *shared, axes);
    else
      lower_max(call, *shared, axes);
  };
  record.reference = [shared, schema](ReferenceCall& call) { reference_pool(call, *shared, *schema); };
  add_needs(record, [shared](const OpCall& call, const NeedArgs& args) {
    const Sizes self = args.sizes("self");
    // Only the average of fewer than three dimensions, computed as a mean, takes no channels.
    const bool channels = !(shared->adaptive && shared->pool == Pool::average && shared->spatial < 3);
    const size_t batch = self.size() - shared->spatial - 1;
    std::vector<SizeNeed> needs = elements_from(op_short_name(call.schema().name), self, batch + (channels ? 0 : 1));
    return needs;
  });
  r.add(std::move(record));
}

void register_for(Registry& r, size_t spatial) {
  std::string n = std::to_string(spatial);
  std::vector<int64_t> image = {2, 3, 7, 6, 5}, single;
  image.resize(spatial + 2);
  single.assign(image.begin() + 1, image.end());
  List three(spatial, 3), two(spatial, 2), one(spatial, 1);
  std::string sizes = str("int[", n, "] kernel_size, int[", n, "] stride=[], int[", n, "] padding=0");
  std::vector<Sample> max = {{{spec(image), three}},
                             {{spec(single), three, two, one}},
                             {{spec(image), two, two, List(spatial, 0), one, Scalar(true)}},
                             {{spec(image), two, one, one, two}},
                             {{spec(image, DType::bf16), two}},
                             {{spec({3}), two}, true},
                             {{spec(image), two, two, two}, true}};
  std::string tail = str(sizes, ", int[", n, "] dilation=1, bool ceil_mode=False) -> ");
  add_pool(r, {str("max_pool", n, "d(Tensor self, ", tail, "Tensor"), spatial, Pool::max, false, max});
  add_pool(r, {str("max_pool", n, "d_with_indices(Tensor self, ", tail, "(Tensor, Tensor)"), spatial,
               Pool::max_with_index, false, max});
  std::vector<Sample> average = {{{spec(image), three}},
                                 {{spec(single), three, two, one}},
                                 {{spec(image), three, two, one, Scalar(true)}},
                                 {{spec(image), three, two, one, Scalar(true), Scalar(false)}},
                                 {{spec(image, DType::i64, -9, 9), two}},
                                 {{spec(image, DType::i32), two}, true}};
  std::string override_text = spatial == 1 ? "" : ", int? divisor_override=None";
  if (spatial > 1) average.push_back({{spec(image), three, two, one, Scalar(false), Scalar(true), Scalar(5)}});
  add_pool(r, {str("avg_pool", n, "d(Tensor self, ", sizes, ", bool ceil_mode=False, bool count_include_pad=True",
                   override_text, ") -> Tensor"),
               spatial, Pool::average, false, average});
  std::vector<Sample> adaptive = {
      {{spec(image), one}}, {{spec(single), two}}, {{spec(image), three}}, {{spec({3}), one}, true}};
  add_pool(r, {str("adaptive_avg_pool", n, "d(Tensor self, SymInt[", n, "] output_size) -> Tensor"), spatial,
               Pool::average, true, adaptive});
  if (spatial > 1)
    add_pool(r, {str("_adaptive_avg_pool", n, "d(Tensor self, SymInt[", n, "] output_size) -> Tensor"), spatial,
                 Pool::average, true, adaptive});
  add_pool(r, {str("adaptive_max_pool", n, "d(Tensor self, int[", n, "] output_size) -> (Tensor, Tensor)"), spatial,
               Pool::max_with_index, true, adaptive});
}

}  // namespace

void register_pooling(Registry& registry) {
  for (size_t spatial : {size_t{1}, size_t{2}, size_t{3}}) register_for(registry, spatial);
  registry.describe({"adaptive_avg_pool3d", "adaptive_max_pool3d", "avg_pool3d", "max_pool3d"},
                    autocast_to(AutocastRule::single));
}

}  // namespace kiln
