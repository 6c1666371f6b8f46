#include "base/self_overlap.h"

#include <algorithm>
#include <vector>

namespace kiln {
namespace {

using Wide = __int128;  // sums of products of a caller's numbers
constexpr Wide too_far = Wide{1} << 100;
constexpr int64_t most_steps = 1 << 20;

Wide floor_divide(Wide a, Wide b) { return a / b - (a % b < 0 ? 1 : 0); }  // b > 0

struct Axis {
  int64_t stride, size;
  Wide reach = 0;  // how far the axes before this one go together
};

// Two elements lie at one place where the differences of their indices, not all 0, have the distance 0.
class ZeroDistance {
 public:
  explicit ZeroDistance(const std::vector<Axis>& axes) : axes_(axes) {}
  bool found() { return search(axes_.size(), 0, false); }

 private:
  // `left` axes are not decided yet, those with the smallest strides.
  bool search(size_t left, Wide distance, bool any) {
    if (left == 0) return any && distance == 0;
    if (++steps_ > most_steps) return true;
    const Axis& axis = axes_[left - 1];
    if (left == 1) return any && distance % axis.stride == 0;  // the reach says that the quotient is small enough
    // The other axes must be able to bring the distance back to 0.
    const Wide most = axis.size - 1;
    const Wide first = std::max(-most, -floor_divide(axis.reach + distance, axis.stride));
    const Wide last = std::min(most, floor_divide(axis.reach - distance, axis.stride));
    for (Wide difference = first; difference <= last; ++difference)
      if (search(left - 1, distance + difference * axis.stride, any || difference != 0)) return true;
    return false;
  }

  const std::vector<Axis>& axes_;
  int64_t steps_ = 0;
};

}  // namespace

bool overlaps_itself(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  std::vector<Axis> axes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] <= 0) return false;
    if (sizes[d] == 1) continue;
    if (strides[d] == 0 || strides[d] == INT64_MIN) return true;
    axes.push_back({strides[d] < 0 ? -strides[d] : strides[d], sizes[d]});
  }
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  Wide reach = 0;
  bool nested = true;  // each axis steps over all that the smaller ones reach: most layouts
  for (Axis& axis : axes) {
    axis.reach = reach;
    nested = nested && axis.stride > reach;
    reach += Wide{axis.stride} * (axis.size - 1);
    if (reach > too_far) return !nested || &axis != &axes.back();
  }
  return !nested && ZeroDistance(axes).found();
}

}  // namespace kiln
