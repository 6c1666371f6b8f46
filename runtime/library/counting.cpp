// Library kernels whose result is as long as their numbers say: bincount, repeat_interleave.
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "runtime/element.h"
#include "runtime/library/kernels.h"

namespace kiln::runtime {
namespace {

// The elements of a vector of integers, some at a time.
class Blocks {
 public:
  Blocks(const LibraryCall& call, const TensorView& t);
  bool next();
  const int64_t* values = nullptr;
  int64_t count = 0, first = 0;  // of these values

 private:
  const LibraryCall& call_;
  DType dtype_;
  const std::byte* from_;
  int64_t left_, step_;
  int64_t read_[512];
};

[[gnu::noinline]] Blocks::Blocks(const LibraryCall& call, const TensorView& t)
    : call_(call), dtype_(t.dtype), from_(t.data), left_(t.sizes.empty() ? 1 : t.sizes[0]) {
  if (t.rank() > 1) call.fail("expected a vector");
  step_ = (t.sizes.empty() ? 0 : t.strides[0]) * dtype_bytes(t.dtype);
}

[[gnu::noinline]] bool Blocks::next() {
  first += count;
  count = std::min<int64_t>(std::size(read_), left_);
  left_ -= count;
  if (dtype_ == DType::i64 && step_ == sizeof(int64_t)) {
    values = reinterpret_cast<const int64_t*>(from_);
  } else {
    for (int64_t i = 0; i < count; ++i)
      if (!element_integer(dtype_, from_ + i * step_, read_[i])) call_.fail("expected integers");
    values = read_;
  }
  from_ += count * step_;
  return count > 0;
}

// As many bins as some numbers need. As unsigned numbers negative ones are the greatest; two chains, because each step
// of one waits for the step before it.
int64_t bins_of(const LibraryCall& call, const int64_t* values, int64_t n) {
  if (n == 0) return 0;
  uint64_t most = static_cast<uint64_t>(values[n - 1]), other = most;
  for (int64_t i = 0; i + 1 < n; i += 2) {
    most = std::max(most, static_cast<uint64_t>(values[i]));
    other = std::max(other, static_cast<uint64_t>(values[i + 1]));
  }
  most = std::max(most, other);
  if (most >> 63) call.fail("expected non-negative integers");
  return static_cast<int64_t>(most) + 1;
}

std::vector<int64_t> integers_of(const LibraryCall& call, const TensorView& t) {
  std::vector<int64_t> out;
  for (Blocks block(call, t); block.next();) {
    bins_of(call, block.values, block.count);
    out.insert(out.end(), block.values, block.values + block.count);
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

int64_t total_of(const LibraryCall& call, const std::vector<int64_t>& repeats) {
  int64_t total = 0;
  for (int64_t repeat : repeats)
    if (__builtin_add_overflow(total, repeat, &total)) call.fail("too many repeats");
  return total;
}

void refuse_size(const LibraryCall& call, int64_t found) {
  call.fail(str("the program expects another size than ", found));
}

void count_integers(const LibraryCall& call, int64_t* counts, int64_t bins) {
  std::fill_n(counts, bins, 0);
  for (Blocks block(call, call.tensor("self")); block.next();)
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t value = block.values[i];
      if (static_cast<uint64_t>(value) >= static_cast<uint64_t>(bins)) refuse_size(call, value + 1);
      ++counts[value];
    }
}

void add_weights(const TensorView& weights, const Blocks& block, double* sums) {
  const int64_t step = weights.strides[0] * dtype_bytes(weights.dtype);
  const std::byte* from = weights.data + block.first * step;
  const int64_t *bin = block.values, *end = bin + block.count;
  if (weights.dtype == DType::f32) {
    for (; bin != end; ++bin, from += step) {
      float weight;
      std::memcpy(&weight, from, sizeof weight);
      sums[*bin] += static_cast<double>(weight);
    }
  } else {
    for (; bin != end; ++bin, from += step) sums[*bin] += element_value(weights.dtype, from);
  }
}

// The sum of the weights of each bin, in f64.
std::vector<double> sum_weights(const LibraryCall& call, int64_t bins) {
  const TensorView self = call.tensor("self"), weights = call.tensor("weights");
  if (weights.rank() != 1 || self.rank() != 1 || weights.sizes[0] != self.sizes[0])
    call.fail("weights should be 1-d and have the same length as input");
  std::vector<double> sums(static_cast<size_t>(bins));
  int64_t found = call.integer("minlength", 0);
  for (Blocks block(call, self); block.next();) {
    found = std::max(found, bins_of(call, block.values, block.count));
    if (found > bins) refuse_size(call, found);
    add_weights(weights, block, sums.data());
  }
  if (found != bins) refuse_size(call, found);
  return sums;
}

int64_t bins_of(const LibraryCall& call) {
  int64_t bins = call.integer("minlength", 0);
  for (Blocks block(call, call.tensor("self")); block.next();)
    bins = std::max(bins, bins_of(call, block.values, block.count));
  return bins;
}

}  // namespace

void size_bincount(LibraryCall& call) { call.define(0, bins_of(call)); }

void run_bincount(LibraryCall& call) {
  const TensorView out = call.output(0);
  const int64_t bins = out.rank() == 1 ? out.sizes[0] : 0;
  if (!call.has("weights") || out.dtype == DType::i64) {  // with weights: of an input that is known to be empty
    auto* counts = reinterpret_cast<int64_t*>(out.data);
    count_integers(call, counts, bins);
    // The last bin is the greatest number's, or there for minlength.
    if (bins != call.integer("minlength", 0) && (bins == 0 || counts[bins - 1] == 0)) refuse_size(call, bins_of(call));
    return;
  }
  const std::vector<double> sums = sum_weights(call, bins);
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
