#include "runtime/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace kiln::runtime {
namespace {

struct Axis {
  int64_t size, to, from;
};

// Drops sizes of 1, puts the axis with the smallest destination stride innermost and joins axes that are one run.
std::vector<Axis> normalise(Dims sizes, Dims to, Dims from) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1) axes.push_back({sizes[i], to[i], from[i]});
  for (size_t i = 1; i < axes.size(); ++i)  // few: one by one, equals in their order
    for (size_t j = i; j > 0 && std::abs(axes[j - 1].to) < std::abs(axes[j].to); --j) std::swap(axes[j - 1], axes[j]);
  std::vector<Axis> joined;
  for (const Axis& axis : axes) {
    if (!joined.empty() && joined.back().to == axis.to * axis.size && joined.back().from == axis.from * axis.size) {
      joined.back() = {joined.back().size * axis.size, axis.to, axis.from};
    } else {
      joined.push_back(axis);
    }
  }
  return joined;
}

template <class T>
void copy_row(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(to + i * to_stride * int64_t{sizeof(T)}, from + i * from_stride * int64_t{sizeof(T)}, sizeof(T));
}

struct Pair {
  int64_t words[2];
};

void copy_axes(std::byte* to, const std::byte* from, const Axis* axis, const Axis* end, int64_t item) {
  if (axis == end) {
    std::memcpy(to, from, static_cast<size_t>(item));
    return;
  }
  if (axis + 1 == end) {
    if (axis->to == 1 && axis->from == 1) {
      std::memcpy(to, from, static_cast<size_t>(axis->size * item));
      return;
    }
    switch (item) {
      case 1:
        return copy_row<uint8_t>(to, axis->to, from, axis->from, axis->size);
      case 2:
        return copy_row<uint16_t>(to, axis->to, from, axis->from, axis->size);
      case 4:
        return copy_row<uint32_t>(to, axis->to, from, axis->from, axis->size);
      case 8:
        return copy_row<uint64_t>(to, axis->to, from, axis->from, axis->size);
      default:
        return copy_row<Pair>(to, axis->to, from, axis->from, axis->size);
    }
  }
  for (int64_t i = 0; i < axis->size; ++i)
    copy_axes(to + i * axis->to * item, from + i * axis->from * item, axis + 1, end, item);
}

}  // namespace

void strided_copy(void* to, Dims to_strides, const void* from, Dims from_strides, Dims sizes, int64_t item) {
  if (element_count(sizes) == 0) return;
  std::vector<Axis> axes = normalise(sizes, to_strides, from_strides);
  copy_axes(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), axes.data(), axes.data() + axes.size(),
            item);
}

int64_t element_count(Dims sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

std::vector<int64_t> strides_of(const DLTensor& tensor) {
  auto rank = static_cast<size_t>(tensor.ndim);
  if (tensor.strides) return {tensor.strides, tensor.strides + rank};
  std::vector<int64_t> strides(rank);
  int64_t next = 1;
  for (size_t i = rank; i-- > 0;) strides[i] = next, next *= std::max<int64_t>(tensor.shape[i], 1);
  return strides;
}

bool same_layout(Dims sizes, Dims a, Dims b) {
  bool same = true;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return true;
    same = same && (sizes[i] == 1 || a[i] == b[i]);
  }
  return same;
}

bool is_row_major(Dims sizes, Dims strides) {
  int64_t expected = 1;
  bool same = true;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;
    same = same && (sizes[i] == 1 || strides[i] == expected);
    expected *= sizes[i];
  }
  return same;
}

bool copy_kept(Dims sizes, const void* to, Dims to_strides, const void* from, Dims from_strides, int64_t item) {
  const size_t rank = sizes.size();
  std::vector<int64_t> index(rank, 0);
  const auto* a = static_cast<const std::byte*>(to);
  const auto* b = static_cast<const std::byte*>(from);
  for (int64_t left = element_count(sizes); left > 0; --left) {
    if (std::memcmp(a, b, static_cast<size_t>(item)) != 0) return false;
    for (size_t d = rank; d-- > 0;) {
      if (sizes[d] == 1) continue;  // its strides lead nowhere and may be any number
      a += to_strides[d] * item, b += from_strides[d] * item;
      if (++index[d] < sizes[d]) break;
      a -= to_strides[d] * sizes[d] * item, b -= from_strides[d] * sizes[d] * item;
      index[d] = 0;
    }
  }
  return true;
}

}  // namespace kiln::runtime
