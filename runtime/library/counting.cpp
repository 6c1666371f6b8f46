// Library kernels whose result is as long as their numbers say: bincount, repeat_interleave.
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "runtime/element.h"
#include "runtime/library/kernels.h"

namespace kiln::runtime {
namespace {

// The elements of a vector of integers.
std::vector<int64_t> integers_of(const LibraryCall& call, const TensorView& t) {
  std::vector<int64_t> out;
  int64_t count = t.sizes.empty() ? 1 : t.sizes[0], step = t.sizes.empty() ? 0 : t.strides[0];
  if (t.rank() > 1) call.fail("expected a vector");
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = 0;
    if (!element_integer(t.dtype, t.data + i * step * dtype_bytes(t.dtype), value)) call.fail("expected integers");
    if (value < 0) call.fail("expected non-negative integers");
    out.push_back(value);
  }
  return out;
}

void store_integer(const TensorView& out, int64_t at, int64_t value) {
  if (out.dtype == DType::i32) {
    auto narrow = static_cast<int32_t>(value);
    std::memcpy(out.data + at * 4, &narrow, 4);
  } else {
    std::memcpy(out.data + at * 8, &value, 8);
  }
}

int64_t bins_of(const LibraryCall& call, const std::vector<int64_t>& values) {
  int64_t bins = call.integer("minlength", 0);
  for (int64_t value : values) bins = std::max(bins, value + 1);
  return bins;
}

int64_t total_of(const LibraryCall& call, const std::vector<int64_t>& repeats) {
  int64_t total = 0;
  for (int64_t repeat : repeats)
    if (__builtin_add_overflow(total, repeat, &total)) call.fail("too many repeats");
  return total;
}

}  // namespace

void size_bincount(LibraryCall& call) { call.define(0, bins_of(call, integers_of(call, call.tensor("self")))); }

void run_bincount(LibraryCall& call) {
  std::vector<int64_t> values = integers_of(call, call.tensor("self"));
  TensorView out = call.output(0);
  int64_t bins = bins_of(call, values);
  if (out.rank() != 1 || out.sizes[0] != bins) call.fail(str("the program expects another size than ", bins));
  if (!call.has("weights")) {
    std::vector<int64_t> counts(static_cast<size_t>(bins), 0);
    for (int64_t value : values) ++counts[static_cast<size_t>(value)];
    std::memcpy(out.data, counts.data(), counts.size() * sizeof(int64_t));
    return;
  }
  TensorView weights = call.tensor("weights");
  if (weights.rank() != 1 || weights.sizes[0] != static_cast<int64_t>(values.size()))
    call.fail("weights should be 1-d and have the same length as input");
  std::vector<double> sums(static_cast<size_t>(bins), 0);
  for (size_t i = 0; i < values.size(); ++i)
    sums[static_cast<size_t>(values[i])] += element_value(
        weights.dtype, weights.data + static_cast<int64_t>(i) * weights.strides[0] * dtype_bytes(weights.dtype));
  for (size_t i = 0; i < sums.size(); ++i) {
    if (out.dtype == DType::f64) {
      std::memcpy(out.data + i * 8, &sums[i], 8);
    } else {
      auto narrow = static_cast<float>(sums[i]);
      std::memcpy(out.data + i * 4, &narrow, 4);
    }
  }
}

void size_repeat_interleave(LibraryCall& call) {
  call.define(0, total_of(call, integers_of(call, call.tensor("repeats"))));
}

void run_repeat_interleave(LibraryCall& call) {
  std::vector<int64_t> repeats = integers_of(call, call.tensor("repeats"));
  TensorView out = call.output(0);
  int64_t total = total_of(call, repeats), at = 0;
  if (out.rank() != 1 || out.sizes[0] != total) call.fail(str("allocated size does not match required size ", total));
  for (size_t i = 0; i < repeats.size(); ++i)
    for (int64_t n = 0; n < repeats[i]; ++n) store_integer(out, at++, static_cast<int64_t>(i));
}

}  // namespace kiln::runtime
