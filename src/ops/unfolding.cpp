// Windows as columns and back (im2col, col2im), and unpooling.
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
      refuse(call, "K0219", "kernel size, stride and dilation must be positive");
    u.blocks.push_back(conv_output_size(g, d, image[d], Expr(u.kernel[d])));
    if (u.blocks[d].is_constant() && u.blocks[d].value() <= 0)
      refuse(call, "K0219", "the windows do not fit the image");
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
    if (sizes.size() != 3 && sizes.size() != 4) refuse(call, "K0219", "expected 3D or 4D input");
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
    if (self.sizes.size() != 2 && self.sizes.size() != 3) refuse(call, "K0219", "expected 2D or 3D input");
    Unfold u = unfold_of(call, call.integers("output_size"));
    Expr rows = self.sizes[self.sizes.size() - 2], blocks = u.blocks[0] * u.blocks[1];
    if ((rows.is_constant() && rows.value() % places(u) != 0) ||
        prove_eq(self.sizes.back(), blocks, call.ranges()) == Proof::no)
      refuse(call, "K0219", "the input does not fit the windows");
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
    refuse(call, "K0219", "sizes do not fit");
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
  r.describe({"col2im", "im2col"}, complex_by(ComplexRule::parts));
  r.describe({"max_unpool2d", "max_unpool3d"}, autocast_to(AutocastRule::single));
}

}  // namespace kiln
