// What detectors do with boxes: torchvision's nms, roi_align, roi_pool and ps_roi_align. Boxes are rows of numbers in
// the plane of an image; how many samples a box takes, and how many boxes stay, is found in them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "runtime/library/kernels.h"

namespace kiln::runtime {
namespace {

template <class T>
T read(const TensorView& t, std::initializer_list<int64_t> index) {
  int64_t at = 0;
  size_t d = 0;
  for (int64_t i : index) at += i * t.strides[d++];
  T value;
  std::memcpy(&value, t.data + at * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void write(const TensorView& t, std::initializer_list<int64_t> index, T value) {
  int64_t at = 0;
  size_t d = 0;
  for (int64_t i : index) at += i * t.strides[d++];
  std::memcpy(t.data + at * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// ---- nms ----

// NaN counts as the largest score, as in sorting.
template <class T>
std::vector<int64_t> by_score(const TensorView& scores) {
  std::vector<T> values;
  for (int64_t i = 0; i < scores.sizes[0]; ++i) values.push_back(read<T>(scores, {i}));
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    T x = values[static_cast<size_t>(a)], y = values[static_cast<size_t>(b)];
    return std::isnan(x) ? !std::isnan(y) : x > y;
  });
  return order;
}

template <class T>
std::vector<int64_t> kept_boxes(const LibraryCall& call) {
  TensorView boxes = call.tensor("dets"), scores = call.tensor("scores");
  const double threshold = call.floating("iou_threshold", 0);
  struct Box {
    T left, top, right, bottom, area;
  };
  std::vector<Box> box;
  for (int64_t i = 0; i < boxes.sizes[0]; ++i) {
    Box b{read<T>(boxes, {i, 0}), read<T>(boxes, {i, 1}), read<T>(boxes, {i, 2}), read<T>(boxes, {i, 3}), 0};
    b.area = (b.right - b.left) * (b.bottom - b.top);
    box.push_back(b);
  }
  std::vector<int64_t> order = by_score<T>(scores), kept;
  if (order.size() != box.size()) call.fail("boxes and scores should have the same number of elements");
  std::vector<char> gone(box.size(), 0);
  for (size_t n = 0; n < order.size(); ++n) {
    if (gone[static_cast<size_t>(order[n])]) continue;
    kept.push_back(order[n]);
    const Box& a = box[static_cast<size_t>(order[n])];
    for (size_t m = n + 1; m < order.size(); ++m) {
      const Box& b = box[static_cast<size_t>(order[m])];
      T width = std::max(T(0), std::min(a.right, b.right) - std::max(a.left, b.left));
      T height = std::max(T(0), std::min(a.bottom, b.bottom) - std::max(a.top, b.top));
      T common = width * height;
      if (static_cast<double>(common / (a.area + b.area - common)) > threshold) gone[static_cast<size_t>(order[m])] = 1;
    }
  }
  return kept;
}

std::vector<int64_t> kept(const LibraryCall& call) {
  return call.tensor("dets").dtype == DType::f64 ? kept_boxes<double>(call) : kept_boxes<float>(call);
}

// ---- Regions ----

template <class T>
struct BoxRegion {
  int64_t image = 0;
  T left = 0, top = 0, width = 0, height = 0;
};

template <class T>
int64_t image_of(const LibraryCall& call, const TensorView& rois, int64_t row, int64_t images) {
  T image = read<T>(rois, {row, 0});
  if (!(image >= 0) || !(image < static_cast<T>(images)))
    call.fail(str("region ", row, " names image ", static_cast<double>(image), " of ", images));
  return static_cast<int64_t>(image);
}

// A region's corners on the feature map; `shift` is half a pixel where pixels are points.
template <class T>
BoxRegion<T> region_at(const LibraryCall& call, const TensorView& rois, int64_t row, int64_t images, T shift) {
  const T scale = static_cast<T>(call.floating("spatial_scale", 1));
  BoxRegion<T> r;
  r.image = image_of<T>(call, rois, row, images);
  r.left = read<T>(rois, {row, 1}) * scale - shift;
  r.top = read<T>(rois, {row, 2}) * scale - shift;
  r.width = read<T>(rois, {row, 3}) * scale - shift - r.left;
  r.height = read<T>(rois, {row, 4}) * scale - shift - r.top;
  return r;
}

// How many samples a bin takes along one side.
template <class T>
int64_t samples(const LibraryCall& call, T length, int64_t bins) {
  int64_t fixed = call.integer("sampling_ratio", -1);
  if (fixed > 0) return fixed;
  T many = std::ceil(length / static_cast<T>(bins));
  if (!(many < T(1 << 24))) call.fail("a region is not finite or far too large");
  return many > 0 ? static_cast<int64_t>(many) : 0;
}

// One bilinear sample: four places of a plane with their weights. Outside there is nothing.
template <class T>
struct Bilinear {
  int64_t rows[2] = {0, 0}, columns[2] = {0, 0};
  T weights[2][2] = {{0, 0}, {0, 0}};
  bool inside = false;
  Bilinear(T y, T x, int64_t height, int64_t width) {
    inside = y >= -1 && y <= static_cast<T>(height) && x >= -1 && x <= static_cast<T>(width);
    if (!inside) return;
    T low_y = split(y, height, rows), low_x = split(x, width, columns);
    weights[0][0] = (1 - low_y) * (1 - low_x);
    weights[0][1] = (1 - low_y) * low_x;
    weights[1][0] = low_y * (1 - low_x);
    weights[1][1] = low_y * low_x;
  }
  T of(const TensorView& input, int64_t image, int64_t channel) const {
    T sum = 0;
    for (int i : {0, 1})
      for (int j : {0, 1}) sum += weights[i][j] * read<T>(input, {image, channel, rows[i], columns[j]});
    return sum;
  }

 private:
  static T split(T at, int64_t extent, int64_t (&places)[2]) {
    at = std::max(at, T(0));
    places[0] = static_cast<int64_t>(at);
    if (places[0] >= extent - 1) {
      places[0] = places[1] = extent - 1;
      return 0;
    }
    places[1] = places[0] + 1;
    return at - static_cast<T>(places[0]);
  }
};

// ---- roi_align, ps_roi_align ----

struct Bins {
  int64_t rows, columns;
};
Bins bins_of(const TensorView& out) { return {out.sizes[2], out.sizes[3]}; }

// Adds the mean of a bin's samples of the channels [first, first + sums.size()) into sums.
template <class T>
void bin_means(const LibraryCall& call, const TensorView& input, const BoxRegion<T>& r, const Bins& bins, int64_t row,
               int64_t column, int64_t first, bool at_least_one, std::vector<T>& sums) {
  const T high = r.height / static_cast<T>(bins.rows), wide = r.width / static_cast<T>(bins.columns);
  const int64_t down = samples(call, r.height, bins.rows), across = samples(call, r.width, bins.columns);
  std::fill(sums.begin(), sums.end(), T(0));
  for (int64_t i = 0; i < down; ++i) {
    for (int64_t j = 0; j < across; ++j) {
      T y = r.top + static_cast<T>(row) * high + (static_cast<T>(i) + T(0.5)) * high / static_cast<T>(down);
      T x = r.left + static_cast<T>(column) * wide + (static_cast<T>(j) + T(0.5)) * wide / static_cast<T>(across);
      Bilinear<T> sample(y, x, input.sizes[2], input.sizes[3]);
      if (!sample.inside) continue;
      for (size_t c = 0; c < sums.size(); ++c) sums[c] += sample.of(input, r.image, first + static_cast<int64_t>(c));
    }
  }
  const int64_t count = at_least_one ? std::max<int64_t>(down * across, 1) : down * across;
  for (T& sum : sums) sum /= static_cast<T>(count);
}

template <class T>
void align(LibraryCall& call) {
  TensorView input = call.tensor("input"), rois = call.tensor("rois"), out = call.output(0);
  const bool aligned = call.boolean("aligned", false);
  const Bins bins = bins_of(out);
  call.parallel(out.sizes[0], 1, [&](int64_t begin, int64_t end) {
    std::vector<T> means(static_cast<size_t>(input.sizes[1]));
    for (int64_t n = begin; n < end; ++n) {
      BoxRegion<T> r = region_at<T>(call, rois, n, input.sizes[0], aligned ? T(0.5) : T(0));
      if (!aligned) {
        r.width = std::max(r.width, T(1));
        r.height = std::max(r.height, T(1));
      }
      for (int64_t row = 0; row < bins.rows; ++row)
        for (int64_t column = 0; column < bins.columns; ++column) {
          bin_means(call, input, r, bins, row, column, 0, true, means);
          for (int64_t c = 0; c < input.sizes[1]; ++c) write(out, {n, c, row, column}, means[static_cast<size_t>(c)]);
        }
    }
  });
}

// Each bin has channels of its own.
template <class T>
void align_by_place(LibraryCall& call) {
  TensorView input = call.tensor("input"), rois = call.tensor("rois"), out = call.output(0), from = call.output(1);
  const Bins bins = bins_of(out);
  call.parallel(out.sizes[0], 1, [&](int64_t begin, int64_t end) {
    std::vector<T> mean(1);
    for (int64_t n = begin; n < end; ++n) {
      BoxRegion<T> r = region_at<T>(call, rois, n, input.sizes[0], T(0.5));
      for (int64_t c = 0; c < out.sizes[1]; ++c)
        for (int64_t row = 0; row < bins.rows; ++row)
          for (int64_t column = 0; column < bins.columns; ++column) {
            int64_t channel = (c * bins.rows + row) * bins.columns + column;
            bin_means(call, input, r, bins, row, column, channel, false, mean);
            write(out, {n, c, row, column}, mean[0]);
            write(from, {n, c, row, column}, static_cast<int32_t>(channel));
          }
    }
  });
}

// ---- roi_pool ----

struct Span {
  int64_t begin, end;
};

// The pixels of bin `at` of `bins` that divide [start, start + length), cut to [0, extent).
template <class T>
Span pixels(int64_t at, int64_t bins, int64_t start, int64_t length, int64_t extent) {
  const T size = static_cast<T>(length) / static_cast<T>(bins);
  auto begin = static_cast<int64_t>(std::floor(static_cast<T>(at) * size));
  auto end = static_cast<int64_t>(std::ceil(static_cast<T>(at + 1) * size));
  return {std::clamp<int64_t>(begin + start, 0, extent), std::clamp<int64_t>(end + start, 0, extent)};
}

template <class T>
int64_t pixel(const LibraryCall& call, const TensorView& rois, int64_t row, int64_t column) {
  T at = std::round(read<T>(rois, {row, column}) * static_cast<T>(call.floating("spatial_scale", 1)));
  if (!(std::abs(at) < T(1 << 30))) call.fail(str("region ", row, " is not finite or far too large"));
  return static_cast<int64_t>(at);
}

template <class T>
void pool_region(LibraryCall& call, int64_t n) {
  TensorView input = call.tensor("input"), rois = call.tensor("rois"), out = call.output(0), from = call.output(1);
  const Bins bins = bins_of(out);
  const int64_t image = image_of<T>(call, rois, n, input.sizes[0]);
  const int64_t left = pixel<T>(call, rois, n, 1), top = pixel<T>(call, rois, n, 2);
  const int64_t width = std::max<int64_t>(pixel<T>(call, rois, n, 3) - left + 1, 1);
  const int64_t height = std::max<int64_t>(pixel<T>(call, rois, n, 4) - top + 1, 1);
  for (int64_t row = 0; row < bins.rows; ++row) {
    for (int64_t column = 0; column < bins.columns; ++column) {
      const Span y = pixels<T>(row, bins.rows, top, height, input.sizes[2]);
      const Span x = pixels<T>(column, bins.columns, left, width, input.sizes[3]);
      const bool empty = y.end <= y.begin || x.end <= x.begin;
      for (int64_t c = 0; c < out.sizes[1]; ++c) {
        T best = empty ? T(0) : static_cast<T>(-std::numeric_limits<float>::max());
        int32_t place = -1;
        for (int64_t h = y.begin; h < y.end; ++h)
          for (int64_t w = x.begin; w < x.end; ++w)
            if (T value = read<T>(input, {image, c, h, w}); value > best) {
              best = value;
              place = static_cast<int32_t>(h * input.sizes[3] + w);
            }
        write(out, {n, c, row, column}, best);
        write(from, {n, c, row, column}, place);
      }
    }
  }
}

}  // namespace

void size_nms(LibraryCall& call) { call.define(0, static_cast<int64_t>(kept(call).size())); }

void run_nms(LibraryCall& call) {
  std::vector<int64_t> boxes = kept(call);
  TensorView out = call.output(0);
  if (out.rank() != 1 || out.sizes[0] != static_cast<int64_t>(boxes.size()))
    call.fail(str("the program expects another number of boxes than ", boxes.size()));
  if (!boxes.empty()) std::memcpy(out.data, boxes.data(), boxes.size() * sizeof(int64_t));
}

void run_roi_align(LibraryCall& call) {
  call.tensor("input").dtype == DType::f64 ? align<double>(call) : align<float>(call);
}

void run_ps_roi_align(LibraryCall& call) {
  call.tensor("input").dtype == DType::f64 ? align_by_place<double>(call) : align_by_place<float>(call);
}

void run_roi_pool(LibraryCall& call) {
  const bool wide = call.tensor("input").dtype == DType::f64;
  call.parallel(call.output(0).sizes[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) wide ? pool_region<double>(call, n) : pool_region<float>(call, n);
  });
}

}  // namespace kiln::runtime
