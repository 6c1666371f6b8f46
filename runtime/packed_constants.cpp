// Constants of which the package has only what init made of them (docs/package-format.md, Frozen packages).
#include <algorithm>
#include <cstring>

#include "runtime/model.h"

namespace kiln::runtime {

// The step that packed a constant says where each of its values went, if it is given their numbers to pack instead.
ConstantData Model::plain_constant(const Weights& weights, int32_t constant) {
  const auto c = static_cast<size_t>(constant);
  if (weights.constants[c].data || plan().constants[c].packed_in == format::none) return weights.constants[c];
  const int32_t packed = plan().constants[c].packed_in;
  const BufferLayout& layout = fixed_->layout.buffers[static_cast<size_t>(packed)];
  const int64_t width = dtype_bytes(constant_dtype(constant)), count = plan().constants[c].bytes / width;
  const int64_t packed_count = layout.group_bytes / width;
  const size_t alignment = std::max(memory_alignment, constant_alignment(constant));
  const int64_t bits = format::packed_number_bits(width);
  // Numbers begin with 1: 0 is what padding holds. Those that do not fit into an element go in several passes.
  std::vector<uint64_t> number(static_cast<size_t>(packed_count), 0);
  const InitSlice slice = packing_slice(program_, packed, constant);
  std::vector<std::byte> host(static_cast<size_t>(std::max(plan().constants[c].bytes, layout.group_bytes)));
  for (int64_t shift = 0; shift < 64 && (count >> shift) > 0; shift += bits) {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t digit = (static_cast<uint64_t>(i + 1) >> shift) & ((uint64_t{1} << bits) - 1);
      std::memcpy(host.data() + i * width, &digit, static_cast<size_t>(std::min<int64_t>(width, 8)));
      if (width > 8) std::memset(host.data() + i * width + 8, 0, static_cast<size_t>(width - 8));
    }
    Weights numbered = weights;
    auto block = std::make_shared<Block>(allocator(), count * width, alignment);
    device_->copy_in(block->data(), host.data(), count * width);
    numbered.constants[c] = {block->data(), block};
    // What other constants fill stays 0.
    const std::vector<std::byte> zeros(static_cast<size_t>(layout.group_bytes));
    auto made = std::make_shared<Block>(allocator(), layout.group_bytes, memory_alignment);
    device_->copy_in(made->data(), zeros.data(), layout.group_bytes);
    numbered.derived[static_cast<size_t>(packed)] = {made->data() + layout.offset_bytes, made};
    derive(numbered, slice, false);
    device_->copy_out(host.data(), numbered.derived[static_cast<size_t>(packed)].data - layout.offset_bytes,
                      layout.group_bytes);
    for (int64_t j = 0; j < packed_count; ++j) {
      uint64_t digit = 0;
      std::memcpy(&digit, host.data() + j * width, static_cast<size_t>(std::min<int64_t>(width, 8)));
      number[static_cast<size_t>(j)] |= digit << shift;
    }
  }
  std::vector<std::byte> values(static_cast<size_t>(layout.group_bytes));
  device_->copy_out(values.data(), weights.derived[static_cast<size_t>(packed)].data - layout.offset_bytes,
                    layout.group_bytes);
  std::fill(host.begin(), host.end(), std::byte{0});  // what lies between the values of strided constants
  for (int64_t j = 0; j < packed_count; ++j) {
    const uint64_t from = number[static_cast<size_t>(j)];
    if (from > 0 && from <= static_cast<uint64_t>(count))
      std::memcpy(host.data() + static_cast<int64_t>(from - 1) * width, values.data() + j * width,
                  static_cast<size_t>(width));
  }
  auto block = std::make_shared<Block>(allocator(), plan().constants[c].bytes, alignment);
  device_->copy_in(block->data(), host.data(), plan().constants[c].bytes);
  return {block->data(), block};
}

}  // namespace kiln::runtime
