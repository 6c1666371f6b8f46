// torchvision's operators on boxes: nms, roi_align, roi_pool, ps_roi_align. Detectors are exported with them; they are
// library kernels, since what they look at is found in the boxes. Only roi_align with a known number of points in each
// bin is one of Loops (align_regions.h).
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/align_regions.h"
#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/layout.h"

namespace kiln {

namespace {

void check_dtypes(const OpCall& call, const TensorType& a, const TensorType& b) {
  if (a.dtype != DType::f32 && a.dtype != DType::f64) refuse_dtype(call, a.dtype);
  if (a.dtype != b.dtype) refuse(call, "K0206", "both tensors must have the same dtype");
}

// ---- nms ----

void infer_nms(InferCall& call) {
  const TensorType &boxes = call.tensor("dets")->type, &scores = call.tensor("scores")->type;
  check_dtypes(call, boxes, scores);
  if (boxes.sizes.size() != 2) refuse(call, "K0206", "boxes should be a 2d tensor");
  if (prove_eq(boxes.sizes[1], Expr(4), call.ranges()) == Proof::no)
    refuse(call, "K0206", "boxes should have 4 elements");
  if (scores.sizes.size() != 1) refuse(call, "K0206", "scores should be a 1d tensor");
  if (prove_eq(boxes.sizes[0], scores.sizes[0], call.ranges()) == Proof::no)
    refuse(call, "K0206", "boxes and scores should have the same number of elements");
  const auto& results = call.node().results;
  bool typed = !results.empty() && results[0]->type.sizes.size() == 1;
  Expr count = typed ? results[0]->type.sizes[0] : Expr::symbol(str("u_", call.node().name));
  call.results = {contiguous_type(DType::i64, {count}, boxes.device)};
}

// In the boxes' own type: whether 3/10 is more than a threshold of 0.3 is a matter of rounding.
template <class T>
double overlap(const T* a, const T* b) {
  T width = std::max(T(0), std::min(a[2], b[2]) - std::max(a[0], b[0]));
  T height = std::max(T(0), std::min(a[3], b[3]) - std::max(a[1], b[1]));
  T common = width * height;
  return static_cast<double>(common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common));
}

// A box stays if no better box that stays covers too much of it.
template <class T>
std::vector<int64_t> boxes_that_stay(const ReferenceCall& call) {
  const std::vector<T> boxes = read_dense<T>(call.tensor("dets")), scores = read_dense<T>(call.tensor("scores"));
  const double threshold = call.real("iou_threshold");
  std::vector<int64_t> order(scores.size()), kept;
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    T x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
    return std::isnan(x) ? !std::isnan(y) : x > y;
  });
  for (int64_t i : order) {
    bool stays = std::none_of(kept.begin(), kept.end(), [&](int64_t better) {
      return overlap(boxes.data() + better * 4, boxes.data() + i * 4) > threshold;
    });
    if (stays) kept.push_back(i);
  }
  return kept;
}

void reference_nms(ReferenceCall& call) {
  const bool wide = nominal_argument_dtype(call, "dets") == DType::f64;
  std::vector<int64_t> kept = wide ? boxes_that_stay<double>(call) : boxes_that_stay<float>(call);
  Tensor out = Tensor::empty(DType::i64, {static_cast<int64_t>(kept.size())});
  write_dense(out, kept);
  call.results = {Datum{out}};
}

void register_nms(Registry& r) {
  OpRecord record;
  record.name_space = "torchvision";
  record.schema_text = "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor";
  record.library = "nms";
  record.reads_data = true;
  record.infer = infer_nms;
  record.reference = reference_nms;
  record.samples = {{{spec({9, 4}, DType::f32, 0, 9), spec({9}), Scalar(0.2)}},
                    {{spec({6, 4}, DType::f64, -3, 9), spec({6}, DType::f64, 1, 1), Scalar(0.0)}},
                    {{spec({0, 4}), spec({0}), Scalar(0.5)}},
                    {{spec({3, 5}), spec({3}), Scalar(0.5)}, true},
                    {{spec({3, 4}), spec({4}), Scalar(0.5)}, true},
                    {{spec({3, 4}, DType::i64), spec({3}, DType::i64), Scalar(0.5)}, true}};
  r.add(std::move(record));
}

// ---- Pooling of regions ----

void infer_regions(InferCall& call, bool by_place, bool places) {
  const TensorType &input = call.tensor("input")->type, &rois = call.tensor("rois")->type;
  check_dtypes(call, input, rois);
  if (input.sizes.size() != 4) refuse(call, "K0206", "the input must have 4 dimensions");
  if (rois.sizes.size() != 2 || prove_eq(rois.sizes[1], Expr(5), call.ranges()) == Proof::no)
    refuse(call, "K0206", "rois must have shape as Tensor[K, 5]");
  Expr rows = call.integer("pooled_height"), columns = call.integer("pooled_width");
  Expr channels = input.sizes[1];
  if (by_place) {
    if (prove_eq(mod(channels, rows * columns), Expr(0), call.ranges()) == Proof::no)
      refuse(call, "K0206", "input channels must be a multiple of pooling height * pooling width");
    channels = floordiv(channels, rows * columns);
  }
  const Sizes sizes = {rois.sizes[0], channels, rows, columns};
  call.results = {contiguous_type(input.dtype, sizes, input.device)};
  if (places) call.results.push_back(contiguous_type(DType::i32, sizes, input.device));
}

struct Plane {
  const double* values;
  int64_t height, width;
};

// What a point between pixels has: nothing beyond one pixel outside, the border's value up to there.
double sampled(const Plane& plane, double y, double x) {
  if (!(y >= -1 && y <= static_cast<double>(plane.height) && x >= -1 && x <= static_cast<double>(plane.width)))
    return 0;
  y = std::clamp(y, 0.0, static_cast<double>(plane.height - 1));
  x = std::clamp(x, 0.0, static_cast<double>(plane.width - 1));
  const auto top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
  const int64_t bottom = std::min(top + 1, plane.height - 1), right = std::min(left + 1, plane.width - 1);
  const double down = y - static_cast<double>(top), across = x - static_cast<double>(left);
  auto at = [&](int64_t row, int64_t column) { return plane.values[row * plane.width + column]; };
  return (at(top, left) * (1 - across) + at(top, right) * across) * (1 - down) +
         (at(bottom, left) * (1 - across) + at(bottom, right) * across) * down;
}

// Everything that the references of the three share: input and regions read, one result per bin.
struct Regions {
  explicit Regions(ReferenceCall& call)
      : input(call.tensor("input")),
        values(read_dense<double>(input)),
        rois(read_dense<double>(call.tensor("rois"))),
        count(call.tensor("rois").sizes[0]),
        rows(call.integer("pooled_height")),
        columns(call.integer("pooled_width")),
        scale(call.real("spatial_scale")),
        narrow(call.nominal_dtype() == DType::f32) {}
  Plane plane(int64_t image, int64_t channel) const {
    const int64_t h = input.sizes[2], w = input.sizes[3];
    return {values.data() + (image * input.sizes[1] + channel) * h * w, h, w};
  }
  int64_t image(const ReferenceCall& call, int64_t n) const {
    double at = rois[static_cast<size_t>(n * 5)];
    if (!(at >= 0 && at < static_cast<double>(input.sizes[0])))
      fail_user("K0630", str("region ", n, " names image ", at, " of ", input.sizes[0]), call.node().where());
    return static_cast<int64_t>(at);
  }
  // Rounded as eager rounds it: how many points or pixels a region has depends on it.
  double side(int64_t n, int64_t i) const {
    const double at = rois[static_cast<size_t>(n * 5 + i)];
    return narrow ? static_cast<float>(at) * static_cast<float>(scale) : at * scale;
  }

  Tensor input;
  std::vector<double> values, rois;
  int64_t count, rows, columns;
  double scale;
  bool narrow;
};

// The mean over a grid of points in the bin.
double bin_mean(const Plane& plane, double top, double left, double high, double wide, int64_t down, int64_t across,
                bool at_least_one) {
  double sum = 0;
  for (int64_t i = 0; i < down; ++i)
    for (int64_t j = 0; j < across; ++j)
      sum += sampled(plane, top + (static_cast<double>(i) + 0.5) * high / static_cast<double>(down),
                     left + (static_cast<double>(j) + 0.5) * wide / static_cast<double>(across));
  const int64_t points = at_least_one ? std::max<int64_t>(down * across, 1) : down * across;
  return sum / static_cast<double>(points);
}

int64_t points_along(const ReferenceCall& call, double length, int64_t bins) {
  if (int64_t fixed = call.integer("sampling_ratio"); fixed > 0) return fixed;
  double many = std::ceil(length / static_cast<double>(bins));
  if (!(many < 1 << 24)) fail_user("K0630", "a region is not finite or far too large", call.node().where());
  return std::max<int64_t>(static_cast<int64_t>(many), 0);
}

void reference_align(ReferenceCall& call, bool by_place) {
  const Regions r(call);
  const bool aligned = by_place || call.boolean("aligned");
  const int64_t channels = by_place ? r.input.sizes[1] / (r.rows * r.columns) : r.input.sizes[1];
  std::vector<double> out;
  std::vector<int64_t> from;
  for (int64_t n = 0; n < r.count; ++n) {
    const double shift = aligned ? 0.5 : 0.0, left = r.side(n, 1) - shift, top = r.side(n, 2) - shift;
    double width = r.side(n, 3) - shift - left, height = r.side(n, 4) - shift - top;
    if (!aligned) width = std::max(width, 1.0), height = std::max(height, 1.0);
    const double high = height / static_cast<double>(r.rows), wide = width / static_cast<double>(r.columns);
    const int64_t down = points_along(call, height, r.rows), across = points_along(call, width, r.columns);
    const int64_t image = r.image(call, n);
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < r.rows; ++i)
        for (int64_t j = 0; j < r.columns; ++j) {
          const int64_t channel = by_place ? (c * r.rows + i) * r.columns + j : c;
          out.push_back(bin_mean(r.plane(image, channel), top + static_cast<double>(i) * high,
                                 left + static_cast<double>(j) * wide, high, wide, down, across, !by_place));
          from.push_back(channel);
        }
  }
  const std::vector<int64_t> sizes = {r.count, channels, r.rows, r.columns};
  Tensor result = new_result(call, sizes);
  write_dense(result, out);
  call.results = {Datum{result}};
  if (!by_place) return;
  Tensor places = Tensor::empty(DType::i32, sizes);
  write_dense(places, from);
  call.results.push_back(Datum{places});
}

// The first largest pixel of a bin, and where it is.
std::pair<double, int64_t> bin_max(const Plane& plane, int64_t top, int64_t bottom, int64_t left, int64_t right) {
  top = std::clamp<int64_t>(top, 0, plane.height), bottom = std::clamp<int64_t>(bottom, 0, plane.height);
  left = std::clamp<int64_t>(left, 0, plane.width), right = std::clamp<int64_t>(right, 0, plane.width);
  if (bottom <= top || right <= left) return {0.0, -1};
  std::pair<double, int64_t> best = {-static_cast<double>(std::numeric_limits<float>::max()), -1};
  for (int64_t y = top; y < bottom; ++y)
    for (int64_t x = left; x < right; ++x)
      if (double value = plane.values[y * plane.width + x]; value > best.first) best = {value, y * plane.width + x};
  return best;
}

void reference_roi_pool(ReferenceCall& call) {
  const Regions r(call);
  std::vector<double> out;
  std::vector<int64_t> from;
  auto pixel = [&](int64_t n, int64_t side) {
    double at = std::round(r.side(n, side));
    if (!(std::abs(at) < 1 << 30)) fail_user("K0630", "a region is not finite or far too large", call.node().where());
    return static_cast<int64_t>(at);
  };
  for (int64_t n = 0; n < r.count; ++n) {
    const int64_t left = pixel(n, 1), top = pixel(n, 2), image = r.image(call, n);
    const double wide =
        static_cast<double>(std::max<int64_t>(pixel(n, 3) - left + 1, 1)) / static_cast<double>(r.columns);
    const double high = static_cast<double>(std::max<int64_t>(pixel(n, 4) - top + 1, 1)) / static_cast<double>(r.rows);
    auto before = [](int64_t bin, double size) {
      return static_cast<int64_t>(std::floor(static_cast<double>(bin) * size));
    };
    auto after = [](int64_t bin, double size) {
      return static_cast<int64_t>(std::ceil(static_cast<double>(bin + 1) * size));
    };
    for (int64_t c = 0; c < r.input.sizes[1]; ++c)
      for (int64_t i = 0; i < r.rows; ++i)
        for (int64_t j = 0; j < r.columns; ++j) {
          auto [value, place] = bin_max(r.plane(image, c), top + before(i, high), top + after(i, high),
                                        left + before(j, wide), left + after(j, wide));
          out.push_back(value);
          from.push_back(place);
        }
  }
  const std::vector<int64_t> sizes = {r.count, r.input.sizes[1], r.rows, r.columns};
  Tensor result = new_result(call, sizes), places = Tensor::empty(DType::i32, sizes);
  write_dense(result, out);
  write_dense(places, from);
  call.results = {Datum{result}, Datum{places}};
}

void build_align(Build& b) {
  DecomposeCall& call = b.call();
  const int64_t points = call.constant_integer("sampling_ratio");
  const bool known = points >= 1 && points <= most_region_points;
  std::vector<Argument> args;
  for (const SchemaArg& arg : call.schema().args) args.push_back(call.arg(arg.name));
  call.result(call.call(known ? "kiln.align_regions.default" : "kiln.roi_align.default", args));
}

struct RegionRow {
  std::string name, schema;
  bool by_place, places;
  ReferenceFn reference;
  std::vector<Sample> samples;
  std::string name_space = "torchvision";
  LowerFn lower = {};  // else it is the library kernel of its name
};

void add_regions(Registry& r, RegionRow row) {
  OpRecord record;
  record.name_space = row.name_space;
  record.schema_text = row.name + row.schema;
  if (row.lower)
    record.lower = row.lower;
  else
    record.library = row.name;
  record.infer = [row](InferCall& call) { infer_regions(call, row.by_place, row.places); };
  record.reference = row.reference;
  record.samples = row.samples;
  r.add(std::move(record));
}

}  // namespace

void register_boxes(Registry& r) {
  register_nms(r);
  const std::string pooled =
      "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width";
  // All numbers of a region come from one range: images 0 and 1 (cut to integers), small boxes, some turned inside out.
  const auto boxes = [](int64_t count, DType dtype = DType::f32) { return spec({count, 5}, dtype, 0.1, 1.9); };
  const Sample::TensorSpec maps = spec({2, 4, 6, 7}), wide = spec({2, 4, 6, 7}, DType::f64);
  const Scalar two(2), one(1), three(3), yes(true), no(false), scale(3.0), whole(1.0);
  const std::vector<Sample> bad = {{{spec({4, 6, 7}), boxes(3), scale, two, two, two}, true},
                                   {{maps, spec({3, 4}), scale, two, two, two}, true},
                                   {{maps, boxes(3, DType::f64), scale, two, two, two}, true}};
  RegionRow align = {"roi_align",
                     pooled + ", int sampling_ratio, bool aligned) -> Tensor",
                     false,
                     false,
                     [](ReferenceCall& call) { reference_align(call, false); },
                     {{{maps, boxes(3), scale, two, three, two, no}},
                      {{maps, boxes(3), scale, two, two, Scalar(-1), yes}},
                      {{wide, boxes(2, DType::f64), whole, one, two, Scalar(0), no}},
                      {{maps, boxes(0), scale, two, two, two, yes}}}};
  for (Sample sample : bad) {
    sample.args.push_back(no);
    align.samples.push_back(std::move(sample));
  }
  align.name_space = "kiln";
  RegionRow points = align;
  points.name = "align_regions";
  points.lower = lower_aligned_regions;
  std::erase_if(points.samples,
                [](const Sample& sample) { return sample.refused || std::get<Scalar>(sample.args[5]).as_int() < 1; });
  add_composite(r, {.schema = "roi_align" + align.schema,
                    .build = build_align,
                    .samples = align.samples,
                    .reference = align.reference,
                    .name_space = "torchvision"});
  add_regions(r, std::move(points));
  add_regions(r, std::move(align));
  RegionRow by_place = {"ps_roi_align",
                        pooled + ", int sampling_ratio) -> (Tensor, Tensor)",
                        true,
                        true,
                        [](ReferenceCall& call) { reference_align(call, true); },
                        {{{maps, boxes(3), scale, two, two, two}},
                         {{wide, boxes(2, DType::f64), whole, one, two, three}},
                         {{maps, boxes(3), scale, two, three, two}, true}}};
  by_place.samples.insert(by_place.samples.end(), bad.begin(), bad.end());
  add_regions(r, std::move(by_place));
  RegionRow pool = {"roi_pool",
                    pooled + ") -> (Tensor, Tensor)",
                    false,
                    true,
                    reference_roi_pool,
                    {{{maps, boxes(3), scale, two, three}}, {{wide, boxes(2, DType::f64), whole, one, two}}}};
  for (Sample sample : bad) {
    sample.args.pop_back();
    pool.samples.push_back(std::move(sample));
  }
  add_regions(r, std::move(pool));
}

}  // namespace kiln
