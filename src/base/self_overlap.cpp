#include "base/self_overlap.h"

#include <algorithm>
#include <vector>

namespace kiln {
namespace {

constexpr int64_t most_steps = 1 << 20;

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }  // b > 0

struct Axis {
  int64_t stride, size;
  int64_t reach = 0;  // how far the axes before this one go together
};

// Two elements lie at one place where the differences of their indices, not all 0, have the distance 0.
class ZeroDistance {
 public:
  explicit ZeroDistance(const std::vector<Axis>& axes) : axes_(axes) {}
  bool found() { return search(axes_.size(), 0, false); }

 private:
  // `left` axes are not decided yet, those with the smallest strides.
  bool search(size_t left, int64_t distance, bool any) {
    if (left == 0) return any && distance == 0;
    if (++steps_ > most_steps) return true;
    const Axis& axis = axes_[left - 1];
    if (left == 1) return any && distance % axis.stride == 0;  // the reach says that the quotient is small enough
    // The other axes must be able to bring the distance back to 0.
    const int64_t most = axis.size - 1;
    const int64_t first = std::max(-most, -floor_divide(axis.reach + distance, axis.stride));
    const int64_t last = std::min(most, floor_divide(axis.reach - distance, axis.stride));
    for (int64_t difference = first; difference <= last; ++difference)
      if (search(left - 1, distance + difference * axis.stride, any || difference != 0)) return true;
    return false;
  }

  const std::vector<Axis>& axes_;
  int64_t steps_ = 0;
};

// By stride, the smallest first: few axes, put in one by one.
void insert(std::vector<Axis>& axes, const Axis& axis) {
  auto at = axes.end();
  while (at != axes.begin() && (at - 1)->stride > axis.stride) --at;
  axes.insert(at, axis);
}

}  // namespace

bool overlaps_itself(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  for (int64_t size : sizes)
    if (size <= 0) return false;
  std::vector<Axis> axes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    if (strides[d] == 0 || strides[d] == INT64_MIN) return true;
    insert(axes, {strides[d] < 0 ? -strides[d] : strides[d], sizes[d]});
  }
  // Sums of two distances must not leave 64 bits either: no memory is that large.
  constexpr int64_t too_far = INT64_MAX / 4;
  int64_t reach = 0, step = 0;
  bool nested = true;  // each axis steps over all that the smaller ones reach: most layouts
  for (Axis& axis : axes) {
    axis.reach = reach;
    nested = nested && axis.stride > reach;
    if (__builtin_mul_overflow(axis.stride, axis.size - 1, &step) || step > too_far || reach > too_far - step)
      return true;
    reach += step;
  }
  return !nested && ZeroDistance(axes).found();
}

}  // namespace kiln
