#include "ops/align_regions.h"

#include "ops/elementwise.h"

namespace kiln {

namespace {

using loops::KernelBuilder;
using loops::ValueId;
using Index = std::vector<Expr>;

// A bin's mean over its points, each of which lies between four pixels: in eager's steps and types.
class RegionBin {
 public:
  RegionBin(LowerCall& call, KernelBuilder& k, Index at, int site)
      : call_(call),
        k_(k),
        at_(std::move(at)),
        site_(site),
        dtype_(call.tensor("input")->type.dtype),
        shift_(call.boolean("aligned") ? 0.5 : 0.0) {}

  ValueId run() {
    image_ = image();
    const int64_t points = call_.constant_integer("sampling_ratio");
    std::vector<Place> down, across;
    for (int64_t p = 0; p < points; ++p) {
      down.push_back(place(1, p, points));
      across.push_back(place(0, p, points));
    }
    ValueId sum = number(0.0);
    for (const Place& y : down)
      for (const Place& x : across) sum = with_point(sum, y, x);
    return k_.op(ScalarOp::div, sum, number(static_cast<double>(points * points)));
  }

 private:
  // Along one side: the two pixels, how far from the first one, and whether the point counts.
  struct Place {
    Expr pixels[2] = {Expr(0), Expr(0)};
    ValueId far, near, inside;
  };

  ValueId number(double value) { return k_.constant(dtype_, Scalar(value)); }
  ValueId number(const Expr& value) { return k_.cast(dtype_, k_.index_value(value)); }
  ValueId add(ValueId a, ValueId b) { return k_.op(ScalarOp::add, a, b); }
  ValueId sub(ValueId a, ValueId b) { return k_.op(ScalarOp::sub, a, b); }
  ValueId mul(ValueId a, ValueId b) { return k_.op(ScalarOp::mul, a, b); }
  ValueId region(int64_t column) { return k_.load(call_.input("rois"), {at_[0], Expr(column)}); }

  Expr image() {
    ValueId named = region(0);
    k_.raise_if(k_.op(ScalarOp::logical_not, k_.op(ScalarOp::ge, named, number(0.0))), site_);
    return k_.check_index(k_.cast(DType::i64, named), call_.tensor("input")->type.sizes[0], site_);
  }

  // A region's corner on the feature map.
  ValueId corner(int64_t column) {
    return sub(mul(region(column), call_.scalar_value(k_, "spatial_scale", dtype_)), number(shift_));
  }

  // `side`: 0 across, 1 down.
  Place place(int64_t side, int64_t point, int64_t points) {
    const Expr bins = call_.output_type().sizes[side == 0 ? 3 : 2], bin = at_[side == 0 ? 3 : 2];
    const Expr size = call_.tensor("input")->type.sizes[side == 0 ? 3 : 2];
    ValueId first = corner(1 + side), length = sub(corner(3 + side), first);
    if (!call_.boolean("aligned")) length = k_.op(ScalarOp::max, length, number(1.0));
    ValueId step = k_.op(ScalarOp::div, length, number(bins));
    ValueId part =
        k_.op(ScalarOp::div, mul(number(static_cast<double>(point) + 0.5), step), number(static_cast<double>(points)));
    ValueId at = add(add(first, mul(number(bin), step)), part);
    Place out;
    out.inside =
        k_.op(ScalarOp::logical_and, k_.op(ScalarOp::ge, at, number(-1.0)), k_.op(ScalarOp::le, at, number(size)));
    ValueId last = number(size - Expr(1));
    at = k_.op(ScalarOp::min, k_.op(ScalarOp::max, at, number(0.0)), last);
    ValueId low = k_.op(ScalarOp::trunc, at), next = k_.op(ScalarOp::min, add(low, number(1.0)), last);
    out.far = k_.select(out.inside, sub(at, low), number(0.0));
    out.near = k_.select(out.inside, sub(number(1.0), out.far), number(0.0));
    out.pixels[0] = k_.check_index(k_.cast(DType::i64, low), size, site_, out.inside);
    out.pixels[1] = k_.check_index(k_.cast(DType::i64, next), size, site_, out.inside);
    return out;
  }

  ValueId with_point(ValueId sum, const Place& y, const Place& x) {
    ValueId inside = k_.op(ScalarOp::logical_and, y.inside, x.inside);
    for (int row = 0; row < 2; ++row)
      for (int column = 0; column < 2; ++column) {
        ValueId weight = mul(row == 0 ? y.near : y.far, column == 0 ? x.near : x.far);
        ValueId pixel = k_.load(call_.input("input"), {image_, at_[1], y.pixels[row], x.pixels[column]}, inside);
        sum = add(sum, mul(weight, pixel));
      }
    return sum;
  }

  LowerCall& call_;
  KernelBuilder& k_;
  Index at_;  // of the result: region, channel, row, column
  int site_;
  DType dtype_;
  double shift_;
  Expr image_ = Expr(0);
};

}  // namespace

void lower_aligned_regions(LowerCall& call) {
  const int site = call.site("a region names an image that is not there");
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes,
               [&](const Index& i) { k.store(call.output(), i, RegionBin(call, k, i, site).run()); });
  });
}

}  // namespace kiln
