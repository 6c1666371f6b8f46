#include "graph_passes/memory_overlap.h"

#include <set>

namespace kiln {

namespace {

Expr last_element(const TensorType& type) {
  Expr at = type.offset;
  for (size_t d = 0; d < type.sizes.size(); ++d) at = at + (type.sizes[d] - 1) * type.strides[d];
  return at;
}

// The places of all elements; nothing where sizes are open or there are too many to look at.
std::optional<std::set<int64_t>> places(const TensorType& type) {
  constexpr int64_t most = 1 << 16;
  if (!type.offset.is_constant()) return std::nullopt;
  std::vector<int64_t> all = {type.offset.value()};
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (!type.sizes[d].is_constant() || !type.strides[d].is_constant()) return std::nullopt;
    const int64_t size = type.sizes[d].value();
    if (size > most || static_cast<int64_t>(all.size()) * size > most) return std::nullopt;
    std::vector<int64_t> next;
    for (int64_t at : all)
      for (int64_t i = 0; i < size; ++i) next.push_back(at + i * type.strides[d].value());
    all = std::move(next);
  }
  return std::set<int64_t>(all.begin(), all.end());
}

bool one_before_other(const TensorType& a, const TensorType& b, const RangeEnv& ranges) {
  return prove_lt(last_element(a), b.offset, ranges) == Proof::yes ||
         prove_lt(last_element(b), a.offset, ranges) == Proof::yes;
}

TensorType without_stride(const TensorType& type, const Expr& stride) {
  TensorType out = type;
  out.sizes.clear(), out.strides.clear();
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (type.strides[d] == stride) continue;
    out.sizes.push_back(type.sizes[d]);
    out.strides.push_back(type.strides[d]);
  }
  return out;
}

// Columns of one matrix: apart within a row, and both inside one row, so that the same holds for all rows.
bool apart_in_every_row(const TensorType& a, const TensorType& b, const RangeEnv& ranges) {
  for (const Expr& stride : a.strides) {
    const TensorType x = without_stride(a, stride), y = without_stride(b, stride);
    if (!one_before_other(x, y, ranges)) continue;
    if (prove_lt(last_element(x) - y.offset, stride, ranges) == Proof::yes &&
        prove_lt(last_element(y) - x.offset, stride, ranges) == Proof::yes)
      return true;
  }
  return false;
}

}  // namespace

bool disjoint(const TensorType& a, const TensorType& b, const RangeEnv& ranges) {
  if (one_before_other(a, b, ranges) || apart_in_every_row(a, b, ranges)) return true;
  const auto in_a = places(a), in_b = places(b);
  if (!in_a || !in_b) return false;
  for (int64_t at : *in_a)
    if (in_b->contains(at)) return false;
  return true;
}

}  // namespace kiln
