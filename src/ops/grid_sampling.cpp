// Sampling by a grid of positions: grid_sampler, of two and three dimensions.
#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/lower_call.h"

namespace kiln {

namespace {

using loops::KernelBuilder;
using Index = std::vector<Expr>;

enum class Interpolation : int64_t { bilinear = 0, nearest = 1, bicubic = 2 };
enum class Border : int64_t { zeros = 0, border = 1, reflection = 2 };

// ---- Reference: operators on whole tensors ----

// From [-1, 1] to positions; then what lies outside is moved in, or left out by a weight of 0.
class GridSampler {
 public:
  GridSampler(Build& b, size_t spatial)
      : b_(b),
        call_(b.call()),
        input_(call_.tensor("input")),
        grid_(call_.tensor("grid")),
        spatial_(spatial),
        mode_(static_cast<Interpolation>(call_.constant_integer("interpolation_mode"))),
        border_(static_cast<Border>(call_.constant_integer("padding_mode"))),
        align_(call_.boolean("align_corners")) {
    const Sizes &x = input_->type.sizes, &g = grid_->type.sizes;
    if (x.size() != spatial + 2 || g.size() != spatial + 2 || !g.back().is_constant(static_cast<int64_t>(spatial)))
      refuse(call_, "K0219", "input and grid do not fit");
    dtype_ = input_->type.dtype;
    if (!is_float(dtype_)) refuse_dtype(call_, dtype_);
    input_ = b.to(input_, compute_dtype(dtype_));
    grid_ = b.to(grid_, compute_dtype(dtype_));
  }

  Value* run() {
    const Sizes& g = grid_->type.sizes;
    Sizes places(g.begin(), g.end() - 1);  // N, out…
    std::vector<Value*> at;
    // The last coordinate is the first dimension's.
    for (size_t d = 0; d < spatial_; ++d)
      at.push_back(b_("select.int", {grid_, Scalar(-1), Scalar(static_cast<int64_t>(spatial_ - 1 - d))}));
    for (size_t d = 0; d < spatial_; ++d)
      at[d] = position(at[d], input_->type.sizes[d + 2], mode_ != Interpolation::bicubic);
    if (mode_ == Interpolation::nearest) {
      for (Value*& p : at) p = b_("round", {p});
      return gathered(at, nullptr);
    }
    return mode_ == Interpolation::bilinear ? linear(at) : cubic(at);
  }

 private:
  // Eager computes in the input's own type: every step rounds to it. Said by casts, which fusion never skips.
  Value* rounded(Value* x) {
    return x->type.dtype == dtype_ || is_integer(x->type.dtype) ? x : b_.to(b_.to(x, dtype_), x->type.dtype);
  }
  Value* add(Value* x, Argument y) { return rounded(b_.add(x, std::move(y))); }
  Value* sub(Value* x, Argument y) { return rounded(b_.sub(x, std::move(y))); }
  Value* mul(Value* x, Argument y) { return rounded(b_.mul(x, std::move(y))); }
  Value* from_one(Value* x) { return rounded(b_("rsub.Scalar", {x, Scalar(1)})); }

  Argument size_number(const Expr& e) { return e.is_constant() ? Argument(Scalar(e.value())) : Argument(e); }

  Value* position(Value* x, const Expr& size, bool moves) {
    Value* scaled = align_ ? mul(add(x, Scalar(1)), half(size - Expr(1)))
                           : mul(sub(mul(add(x, Scalar(1)), size_number(size)), Scalar(1)), Scalar(0.5));
    return moves ? moved(scaled, size) : scaled;
  }
  Argument half(const Expr& e) {
    if (e.is_constant()) return Argument(Scalar(static_cast<double>(e.value()) / 2));
    return Argument(Expr::make(ExprOp::truediv, {Expr::make(ExprOp::to_float, {e}), Expr::float_constant(2.0)}));
  }

  Value* moved(Value* x, const Expr& size) {
    if (border_ == Border::reflection) x = spatial_ == 2 ? folded(x, size) : reflected(x, size);
    if (border_ == Border::zeros) return x;
    // A position that is no number goes to the first element; eager's kernel of three dimensions takes the last.
    Value* nowhere = b_("full_like", {x, spatial_ == 2 ? Argument(Scalar(0)) : size_number(size - Expr(1))});
    return b_("where.self", {b_("isnan", {x}), nowhere, b_("clamp", {x, Scalar(0), size_number(size - Expr(1))})});
  }

  // The same as `reflected` in the steps of eager's kernel of two dimensions: far away they round differently.
  Value* folded(Value* x, const Expr& size) {
    if (align_ && is_one(size)) return b_("zeros_like", {x});
    double low = align_ ? 0 : -0.5;
    Expr twice = (align_ ? size - Expr(1) : size) * Expr(2);
    Value* shifted = b_("abs", {sub(x, Scalar(low))});
    Value* turns = b_("trunc", {rounded(b_.div(shifted, size_number(twice)))});
    Value* extra = sub(shifted, mul(turns, size_number(twice)));
    Value* back = rounded(b_("rsub.Scalar", {extra, size_number(twice)}));
    return add(b_("minimum", {extra, back}), Scalar(low));
  }

  // Folds at the centres of the outer pixels, or at their outer edges.
  Value* reflected(Value* x, const Expr& size) {
    if (align_ && is_one(size)) return b_("zeros_like", {x});
    double low = align_ ? 0 : -0.5;
    Expr span = align_ ? size - Expr(1) : size;
    Value* shifted = b_("abs", {sub(x, Scalar(low))});
    Value* extra = b_("fmod.Scalar", {shifted, size_number(span)});
    Value* flips = b_("floor", {rounded(b_.div(shifted, size_number(span)))});
    // Eager counts in 32 bits: what does not fit is even.
    Value* even = b_("logical_or", {b_("eq.Scalar", {b_("fmod.Scalar", {flips, Scalar(2)}), Scalar(0)}),
                                    b_("ge.Scalar", {flips, Scalar(2147483648.0)})});
    Value* back = sub(rounded(b_("rsub.Scalar", {extra, size_number(span)})), Scalar(-low));
    return b_("where.self", {even, add(extra, Scalar(low)), back});
  }

  // Values at whole positions [N, out…] per dimension, times weights; outside counts as 0.
  Value* gathered(const std::vector<Value*>& at, Value* weight) {
    const Sizes& x = input_->type.sizes;
    Value *inside = nullptr, *flat = nullptr;
    for (size_t d = 0; d < spatial_; ++d) {
      Value* fits =
          b_("logical_and", {b_("ge.Scalar", {at[d], Scalar(0)}), b_("lt.Scalar", {at[d], size_number(x[d + 2])})});
      inside = inside ? b_("logical_and", {inside, fits}) : fits;
      Value* safe =
          b_.to(b_("clamp", {b_("nan_to_num", {at[d]}), Scalar(0), size_number(x[d + 2] - Expr(1))}), DType::i64);
      flat = flat ? add(mul(flat, size_number(x[d + 2])), safe) : safe;
    }
    Sizes places = flat->type.sizes, rows = {x[0], x[1], product(Sizes(x.begin() + 2, x.end()))};
    Sizes list = {places[0], Expr(1), product(Sizes(places.begin() + 1, places.end()))}, wide = list,
          out = {x[0], x[1]};
    wide[1] = x[1];
    out.insert(out.end(), places.begin() + 1, places.end());
    Value* index = b_("expand", {b_.view(flat, list), b_.ints(wide)});
    Value* values = b_.view(b_("gather", {b_.view(input_, rows), Scalar(2), index}), out);
    Value* mask = b_("unsqueeze", {inside, Scalar(1)});
    values = b_("where.ScalarOther", {mask, values, Scalar(0.0)});
    if (!weight) return values;
    // Of three dimensions, what lies outside is left out; of two it counts as 0, which times NaN is NaN.
    Value* term = mul(values, b_("unsqueeze", {weight, Scalar(1)}));
    return spatial_ == 2 ? term : b_("where.ScalarOther", {mask, term, Scalar(0.0)});
  }

  Value* linear(const std::vector<Value*>& at) {
    std::vector<Value*> low, far;
    for (Value* p : at) {
      low.push_back(b_("floor", {p}));
      far.push_back(sub(p, low.back()));
    }
    Value* sum = nullptr;
    for (size_t corner = 0; corner < (size_t{1} << spatial_); ++corner) {
      std::vector<Value*> places;
      Value* weight = nullptr;
      places.resize(spatial_);
      // The last dimension changes fastest and its weight is the first factor, as in eager: narrow floats round.
      for (size_t d = spatial_; d-- > 0;) {
        bool upper = corner >> (spatial_ - 1 - d) & 1;
        places[d] = upper ? add(low[d], Scalar(1)) : low[d];
        Value* part = upper ? far[d] : from_one(far[d]);
        weight = weight ? mul(weight, part) : part;
      }
      Value* term = gathered(places, weight);
      sum = sum ? add(sum, term) : term;
    }
    return sum;
  }

  Value* polynomial(Value* x, const std::vector<double>& coefficients) {  // highest first
    Value* out = nullptr;
    for (double c : coefficients) out = out ? add(mul(out, x), Scalar(c)) : add(mul(x, Scalar(0.0)), Scalar(c));
    return out;
  }

  Value* cubic(const std::vector<Value*>& at) {
    constexpr double a = -0.75;
    std::vector<Value*> low;
    std::vector<std::vector<Value*>> weights(spatial_);
    for (size_t d = 0; d < spatial_; ++d) {
      low.push_back(b_("floor", {at[d]}));
      Value* t = sub(at[d], low[d]);
      Value* rest = from_one(t);
      std::vector<double> near = {a + 2, -(a + 3), 0, 1}, far = {a, -5 * a, 8 * a, -4 * a};
      weights[d] = {polynomial(add(t, Scalar(1)), far), polynomial(t, near), polynomial(rest, near),
                    polynomial(add(rest, Scalar(1)), far)};
    }
    // Four neighbours along each dimension, moved once.
    std::vector<std::vector<Value*>> places(spatial_);
    for (size_t d = 0; d < spatial_; ++d)
      for (int64_t i = 0; i < 4; ++i) places[d].push_back(moved(add(low[d], Scalar(i - 1)), input_->type.sizes[d + 2]));
    Value* sum = nullptr;
    for (size_t tap = 0; tap < (size_t{1} << (2 * spatial_)); ++tap) {
      std::vector<Value*> at_tap;
      Value* weight = nullptr;
      for (size_t d = 0; d < spatial_; ++d) {
        size_t i = tap >> (2 * (spatial_ - 1 - d)) & 3;
        at_tap.push_back(places[d][i]);
        weight = weight ? mul(weight, weights[d][i]) : weights[d][i];
      }
      Value* term = gathered(at_tap, weight);
      sum = sum ? add(sum, term) : term;
    }
    return sum;
  }

  Build& b_;
  DecomposeCall& call_;
  Value *input_, *grid_;
  DType dtype_ = DType::f32;
  size_t spatial_;
  Interpolation mode_;
  Border border_;
  bool align_;
};

Value* sampled(Build& b, size_t spatial) {
  return b.to(GridSampler(b, spatial).run(), b.call().tensor("input")->type.dtype);
}

// ---- Lowering: one kernel, the neighbours of a position one after the other ----

class SamplerKernel {
 public:
  SamplerKernel(LowerCall& call, KernelBuilder& k, size_t spatial, Index at, int site)
      : call_(call),
        k_(k),
        spatial_(spatial),
        at_(std::move(at)),
        site_(site),
        dtype_(call.tensor("input")->type.dtype),
        compute_(compute_dtype(dtype_)),
        mode_(static_cast<Interpolation>(call.constant_integer("interpolation_mode"))),
        border_(static_cast<Border>(call.constant_integer("padding_mode"))),
        align_(call.boolean("align_corners")) {}

  ValueId run() {
    std::vector<ValueId> positions;
    for (size_t d = 0; d < spatial_; ++d) positions.push_back(position(d));
    std::vector<std::vector<Neighbour>> near(spatial_);
    for (size_t d = 0; d < spatial_; ++d) {
      if (mode_ == Interpolation::nearest) near[d] = {{k_.op(ScalarOp::round, positions[d]), loops::no_value}};
      if (mode_ == Interpolation::bilinear) near[d] = two(positions[d]);
      if (mode_ == Interpolation::bicubic) near[d] = four(positions[d], d);
      for (Neighbour& one : near[d]) look_up(one, d);
    }
    return sum(near);
  }

 private:
  // A whole position along one dimension, its weight, and once looked up whether it is inside, and where.
  struct Neighbour {
    ValueId place, weight;
    ValueId inside = loops::no_value;
    Expr index = Expr(0);
  };

  const Expr& size(size_t d) const { return call_.tensor("input")->type.sizes[d + 2]; }
  ValueId number(double value) { return k_.constant(compute_, Scalar(value)); }
  ValueId number(const Expr& value) { return k_.cast(compute_, k_.index_value(value)); }
  // Eager computes in the input's own type: every step rounds to it.
  ValueId rounded(ValueId v) { return dtype_ == compute_ ? v : k_.cast(compute_, k_.cast(dtype_, v)); }
  ValueId add(ValueId a, ValueId b) { return rounded(k_.op(ScalarOp::add, a, b)); }
  ValueId sub(ValueId a, ValueId b) { return rounded(k_.op(ScalarOp::sub, a, b)); }
  ValueId mul(ValueId a, ValueId b) { return rounded(k_.op(ScalarOp::mul, a, b)); }

  // The last coordinate is the first dimension's.
  ValueId position(size_t d) {
    Index from = {at_[0]};
    from.insert(from.end(), at_.begin() + 2, at_.end());
    from.push_back(Expr(static_cast<int64_t>(spatial_ - 1 - d)));
    ValueId x = add(k_.as(compute_, k_.load_compute(call_.input("grid"), from)), number(1.0));
    ValueId scaled = align_ ? mul(x, k_.op(ScalarOp::mul, number(size(d) - Expr(1)), number(0.5)))
                            : mul(sub(mul(x, number(size(d))), number(1.0)), number(0.5));
    return mode_ == Interpolation::bicubic ? scaled : moved(scaled, size(d));
  }

  ValueId moved(ValueId x, const Expr& extent) {
    if (border_ == Border::zeros) return x;
    if (border_ == Border::reflection) x = spatial_ == 2 ? folded(x, extent) : reflected(x, extent);
    ValueId last = number(extent - Expr(1));
    ValueId inside = k_.op(ScalarOp::min, k_.op(ScalarOp::max, x, number(0.0)), last);
    return k_.select(k_.op(ScalarOp::is_nan, x), spatial_ == 2 ? number(0.0) : last, inside);
  }

  ValueId folded(ValueId x, const Expr& extent) {
    double low = align_ ? 0 : -0.5;
    ValueId twice = number((align_ ? extent - Expr(1) : extent) * Expr(2));
    ValueId shifted = k_.op(ScalarOp::abs, sub(x, number(low)));
    ValueId turns = k_.op(ScalarOp::trunc, rounded(k_.op(ScalarOp::div, shifted, twice)));
    ValueId extra = sub(shifted, mul(turns, twice));
    ValueId out = add(k_.op(ScalarOp::min, extra, sub(twice, extra)), number(low));
    if (!align_) return out;
    return k_.select(k_.op(ScalarOp::gt, twice, number(0.0)), out, number(0.0));  // one element has one place
  }

  ValueId reflected(ValueId x, const Expr& extent) {
    double low = align_ ? 0 : -0.5;
    ValueId span = number(align_ ? extent - Expr(1) : extent);
    ValueId shifted = k_.op(ScalarOp::abs, sub(x, number(low))), extra = k_.op(ScalarOp::fmod, shifted, span);
    ValueId flips = k_.op(ScalarOp::floor, rounded(k_.op(ScalarOp::div, shifted, span)));
    ValueId even =
        k_.op(ScalarOp::logical_or, k_.op(ScalarOp::eq, k_.op(ScalarOp::fmod, flips, number(2.0)), number(0.0)),
              k_.op(ScalarOp::ge, flips, number(2147483648.0)));  // eager counts in 32 bits
    ValueId out = k_.select(even, add(extra, number(low)), sub(sub(span, extra), number(-low)));
    if (!align_) return out;
    // A dimension of one element has one place.
    return k_.select(k_.op(ScalarOp::gt, span, number(0.0)), out, number(0.0));
  }

  std::vector<Neighbour> two(ValueId x) {
    ValueId low = k_.op(ScalarOp::floor, x), far = sub(x, low);
    return {{low, sub(number(1.0), far)}, {add(low, number(1.0)), far}};
  }

  std::vector<Neighbour> four(ValueId x, size_t d) {
    constexpr double a = -0.75;
    auto polynomial = [&](ValueId t, std::initializer_list<double> highest_first) {
      ValueId out = loops::no_value;
      for (double c : highest_first) out = out == loops::no_value ? number(c) : add(mul(out, t), number(c));
      return out;
    };
    auto near = [&](ValueId t) { return polynomial(t, {a + 2, -(a + 3), 0, 1}); };
    auto far = [&](ValueId t) { return polynomial(add(t, number(1.0)), {a, -5 * a, 8 * a, -4 * a}); };
    ValueId low = k_.op(ScalarOp::floor, x), t = sub(x, low), rest = sub(number(1.0), t);
    std::vector<Neighbour> out = {{low, far(t)}, {low, near(t)}, {low, near(rest)}, {low, far(rest)}};
    for (size_t i = 0; i < 4; ++i) out[i].place = moved(add(low, number(static_cast<double>(i) - 1)), size(d));
    return out;
  }

  void look_up(Neighbour& one, size_t d) {
    one.inside = k_.op(ScalarOp::logical_and, k_.op(ScalarOp::ge, one.place, number(0.0)),
                       k_.op(ScalarOp::lt, one.place, number(size(d))));
    one.index = k_.check_index(k_.cast(DType::i64, one.place), size(d), site_, one.inside);
  }

  // The last dimension changes fastest. Its weight is the first factor of two and the last of four, as in the
  // reference.
  ValueId sum(const std::vector<std::vector<Neighbour>>& near) {
    size_t each = near[0].size(), count = 1;
    for (size_t d = 0; d < spatial_; ++d) count *= each;
    ValueId total = loops::no_value;
    for (size_t n = 0; n < count; ++n) {
      std::vector<const Neighbour*> chosen(spatial_);
      for (size_t d = spatial_, rest = n; d-- > 0; rest /= each) chosen[d] = &near[d][rest % each];
      ValueId term = weighted(chosen);
      total = total == loops::no_value ? term : add(total, term);
    }
    return total;
  }

  ValueId weighted(const std::vector<const Neighbour*>& chosen) {
    Index from = {at_[0], at_[1]};
    ValueId inside = loops::no_value, weight = loops::no_value;
    for (const Neighbour* one : chosen) {
      from.push_back(one->index);
      inside = inside == loops::no_value ? one->inside : k_.op(ScalarOp::logical_and, inside, one->inside);
    }
    ValueId value = k_.as(compute_, k_.load_compute(call_.input("input"), from, inside));
    if (mode_ == Interpolation::nearest) return value;
    for (size_t i = 0; i < spatial_; ++i) {
      const Neighbour* one = chosen[mode_ == Interpolation::bilinear ? spatial_ - 1 - i : i];
      weight = weight == loops::no_value ? one->weight : mul(weight, one->weight);
    }
    ValueId term = mul(value, weight);
    return spatial_ == 2 ? term : k_.select(inside, term, number(0.0));
  }

  LowerCall& call_;
  KernelBuilder& k_;
  size_t spatial_;
  Index at_;  // of the result: N, C, out…
  int site_;
  DType dtype_, compute_;
  Interpolation mode_;
  Border border_;
  bool align_;
};

size_t spatial_of(const OpCall& call) { return call.tensor("input")->type.sizes.size() == 5 ? 3 : 2; }

void infer_grid_sampler(InferCall& call, size_t spatial) {
  const TensorType &input = call.tensor("input")->type, &grid = call.tensor("grid")->type;
  const Sizes &x = input.sizes, &g = grid.sizes;
  if (x.size() != spatial + 2 || g.size() != spatial + 2 ||
      prove_eq(g.back(), Expr(static_cast<int64_t>(spatial)), call.ranges()) == Proof::no)
    refuse(call, "K0219", "input and grid do not fit");
  if (prove_eq(x[0], g[0], call.ranges()) == Proof::no)
    refuse(call, "K0219", "expected grid and input to have same batch size");
  for (size_t d = 2; d < x.size(); ++d)
    if (x[d].is_constant(0)) refuse(call, "K0219", "expected input to have non-empty spatial dimensions");
  if (!is_float(input.dtype)) refuse_dtype(call, input.dtype);
  if (input.dtype != grid.dtype) refuse(call, "K0219", "expected input and grid to have same dtype");
  for (auto [name, most] : {std::pair("interpolation_mode", 2), std::pair("padding_mode", 2)}) {
    int64_t given = call.constant_integer(name);
    if (given < 0 || given > most) refuse(call, "K0219", str(name, " ", given, " is not known"));
  }
  Sizes sizes = {x[0], x[1]};
  sizes.insert(sizes.end(), g.begin() + 1, g.end() - 1);
  call.results = {contiguous_type(input.dtype, std::move(sizes), input.device)};
}

void lower_grid_sampler(LowerCall& call, size_t spatial) {
  int site = call.site(str("a position outside in ", call.schema().name));
  int empty = call.site(str(call.schema().name, ": expected input to have non-empty spatial dimensions"));
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const Index& i) {
      for (size_t d = 0; d < spatial; ++d) {
        const Expr& size = call.tensor("input")->type.sizes[d + 2];
        if (prove_lt(Expr(0), size, call.ranges()) != Proof::yes)
          k.raise_if(k.op(ScalarOp::lt, k.index_value(size), k.constant(DType::i64, Scalar(1))), empty);
      }
      k.store(call.output(), i, SamplerKernel(call, k, spatial, i, site).run());
    });
  });
}

void add_sampler(Registry& r, const std::string& name, const std::function<size_t(const OpCall&)>& spatial,
                 std::vector<Sample> samples) {
  OpRecord record;
  record.schema_text =
      name + "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor";
  record.infer = [spatial](InferCall& call) { infer_grid_sampler(call, spatial(call)); };
  record.lower = [spatial](LowerCall& call) { lower_grid_sampler(call, spatial(call)); };
  record.reference =
      reference_by([spatial](Build& b) { b.call().result(sampled(b, spatial(b.call()))); }, record.schema_text);
  record.samples = std::move(samples);
  r.add(std::move(record));
}

}  // namespace

void register_grid_sampling(Registry& r) {
  Sample::TensorSpec image = spec({1, 2, 4, 5}), grid = spec({1, 3, 2, 2}, DType::f32, -1.3, 1.3);
  std::vector<Sample> flat, deep;
  for (int64_t mode : {0, 1, 2})
    for (int64_t border : {0, 1, 2})
      for (bool align : {false, true}) {
        flat.push_back({{image, grid, Scalar(mode), Scalar(border), Scalar(align)}});
        if (mode < 2 || align)
          deep.push_back({{spec({1, 2, 3, 4, 2}), spec({1, 2, 2, 3, 3}, DType::f32, -1.3, 1.3), Scalar(mode),
                           Scalar(border), Scalar(align)}});
      }
  flat.push_back({{spec({1, 2, 4, 5}, DType::bf16), spec({1, 3, 2, 2}, DType::bf16, -1.3, 1.3), Scalar(0), Scalar(2),
                   Scalar(false)}});
  flat.push_back({{spec({1, 2, 1, 5}), grid, Scalar(0), Scalar(2), Scalar(true)}});
  flat.push_back({{spec({0, 2, 4, 5}), spec({0, 3, 2, 2}), Scalar(0), Scalar(0), Scalar(false)}});
  flat.push_back({{spec({1, 2, 0, 5}), grid, Scalar(0), Scalar(0), Scalar(false)}, true});
  flat.push_back({{image, spec({1, 3, 2, 3}), Scalar(0), Scalar(0), Scalar(false)}, true});
  add_sampler(
      r, "grid_sampler_2d", [](const OpCall&) { return size_t{2}; }, flat);
  add_sampler(
      r, "grid_sampler_3d", [](const OpCall&) { return size_t{3}; }, deep);
  add_sampler(r, "grid_sampler", spatial_of, {flat[0], deep[0]});
  r.describe({"grid_sampler", "grid_sampler_2d", "grid_sampler_3d"}, autocast_to(AutocastRule::single));
}

}  // namespace kiln
