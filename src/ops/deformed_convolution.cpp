// torchvision's deform_conv2d: a convolution whose taps are moved by offsets from data and read between pixels. Two
// nests: what each tap reads, then the product with the weight.
#include <cmath>

#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/layout.h"

namespace kiln {

namespace {

using loops::BufferId;
using loops::KernelBuilder;
using loops::ReduceOp;

// The sizes that everything follows from.
struct Shape {
  explicit Shape(const OpCall& call)
      : batch(call.tensor("input")->type.sizes.at(0)),
        channels(call.tensor("input")->type.sizes.at(1)),
        height(call.tensor("input")->type.sizes.at(2)),
        width(call.tensor("input")->type.sizes.at(3)),
        out_channels(call.tensor("weight")->type.sizes.at(0)),
        group_channels(call.tensor("weight")->type.sizes.at(1)),
        kernel_h(call.tensor("weight")->type.sizes.at(2)),
        kernel_w(call.tensor("weight")->type.sizes.at(3)),
        groups(call.integer("groups")),
        offset_groups(call.integer("offset_groups")),
        out_h(places(call, height, kernel_h, "h")),
        out_w(places(call, width, kernel_w, "w")) {}

  static Expr places(const OpCall& call, const Expr& extent, const Expr& kernel, const char* side) {
    Expr reach = call.integer(str("dilation_", side)) * (kernel - Expr(1)) + Expr(1);
    Expr padded = extent + call.integer(str("pad_", side)) * Expr(2);
    return floordiv(padded - reach, call.integer(str("stride_", side))) + Expr(1);
  }

  Expr batch, channels, height, width, out_channels, group_channels, kernel_h, kernel_w, groups, offset_groups, out_h,
      out_w;
};

void check_ranks(const OpCall& call) {
  for (const char* name : {"input", "weight", "offset"})
    if (call.tensor(name)->type.sizes.size() != 4) refuse(call, "K0206", str(name, " must have 4 dimensions"));
  const DType dtype = call.tensor("input")->type.dtype;
  if (dtype != DType::f32 && dtype != DType::f64) refuse_dtype(call, dtype);
  for (const char* name : {"weight", "offset", "bias"})
    if (call.tensor(name)->type.dtype != dtype) refuse(call, "K0206", str(name, " must have the input's dtype"));
}

void infer_deformed(InferCall& call) {
  check_ranks(call);
  const Shape s(call);
  auto expect = [&](const Expr& a, const Expr& b, std::string_view what) {
    if (prove_eq(a, b, call.ranges()) == Proof::no)
      refuse(call, "K0206", str(what, " is ", a.text(), " where ", b.text(), " is needed"));
  };
  const Sizes& offset = call.tensor("offset")->type.sizes;
  const Expr taps = s.offset_groups * s.kernel_h * s.kernel_w;
  expect(s.group_channels * s.groups, s.channels, "the weight's number of channels times groups");
  expect(mod(s.channels, s.offset_groups), Expr(0), "the rest of channels by offset groups");
  expect(offset[1], taps * Expr(2), "offset.size(1)");
  expect(offset[2], s.out_h, "the offset's height");
  expect(offset[3], s.out_w, "the offset's width");
  if (call.boolean("use_mask")) {
    const TensorType& mask = call.tensor("mask")->type;
    if (mask.sizes.size() != 4 || mask.dtype != call.tensor("input")->type.dtype)
      refuse(call, "K0206", "the mask does not fit");
    expect(mask.sizes[1], taps, "mask.size(1)");
  }
  const TensorType& input = call.tensor("input")->type;
  call.results = {contiguous_type(input.dtype, {s.batch, s.out_channels, s.out_h, s.out_w}, input.device)};
}

// One coordinate: where the tap is, the pixel before it, and how far behind that it is.
struct Coordinate {
  ValueId at, low, part;
};

class Taps {
 public:
  Taps(LowerCall& call, KernelBuilder& k, const Shape& s, DType dtype)
      : call_(call), k_(k), s_(s), dtype_(dtype), site_(call.site("a tap outside of the input")) {}

  // i: image, channel, tap's row and column, place's row and column.
  ValueId read(const std::vector<Expr>& i) {
    Expr tap = (floordiv(i[1], floordiv(s_.channels, s_.offset_groups)) * s_.kernel_h + i[2]) * s_.kernel_w + i[3];
    Coordinate y = coordinate("h", i[2], i[4], {i[0], tap * Expr(2), i[4], i[5]});
    Coordinate x = coordinate("w", i[3], i[5], {i[0], tap * Expr(2) + Expr(1), i[4], i[5]});
    ValueId near = both(reaches(y, s_.height), reaches(x, s_.width)), sum = number(0);
    for (int down : {0, 1})
      for (int across : {0, 1}) {
        ValueId row = moved(y, down), column = moved(x, across);
        ValueId inside = both(near, both(within(row, s_.height), within(column, s_.width)));
        Expr r = k_.check_index(k_.cast(DType::i64, row), s_.height, site_, inside);
        Expr c = k_.check_index(k_.cast(DType::i64, column), s_.width, site_, inside);
        ValueId pixel = k_.as(dtype_, k_.load_compute(call_.input("input"), {i[0], i[1], r, c}, inside));
        ValueId weight = op(ScalarOp::mul, share(y, down), share(x, across));
        // A masked load gives 0, but 0 times what is not finite would not be.
        sum = op(ScalarOp::add, sum, k_.select(inside, op(ScalarOp::mul, weight, pixel), number(0)));
      }
    if (!call_.boolean("use_mask")) return sum;
    return op(ScalarOp::mul, sum, k_.as(dtype_, k_.load_compute(call_.input("mask"), {i[0], tap, i[4], i[5]})));
  }

 private:
  ValueId op(ScalarOp o, ValueId a, ValueId b) { return k_.op(o, a, b); }
  ValueId both(ValueId a, ValueId b) { return k_.op(ScalarOp::bit_and, a, b); }
  ValueId number(double v) { return k_.constant(dtype_, Scalar(v)); }
  ValueId extent(const Expr& e) { return k_.as(dtype_, k_.index_value(e)); }
  Coordinate coordinate(const char* side, const Expr& tap, const Expr& place, std::vector<Expr> offset) {
    Expr start = place * call_.integer(str("stride_", side)) - call_.integer(str("pad_", side)) +
                 tap * call_.integer(str("dilation_", side));
    ValueId at =
        op(ScalarOp::add, extent(start), k_.as(dtype_, k_.load_compute(call_.input("offset"), std::move(offset))));
    ValueId low = k_.op(ScalarOp::floor, at);
    return {at, low, op(ScalarOp::sub, at, low)};
  }
  ValueId reaches(const Coordinate& c, const Expr& size) {
    return both(op(ScalarOp::gt, c.at, number(-1)), op(ScalarOp::lt, c.at, extent(size)));
  }
  ValueId within(ValueId at, const Expr& size) {
    return both(op(ScalarOp::ge, at, number(0)), op(ScalarOp::lt, at, extent(size)));
  }
  ValueId moved(const Coordinate& c, int by) { return by ? op(ScalarOp::add, c.low, number(1)) : c.low; }
  ValueId share(const Coordinate& c, int by) { return by ? c.part : op(ScalarOp::sub, number(1), c.part); }

  LowerCall& call_;
  KernelBuilder& k_;
  const Shape& s_;
  DType dtype_;
  int site_;
};

void lower_deformed(LowerCall& call) {
  const Shape s(call);
  const DType dtype = call.output_type().dtype;
  BufferId read = call.temp(dtype, {s.batch, s.channels, s.kernel_h, s.kernel_w, s.out_h, s.out_w}, "taps");
  call.kernel([&](KernelBuilder& k) {
    k.parallel({s.batch, s.channels, s.kernel_h, s.kernel_w, s.out_h, s.out_w},
               [&](const std::vector<Expr>& i) { k.store(read, i, Taps(call, k, s, dtype).read(i)); });
  });
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
      Expr first = floordiv(i[1], floordiv(s.out_channels, s.groups)) * s.group_channels;
      ValueId sum = k.reduce_one(ReduceOp::sum, dtype, {s.group_channels, s.kernel_h, s.kernel_w},
                                 [&](const std::vector<Expr>& r) {
                                   return k.op(ScalarOp::mul, k.load(call.input("weight"), {i[1], r[0], r[1], r[2]}),
                                               k.load(read, {i[0], first + r[0], r[1], r[2], i[2], i[3]}));
                                 });
      k.store(call.output(), i, k.op(ScalarOp::add, sum, k.load(call.input("bias"), {i[1]})));
    });
  });
}

// ---- Reference ----

double between(const double* plane, int64_t height, int64_t width, double y, double x) {
  if (!(y > -1 && y < static_cast<double>(height) && x > -1 && x < static_cast<double>(width))) return 0;
  const auto top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
  double sum = 0;
  for (int64_t row : {top, top + 1})
    for (int64_t column : {left, left + 1}) {
      if (row < 0 || row >= height || column < 0 || column >= width) continue;
      sum += (1 - std::abs(y - static_cast<double>(row))) * (1 - std::abs(x - static_cast<double>(column))) *
             plane[row * width + column];
    }
  return sum;
}

void reference_deformed(ReferenceCall& call) {
  const Tensor input = call.tensor("input"), weight = call.tensor("weight"), offset = call.tensor("offset");
  const std::vector<double> x = read_dense<double>(input), w = read_dense<double>(weight),
                            by = read_dense<double>(offset);
  const std::vector<double> bias = read_dense<double>(call.tensor("bias"));
  const bool masked = call.boolean("use_mask");
  const std::vector<double> mask = masked ? read_dense<double>(call.tensor("mask")) : std::vector<double>{};
  const int64_t height = input.sizes[2], width = input.sizes[3], per_group = weight.sizes[1];
  const int64_t kh = weight.sizes[2], kw = weight.sizes[3], oh = offset.sizes[2], ow = offset.sizes[3];
  const int64_t outs = weight.sizes[0] / call.integer("groups"), taps = call.integer("offset_groups") * kh * kw;
  const int64_t moved_together = input.sizes[1] / call.integer("offset_groups");
  auto start = [&](const std::string& side, int64_t place, int64_t tap) {
    return static_cast<double>(place * call.integer("stride_" + side) - call.integer("pad_" + side) +
                               tap * call.integer("dilation_" + side));
  };
  std::vector<double> out;
  for (int64_t n = 0; n < input.sizes[0]; ++n)
    for (int64_t o = 0; o < weight.sizes[0]; ++o)
      for (int64_t r = 0; r < oh; ++r)
        for (int64_t c = 0; c < ow; ++c) {
          double sum = bias[static_cast<size_t>(o)];
          for (int64_t i = 0; i < per_group * kh * kw; ++i) {
            const int64_t channel = o / outs * per_group + i / (kh * kw), row = i / kw % kh, column = i % kw;
            const int64_t tap = (channel / moved_together * kh + row) * kw + column, at = (n * taps + tap) * oh * ow;
            const int64_t place = r * ow + c;
            double value = between(x.data() + (n * input.sizes[1] + channel) * height * width, height, width,
                                   start("h", r, row) + by[static_cast<size_t>(2 * at + place)],
                                   start("w", c, column) + by[static_cast<size_t>(2 * at + oh * ow + place)]);
            if (masked) value *= mask[static_cast<size_t>(at + place)];
            sum += w[static_cast<size_t>(o * per_group * kh * kw + i)] * value;
          }
          out.push_back(sum);
        }
  Tensor result = new_result(call, {input.sizes[0], weight.sizes[0], oh, ow});
  write_dense(result, out);
  call.results = {Datum{result}};
}

}  // namespace

void register_deformed_convolution(Registry& r) {
  OpRecord record;
  record.name_space = "torchvision";
  record.schema_text =
      "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt "
      "stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt "
      "offset_groups, "
      "bool use_mask) -> Tensor";
  record.infer = infer_deformed;
  record.lower = lower_deformed;
  record.reference = reference_deformed;
  const Scalar zero(0), one(1), two(2), yes(true), no(false);
  const auto w = DType::f64;
  record.samples = {{{spec({2, 2, 5, 6}), spec({3, 2, 3, 3}), spec({2, 18, 5, 6}), spec({2, 1}), spec({3}), one, one,
                      one, one, one, one, one, one, no}},
                    {{spec({1, 4, 5, 5}), spec({2, 2, 2, 3}), spec({1, 24, 2, 2}), spec({1, 12, 2, 2}), spec({2}), two,
                      two, zero, one, one, two, two, two, yes}},
                    {{spec({1, 1, 4, 4}, w), spec({1, 1, 1, 1}, w), spec({1, 2, 4, 4}, w, -9, 9), spec({1, 1, 4, 4}, w),
                      spec({1}, w), one, one, zero, zero, one, one, one, one, yes}},
                    {{spec({2, 2, 5, 6}), spec({3, 1, 3, 3}), spec({2, 18, 5, 6}), spec({2, 1}), spec({3}), one, one,
                      one, one, one, one, one, one, no},
                     true},
                    {{spec({2, 2, 5, 6}), spec({3, 2, 3, 3}), spec({2, 9, 5, 6}), spec({2, 1}), spec({3}), one, one,
                      one, one, one, one, one, one, no},
                     true}};
  r.add(std::move(record));
}

}  // namespace kiln
