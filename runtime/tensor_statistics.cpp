#include "runtime/tensor_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/text.h"
#include "runtime/element.h"
#include "runtime/strided_copy.h"

namespace kiln::runtime {
namespace {

constexpr size_t block_size = 512;

template <class T>
double plain(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}
double half(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return static_cast<double>(half_value(bits));
}
double bfloat(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return static_cast<double>(bfloat_value(bits));
}

// Calls f(address, step in bytes, count) for runs of elements along the last dimension, in row-major order.
template <class F>
void for_each_row(const DLTensor& tensor, int64_t item, F f) {
  auto* at = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  std::vector<int64_t> strides = strides_of(tensor);
  if (tensor.ndim == 0) return f(at, item, int64_t{1});
  auto last = static_cast<size_t>(tensor.ndim - 1);
  for (size_t d = 0; d <= last; ++d)
    if (tensor.shape[d] == 0) return;
  std::vector<int64_t> index(last);
  while (true) {
    f(at, strides[last] * item, tensor.shape[last]);
    size_t d = last;
    while (d-- > 0) {
      at += strides[d] * item;
      if (++index[d] < tensor.shape[d]) break;
      at -= tensor.shape[d] * strides[d] * item;
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

// Values arrive in blocks, each block is summed by itself and then joined: as exact as one careful pass, without a
// division per element.
class Collector {
 public:
  Collector(TensorStatistics& out, size_t first_count) : out_(out), first_count_(first_count) {
    out_.minimum = std::numeric_limits<double>::infinity();
    out_.maximum = -std::numeric_limits<double>::infinity();
  }

  void value(double v) {
    block_[used_++] = v;
    if (used_ == block_size) flush();
  }

  void finish() {
    flush();
    const double none = std::nan("");
    if (seen_ == out_.nan) out_.minimum = out_.maximum = none;
    out_.mean = finite_ ? mean_ : none;
    out_.deviation = finite_ > 1 ? std::sqrt(m2_ / static_cast<double>(finite_ - 1)) : none;
  }

 private:
  void flush() {
    double sum = 0;
    int64_t finite = 0;
    for (size_t i = 0; i < used_; ++i) {
      const double v = block_[i];
      if (out_.first.size() < first_count_) out_.first.push_back(v);
      out_.zero += v == 0;
      if (!std::isfinite(v)) {
        out_.nan += std::isnan(v);
        out_.infinite += std::isinf(v);
        if (std::isnan(v)) continue;
      } else {
        sum += v, ++finite;
      }
      out_.minimum = std::min(out_.minimum, v);
      out_.maximum = std::max(out_.maximum, v);
    }
    if (finite > 0) join(sum / static_cast<double>(finite), finite);
    seen_ += static_cast<int64_t>(used_);
    used_ = 0;
  }

  void join(double mean, int64_t finite) {
    double m2 = 0;
    for (size_t i = 0; i < used_; ++i)
      if (std::isfinite(block_[i])) m2 += (block_[i] - mean) * (block_[i] - mean);
    const auto a = static_cast<double>(finite_), b = static_cast<double>(finite);
    const double delta = mean - mean_;
    m2_ += m2 + delta * delta * a * b / (a + b);
    mean_ += delta * b / (a + b);
    finite_ += finite;
  }

  TensorStatistics& out_;
  size_t first_count_;
  std::array<double, block_size> block_{};
  size_t used_ = 0;
  int64_t seen_ = 0, finite_ = 0;
  double mean_ = 0, m2_ = 0;
};

class Checksum {
 public:
  void add(const std::byte* at, size_t bytes) {
    uint64_t word = 0;
    for (; bytes >= 8; at += 8, bytes -= 8) {
      std::memcpy(&word, at, 8);
      mix(word);
    }
    word = 0;
    std::memcpy(&word, at, bytes);
    if (bytes > 0) mix(word);
  }
  uint64_t value() const { return state_ ^ (state_ >> 29); }

 private:
  void mix(uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15u;
    state_ ^= state_ >> 32;
  }
  uint64_t state_ = 0x243f6a8885a308d3u;
};

template <class Read>
void collect(const DLTensor& tensor, int64_t item, int parts, Read read, Collector& collector) {
  for_each_row(tensor, item, [&](const std::byte* at, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i, at += step) {
      collector.value(read(at));
      if (parts == 2) collector.value(read(at + item / 2));
    }
  });
}

// Calls f(read, parts) with the reader of one real number of this type.
template <class F>
void with_reader(DType dtype, F f) {
  switch (dtype) {
    case DType::f32:
      return f(plain<float>, 1);
    case DType::f64:
      return f(plain<double>, 1);
    case DType::f16:
      return f(half, 1);
    case DType::bf16:
      return f(bfloat, 1);
    case DType::c32:
      return f(half, 2);
    case DType::c64:
      return f(plain<float>, 2);
    case DType::c128:
      return f(plain<double>, 2);
    case DType::i64:
      return f(plain<int64_t>, 1);
    case DType::i32:
      return f(plain<int32_t>, 1);
    case DType::u8:
      return f(plain<uint8_t>, 1);
    default:
      return f([dtype](const std::byte* at) { return element_value(dtype, at); }, 1);
  }
}

int64_t element_total(const DLTensor& tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor.ndim; ++d) count *= tensor.shape[d];
  return count;
}

}  // namespace

uint64_t tensor_checksum(const DLTensor& tensor) {
  auto dtype = dtype_of(tensor.dtype);
  Checksum sum;
  if (!dtype) return sum.value();
  const int64_t item = dtype_bytes(*dtype);
  // Element after element, so that the grouping into words does not depend on where rows begin.
  for_each_row(tensor, item, [&](const std::byte* at, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i, at += step) sum.add(at, static_cast<size_t>(item));
  });
  return sum.value();
}

TensorStatistics tensor_statistics(const DLTensor& tensor, size_t first_count) {
  TensorStatistics s;
  auto dtype = dtype_of(tensor.dtype);
  if (!dtype) return s;
  s.count = element_total(tensor);
  s.checksum = tensor_checksum(tensor);
  Collector collector(s, first_count);
  with_reader(*dtype, [&](auto read, int parts) { collect(tensor, dtype_bytes(*dtype), parts, read, collector); });
  collector.finish();
  return s;
}

std::optional<BadElement> first_bad_element(const DLTensor& tensor) {
  auto dtype = dtype_of(tensor.dtype);
  if (!dtype || is_integral(*dtype)) return std::nullopt;
  const int64_t item = dtype_bytes(*dtype);
  int64_t at_element = -1, seen = 0;
  BadElement bad;
  with_reader(*dtype, [&](auto read, int parts) {
    for_each_row(tensor, item, [&](const std::byte* at, int64_t step, int64_t count) {
      for (int64_t i = 0; at_element < 0 && i < count; ++i, at += step) {
        const double real = read(at), imaginary = parts == 2 ? read(at + item / 2) : 0.0;
        if (std::isfinite(real) && std::isfinite(imaginary)) continue;
        at_element = seen + i;
        bad.imaginary = std::isfinite(real);
        bad.value = bad.imaginary ? imaginary : real;
      }
      seen += count;
    });
  });
  if (at_element < 0) return std::nullopt;
  bad.index.resize(static_cast<size_t>(tensor.ndim));
  for (size_t d = bad.index.size(); d-- > 0; at_element /= tensor.shape[d]) bad.index[d] = at_element % tensor.shape[d];
  return bad;
}

std::string index_text(const std::vector<int64_t>& index) {
  return "[" + join_map(index, ", ", [](int64_t i) { return std::to_string(i); }) + "]";
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";  // its sign says nothing
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

}  // namespace kiln::runtime
