#include "layouts.h"

namespace kiln::random_programs {

namespace {

// Which dimensions have stride 0: of one tensor in three, one dimension or all.
std::vector<bool> repeated_dimensions(const Tensor& values, Dice& dice) {
  std::vector<bool> out(values.sizes.size(), false);
  bool repeats = dice.chance(1.0 / 3), all = dice.chance(0.25);
  if (!repeats || out.empty()) return out;
  size_t one = dice.below(out.size());
  for (size_t d = 0; d < out.size(); ++d) out[d] = all || d == one;
  return out;
}

}  // namespace

Tensor repeated(const Tensor& values, uint64_t seed) {
  Dice dice(seed);
  std::vector<bool> repeats = repeated_dimensions(values, dice);
  Tensor first = values;
  for (size_t d = 0; d < repeats.size(); ++d)
    if (repeats[d]) first.strides[d] = 0;
  return first.clone();
}

Tensor laid_out(const Tensor& values, uint64_t seed, bool may_repeat) {
  Dice dice(seed);
  std::vector<bool> repeats = repeated_dimensions(values, dice);
  std::vector<size_t> order(values.sizes.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = order.size() - 1 - d;  // innermost first
  if (dice.chance(0.5)) dice.shuffle(order);
  bool gaps = dice.chance(0.5);
  Tensor out;
  out.dtype = values.dtype;
  out.sizes = values.sizes;
  out.strides.assign(values.sizes.size(), 0);
  int64_t stride = gaps && dice.chance(0.5) ? 2 : 1;
  for (size_t d : order) {
    if (may_repeat && repeats[d]) continue;
    out.strides[d] = stride;
    stride *= std::max<int64_t>(values.sizes[d], 1);
    if (gaps) stride += static_cast<int64_t>(dice.below(4));
  }
  out.offset = dice.chance(0.5) ? static_cast<int64_t>(dice.below(20)) : 0;
  out.storage = Storage::allocate(storage_bytes_needed(out.dtype, out.sizes, out.strides, out.offset));
  copy_into(values, out);
  return out;
}

}  // namespace kiln::random_programs
