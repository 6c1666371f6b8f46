#include "graph/element_places.h"

#include "base/self_overlap.h"

namespace kiln {

namespace {

struct Axis {
  Expr size, stride;
};

// Some order in which each axis steps over all that the ones before it reach together.
bool nested(std::vector<Axis> left, const Expr& reach, const RangeEnv& ranges) {
  if (left.empty()) return true;
  for (size_t i = 0; i < left.size(); ++i) {
    if (prove_lt(reach, left[i].stride, ranges) != Proof::yes) continue;
    std::vector<Axis> others = left;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (nested(std::move(others), reach + (left[i].size - 1) * left[i].stride, ranges)) return true;
  }
  return false;
}

bool all_known(const TensorType& type, std::vector<int64_t>& sizes, std::vector<int64_t>& strides) {
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (!type.sizes[d].is_constant() || !type.strides[d].is_constant()) return false;
    sizes.push_back(type.sizes[d].value());
    strides.push_back(type.strides[d].value());
  }
  return true;
}

}  // namespace

bool elements_apart(const TensorType& type, const RangeEnv& ranges) {
  if (type.strides == contiguous_strides(type.sizes)) return true;
  std::vector<int64_t> sizes, strides;
  if (all_known(type, sizes, strides)) return !overlaps_itself(sizes, strides);
  std::vector<Axis> axes;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (type.sizes[d].is_constant(0)) return true;
    if (!type.sizes[d].is_constant(1)) axes.push_back({type.sizes[d], type.strides[d]});
  }
  return nested(std::move(axes), Expr(0), ranges);
}

}  // namespace kiln
