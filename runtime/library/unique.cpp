// aten._unique2, unique_dim and unique_consecutive: the distinct elements (or slices along a dimension), where each
// element went, and how often each is there. How many there are is found in the size phase.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/text.h"
#include "runtime/library/kernels.h"
#include "runtime/library/narrow_items.h"

namespace kiln::runtime {
namespace {

// The things that are compared: elements in row-major order, or slices along a dimension.
class Items {
 public:
  explicit Items(const LibraryCall& call) : self_(call.tensor("self")) {
    if (is_complex(self_.dtype)) call.fail("unique does not support complex dtypes");
    sliced_ = call.has("dim");
    int64_t elements = 1;
    for (int64_t size : self_.sizes) elements *= size;
    if (sliced_ && self_.rank() > 0) {
      dim_ = wrap_dim(call, call.integer("dim", 0), self_.rank());
      count_ = self_.sizes[static_cast<size_t>(dim_)];
      width_ = count_ == 0 ? 0 : elements / count_;
    } else {
      count_ = elements;
    }
    read_keys();
  }
  int64_t count() const { return count_; }
  // Positions by what lies there; of equals the first comes first.
  void sort(std::vector<int64_t>& order) const {
    if (width_ == 1 && sort_near(order)) return;
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      auto [left, right] = std::mismatch(key(a), key(a + 1), key(b));
      return left == key(a + 1) ? a < b : *left < *right;
    });
  }
  // A NaN equals nothing, itself included.
  bool same(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < width_; ++i) {
      uint64_t left = key(a)[i], right = key(b)[i];
      if (left != right || (is_float(self_.dtype) && left == UINT64_MAX)) return false;
    }
    return true;
  }
  // Copies item `from` to place `to` of the result.
  void copy(int64_t from, const TensorView& out, int64_t to) const {
    auto item = static_cast<size_t>(dtype_bytes(self_.dtype));
    for (int64_t i = 0; i < width_; ++i)
      std::memcpy(out.data + offset(out, to, i) * static_cast<int64_t>(item),
                  self_.data + offset(self_, from, i) * static_cast<int64_t>(item), item);
  }

 private:
  // Keys within 2^32 of one another; false: they are not.
  bool sort_near(std::vector<int64_t>& order) const {
    if (keys_.empty()) return true;
    const auto [low, high] = std::minmax_element(keys_.begin(), keys_.end());
    const uint64_t least = *low;
    if (*high - least > UINT32_MAX || keys_.size() > UINT32_MAX) return false;
    std::vector<NarrowItem> items, spare;
    for (size_t i = 0; i < keys_.size(); ++i)
      items.push_back(narrow_item(static_cast<uint32_t>(keys_[i] - least), static_cast<int64_t>(i)));
    sort_narrow(items, spare);
    std::transform(items.begin(), items.end(), order.begin(), position_of);
    return true;
  }

  const uint64_t* key(int64_t i) const { return keys_.data() + i * width_; }

  // Element `i` of an item, in row-major order of the other dimensions.
  int64_t offset(const TensorView& t, int64_t item, int64_t i) const {
    int64_t at = 0;
    if (!sliced_) {
      if (&t != &self_) return t.strides.empty() ? 0 : item * t.strides[0];  // the result is a vector
      i = item;
    } else if (t.rank() > 0) {
      at = item * t.strides[static_cast<size_t>(dim_)];
    }
    for (size_t d = t.sizes.size(); d-- > 0;) {
      if (sliced_ && static_cast<int64_t>(d) == dim_) continue;
      at += i % t.sizes[d] * t.strides[d];
      i /= t.sizes[d];
    }
    return at;
  }

  void read_keys() {
    keys_.reserve(static_cast<size_t>(count_ * width_));
    int64_t bytes = dtype_bytes(self_.dtype);
    if (!sliced_ && self_.rank() == 1) {  // no division for each element
      for (int64_t n = 0; n < count_; ++n)
        keys_.push_back(order_key(self_.dtype, self_.data + n * self_.strides[0] * bytes));
      return;
    }
    for (int64_t n = 0; n < count_; ++n)
      for (int64_t i = 0; i < width_; ++i)
        keys_.push_back(order_key(self_.dtype, self_.data + offset(self_, n, i) * bytes));
  }

  TensorView self_;
  bool sliced_ = false;
  int64_t dim_ = 0, count_ = 0, width_ = 1;
  std::vector<uint64_t> keys_;
};

// Groups of equal items: their order, and the group of each.
struct Groups {
  std::vector<int64_t> order, group;  // group: per position of `order`
  int64_t count = 0;
};

Groups grouped(const Items& items, bool sorts) {
  Groups out;
  out.order.resize(static_cast<size_t>(items.count()));
  std::iota(out.order.begin(), out.order.end(), int64_t{0});
  if (sorts) items.sort(out.order);
  for (size_t i = 0; i < out.order.size(); ++i) {
    if (i == 0 || !items.same(out.order[i - 1], out.order[i])) ++out.count;
    out.group.push_back(out.count - 1);
  }
  return out;
}

int64_t elements_of(const TensorView& t) {
  int64_t count = 1;
  for (int64_t size : t.sizes) count *= size;
  return count;
}

void run(LibraryCall& call, bool sorts) {
  Items items(call);
  Groups groups = grouped(items, sorts);
  TensorView out = call.output(0), inverse = call.output(1);
  std::vector<int64_t> often(static_cast<size_t>(groups.count), 0);
  std::vector<int64_t> back(static_cast<size_t>(items.count()), 0);
  for (size_t i = 0; i < groups.order.size(); ++i) {
    int64_t group = groups.group[i];
    if (often[static_cast<size_t>(group)]++ == 0) items.copy(groups.order[i], out, group);
    back[static_cast<size_t>(groups.order[i])] = group;
  }
  // Results that nobody asked for have no elements; the others are dense.
  if (elements_of(inverse) == items.count()) std::memcpy(inverse.data, back.data(), back.size() * sizeof(int64_t));
  if (call.output_count() < 3) return;  // _unique
  TensorView counts = call.output(2);
  if (elements_of(counts) == groups.count) std::memcpy(counts.data, often.data(), often.size() * sizeof(int64_t));
}

// Runs of equal neighbours in a vector of numbers that lie one behind the other: they are compared as they are.
struct PlainRuns {
  int64_t (*count)(const std::byte* x, int64_t n);
  // The first of each run, the run of each element and the length of each run; those that nobody asked for are nullptr.
  // False: there are not so many runs.
  bool (*write)(const std::byte* x, int64_t n, int64_t runs, std::byte* first, int64_t* run, int64_t* length);
};

template <class T>
int64_t count_runs(const std::byte* bytes, int64_t n) {
  const auto* x = reinterpret_cast<const T*>(bytes);
  int64_t runs = n > 0;
#pragma GCC unroll 4
  for (int64_t i = 1; i < n; ++i) runs += x[i] != x[i - 1];
  return runs;
}

// From the end and without a branch that depends on the numbers: what stays at a run's place is its first element.
template <class T>
bool write_runs(const std::byte* bytes, int64_t n, int64_t runs, std::byte* first, int64_t* __restrict run,
                int64_t* __restrict length) {
  const auto* __restrict x = reinterpret_cast<const T*>(bytes);
  auto* __restrict out = reinterpret_cast<T*>(first);
  int64_t at = runs - 1, i = n - 1;
  if (!run && !length)
    for (; i > 3 && at > 3; i -= 4)  // four that need not look for the end of the runs
      for (int64_t near = i; near > i - 4; --near) {
        out[at] = x[near];
        at -= x[near] != x[near - 1];
      }
  for (; i > 0 && at >= 0; --i) {
    out[at] = x[i];
    if (run) run[i] = at;
    if (length) length[at] = i;  // so far where the run begins
    at -= x[i] != x[i - 1];
  }
  if (n == 0 || at != 0) return n == 0 && runs == 0;
  out[0] = x[0];
  if (run) run[0] = 0;
  if (length) length[0] = 0;
  for (i = 0; length && i < runs; ++i) length[i] = (i + 1 < runs ? length[i + 1] : n) - length[i];
  return true;
}

template <class T>
constexpr PlainRuns plain_runs{count_runs<T>, write_runs<T>};

bool lies_densely(const TensorView& t) {
  int64_t stride = 1;
  for (size_t d = t.sizes.size(); d-- > 0; stride *= t.sizes[d])
    if (t.sizes[d] != 1 && t.strides[d] != stride) return false;
  return true;
}

// nullptr: slices, numbers that are not next to one another, or of a type that the processor does not compare.
const PlainRuns* plain_runs_of(const LibraryCall& call, const TensorView& self) {
  if ((call.has("dim") && self.rank() != 1) || !lies_densely(self)) return nullptr;
  if (reinterpret_cast<uintptr_t>(self.data) % static_cast<uintptr_t>(dtype_bytes(self.dtype)) != 0) return nullptr;
  switch (self.dtype) {
    case DType::f32:
      return &plain_runs<float>;
    case DType::f64:
      return &plain_runs<double>;
    case DType::i64:
      return &plain_runs<int64_t>;
    case DType::i32:
      return &plain_runs<int32_t>;
    default:
      return nullptr;
  }
}

// A result that nobody asked for has no elements.
int64_t* if_asked(const TensorView& t, int64_t elements) {
  return elements > 0 && elements_of(t) == elements ? reinterpret_cast<int64_t*>(t.data) : nullptr;
}

}  // namespace

void size_unique(LibraryCall& call) { call.define(0, grouped(Items(call), true).count); }
void run_unique(LibraryCall& call) { run(call, true); }

void size_unique_consecutive(LibraryCall& call) {
  const TensorView self = call.tensor("self");
  const PlainRuns* plain = plain_runs_of(call, self);
  call.define(0, plain ? plain->count(self.data, elements_of(self)) : grouped(Items(call), false).count);
}

void run_unique_consecutive(LibraryCall& call) {
  const TensorView self = call.tensor("self"), out = call.output(0);
  const PlainRuns* plain = plain_runs_of(call, self);
  const int64_t runs = elements_of(out);
  if (!plain || !lies_densely(out)) return run(call, false);
  if (!plain->write(self.data, elements_of(self), runs, out.data, if_asked(call.output(1), elements_of(self)),
                    if_asked(call.output(2), runs)))
    call.fail(str("the program expects ", runs, " distinct values"));
}

}  // namespace kiln::runtime
