// Antialiased interpolation: along each dimension every result is a weighted mean of the inputs within the filter's
// reach, which widens when the image shrinks: the sum of as many inputs as any result has within its reach. Where a
// result has fewer, the others are chosen away: 0 times what is infinite or NaN is not 0.
#include <cmath>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

enum class Filter : uint8_t { linear, cubic };

std::optional<double> given_scale(const OpCall& call, size_t d) {
  bool list = call.schema().find("scale_factors") >= 0;
  Argument arg = call.arg(list ? "scale_factors" : d == 0 ? "scales_h" : "scales_w");
  if (list && !arg.is_none()) arg = Argument(arg.as_list().at(d));
  if (arg.is_none()) return std::nullopt;
  if (!arg.is_scalar())
    fail_unsupported("K0202", str(call.schema().name, ": scale factors must be constants"), call.where());
  return arg.as_scalar().as_double();
}

Expr result_size(const OpCall& call, const Expr& in, size_t d) {
  if (call.given("output_size")) {
    Sizes wanted = call.integers("output_size");
    if (wanted.size() != 2) refuse(call, "K0201", "output_size needs two values");
    return wanted[d];
  }
  auto scale = given_scale(call, d);
  if (!scale) refuse(call, "K0201", "needs output_size or scale_factors");
  if (in.is_constant()) return Expr(static_cast<int64_t>(std::floor(static_cast<double>(in.value()) * *scale)));
  Expr scaled = Expr::make(ExprOp::mul, {Expr::make(ExprOp::to_float, {in}), Expr::float_constant(*scale)});
  return Expr::make(ExprOp::floor_to_int, {scaled});
}

// Input elements per result, as a tensor without dimensions.
Value* step_of(Build& b, const Expr& in, const Expr& out, size_t d, DType real) {
  DecomposeCall& call = b.call();
  bool align = call.boolean("align_corners");
  if (auto given = given_scale(call, d); given && *given > 0 && !align)
    return b("full", {b.ints(Sizes{}), Scalar(1 / *given), real});
  if (align && is_one(out)) return b("full", {b.ints(Sizes{}), Scalar(0.0), real});
  Expr from = align ? in - Expr(1) : in, to = align ? out - Expr(1) : out;
  return b.div(b("full", {b.ints(Sizes{}), number(from), real}), b("full", {b.ints(Sizes{}), number(to), real}));
}

Value* filtered(Build& b, Value* distance, Filter filter) {
  Value* x = b("abs", {distance});
  if (filter == Filter::linear) return b("clamp_min", {b("rsub.Scalar", {x, Scalar(1.0)}), Scalar(0.0)});
  constexpr double a = -0.5;
  Value* near = b.add(b.mul(b.mul(b.sub(b.mul(x, Scalar(a + 2)), Scalar(a + 3)), x), x), Scalar(1.0));
  Value* far = b.mul(b.sub(b.mul(b.add(b.mul(b.sub(x, Scalar(5.0)), x), Scalar(8.0)), x), Scalar(4.0)), Scalar(a));
  Value* outer = b("where.ScalarOther", {b("lt.Scalar", {x, Scalar(2.0)}), far, Scalar(0.0)});
  return b("where.self", {b("lt.Scalar", {x, Scalar(1.0)}), near, outer});
}

// What the inputs weigh for each result, and which these are: taps, one after the other for all results.
struct Weights {
  Value* of = nullptr;      // [taps, out]; each column sums to 1
  Value* inside = nullptr;  // [taps, out]: within reach, and of the image
  Value* places = nullptr;  // [taps * out]
  Expr taps;
};

// How many inputs are within reach of a result at most.
Expr most_within_reach(const DecomposeCall& call, const Expr& in, const Expr& out, size_t d, double wings) {
  const bool align = call.boolean("align_corners");
  const auto of_step = [&](double step) {
    return static_cast<int64_t>(std::ceil(2 * wings * std::max(step, 1.0))) + 1;
  };
  const Expr from = align ? in - Expr(1) : in, to = align ? out - Expr(1) : out;
  Expr most;
  if (auto given = given_scale(call, d); given && *given > 0 && !align)
    most = Expr(of_step(1 / *given));
  else if (align && is_one(out))
    most = Expr(of_step(0));
  else if (from.is_constant() && to.is_constant() && to.value() > 0)
    most = Expr(of_step(static_cast<double>(from.value()) / static_cast<double>(to.value())));
  else
    most = max_expr(ceildiv(from, max_expr(to, Expr(1))), Expr(1)) * Expr(static_cast<int64_t>(2 * wings)) + Expr(1);
  return in.is_constant() && most.is_constant() ? Expr(std::min(in.value(), most.value())) : most;
}

Weights weights(Build& b, const Expr& in, const Expr& out, size_t d, Filter filter, DType real) {
  const double wings = filter == Filter::linear ? 1.0 : 2.0;
  Weights made;
  made.taps = most_within_reach(b.call(), in, out, d, wings);
  Value* step = step_of(b, in, out, d, real);
  Value* wide = b("clamp_min", {step, Scalar(1.0)});
  Value* reach = b.mul(wide, Scalar(wings));
  Value* place = b.add(b("arange", {number(out), real}), Scalar(0.5));
  Value* centre = b.mul(place, step);
  Value* first = b("trunc", {b.add(b.sub(centre, reach), Scalar(0.5))});
  Value* end = b("trunc", {b.add(b.add(centre, reach), Scalar(0.5))});
  Value* line =
      b.add(b("clamp_min", {first, Scalar(0.0)}), b("unsqueeze", {b("arange", {number(made.taps), real}), Scalar(1)}));
  made.inside = b("lt.Tensor", {line, b("clamp_max", {end, number(in)})});
  made.places = b.to(b.view(b("clamp_max", {line, number(in - Expr(1))}), {out * made.taps}), DType::i32);
  Value* distance = b.div(b.add(b.sub(line, centre), Scalar(0.5)), wide);
  Value* raw = b("where.ScalarOther", {made.inside, filtered(b, distance, filter), Scalar(0.0)});
  made.of = b.div(raw, b("sum.dim_IntList", {raw, b.ints({0}), Scalar(true)}));
  return made;
}

// The weighted sums of an image along one dimension, the last but one (`down`) or the last.
Value* weighted(Build& b, const Weights& by, Value* of, Value* image, bool down, bool finite) {
  Sizes shape = image->type.sizes;
  const size_t dim = shape.size() - (down ? 2 : 1);
  shape[dim] = of->type.sizes[1];
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim), by.taps);
  Value* taken = b.view(b("index_select", {image, Scalar(static_cast<int64_t>(dim)), by.places}), shape);
  const auto along = [&](Value* taps) { return down ? b("unsqueeze", {taps, Scalar(-1)}) : taps; };
  Value* terms = b.mul(taken, along(of));
  if (!finite) terms = b("where.ScalarOther", {along(by.inside), terms, Scalar(0.0)});
  return b.sum(terms, {static_cast<int64_t>(dim)}, false);
}

// Bytes as eager makes them: weights scaled by the largest power of two that keeps them below 2^15 and rounded to whole
// numbers, each direction rounded to bytes again. Sums are whole numbers below 2^24, so that f32 is exact.
Value* whole_product(Build& b, const Weights& fractions, Value* image, bool down) {
  Value* largest = b("amax", {fractions.of, b.ints({0, 1})});
  Value* powers = b("ldexp.Tensor",
                    {b("ones", {b.ints({22}), DType::f64}), b("arange.start", {Scalar(1), Scalar(23), DType::i64})});
  Value* fits = b("lt.Scalar", {b.add(b.mul(powers, largest), Scalar(0.5)), Scalar(32768.0)});
  Value* scale = b("amax", {b("where.ScalarOther", {fits, powers, Scalar(1.0)}), b.ints({0})});
  Value* scaled = b.mul(fractions.of, scale);
  Value* half = b.mul(b("sign", {scaled}), Scalar(0.5));
  Value* whole = b.to(b("trunc", {b.add(scaled, half)}), DType::f32);
  Value* sums = weighted(b, fractions, whole, image, down, true);
  Value* narrow = b.to(scale, DType::f32);
  Value* rounded = b("floor", {b.div(b.add(sums, b.mul(narrow, Scalar(0.5))), narrow)});
  return b("clamp", {rounded, Scalar(0.0), Scalar(255.0)});
}

void build_antialiased(Build& b, Filter filter) {
  DecomposeCall& call = b.call();
  Value* input = call.tensor(call.schema().find("input") >= 0 ? "input" : "self");
  DType dtype = input->type.dtype;
  if (!is_float(dtype) && dtype != DType::u8) refuse_dtype(call, dtype);
  if (rank_of(input) != 4) refuse(call, "K0201", "expected 4 dimensions");
  const Sizes& sizes = input->type.sizes;
  Expr height = result_size(call, sizes[2], 0), width = result_size(call, sizes[3], 1);
  DType real = dtype == DType::f64 || dtype == DType::u8 ? DType::f64 : DType::f32;
  const Weights across = weights(b, sizes[3], width, 1, filter, real);
  const Weights down = weights(b, sizes[2], height, 0, filter, real);
  Value* out;
  if (dtype == DType::u8) {
    Value* rows = whole_product(b, across, b.to(input, DType::f32), false);
    out = whole_product(b, down, rows, true);
  } else {
    // Lines first: they are sums of whole lines, and what is read here and there afterwards is less.
    Value* lines = weighted(b, down, down.of, b.to(input, real), true, false);
    out = weighted(b, across, across.of, lines, false, false);
  }
  out = b.to(out, dtype);
  bool last = is_channels_last(sizes, input->type.strides);
  call.result(last ? b("clone", {out, MemoryFormat::channels_last}) : b.contiguous(out));
}

}  // namespace

void register_antialias(Registry& r) {
  for (Filter filter : {Filter::linear, Filter::cubic}) {
    std::string name = filter == Filter::linear ? "_upsample_bilinear2d_aa" : "_upsample_bicubic2d_aa";
    Sample::TensorSpec image = spec({1, 2, 5, 6});
    auto build = [filter](Build& b) { build_antialiased(b, filter); };
    std::vector<Sample> samples = {{{image, List{3, 4}, Scalar(false)}},
                                   {{image, List{7, 9}, Scalar(false)}},
                                   {{image, List{3, 1}, Scalar(true)}},
                                   {{spec({1, 2, 5, 6}, DType::u8, 0, 255), List{3, 8}, Scalar(false)}},
                                   {{spec({2, 3}), List{3, 4}, Scalar(false)}, true}};
    add_composite(r, {.schema = name + "(Tensor self, SymInt[2] output_size, bool align_corners, float? "
                                       "scales_h=None, float? scales_w=None) -> Tensor",
                      .build = build,
                      .samples = samples});
    add_composite(r, {.schema = name + ".vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? "
                                       "scale_factors) -> Tensor",
                      .build = build,
                      .samples = samples});
  }
}

}  // namespace kiln
