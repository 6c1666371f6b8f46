// Antialiased interpolation: along each dimension every result is a weighted mean of the inputs within the filter's
// reach, which widens when the image shrinks. How many these are at most is known with the sizes. Of bytes the weights
// are a matrix, so that interpolating is two matrix products; of floats only what is within reach may be looked at: 0
// times what is infinite or NaN is not 0.
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

// How the results along a dimension are made of the inputs: which ones are within reach, and the weights.
struct Reach {
  Value *first, *end;  // [out, 1], in `real`: the inputs from the first one on, and before the end
  Value *centre, *wide;
};

double reach_of(Filter filter) { return filter == Filter::linear ? 1.0 : 2.0; }

Reach reach(Build& b, const Expr& in, const Expr& out, size_t d, Filter filter, DType real) {
  Value* step = step_of(b, in, out, d, real);
  Value* wide = b("clamp_min", {step, Scalar(1.0)});
  Value* reach = b.mul(wide, Scalar(reach_of(filter)));
  Value* place = b.add(b("arange", {number(out), real}), Scalar(0.5));
  Value* centre = b("unsqueeze", {b.mul(place, step), Scalar(1)});
  Value* first = b("trunc", {b.add(b.sub(centre, reach), Scalar(0.5))});
  return {first, b("trunc", {b.add(b.add(centre, reach), Scalar(0.5))}), centre, wide};
}

// For these inputs ([out, any] or [any]) the weights, each row summing to 1; 0 where they are not `inside`.
Value* weights_of(Build& b, const Reach& to, Value* column, Value* inside, Filter filter) {
  Value* distance = b.div(b.add(b.sub(column, to.centre), Scalar(0.5)), to.wide);
  Value* raw = b("where.ScalarOther", {inside, filtered(b, distance, filter), Scalar(0.0)});
  return b.div(raw, b("sum.dim_IntList", {raw, b.ints({1}), Scalar(true)}));
}

// [out, in]
Value* weights(Build& b, const Expr& in, const Expr& out, size_t d, Filter filter, DType real) {
  const Reach to = reach(b, in, out, d, filter, real);
  Value* column = b("arange", {number(in), real});
  Value* inside = b("logical_and", {b("ge.Tensor", {column, to.first}), b("lt.Tensor", {column, to.end})});
  return weights_of(b, to, column, inside, filter);
}

// How many inputs are within reach of a result at most.
Expr most_within_reach(const OpCall& call, const Expr& in, const Expr& out, size_t d, Filter filter) {
  const bool align = call.boolean("align_corners");
  const auto once = static_cast<int64_t>(reach_of(filter));
  if (auto given = given_scale(call, d); given && *given > 0 && !align)
    return Expr(2 * once * static_cast<int64_t>(std::ceil(std::max(1 / *given, 1.0))) + 1);
  const Expr from = align ? in - Expr(1) : in, to = align ? out - Expr(1) : out;
  const Expr step = is_one(out) && align ? Expr(1) : max_expr(ceildiv(from, max_expr(to, Expr(1))), Expr(1));
  return step * Expr(2 * once) + Expr(1);
}

// A picture of [.., height, width] interpolated along its last dimension but `behind` ones.
Value* along(Build& b, Value* picture, const Expr& out, size_t d, Filter filter, DType real) {
  const size_t behind = 1 - d, dim = picture->type.sizes.size() - 1 - behind;
  const Sizes& sizes = picture->type.sizes;
  const Expr in = sizes[dim], most = most_within_reach(b.call(), in, out, d, filter);
  const Reach to = reach(b, in, out, d, filter, real);
  Value* first = b("clamp_min", {to.first, Scalar(0.0)});
  Value* column = b.add(first, b("arange", {number(most), real}));  // [out, most]
  Value* last = b("clamp_max", {to.end, number(in)});
  Value* inside = b("lt.Tensor", {column, last});
  Value* weight = weights_of(b, to, column, inside, filter);
  Value* places = b.to(b("clamp", {column, Scalar(0.0), number(in - Expr(1))}), DType::i64);
  Value* taken = b("index_select", {picture, Scalar(static_cast<int64_t>(dim)), b.view(places, {out * most})});
  Sizes split = sizes, shape = {out, most};
  split[dim] = out;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(dim) + 1, most);
  if (behind > 0) shape.push_back(Expr(1));
  Value* terms =
      b("where.ScalarOther", {b.view(inside, shape), b.mul(b.view(taken, split), b.view(weight, shape)), Scalar(0.0)});
  return b("sum.dim_IntList", {terms, b.ints({static_cast<int64_t>(dim) + 1}), Scalar(false)});
}

// Bytes as eager makes them: weights scaled by the largest power of two that keeps them below 2^15 and rounded to whole
// numbers, each direction rounded to bytes again. Sums are whole numbers below 2^24, so that f32 is exact.
Value* whole_product(Build& b, Value* fractions, Value* image, bool from_left) {
  Value* largest = b("amax", {fractions, b.ints({0, 1})});
  Value* powers = b("ldexp.Tensor",
                    {b("ones", {b.ints({22}), DType::f64}), b("arange.start", {Scalar(1), Scalar(23), DType::i64})});
  Value* fits = b("lt.Scalar", {b.add(b.mul(powers, largest), Scalar(0.5)), Scalar(32768.0)});
  Value* scale = b("amax", {b("where.ScalarOther", {fits, powers, Scalar(1.0)}), b.ints({0})});
  Value* scaled = b.mul(fractions, scale);
  Value* half = b.mul(b("sign", {scaled}), Scalar(0.5));
  Value* whole = b.to(b("trunc", {b.add(scaled, half)}), DType::f32);
  Value* sums = from_left ? b("matmul", {whole, image}) : b("matmul", {image, b("t", {whole})});
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
  Value* out = b.to(input, dtype == DType::u8 ? DType::f32 : real);
  if (dtype == DType::u8) {
    out = whole_product(b, weights(b, sizes[3], width, 1, filter, real), out, false);
    out = whole_product(b, weights(b, sizes[2], height, 0, filter, real), out, true);
  } else if (prove_lt(height, sizes[2], call.ranges()) == Proof::yes) {  // fewer lines first
    out = along(b, along(b, out, height, 0, filter, real), width, 1, filter, real);
  } else {
    out = along(b, along(b, out, width, 1, filter, real), height, 0, filter, real);
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
