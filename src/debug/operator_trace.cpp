#include "debug/operator_trace.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "driver/compare.h"

namespace kiln {
namespace {

constexpr size_t samples_per_node = 32;
constexpr size_t longest_sequence = size_t{1} << 20;

// What rounding does to the operator's value: seen where the reference computes in the program's own dtypes.
double rounding_of(const TruthNode& node, double& largest) {
  double loss = 0;
  const bool both = node.nominal.defined() && node.nominal.numel() == node.truth.numel();
  for (int64_t i = 0; i < node.truth.numel(); ++i) {
    const double truth = node.truth.item(i).as_double();
    if (!std::isfinite(truth)) continue;
    largest = std::max(largest, std::abs(truth));
    if (!both) continue;
    const double nominal = node.nominal.item(i).as_double();
    if (std::isfinite(nominal)) loss = std::max(loss, std::abs(nominal - truth));
  }
  return loss > 1e-2 * largest ? 0 : loss;
}

}  // namespace

OperatorTrace::OperatorTrace(const std::vector<TruthNode>& nodes, const std::vector<DType>& types)
    : nodes_(nodes), types_(types), full_(nodes.size(), 0), expected_(nodes.size()), tolerance_(nodes.size()) {
  for (size_t n = 0; n < nodes.size(); ++n) add_samples(n);
  std::sort(samples_.begin(), samples_.end(), [](const Sample& a, const Sample& b) { return a.value < b.value; });
}

// Spread over the tensor; distinct and not zero where there are such.
void OperatorTrace::add_samples(size_t n) {
  const TruthNode& node = nodes_[n];
  const int64_t count = node.truth.numel();
  if (count == 0 || is_complex(node.truth.dtype)) return;
  const DType dtype = node.value->type.dtype;
  if (!is_float(dtype)) {
    expected_[n].all = count;
    for (int64_t i = 0; i < count; ++i) expected_[n].nonzero += node.truth.item(i).as_double() != 0;
    if (dtype == DType::boolean) return;
  }
  double largest = 0;
  const double slack = 4 * rounding_of(node, largest) + 16 * dtype_epsilon(dtype) * largest;
  const double relative = 2 * default_tolerance(dtype).rtol;
  tolerance_[n] = {slack, relative};
  std::set<double> chosen;
  const int64_t stride = std::max<int64_t>(1, count / 509);
  for (int64_t i = 0; i < count && chosen.size() < samples_per_node; i += stride) {
    const double v = node.truth.item(i).as_double();
    if (std::isfinite(v) && v != 0) chosen.insert(v);
  }
  uint32_t bit = 0;
  for (double v : chosen) {
    const double tolerance = slack + relative * std::abs(v);
    widest_ = std::max(widest_, tolerance);
    full_[n] |= uint64_t{1} << bit;
    samples_.push_back({v, tolerance, n, bit++});
  }
}

void OperatorTrace::see(loops::ValueId id, const loops::Cell& cell) {
  const DType dtype = types_[static_cast<size_t>(id)];
  const double v = is_float(dtype) ? cell.f : static_cast<double>(cell.i);
  Count& count = counts_[id];
  ++count.all, count.nonzero += v != 0;
  if (const auto followed = sequences_.find(id); followed != sequences_.end())
    if (followed->second.size() <= longest_sequence) followed->second.push_back(v);
  if (!std::isfinite(v)) return;
  auto at = std::lower_bound(samples_.begin(), samples_.end(), v - widest_,
                             [](const Sample& s, double low) { return s.value < low; });
  for (; at != samples_.end() && at->value <= v + widest_; ++at)
    if (std::abs(at->value - v) <= at->tolerance) found_[{at->node, id}] |= uint64_t{1} << at->bit;
}

void OperatorTrace::follow(loops::ValueId stored, const std::vector<loops::ValueId>& body) {
  stored_ = stored;
  for (loops::ValueId id : body) sequences_[id];
}

void OperatorTrace::finish(const Tensor& output) {
  const auto stored = sequences_.find(stored_);
  if (stored == sequences_.end() || is_complex(output.dtype)) return;
  const std::vector<double>& sequence = stored->second;
  if (sequence.size() != static_cast<size_t>(output.numel())) return;
  const double eps = 2 * dtype_epsilon(output.dtype);
  for (size_t i = 0; i < sequence.size(); ++i) {
    const double at = output.item(static_cast<int64_t>(i)).as_double();
    if (std::isnan(at) != std::isnan(sequence[i])) return;
    if (std::abs(at - sequence[i]) > eps * std::abs(at)) return;
  }
  ordered_ = true;
}

// Also where nothing can be said of the order.
bool OperatorTrace::in_order(size_t node, loops::ValueId id) const {
  const auto found = sequences_.find(id);
  const Tensor& truth = nodes_[node].truth;
  if (!ordered_ || found == sequences_.end() || found->second.size() != sequences_.at(stored_).size()) return true;
  if (static_cast<size_t>(truth.numel()) != found->second.size()) return true;
  const auto [absolute, relative] = tolerance_[node];
  for (size_t i = 0; i < found->second.size(); ++i) {
    const double wanted = truth.item(static_cast<int64_t>(i)).as_double(), v = found->second[i];
    if (std::isfinite(wanted) && !(std::abs(v - wanted) <= absolute + relative * std::abs(wanted))) return false;
  }
  return true;
}

bool OperatorTrace::has(size_t node, loops::ValueId id) const {
  // Integers that a conversion to floats starts from are not yet its result.
  if (full_[node] != 0 && is_float(nodes_[node].value->type.dtype) != is_float(types_[static_cast<size_t>(id)]))
    return false;
  if (expected_[node].all > 0) {  // recomputed several times where it was copied into its readers
    const auto count = counts_.find(id);
    if (count == counts_.end() || is_float(types_[static_cast<size_t>(id)])) return false;
    if (count->second.all % expected_[node].all != 0) return false;
    if (count->second.nonzero * expected_[node].all != expected_[node].nonzero * count->second.all) return false;
  }
  if (full_[node] == 0) return true;
  const auto found = found_.find({node, id});
  return found != found_.end() && found->second == full_[node];
}

// Some statement computed all of the node's samples.
bool OperatorTrace::present(size_t node) const {
  if (full_[node] == 0 && expected_[node].all == 0) return true;
  return std::any_of(counts_.begin(), counts_.end(),
                     [&](const auto& count) { return has(node, count.first) && in_order(node, count.first); });
}

const Node* OperatorTrace::node_of(loops::ValueId id) const {
  for (size_t n = 0; n < nodes_.size(); ++n)
    if ((full_[n] != 0 || expected_[n].all > 0) && has(n, id)) return nodes_[n].node;
  return nullptr;
}

const Node* OperatorTrace::first_wrong() const {
  std::map<const Node*, size_t> place;
  for (size_t n = 0; n < nodes_.size(); ++n) place[nodes_[n].node] = n;
  // A value that was folded into its readers is nowhere, but theirs is: it was right.
  std::vector<bool> right(nodes_.size());
  for (size_t n = nodes_.size(); n-- > 0;) {
    right[n] = right[n] || (!nodes_[n].wanted && present(n));
    if (!right[n]) continue;
    for (const auto& named : nodes_[n].node->args)
      for_each_value(named.arg, [&](Value* value) {
        if (!value || !value->producer) return;
        const auto found = place.find(value->producer);
        if (found != place.end()) right[found->second] = true;
      });
  }
  for (size_t n = 0; n < nodes_.size(); ++n)
    if (!right[n]) return nodes_[n].node;
  return nullptr;
}

}  // namespace kiln
