// Windows as columns and back (im2col, col2im), unpooling, and sampling by a grid.
#include <cmath>

#include "ops/composite.h"
#include "ops/convolution.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using loops::KernelBuilder;
using loops::ReduceOp;
using List = std::vector<int64_t>;
using Index = std::vector<Expr>;

[[noreturn]] void refuse(const OpCall& call, std::string_view why) {
  fail_user("K0219", str(call.schema().name, ": ", why), call.where());
}

// ---- im2col and col2im ----

struct Unfold {
  std::vector<int64_t> kernel, dilation, padding, stride;
  Sizes image, blocks;  // spatial sizes of the image, and how many windows fit along each
};

Unfold unfold_of(const OpCall& call, const Sizes& image) {
  Unfold u;
  u.kernel = spatial_argument(call, "kernel_size", 2);
  u.dilation = spatial_argument(call, "dilation", 2);
  u.padding = spatial_argument(call, "padding", 2);
  u.stride = spatial_argument(call, "stride", 2);
  u.image = image;
  ConvGeometry g;
  g.stride = u.stride;
  g.padding = u.padding;
  g.dilation = u.dilation;
  for (size_t d = 0; d < 2; ++d) {
    if (u.kernel[d] <= 0 || u.stride[d] <= 0 || u.dilation[d] <= 0)
      refuse(call, "kernel size, stride and dilation must be positive");
    u.blocks.push_back(conv_output_size(g, d, image[d], Expr(u.kernel[d])));
    if (u.blocks[d].is_constant() && u.blocks[d].value() <= 0) refuse(call, "the windows do not fit the image");
  }
  return u;
}

int64_t places(const Unfold& u) { return u.kernel[0] * u.kernel[1]; }

ValueId all_of(KernelBuilder& k, const std::vector<ValueId>& conditions) {
  ValueId out = conditions[0];
  for (size_t i = 1; i < conditions.size(); ++i) out = k.op(ScalarOp::logical_and, out, conditions[i]);
  return out;
}

ValueId between(KernelBuilder& k, const Expr& at, const Expr& size) {
  ValueId position = k.index_value(at);
  return k.op(ScalarOp::logical_and, k.op(ScalarOp::ge, position, k.index_value(Expr(0))),
              k.op(ScalarOp::lt, position, k.index_value(size)));
}

void add_im2col(Registry& r) {
  OpRecord record;
  record.schema_text =
      "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor";
  auto schema = std::make_shared<const Schema>(parse_schema(record.schema_text));
  auto plan = [](const OpCall& call, const Sizes& sizes) {
    if (sizes.size() != 3 && sizes.size() != 4) refuse(call, "expected 3D or 4D input");
    return unfold_of(call, Sizes(sizes.end() - 2, sizes.end()));
  };
  record.infer = [plan](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    refuse_complex(call, self.dtype);
    Unfold u = plan(call, self.sizes);
    Sizes out(self.sizes.begin(), self.sizes.end() - 3);
    out.push_back(self.sizes[self.sizes.size() - 3] * Expr(places(u)));
    out.push_back(simplify(u.blocks[0] * u.blocks[1], call.ranges()));
    call.results = {contiguous_type(self.dtype, std::move(out), self.device)};
  };
  record.lower = [plan](LowerCall& call) {
    const TensorType& self = call.tensor("self")->type;
    Unfold u = plan(call, self.sizes);
    call.kernel([&](KernelBuilder& k) {
      k.parallel(call.output_type().sizes, [&](const Index& i) {
        size_t n = i.size();
        Expr channel = floordiv(i[n - 2], Expr(places(u))), place = mod(i[n - 2], Expr(places(u)));
        Expr row = floordiv(i[n - 1], u.blocks[1]), column = mod(i[n - 1], u.blocks[1]);
        Expr y =
            row * Expr(u.stride[0]) - Expr(u.padding[0]) + floordiv(place, Expr(u.kernel[1])) * Expr(u.dilation[0]);
        Expr x = column * Expr(u.stride[1]) - Expr(u.padding[1]) + mod(place, Expr(u.kernel[1])) * Expr(u.dilation[1]);
        Index at(i.begin(), i.end() - 2);
        at.insert(at.end(), {channel, y, x});
        ValueId inside = all_of(k, {between(k, y, u.image[0]), between(k, x, u.image[1])});
        k.store(call.output(), i, k.load(call.input("self"), at, inside));
      });
    });
  };
  record.reference = [plan, schema](ReferenceCall& call) {
    OpCall typed(call.node(), *schema);
    Tensor self = call.tensor("self");
    Unfold u = plan(typed, to_exprs(self.sizes));
    int64_t h = u.image[0].value(), w = u.image[1].value(), bh = u.blocks[0].value(), bw = u.blocks[1].value();
    std::vector<double> x = read_dense<double>(self), out;
    int64_t planes = h * w == 0 ? 0 : self.numel() / (h * w);
    for (int64_t plane = 0; plane < planes; ++plane)
      for (int64_t place = 0; place < places(u); ++place)
        for (int64_t block = 0; block < bh * bw; ++block) {
          int64_t row = block / bw * u.stride[0] - u.padding[0] + place / u.kernel[1] * u.dilation[0];
          int64_t column = block % bw * u.stride[1] - u.padding[1] + place % u.kernel[1] * u.dilation[1];
          bool inside = row >= 0 && row < h && column >= 0 && column < w;
          out.push_back(inside ? x[static_cast<size_t>(plane * h * w + row * w + column)] : 0.0);
        }
    std::vector<int64_t> sizes(self.sizes.begin(), self.sizes.end() - 3);
    sizes.push_back(self.sizes[self.sizes.size() - 3] * places(u));
    sizes.push_back(bh * bw);
    Tensor result = new_result(call, sizes);
    write_dense(result, out);
    call.results = {Datum{result}};
  };
  record.samples = {{{spec({2, 3, 5, 4}), List{2, 3}, List{1, 1}, List{0, 1}, List{1, 2}}},
                    {{spec({3, 5, 4}), List{2, 2}, List{2, 1}, List{1, 1}, List{1, 1}}},
                    {{spec({5, 4}), List{2, 2}, List{1, 1}, List{0, 0}, List{1, 1}}, true}};
  r.add(std::move(record));
}

// The windows that cover a pixel, summed: a sum over the places of the kernel.
void add_col2im(Registry& r) {
  OpRecord record;
  record.schema_text =
      "col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) "
      "-> Tensor";
  auto schema = std::make_shared<const Schema>(parse_schema(record.schema_text));
  record.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    refuse_complex(call, self.dtype);
    if (self.sizes.size() != 2 && self.sizes.size() != 3) refuse(call, "expected 2D or 3D input");
    Unfold u = unfold_of(call, call.integers("output_size"));
    Expr rows = self.sizes[self.sizes.size() - 2], blocks = u.blocks[0] * u.blocks[1];
    if ((rows.is_constant() && rows.value() % places(u) != 0) ||
        prove_eq(self.sizes.back(), blocks, call.ranges()) == Proof::no)
      refuse(call, "the input does not fit the windows");
    Sizes out(self.sizes.begin(), self.sizes.end() - 2);
    out.push_back(floordiv(rows, Expr(places(u))));
    out.insert(out.end(), u.image.begin(), u.image.end());
    call.results = {contiguous_type(self.dtype, std::move(out), self.device)};
  };
  record.lower = [](LowerCall& call) {
    const TensorType& self = call.tensor("self")->type;
    Unfold u = unfold_of(call, call.integers("output_size"));
    DType compute = compute_dtype(self.dtype);
    call.kernel([&](KernelBuilder& k) {
      k.parallel(call.output_type().sizes, [&](const Index& i) {
        size_t n = i.size();
        ValueId sum = k.reduce_one(ReduceOp::sum, compute, {Expr(u.kernel[0]), Expr(u.kernel[1])}, [&](const Index& w) {
          Expr y = i[n - 2] + Expr(u.padding[0]) - w[0] * Expr(u.dilation[0]),
               x = i[n - 1] + Expr(u.padding[1]) - w[1] * Expr(u.dilation[1]);
          Expr row = floordiv(y, Expr(u.stride[0])), column = floordiv(x, Expr(u.stride[1]));
          auto whole = [&](const Expr& e, int64_t by) {
            return k.op(ScalarOp::eq, k.index_value(mod(e, Expr(by))), k.index_value(Expr(0)));
          };
          ValueId inside = all_of(k, {between(k, row, u.blocks[0]), between(k, column, u.blocks[1]),
                                      whole(y, u.stride[0]), whole(x, u.stride[1])});
          Index at(i.begin(), i.end() - 3);
          at.push_back(i[n - 3] * Expr(places(u)) + w[0] * Expr(u.kernel[1]) + w[1]);
          at.push_back(row * u.blocks[1] + column);
          return k.load_compute(call.input("self"), at, inside);
        });
        k.store(call.output(), i, sum);
      });
    });
  };
  record.reference = [schema](ReferenceCall& call) {
    OpCall typed(call.node(), *schema);
    Tensor self = call.tensor("self");
    Unfold u = unfold_of(typed, to_exprs(call.integers("output_size")));
    int64_t h = u.image[0].value(), w = u.image[1].value(), bw = u.blocks[1].value(), blocks = self.sizes.back();
    std::vector<int64_t> sizes(self.sizes.begin(), self.sizes.end() - 2);
    sizes.insert(sizes.end(), {self.sizes[self.sizes.size() - 2] / places(u), h, w});
    std::vector<double> x = read_dense<double>(self), out(static_cast<size_t>(count_elements(sizes)), 0.0);
    for (size_t i = 0; i < x.size(); ++i) {
      int64_t block = static_cast<int64_t>(i) % blocks, line = static_cast<int64_t>(i) / blocks,
              place = line % places(u), plane = line / places(u);
      int64_t row = block / bw * u.stride[0] - u.padding[0] + place / u.kernel[1] * u.dilation[0];
      int64_t column = block % bw * u.stride[1] - u.padding[1] + place % u.kernel[1] * u.dilation[1];
      if (row >= 0 && row < h && column >= 0 && column < w)
        out[static_cast<size_t>(plane * h * w + row * w + column)] += x[i];
    }
    Tensor result = new_result(call, sizes);
    write_dense(result, out);
    call.results = {Datum{result}};
  };
  record.samples = {{{spec({1, 12, 6}), List{4, 3}, List{2, 2}, List{1, 1}, List{0, 0}, List{1, 1}}},
                    {{spec({8, 4}), List{3, 3}, List{2, 2}, List{1, 1}, List{0, 0}, List{1, 1}}},
                    {{spec({1, 12, 5}), List{4, 3}, List{2, 2}, List{1, 1}, List{0, 0}, List{1, 1}}, true}};
  r.add(std::move(record));
}

// ---- max_unpool ----

// Zeros, with the pooled values at their old places.
void build_unpool(Build& b, size_t spatial) {
  DecomposeCall& call = b.call();
  Value *self = call.tensor("self"), *indices = call.tensor("indices");
  const Sizes& sizes = self->type.sizes;
  Sizes wanted = call.integers("output_size");
  if (wanted.size() != spatial || (sizes.size() != spatial + 1 && sizes.size() != spatial + 2))
    refuse(call, "sizes do not fit");
  Sizes lead(sizes.begin(), sizes.end() - static_cast<std::ptrdiff_t>(spatial)), out = lead, rows = lead, flat = lead;
  out.insert(out.end(), wanted.begin(), wanted.end());
  rows.push_back(product(wanted));
  flat.push_back(product(Sizes(sizes.end() - static_cast<std::ptrdiff_t>(spatial), sizes.end())));
  Value* zeros = b("new_zeros", {self, b.ints(rows)});
  Value* placed = b("scatter.src", {zeros, Scalar(-1), b.view(indices, flat), b.view(self, flat)});
  Value* shaped = b.view(placed, out);
  bool last = is_channels_last(sizes, self->type.strides) && !is_contiguous(sizes, self->type.strides);
  call.result(last ? b("clone", {shaped, spatial == 2 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d})
                   : shaped);
}

// ---- grid_sampler ----

enum class Interpolation : int64_t { bilinear = 0, nearest = 1, bicubic = 2 };
enum class Border : int64_t { zeros = 0, border = 1, reflection = 2 };

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
      refuse(call_, "input and grid do not fit");
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
    if (border_ == Border::reflection) x = reflected(x, size);
    if (border_ != Border::zeros) x = b_("clamp", {x, Scalar(0), size_number(size - Expr(1))});
    return x;
  }

  // Folds at the centres of the outer pixels, or at their outer edges.
  Value* reflected(Value* x, const Expr& size) {
    if (align_ && is_one(size)) return b_("zeros_like", {x});
    double low = align_ ? 0 : -0.5;
    Expr span = align_ ? size - Expr(1) : size;
    Value* shifted = b_("abs", {sub(x, Scalar(low))});
    Value* extra = b_("fmod.Scalar", {shifted, size_number(span)});
    Value* flips = b_("floor", {rounded(b_.div(shifted, size_number(span)))});
    Value* even = b_("eq.Scalar", {b_("fmod.Scalar", {flips, Scalar(2)}), Scalar(0)});
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
    return weight ? mul(values, b_("unsqueeze", {weight, Scalar(1)})) : values;
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
    Value* sum = nullptr;
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 4; ++j) {
        std::vector<Value*> places = {moved(add(low[0], Scalar(i - 1)), input_->type.sizes[2]),
                                      moved(add(low[1], Scalar(j - 1)), input_->type.sizes[3])};
        Value* term = gathered(places, mul(weights[0][static_cast<size_t>(i)], weights[1][static_cast<size_t>(j)]));
        sum = sum ? add(sum, term) : term;
      }
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

void build_grid_sampler(Build& b, size_t spatial) {
  if (spatial == 3 && b.call().constant_integer("interpolation_mode") == 2)
    refuse(b.call(), "bicubic interpolation needs a 4D input");
  b.call().result(b.to(GridSampler(b, spatial).run(), b.call().tensor("input")->type.dtype));
}

void register_sampling(Registry& r) {
  std::string tail =
      "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor";
  Sample::TensorSpec image = spec({1, 2, 4, 5}), grid = spec({1, 3, 2, 2}, DType::f32, -1.3, 1.3);
  std::vector<Sample> flat, deep;
  for (int64_t mode : {0, 1, 2})
    for (int64_t border : {0, 1, 2}) {
      flat.push_back({{image, grid, Scalar(mode), Scalar(border), Scalar(border == 1)}});
      if (mode < 2)
        deep.push_back({{spec({1, 2, 3, 4, 2}), spec({1, 2, 2, 3, 3}, DType::f32, -1.3, 1.3), Scalar(mode),
                         Scalar(border), Scalar(false)}});
    }
  flat.push_back({{spec({1, 2, 4, 5}, DType::bf16), spec({1, 3, 2, 2}, DType::bf16, -1.3, 1.3), Scalar(0), Scalar(2),
                   Scalar(false)}});
  flat.push_back({{image, spec({1, 3, 2, 3}), Scalar(0), Scalar(0), Scalar(false)}, true});
  add_composite(
      r, {.schema = "grid_sampler_2d" + tail, .build = [](Build& b) { build_grid_sampler(b, 2); }, .samples = flat});
  add_composite(
      r, {.schema = "grid_sampler_3d" + tail, .build = [](Build& b) { build_grid_sampler(b, 3); }, .samples = deep});
  add_composite(
      r, {.schema = "grid_sampler" + tail,
          .build = [](Build& b) { build_grid_sampler(b, b.call().tensor("input")->type.sizes.size() == 5 ? 3 : 2); },
          .samples = {flat[0], deep[0]}});
}

}  // namespace

void register_unfolding(Registry& r) {
  add_im2col(r);
  add_col2im(r);
  Sample::TensorSpec pooled = spec({1, 2, 2, 3}), where = spec({1, 2, 2, 3}, DType::i64, 0, 19);
  add_composite(r, {.schema = "max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
                    .build = [](Build& b) { build_unpool(b, 2); },
                    .samples = {{{spec({1, 1, 1, 1}), spec({1, 1, 1, 1}, DType::i64, 0, 19), List{4, 5}}},
                                {{pooled, where, List{4}}, true}}});
  add_composite(
      r,
      {.schema =
           "max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor",
       .build = [](Build& b) { build_unpool(b, 3); },
       .samples = {{{spec({1, 1, 1, 1, 1}), spec({1, 1, 1, 1, 1}, DType::i64, 0, 7), List{2, 2, 2}, List{2, 2, 2},
                     List{0, 0, 0}}}}});
  register_sampling(r);
}

}  // namespace kiln
