// Interpolation: along each spatial dimension the result is a weighted sum of a few neighbours ("taps") of a source
// position: one for nearest, two for linear, four for cubic.
#include <cmath>

#include "loops/estimate.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/layout.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

using loops::KernelBuilder;
using List = std::vector<int64_t>;
using Index = std::vector<Expr>;

enum class Kernel : uint8_t { nearest, nearest_exact, linear, cubic };

struct UpsampleRow {
  std::string schema;
  Kernel kernel = Kernel::nearest;
  size_t spatial = 1;
  bool vec = false;  // sizes or scale factors as lists
  std::vector<Sample> samples = {};
};

const char* input_name(const UpsampleRow& row) { return row.vec ? "input" : "self"; }

// The scale factor that was given for a dimension, or nothing.
std::optional<double> given_scale(const OpCall& call, const UpsampleRow& row, size_t d) {
  auto number = [&](const Argument& arg) -> std::optional<double> {
    if (arg.is_none()) return std::nullopt;
    if (arg.is_scalar()) return arg.as_scalar().as_double();
    fail_unsupported("K0202", str(call.schema().name, ": scale factors must be constants"), call.where());
  };
  if (row.vec) {
    const Argument& list = call.arg("scale_factors");
    return list.is_none() ? std::nullopt : number(list.as_list().at(d));
  }
  static const char* const names[3][3] = {{"scales"}, {"scales_h", "scales_w"}, {"scales_d", "scales_h", "scales_w"}};
  return number(call.arg(names[row.spatial - 1][d]));
}

// The factor that places are computed with. For pictures eager does without where they keep their size or double it,
// whatever factor was given: 1.3 makes 3 of 3 lines, each of which is the line itself.
std::optional<double> used_scale(const OpCall& call, const UpsampleRow& row, size_t d, const Expr& in,
                                 const Expr& out) {
  const bool plain = row.kernel == Kernel::nearest && row.spatial == 2 && (out == in || out == in * Expr(2));
  return plain ? std::nullopt : given_scale(call, row, d);
}

Sizes output_sizes(const OpCall& call, const UpsampleRow& row, const Sizes& input,
                   const std::function<Sizes(std::string_view)>& numbers) {
  if (input.size() != row.spatial + 2)
    fail_user("K0201", str(call.schema().name, ": expected ", row.spatial + 2, " dimensions, not ", input.size()),
              call.where());
  Sizes out = {input[0], input[1]};
  bool sized = !call.arg("output_size").is_none();
  Sizes wanted = sized ? numbers("output_size") : Sizes{};
  if (sized && wanted.size() != row.spatial)
    fail_user("K0201", str(call.schema().name, ": output_size has the wrong number of values"), call.where());
  for (size_t d = 0; d < row.spatial; ++d) {
    if (sized) {
      out.push_back(wanted[d]);
      continue;
    }
    auto scale = given_scale(call, row, d);
    if (!scale) fail_user("K0201", str(call.schema().name, ": needs output_size or scale_factors"), call.where());
    const Expr& size = input[d + 2];
    if (size.is_constant()) {
      out.push_back(Expr(static_cast<int64_t>(std::floor(static_cast<double>(size.value()) * *scale))));
    } else if (std::floor(*scale) == *scale) {
      out.push_back(size * Expr(static_cast<int64_t>(*scale)));
    } else {
      Expr scaled = Expr::make(ExprOp::mul, {Expr::make(ExprOp::to_float, {size}), Expr::float_constant(*scale)});
      out.push_back(Expr::make(ExprOp::floor_to_int, {scaled}));
    }
  }
  return out;
}

// How many times as large, where that is a whole number whatever the sizes are.
std::optional<int64_t> whole_factor(const Expr& in, const Expr& out) {
  if (in.is_constant(0)) return {};
  const Expr factor = floordiv(out, in);
  if (!factor.is_constant() || factor.value() < 1 || !(factor * in == out)) return {};
  return factor.value();
}

bool align_corners(const OpCall& call) {
  return call.schema().find("align_corners") >= 0 && call.boolean("align_corners");
}

void infer_upsample(InferCall& call, const UpsampleRow& row) {
  const TensorType& input = call.tensor(input_name(row))->type;
  refuse_complex(call, input.dtype);
  if (!is_float(input.dtype) && !(input.dtype == DType::u8)) refuse_dtype(call, input.dtype);
  Sizes sizes = output_sizes(call, row, input.sizes, [&](std::string_view name) { return call.integers(name); });
  bool last = is_channels_last(input.sizes, input.strides);
  Sizes strides = last ? channels_last_strides(sizes) : contiguous_strides(sizes);
  call.results = {strided_type(input.dtype, std::move(sizes), std::move(strides), input.device)};
}

// ---- Weights ----

struct Neighbour {
  int64_t at;
  double weight;
};

// T: the type in which eager computes source positions.
template <class T>
std::vector<Neighbour> neighbours(Kernel kernel, int64_t o, int64_t in, int64_t out, std::optional<double> given,
                                  bool align) {
  T scale = given && *given > 0 ? static_cast<T>(1.0 / *given) : static_cast<T>(in) / static_cast<T>(out);
  auto inside = [&](int64_t at) { return std::min(std::max<int64_t>(at, 0), in - 1); };
  T half = static_cast<T>(0.5);
  if (kernel == Kernel::linear && in == out) return {{o, 1}, {o, 0}};
  if (kernel == Kernel::nearest) return {{inside(static_cast<int64_t>(std::floor(static_cast<T>(o) * scale))), 1}};
  if (kernel == Kernel::nearest_exact)
    return {{inside(static_cast<int64_t>(std::floor((static_cast<T>(o) + half) * scale))), 1}};
  T source = align ? (out > 1 ? static_cast<T>(o) * (static_cast<T>(in - 1) / static_cast<T>(out - 1)) : T{0})
                   : scale * (static_cast<T>(o) + half) - half;
  if (kernel == Kernel::linear) {
    source = std::max(source, T{0});
    int64_t low = static_cast<int64_t>(source);
    T far = std::min(std::max(source - static_cast<T>(low), T{0}), T{1});
    return {{inside(low), static_cast<double>(1 - far)}, {inside(low + 1), static_cast<double>(far)}};
  }
  int64_t low = static_cast<int64_t>(std::floor(source));
  double t = static_cast<double>(source) - static_cast<double>(low), a = -0.75;
  auto near = [&](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  auto far = [&](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {{inside(low - 1), far(t + 1)},
          {inside(low), near(t)},
          {inside(low + 1), near(1 - t)},
          {inside(low + 2), far(2 - t)}};
}

// Eager interpolates images of bytes with whole weights: scaled by the largest power of two that keeps them below 2^15,
// one direction after the other (columns first), each rounded to bytes.
bool whole_weights(const UpsampleRow& row, DType dtype) {
  return dtype == DType::u8 && row.spatial == 2 && (row.kernel == Kernel::linear || row.kernel == Kernel::cubic);
}
double weight_scale(Kernel kernel, int64_t in, int64_t out, std::optional<double> given, bool align) {
  double largest = 0;
  for (int64_t o = 0; o < out; ++o) {
    std::map<int64_t, double> sums;  // at the border several neighbours are one element
    for (const Neighbour& n : neighbours<double>(kernel, o, in, out, given, align)) sums[n.at] += n.weight;
    for (auto [at, weight] : sums) largest = std::max(largest, weight);
  }
  double scale = 1;
  for (int bits = 0; bits < 22 && 0.5 + largest * scale * 2 < 32768; ++bits) scale *= 2;
  return scale;
}
double whole_weight(double weight, double scale) { return std::trunc(weight * scale + (weight < 0 ? -0.5 : 0.5)); }

// ---- Lowering ----

struct Tap {
  Expr at;
  ValueId weight = loops::no_value;  // no_value: 1
};

class ScaleTaps {
 public:
  ScaleTaps(LowerCall& call, KernelBuilder& k, const UpsampleRow& row, DType compute, int site)
      : call_(call), k_(k), row_(row), site_(site) {
    whole_ = whole_weights(row, call.tensor(input_name(row))->type.dtype);
    real_ = compute == DType::f64 || whole_ ? DType::f64 : DType::f32;
  }

  std::vector<Tap> along(size_t d, const Expr& o, const Expr& in, const Expr& out) {
    if (row_.kernel == Kernel::nearest || row_.kernel == Kernel::nearest_exact) {
      if (in == out && !used_scale(call_, row_, d, in, out)) return {{o}};
      return {nearest(d, o, in, out)};
    }
    if (in == out && row_.kernel == Kernel::linear) {
      if (whole_) return {{o}};
      return {{o}, {o, number(0)}};  // its neighbour is the element itself, which shows where that is infinite
    }
    auto taps = row_.kernel == Kernel::linear ? linear(d, o, in, out) : cubic(source(d, o, in, out, false), in);
    if (whole_)
      for (Tap& tap : taps) tap.weight = whole(tap.weight, scale_of(d, in, out));
    return taps;
  }
  // The factor of whole weights; 0: they are fractions. Sizes that are not known take the factor of enlarging.
  double scale_of(size_t d, const Expr& in, const Expr& out) {
    if (!whole_) return 0;
    if (!in.is_constant() || !out.is_constant()) return 16384;
    return weight_scale(row_.kernel, in.value(), out.value(), given_scale(call_, row_, d), align_corners(call_));
  }

 private:
  ValueId number(double v) { return k_.constant(real_, Scalar(v)); }
  ValueId real(const Expr& e) { return k_.as(real_, k_.index_value(e)); }
  ValueId op(ScalarOp o, ValueId a, ValueId b) { return k_.op(o, a, b); }
  ValueId whole(ValueId weight, double scale) {
    ValueId scaled = op(ScalarOp::mul, weight, number(scale));
    ValueId half = k_.select(op(ScalarOp::lt, weight, number(0)), number(-0.5), number(0.5));
    return k_.op(ScalarOp::trunc, op(ScalarOp::add, scaled, half));
  }

  // Input elements per output element.
  ValueId scale(size_t d, const Expr& in, const Expr& out) {
    auto given = used_scale(call_, row_, d, in, out);
    if (!given || *given <= 0) return op(ScalarOp::div, real(in), real(out));
    const ValueId step = number(1.0 / *given);
    if (row_.kernel != Kernel::linear || *given == 1 || !may_be_equal(in, out)) return step;
    return k_.select(equal(in, out), number(1), step);
  }

  Expr index(ValueId position, const Expr& in) {
    ValueId last = k_.index_value(in - Expr(1)), zero = k_.index_value(Expr(0));
    ValueId whole = k_.as(DType::i64, position);
    return k_.check_index(op(ScalarOp::min, op(ScalarOp::max, whole, zero), last), in, site_);
  }

  Tap nearest(size_t d, const Expr& o, const Expr& in, const Expr& out) {
    // A whole factor needs no floats: o / factor, and as much for its middle.
    const std::optional<double> given = used_scale(call_, row_, d, in, out);
    const std::optional<int64_t> factor = whole_factor(in, out);
    if (factor && (!given || *given == static_cast<double>(*factor))) return {floordiv(o, Expr(*factor))};
    ValueId place = real(o);
    if (row_.kernel == Kernel::nearest_exact) place = op(ScalarOp::add, place, number(0.5));
    return {index(k_.op(ScalarOp::floor, op(ScalarOp::mul, place, scale(d, in, out))), in)};
  }

  ValueId source(size_t d, const Expr& o, const Expr& in, const Expr& out, bool clamps) {
    if (align_corners(call_)) {
      if (is_one(out)) return number(0);
      ValueId step = op(ScalarOp::div, real(in - Expr(1)), real(out - Expr(1)));
      return op(ScalarOp::mul, real(o), step);
    }
    ValueId middle = op(ScalarOp::add, real(o), number(0.5));
    ValueId at = op(ScalarOp::sub, op(ScalarOp::mul, scale(d, in, out), middle), number(0.5));
    return clamps ? op(ScalarOp::max, at, number(0)) : at;
  }

  std::vector<Tap> linear(size_t d, const Expr& o, const Expr& in, const Expr& out) {
    ValueId at = source(d, o, in, out, true), low = k_.op(ScalarOp::floor, at);
    ValueId far = op(ScalarOp::min, op(ScalarOp::max, op(ScalarOp::sub, at, low), number(0)), number(1));
    ValueId step = may_be_equal(in, out) ? k_.select(equal(in, out), number(0), number(1)) : number(1);
    return {{index(low, in), op(ScalarOp::sub, number(1), far)}, {index(op(ScalarOp::add, low, step), in), far}};
  }

  // Linear interpolation to the same size is a copy, whatever factor was given.
  bool may_be_equal(const Expr& in, const Expr& out) const {
    return prove(compare_eq(in, out), call_.ranges()) != Proof::no;
  }
  ValueId equal(const Expr& in, const Expr& out) {
    return k_.op(ScalarOp::eq, k_.index_value(in), k_.index_value(out));
  }

  // What lies outside counts for the border's element: its weight is added there before weights are made whole.
  void gather_at_border(const std::vector<ValueId>& places, std::vector<ValueId>& weights, const Expr& in) {
    ValueId zero = number(0), last = real(in - Expr(1)), below = zero, above = zero;
    std::vector<ValueId> own;
    for (size_t i = 0; i < places.size(); ++i) {
      ValueId is_below = op(ScalarOp::lt, places[i], zero), is_above = op(ScalarOp::gt, places[i], last);
      below = op(ScalarOp::add, below, k_.select(is_below, weights[i], zero));
      above = op(ScalarOp::add, above, k_.select(is_above, weights[i], zero));
      own.push_back(k_.select(is_below, zero, k_.select(is_above, zero, weights[i])));
    }
    for (size_t i = 0; i < places.size(); ++i) {
      ValueId low = k_.select(op(ScalarOp::eq, places[i], zero), below, zero);
      ValueId high = k_.select(op(ScalarOp::eq, places[i], last), above, zero);
      weights[i] = op(ScalarOp::add, own[i], op(ScalarOp::add, low, high));
    }
  }

  // Cubic convolution with a = -0.75 at distances t + 1, t, 1 - t, 2 - t.
  std::vector<Tap> cubic(ValueId at, const Expr& in) {
    constexpr double a = -0.75;
    ValueId low = k_.op(ScalarOp::floor, at), t = op(ScalarOp::sub, at, low);
    auto near = [&](ValueId x) {  // ((a + 2) x - (a + 3)) x x + 1
      ValueId inner = op(ScalarOp::sub, op(ScalarOp::mul, number(a + 2), x), number(a + 3));
      return op(ScalarOp::add, op(ScalarOp::mul, op(ScalarOp::mul, inner, x), x), number(1));
    };
    auto far = [&](ValueId x) {  // ((a x - 5 a) x + 8 a) x - 4 a
      ValueId inner = op(ScalarOp::sub, op(ScalarOp::mul, number(a), x), number(5 * a));
      inner = op(ScalarOp::add, op(ScalarOp::mul, inner, x), number(8 * a));
      return op(ScalarOp::sub, op(ScalarOp::mul, inner, x), number(4 * a));
    };
    ValueId rest = op(ScalarOp::sub, number(1), t);
    std::vector<ValueId> weights = {far(op(ScalarOp::add, t, number(1))), near(t), near(rest),
                                    far(op(ScalarOp::add, rest, number(1)))};
    std::vector<ValueId> places;
    for (int i = 0; i < 4; ++i) places.push_back(op(ScalarOp::add, low, number(i - 1)));
    if (whole_) gather_at_border(places, weights, in);
    std::vector<Tap> out;
    for (size_t i = 0; i < 4; ++i) out.push_back({index(places[i], in), weights[i]});
    return out;
  }

  LowerCall& call_;
  KernelBuilder& k_;
  const UpsampleRow& row_;
  DType real_;
  int site_;
  bool whole_ = false;
};

// Bytes from a sum of whole weights: the half added, the scale divided out, what is outside cut off. All is exact in
// f32.
ValueId rounded_bytes(KernelBuilder& k, ValueId sum, double scale) {
  auto number = [&](double v) { return k.constant(DType::f32, Scalar(v)); };
  ValueId moved = k.op(ScalarOp::mul, k.op(ScalarOp::add, sum, number(scale / 2)), number(1 / scale));
  return k.op(ScalarOp::min, k.op(ScalarOp::max, k.op(ScalarOp::floor, moved), number(0)), number(255));
}

struct Direction {
  std::vector<Tap> taps;
  double scale = 0;  // of whole weights; 0: none
};

// `from`: what is summed up has as many indices as there are directions, and those of `at`.
ValueId weighted_sum(loops::BufferId from, KernelBuilder& k, const std::vector<Direction>& taps, Index at, size_t d,
                     DType compute) {
  if (d == taps.size()) return k.as(compute, k.load_compute(from, at));
  ValueId sum = loops::no_value;
  for (const Tap& tap : taps[d].taps) {
    Index next = at;
    next.push_back(tap.at);
    ValueId value = weighted_sum(from, k, taps, next, d + 1, compute);
    if (tap.weight != loops::no_value) value = k.op(ScalarOp::mul, value, k.as(compute, tap.weight));
    sum = sum == loops::no_value ? value : k.op(ScalarOp::add, sum, value);
  }
  bool weighted = taps[d].taps[0].weight != loops::no_value;
  return weighted && taps[d].scale > 0 ? rounded_bytes(k, sum, taps[d].scale) : sum;
}

// By how much there is more of it, of sizes that are not known with those of the export.
double growth(const Expr& in, const Expr& out, const loops::LoopProgram& program) {
  if (const std::optional<int64_t> factor = whole_factor(in, out)) return static_cast<double>(*factor);
  return loops::estimate(out, program) / std::max(1.0, loops::estimate(in, program));
}

// Whether lines are made of fewer lines: then each of those is interpolated along itself once, for all lines that are
// made of it, instead of once for each of these.
bool shares_lines(const UpsampleRow& row, const Sizes& in, const Sizes& out, const loops::LoopProgram& program) {
  if (row.spatial < 2 || (row.kernel != Kernel::linear && row.kernel != Kernel::cubic) || in.back() == out.back())
    return false;
  double more = 1;
  for (size_t d = 2; d + 1 < in.size(); ++d) more *= growth(in[d], out[d], program);
  return more >= 2;
}

void lower_upsample(LowerCall& call, const UpsampleRow& row) {
  const TensorType& input = call.tensor(input_name(row))->type;
  bool plain = row.kernel == Kernel::nearest || row.kernel == Kernel::nearest_exact;
  DType compute = is_float(input.dtype) ? compute_dtype(input.dtype) : plain ? input.dtype : DType::f32;
  int site = call.site(str("index out of range in ", call.schema().name));
  const Sizes& sizes = call.output_type().sizes;
  // Interpolates along the spatial dimensions from `first` to `last`; in those between, elements stay where they are.
  const auto interpolate = [&](loops::BufferId from, loops::BufferId to, const Sizes& to_sizes, size_t first,
                               size_t last) {
    call.kernel([&](KernelBuilder& k) {
      k.parallel(to_sizes, [&](const Index& i) {
        ScaleTaps taps(call, k, row, compute, site);
        std::vector<Direction> all;
        for (size_t d = 0; d < row.spatial; ++d) {
          if (d < first || d >= last)
            all.push_back({{{i[d + 2]}}});
          else
            all.push_back({taps.along(d, i[d + 2], input.sizes[d + 2], sizes[d + 2]),
                           taps.scale_of(d, input.sizes[d + 2], sizes[d + 2])});
        }
        ValueId value = weighted_sum(from, k, all, {i[0], i[1]}, 0, compute);
        if (!is_float(input.dtype) && !plain && to == call.output()) value = k.op(ScalarOp::round, value);
        k.store(to, i, value);
      });
    });
  };
  if (!shares_lines(row, input.sizes, sizes, call.program()))
    return interpolate(call.input(input_name(row)), call.output(), sizes, 0, row.spatial);
  Sizes lines = input.sizes;
  lines.back() = sizes.back();
  const loops::BufferId along = call.temp(compute, lines, "lines");
  // In the result's order of dimensions, which is the picture's: channels last, where they are.
  call.program().buffers[static_cast<size_t>(along)].strides =
      like_strides(lines, call.output_type().strides, MemoryFormat::preserve, call.ranges());
  interpolate(call.input(input_name(row)), along, lines, row.spatial - 1, row.spatial);
  interpolate(along, call.output(), sizes, 0, row.spatial - 1);
}

// ---- Reference ----

void reference_upsample(ReferenceCall& call, const UpsampleRow& row, const Schema& schema) {
  OpCall typed(call.node(), schema);
  Tensor input = call.tensor(input_name(row));
  std::vector<int64_t> sizes = to_numbers(output_sizes(
      typed, row, to_exprs(input.sizes), [&](std::string_view name) { return to_exprs(call.integers(name)); }));
  std::vector<double> x = read_dense<double>(input), out;
  bool wide = reference_compute(call, nominal_argument_dtype(call, input_name(row))) == DType::f64,
       align = align_corners(typed);
  wide |= whole_weights(row, input.dtype);
  std::vector<std::vector<std::vector<Neighbour>>> table(row.spatial);
  for (size_t d = 0; d < row.spatial; ++d) {
    const int64_t from = input.sizes[d + 2], to = sizes[d + 2];
    const std::optional<double> given = used_scale(typed, row, d, Expr(from), Expr(to));
    for (int64_t o = 0; o < to; ++o)
      table[d].push_back(wide ? neighbours<double>(row.kernel, o, from, to, given, align)
                              : neighbours<float>(row.kernel, o, from, to, given, align));
  }
  std::vector<double> scales(row.spatial, 0);
  for (size_t d = 0; d < row.spatial && whole_weights(row, input.dtype); ++d) {
    scales[d] = weight_scale(row.kernel, input.sizes[d + 2], sizes[d + 2], given_scale(typed, row, d), align);
    for (auto& list : table[d]) {
      std::map<int64_t, double> sums;
      for (const Neighbour& n : list) sums[n.at] += n.weight;
      list.clear();
      for (auto [place, weight] : sums) list.push_back({place, whole_weight(weight, scales[d])});
    }
  }
  std::vector<int64_t> strides = contiguous_strides(input.sizes), at(sizes.size(), 0);
  std::function<double(size_t, int64_t)> sum = [&](size_t d, int64_t offset) -> double {
    if (d == row.spatial) return x[static_cast<size_t>(offset)];
    double total = 0;
    for (const Neighbour& n : table[d][static_cast<size_t>(at[d + 2])])
      total += n.weight * sum(d + 1, offset + n.at * strides[d + 2]);
    if (scales[d] > 0) total = std::min(std::max(std::floor((total + scales[d] / 2) / scales[d]), 0.0), 255.0);
    return total;
  };
  for (int64_t i = 0, n = count_elements(sizes); i < n; ++i) {
    double value = sum(0, at[0] * strides[0] + at[1] * strides[1]);
    out.push_back(is_float(input.dtype) ? value : std::nearbyint(value));
    next_index(at, sizes);
  }
  bool last = is_channels_last(to_exprs(input.sizes), to_exprs(input.strides));
  Tensor result =
      Tensor::empty_strided(call.result_dtype(), sizes,
                            last ? to_numbers(channels_last_strides(to_exprs(sizes))) : contiguous_strides(sizes));
  write_dense(result, out);
  call.results = {Datum{result}};
}

void add_upsample(Registry& r, UpsampleRow row) {
  auto schema = std::make_shared<const Schema>(parse_schema(row.schema));
  auto shared = std::make_shared<const UpsampleRow>(std::move(row));
  OpRecord record;
  record.schema_text = shared->schema;
  record.samples = shared->samples;
  record.infer = [shared](InferCall& call) { infer_upsample(call, *shared); };
  record.lower = [shared](LowerCall& call) { lower_upsample(call, *shared); };
  record.reference = [shared, schema](ReferenceCall& call) { reference_upsample(call, *shared, *schema); };
  add_needs(record, [shared](const OpCall& call, const NeedArgs& args) {
    return elements_from(op_short_name(call.schema().name), args.sizes(input_name(*shared)), 1);
  });
  r.add(std::move(record));
}

void add_both(Registry& r, const std::string& name, Kernel kernel, size_t spatial) {
  bool corners = kernel == Kernel::linear || kernel == Kernel::cubic;
  static const char* const scales[3] = {"float? scales=None", "float? scales_h=None, float? scales_w=None",
                                        "float? scales_d=None, float? scales_h=None, float? scales_w=None"};
  std::string align = corners ? ", bool align_corners" : "";
  List image = {1, 2, 3, 4, 2}, larger = {5, 7, 4}, smaller = {2, 2, 1};
  image.resize(spatial + 2);
  larger.resize(spatial);
  smaller.resize(spatial);
  std::vector<Sample> samples;
  for (const List& size : {larger, smaller}) {
    for (bool with : {false, true}) {
      if (with && !corners) continue;
      Sample sample{{spec(image), size}};
      if (corners) sample.args.emplace_back(Scalar(with));
      samples.push_back(sample);
    }
  }
  if (corners && spatial == 2) {
    samples.push_back({{spec({1, 3, 5, 4}, DType::u8, 0, 255), List{7, 9}, Scalar(false)}});
    samples.push_back({{spec({2, 1, 8, 9}, DType::u8, 0, 255), List{3, 5}, Scalar(true)}});
    // Lines that are made of half as many, or fewer.
    samples.push_back({{spec({1, 3, 3, 5}, DType::u8, 0, 255), List{8, 9}, Scalar(false)}});
    for (bool with : {false, true}) samples.push_back({{spec({2, 3, 3, 5}), List{8, 4}, Scalar(with)}});
  }
  samples.push_back({{spec({2, 3}), larger}, true});
  if (corners) samples.back().args.emplace_back(Scalar(false));
  add_upsample(
      r, {str(name, "(Tensor self, SymInt[", spatial, "] output_size", align, ", ", scales[spatial - 1], ") -> Tensor"),
          kernel, spatial, false, samples});
  add_upsample(r, {str(name, ".vec(Tensor input, SymInt[]? output_size", align, ", float[]? scale_factors) -> Tensor"),
                   kernel, spatial, true, samples});
}

}  // namespace

void register_upsample(Registry& r) {
  for (size_t spatial : {size_t{1}, size_t{2}, size_t{3}}) {
    add_both(r, str("upsample_nearest", spatial, "d"), Kernel::nearest, spatial);
    add_both(r, str("_upsample_nearest_exact", spatial, "d"), Kernel::nearest_exact, spatial);
  }
  add_both(r, "upsample_linear1d", Kernel::linear, 1);
  add_both(r, "upsample_bilinear2d", Kernel::linear, 2);
  add_both(r, "upsample_trilinear3d", Kernel::linear, 3);
  add_both(r, "upsample_bicubic2d", Kernel::cubic, 2);
}

}  // namespace kiln
