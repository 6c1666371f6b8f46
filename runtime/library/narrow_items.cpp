#include "runtime/library/narrow_items.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "runtime/element.h"

namespace kiln::runtime {
namespace {

template <class T>
T read_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// -0 equals 0, and NaN of either sign comes after everything.
uint32_t key_of_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value + 0.0f);
  const uint32_t turned = bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
  return turned | (value == value ? 0 : UINT32_MAX);
}

// The same for four neighbours at a time; the rest is left to the other.
int64_t read_floats(const std::byte* from, int64_t count, uint32_t turn, uint32_t* keys) {
  using Floats [[gnu::vector_size(16)]] = float;
  using Words [[gnu::vector_size(16)]] = uint32_t;
  using Integers [[gnu::vector_size(16)]] = int32_t;
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    Floats value;
    std::memcpy(&value, from + i * 4, sizeof value);
    const auto bits = reinterpret_cast<Words>(value + 0.0f);
    const auto sign = reinterpret_cast<Words>(reinterpret_cast<Integers>(bits) >> 31);
    const Words key = ((bits ^ (sign | 0x80000000u)) | reinterpret_cast<Words>(value != value)) ^ turn;
    std::memcpy(keys + i, &key, sizeof key);
  }
  return i;
}

template <class T, class F>
void read_each(const std::byte* from, int64_t step, int64_t count, uint32_t turn, uint32_t* keys, F key) {
  if (step == static_cast<int64_t>(sizeof(T)))  // a distance that is known is a loop over vectors
    for (int64_t i = 0; i < count; ++i) keys[i] = key(read_at<T>(from + i * static_cast<int64_t>(sizeof(T)))) ^ turn;
  else
    for (int64_t i = 0; i < count; ++i) keys[i] = key(read_at<T>(from + i * step)) ^ turn;
}

// Of integers of 64 bits: the order of signed ones is that of unsigned ones with the sign turned.
uint64_t sign_of(DType dtype) { return dtype == DType::i64 ? uint64_t{1} << 63 : 0; }

}  // namespace

bool NarrowKeys::begin(const std::byte* row) {
  row_ = row;
  if (length_ > int64_t{UINT32_MAX} || dtype_ == DType::f64) return false;
  if (dtype_ != DType::i64 && dtype_ != DType::u64) return true;
  uint64_t low = UINT64_MAX, high = 0;
  for (int64_t i = 0; i < length_; ++i) {
    const uint64_t key = read_at<uint64_t>(row + i * step_) ^ sign_of(dtype_);
    low = std::min(low, key), high = std::max(high, key);
  }
  lowest_ = low;
  return length_ == 0 || high - low <= UINT32_MAX;
}

void NarrowKeys::read(int64_t first, int64_t count, uint32_t* keys) const {
  const std::byte* from = row_ + first * step_;
  switch (dtype_) {
    case DType::f32: {
      const int64_t done = step_ == 4 ? read_floats(from, count, turn_, keys) : 0;
      return read_each<float>(from + done * step_, step_, count - done, turn_, keys + done, key_of_float);
    }
    case DType::bf16:
      return read_each<uint16_t>(from, step_, count, turn_, keys, [](uint16_t bits) {
        return key_of_float(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
      });
    case DType::i32:
      return read_each<uint32_t>(from, step_, count, turn_, keys, [](uint32_t x) { return x ^ 0x80000000u; });
    case DType::u32:
      return read_each<uint32_t>(from, step_, count, turn_, keys, [](uint32_t x) { return x; });
    case DType::i64:
    case DType::u64:
      return read_each<uint64_t>(from, step_, count, turn_, keys, [low = lowest_, sign = sign_of(dtype_)](uint64_t x) {
        return static_cast<uint32_t>((x ^ sign) - low);
      });
    default:  // every other type fits a float
      for (int64_t i = 0; i < count; ++i)
        keys[i] = key_of_float(static_cast<float>(element_value(dtype_, from + i * step_))) ^ turn_;
  }
}

void NarrowKeys::items(std::vector<NarrowItem>& out) const {
  out.resize(static_cast<size_t>(length_));
  constexpr int64_t piece = 64;
  std::array<uint32_t, piece> keys;
  for (int64_t first = 0; first < length_; first += piece) {
    const int64_t count = std::min(piece, length_ - first);
    read(first, count, keys.data());
    for (int64_t i = 0; i < count; ++i)
      out[static_cast<size_t>(first + i)] = narrow_item(keys[static_cast<size_t>(i)], first + i);
  }
}

void sort_narrow(std::vector<NarrowItem>& items, std::vector<NarrowItem>& spare) {
  constexpr size_t worth_counting = 200;  // below it four tables of 256 take longer than the sorting
  if (items.size() < worth_counting) return std::sort(items.begin(), items.end());
  spare.resize(items.size());
  std::array<std::array<uint32_t, 256>, 4> starts{};
  for (NarrowItem item : items)
    for (size_t digit = 0; digit < 4; ++digit) ++starts[digit][item >> (32 + 8 * digit) & 255];
  for (size_t digit = 0; digit < 4; ++digit) {
    const size_t shift = 32 + 8 * digit;
    auto& start = starts[digit];
    if (start[items[0] >> shift & 255] == items.size()) continue;  // all have the same
    uint32_t sum = 0;
    for (uint32_t& count : start) sum += std::exchange(count, sum);
    for (NarrowItem item : items) spare[start[item >> shift & 255]++] = item;
    items.swap(spare);
  }
}

bool has_equals(const std::vector<NarrowItem>& items, size_t count) {
  for (size_t i = 1; i < count; ++i)
    if (key_of(items[i - 1]) == key_of(items[i])) return true;
  return false;
}

void copy_ranked(const RowOfResults& to, const std::byte* source, int64_t step, int64_t item, const NarrowItem* items,
                 int64_t count) {
  auto copy = [&](auto sample) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = position_of(items[i]);
      std::memcpy(to.values + i * to.value_step, source + at * step, sizeof sample);
      std::memcpy(to.indices + i * to.index_step, &at, sizeof at);
    }
  };
  switch (item) {
    case 1:
      return copy(uint8_t{});
    case 2:
      return copy(uint16_t{});
    case 4:
      return copy(uint32_t{});
    default:
      return copy(uint64_t{});
  }
}

}  // namespace kiln::runtime
