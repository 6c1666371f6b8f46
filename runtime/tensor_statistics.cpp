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

// Turns elements into doubles. One call per row, not per element: what follows works on blocks of doubles.
using Fill = void (*)(double* to, const std::byte* at, int64_t step, int64_t count);

template <class T>
void fill_plain(double* to, const std::byte* at, int64_t step, int64_t count) {
  if (step == static_cast<int64_t>(sizeof(T))) {
    for (int64_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, at + static_cast<size_t>(i) * sizeof value, sizeof value);
      to[i] = static_cast<double>(value);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i, at += step) {
    T value;
    std::memcpy(&value, at, sizeof value);
    to[i] = static_cast<double>(value);
  }
}
template <float (*convert)(uint16_t)>
void fill_narrow(double* to, const std::byte* at, int64_t step, int64_t count) {
  for (int64_t i = 0; i < count; ++i, at += step) {
    uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    to[i] = static_cast<double>(convert(bits));
  }
}
struct Reader {
  Fill fill;
  int parts;  // 2: complex, both parts are values
};

Reader reader_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {fill_plain<float>, 1};
    case DType::f64:
      return {fill_plain<double>, 1};
    case DType::f16:
      return {fill_narrow<half_value>, 1};
    case DType::bf16:
      return {fill_narrow<bfloat_value>, 1};
    case DType::c32:
      return {fill_narrow<half_value>, 2};
    case DType::c64:
      return {fill_plain<float>, 2};
    case DType::c128:
      return {fill_plain<double>, 2};
    case DType::i64:
      return {fill_plain<int64_t>, 1};
    case DType::i32:
      return {fill_plain<int32_t>, 1};
    case DType::u8:
      return {fill_plain<uint8_t>, 1};
    default:
      return {nullptr, 1};  // element_value does it
  }
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
    f(at, tensor.shape[last] == 1 ? item : strides[last] * item, tensor.shape[last]);
    size_t d = last;
    while (d-- > 0) {
      if (tensor.shape[d] == 1) continue;  // its stride leads nowhere and may be any number
      at += strides[d] * item;
      if (++index[d] < tensor.shape[d]) break;
      at -= tensor.shape[d] * strides[d] * item;
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

typedef double Lanes __attribute__((vector_size(16)));  // what every x86-64 has
constexpr size_t lane_count = 2;

// Of a block of values: what one quick pass can tell.
struct BlockFacts {
  double sum = 0, minimum = 0, maximum = 0;
  int64_t zeros = 0;
  bool finite = true;  // false: the others are not to be used
};
BlockFacts look_at(const double* block) {
  constexpr double most = std::numeric_limits<double>::max();
  Lanes sum[2] = {}, low[2] = {}, high[2] = {};
  auto zeros = Lanes{} != Lanes{}, bad = zeros;
  for (int k = 0; k < 2; ++k) low[k] += most, high[k] -= most;
  for (size_t i = 0; i < block_size; i += 2 * lane_count)
    for (size_t k = 0; k < 2; ++k) {
      Lanes v;
      std::memcpy(&v, block + i + k * lane_count, sizeof v);
      sum[k] += v;
      low[k] = v < low[k] ? v : low[k];
      high[k] = v > high[k] ? v : high[k];
      zeros += v == 0.0;
      bad |= v - v != 0.0;  // NaN and infinities
    }
  BlockFacts facts{0, most, -most, 0, true};
  for (size_t l = 0; l < lane_count; ++l) {
    facts.sum += sum[0][l] + sum[1][l];
    facts.minimum = std::min({facts.minimum, low[0][l], low[1][l]});
    facts.maximum = std::max({facts.maximum, high[0][l], high[1][l]});
    facts.zeros -= zeros[l];
    facts.finite = facts.finite && bad[l] == 0;
  }
  return facts;
}

// Values arrive in blocks, each block is summed by itself and then joined: as exact as one careful pass, without a
// division per element.
class Collector {
 public:
  Collector(TensorStatistics& out, size_t first_count) : out_(out), first_count_(first_count) {
    out_.minimum = std::numeric_limits<double>::infinity();
    out_.maximum = -std::numeric_limits<double>::infinity();
  }

  double* block() { return block_.data() + used_; }
  size_t room() const { return block_size - used_; }
  void filled(size_t count) {
    used_ += count;
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
    for (size_t i = 0; i < used_ && out_.first.size() < first_count_; ++i) out_.first.push_back(block_[i]);
    if (used_ < block_size || !flush_finite()) flush_any();
    seen_ += static_cast<int64_t>(used_);
    used_ = 0;
  }

  bool flush_finite() {
    const BlockFacts facts = look_at(block_.data());
    if (!facts.finite) return false;
    out_.zero += facts.zeros;
    out_.minimum = std::min(out_.minimum, facts.minimum);
    out_.maximum = std::max(out_.maximum, facts.maximum);
    const double mean = facts.sum / block_size;
    Lanes squares[2] = {};
    for (size_t i = 0; i < block_size; i += 2 * lane_count)
      for (size_t k = 0; k < 2; ++k) {
        Lanes v;
        std::memcpy(&v, block_.data() + i + k * lane_count, sizeof v);
        v -= mean;
        squares[k] += v * v;
      }
    const Lanes together = squares[0] + squares[1];
    join(mean, block_size, together[0] + together[1]);
    return true;
  }

  void flush_any() {
    double sum = 0;
    int64_t finite = 0;
    for (size_t i = 0; i < used_; ++i) {
      const double v = block_[i];
      out_.zero += v == 0;
      out_.nan += std::isnan(v);
      out_.infinite += std::isinf(v);
      if (std::isnan(v)) continue;
      if (std::isfinite(v)) sum += v, ++finite;
      out_.minimum = std::min(out_.minimum, v);
      out_.maximum = std::max(out_.maximum, v);
    }
    if (finite == 0) return;
    const double mean = sum / static_cast<double>(finite);
    double m2 = 0;
    for (size_t i = 0; i < used_; ++i)
      if (std::isfinite(block_[i])) m2 += (block_[i] - mean) * (block_[i] - mean);
    join(mean, finite, m2);
  }

  void join(double mean, int64_t finite, double m2) {
    const auto a = static_cast<double>(finite_), b = static_cast<double>(finite);
    const double delta = mean - mean_;
    m2_ += m2 + delta * delta * a * b / (a + b);
    mean_ += delta * b / (a + b);
    finite_ += finite;
  }

  TensorStatistics& out_;
  size_t first_count_;
  alignas(64) std::array<double, block_size> block_{};
  size_t used_ = 0;
  int64_t seen_ = 0, finite_ = 0;
  double mean_ = 0, m2_ = 0;
};

// Of the elements in row-major order. Four chains, because one waits for its multiplication most of the time.
class Checksum {
 public:
  void add_row(const std::byte* at, int64_t step, int64_t count, int64_t item) {
    if (step == item && (next_ & 3) == 0) {
      const int64_t dense = item == 4 ? add_dense<uint32_t>(at, count) : item == 2 ? add_dense<uint16_t>(at, count) : 0;
      at += dense * item, count -= dense, next_ += static_cast<uint64_t>(dense);
    }
    for (; count > 0; --count, at += step, ++next_) {
      uint64_t& state = state_[next_ & 3];
      mix(state, word(at, std::min<int64_t>(item, 8)));
      if (item > 8) mix(state, word(at + 8, item - 8));
    }
  }
  uint64_t value() const {
    uint64_t all = state_[0];
    for (size_t k = 1; k < 4; ++k) mix(all, state_[k]);
    return all ^ (all >> 29);
  }

 private:
  // The usual sizes, with the chains in registers. Gives how many it took.
  template <class Word>
  int64_t add_dense(const std::byte* at, int64_t count) {
    std::array<uint64_t, 4> state = state_;
    const int64_t whole = count / 4 * 4;
    for (int64_t i = 0; i < whole; i += 4) {
      Word words[4];
      std::memcpy(words, at + static_cast<size_t>(i) * sizeof(Word), sizeof words);
      for (size_t k = 0; k < 4; ++k) mix(state[k], words[k]);
    }
    state_ = state;
    return whole;
  }
  static uint64_t word(const std::byte* at, int64_t bytes) {
    uint64_t out = 0;
    std::memcpy(&out, at, static_cast<size_t>(bytes));
    return out;
  }
  static void mix(uint64_t& state, uint64_t word) {
    state = (state ^ word) * 0x9e3779b97f4a7c15u;
    state ^= state >> 32;
  }
  std::array<uint64_t, 4> state_{0x243f6a8885a308d3u, 0x13198a2e03707344u, 0xa4093822299f31d0u, 0x082efa98ec4e6c89u};
  uint64_t next_ = 0;
};

// Values of a row as doubles, of complex numbers the parts in turn; `count` elements.
void read_row(DType dtype, double* to, const std::byte* at, int64_t step, int64_t count) {
  const Reader reader = reader_of(dtype);
  if (!reader.fill) {
    for (int64_t i = 0; i < count; ++i, at += step) to[i] = element_value(dtype, at);
  } else if (reader.parts == 1) {
    reader.fill(to, at, step, count);
  } else {
    const int64_t half = dtype_bytes(dtype) / 2;
    for (int64_t i = 0; i < count; ++i, at += step) reader.fill(to + 2 * i, at, half, 2);
  }
}

void collect(const DLTensor& tensor, DType dtype, Collector& collector) {
  const auto parts = static_cast<size_t>(reader_of(dtype).parts);
  for_each_row(tensor, dtype_bytes(dtype), [&](const std::byte* at, int64_t step, int64_t count) {
    while (count > 0) {
      const int64_t now = std::min<int64_t>(count, static_cast<int64_t>(collector.room() / parts));
      read_row(dtype, collector.block(), at, step, now);
      collector.filled(static_cast<size_t>(now) * parts);
      at += now * step, count -= now;
    }
  });
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
  for_each_row(tensor, item,
               [&](const std::byte* at, int64_t step, int64_t count) { sum.add_row(at, step, count, item); });
  return sum.value();
}

TensorStatistics tensor_statistics(const DLTensor& tensor, size_t first_count) {
  TensorStatistics s;
  auto dtype = dtype_of(tensor.dtype);
  if (!dtype) return s;
  s.count = element_total(tensor);
  s.checksum = tensor_checksum(tensor);
  Collector collector(s, first_count);
  collect(tensor, *dtype, collector);
  collector.finish();
  add_exact_integers(tensor, *dtype, first_count, s);
  return s;
}

std::optional<BadElement> first_bad_element(const DLTensor& tensor, BadValues which) {
  auto dtype = dtype_of(tensor.dtype);
  if (!dtype || is_integral(*dtype)) return std::nullopt;
  const auto parts = static_cast<int64_t>(reader_of(*dtype).parts);
  int64_t at_element = -1, seen = 0;
  BadElement bad;
  alignas(64) double values[block_size];
  for_each_row(tensor, dtype_bytes(*dtype), [&](const std::byte* at, int64_t step, int64_t count) {
    while (count > 0 && at_element < 0) {
      const int64_t now = std::min<int64_t>(count, static_cast<int64_t>(block_size) / parts);
      read_row(*dtype, values, at, step, now);
      const bool whole = now * parts == static_cast<int64_t>(block_size);
      for (int64_t i = whole && look_at(values).finite ? now * parts : 0; i < now * parts && at_element < 0; ++i) {
        if (which == BadValues::nan ? !std::isnan(values[i]) : std::isfinite(values[i])) continue;
        at_element = seen + i / parts;
        bad.imaginary = i % parts == 1;
        bad.value = values[i];
      }
      at += now * step, count -= now, seen += now;
    }
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
