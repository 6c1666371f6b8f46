// Of integer tensors what doubles cannot hold: minimum, maximum and the first values with all their digits. Apart from
// the other statistics, which are made for speed.
#include <algorithm>
#include <cstring>

#include "runtime/strided_copy.h"
#include "runtime/tensor_statistics.h"

namespace kiln::runtime {
namespace {

// Of any width, in 64 bits; of an unsigned type to be read as such.
int64_t integer_at(const std::byte* at, int64_t bytes, bool has_sign) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(bytes));
  const auto unused = static_cast<int>(64 - 8 * bytes);
  const auto high = static_cast<int64_t>(bits << unused);
  return has_sign ? high >> unused : static_cast<int64_t>(bits);
}

std::string digits(int64_t value, bool has_sign) {
  return has_sign ? std::to_string(value) : std::to_string(static_cast<uint64_t>(value));
}

}  // namespace

void add_exact_integers(const DLTensor& tensor, DType dtype, size_t first_count, TensorStatistics& out) {
  if (!is_integer(dtype) || out.count == 0) return;
  const int64_t bytes = dtype_bytes(dtype);
  const bool has_sign = is_signed(dtype);
  const std::vector<int64_t> strides = strides_of(tensor);
  std::vector<int64_t> index(static_cast<size_t>(tensor.ndim));
  const auto* at = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  int64_t least = integer_at(at, bytes, has_sign), most = least;
  const auto less = [&](int64_t a, int64_t b) {
    return has_sign ? a < b : static_cast<uint64_t>(a) < static_cast<uint64_t>(b);
  };
  while (true) {
    const int64_t value = integer_at(at, bytes, has_sign);
    if (less(value, least)) least = value;
    if (less(most, value)) most = value;
    if (out.exact_first.size() < first_count) out.exact_first.push_back(digits(value, has_sign));
    size_t d = index.size();
    while (d-- > 0) {
      if (tensor.shape[d] == 1) continue;  // its stride leads nowhere and may be any number
      at += strides[d] * bytes;
      if (++index[d] < tensor.shape[d]) break;
      at -= tensor.shape[d] * strides[d] * bytes;
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) break;
  }
  out.exact_minimum = digits(least, has_sign), out.exact_maximum = digits(most, has_sign);
}

std::string TensorStatistics::minimum_text() const {
  return exact_minimum.empty() ? number_text(minimum) : exact_minimum;
}
std::string TensorStatistics::maximum_text() const {
  return exact_maximum.empty() ? number_text(maximum) : exact_maximum;
}
std::vector<std::string> TensorStatistics::first_texts() const {
  if (!exact_first.empty()) return exact_first;
  std::vector<std::string> texts;
  for (double value : first) texts.push_back(number_text(value));
  return texts;
}

}  // namespace kiln::runtime
