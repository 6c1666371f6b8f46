#include "debug/operator_trace.h"

#include <cmath>
#include <set>
#include <unordered_map>

namespace kiln {
namespace {

constexpr size_t samples_per_node = 32;
constexpr double relative = 2e-4;  // below it, two values count as the same: f32 sums in another order

struct Wanted {
  size_t node;
  uint32_t bit;
  double value;
};

// Buckets of a width in which two values that count as the same lie in one bucket or in neighbours.
int64_t bucket(double v) {
  if (v == 0) return 0;
  const auto log = static_cast<int64_t>(std::floor(std::log2(std::abs(v)) * 2048));
  return (log + (int64_t{1} << 40)) * (v < 0 ? -1 : 1);
}

bool same(double a, double b) { return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b)) + 1e-30; }

// Samples of each node's value, spread over the tensor; distinct and not zero where there are such.
class Samples {
 public:
  explicit Samples(const std::vector<TruthNode>& nodes) : full_(nodes.size(), 0) {
    for (size_t n = 0; n < nodes.size(); ++n) add(n, nodes[n].truth);
  }

  void look_up(double v, int32_t statement) {
    if (!std::isfinite(v)) return;
    const int64_t at = bucket(v);
    for (int64_t b = at - 1; b <= at + 1; ++b) {
      const auto found = by_bucket_.find(b);
      if (found == by_bucket_.end()) continue;
      for (const Wanted& w : found->second)
        if (same(v, w.value)) found_[{w.node, statement}] |= uint64_t{1} << w.bit;
    }
  }

  // Some statement computed all of the node's samples.
  bool present(size_t node) const {
    if (full_[node] == 0) return true;
    for (const auto& [key, bits] : found_)
      if (key.first == node && bits == full_[node]) return true;
    return false;
  }

 private:
  void add(size_t n, const Tensor& truth) {
    const int64_t count = truth.numel();
    if (count == 0 || is_complex(truth.dtype)) return;
    std::set<double> chosen;
    const int64_t stride = std::max<int64_t>(1, count / 509);
    for (int64_t i = 0; i < count && chosen.size() < samples_per_node; i += stride) {
      const double v = truth.item(i).as_double();
      if (std::isfinite(v) && v != 0) chosen.insert(v);
    }
    for (double v : chosen) {
      const auto bit = static_cast<uint32_t>(__builtin_popcountll(full_[n]));
      full_[n] |= uint64_t{1} << bit;
      by_bucket_[bucket(v)].push_back({n, bit, v});
    }
  }

  std::unordered_map<int64_t, std::vector<Wanted>> by_bucket_;
  std::vector<uint64_t> full_;                            // per node: all its bits
  std::map<std::pair<size_t, int32_t>, uint64_t> found_;  // node, statement -> bits
};

}  // namespace

const Node* first_wrong_operator(const std::vector<TruthNode>& nodes, const std::string& wanted,
                                 const std::function<void(const loops::ValueTrace&)>& run,
                                 const std::vector<DType>& value_types) {
  Samples samples(nodes);
  run([&](loops::ValueId id, const loops::Cell& cell) {
    const DType dtype = value_types[static_cast<size_t>(id)];
    samples.look_up(is_float(dtype) ? cell.f : static_cast<double>(cell.i), id);
  });
  std::map<const Node*, size_t> place;
  for (size_t n = 0; n < nodes.size(); ++n) place[nodes[n].node] = n;
  // A value that was folded into its readers is nowhere, but theirs is: it was right.
  std::vector<bool> right(nodes.size());
  for (size_t n = nodes.size(); n-- > 0;) right[n] = nodes[n].value->name != wanted && samples.present(n);
  for (size_t n = nodes.size(); n-- > 0;) {
    if (!right[n]) continue;
    for (const auto& named : nodes[n].node->args)
      for_each_value(named.arg, [&](Value* value) {
        if (!value || !value->producer) return;
        const auto found = place.find(value->producer);
        if (found != place.end()) right[found->second] = true;
      });
  }
  for (size_t n = 0; n < nodes.size(); ++n)
    if (!right[n]) return nodes[n].node;
  return nullptr;
}

}  // namespace kiln
