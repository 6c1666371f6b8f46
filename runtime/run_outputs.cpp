// Outputs of a call: the caller's memory or fresh memory, never the arena; copies where neither can be written
// directly.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/self_overlap.h"
#include "runtime/element.h"
#include "runtime/input_errors.h"
#include "runtime/model.h"
#include "runtime/run.h"
#include "runtime/tensor_sanity.h"

namespace kiln::runtime {

using format::OutputWhat;

namespace {

void delete_owned(DLManagedTensorVersioned* managed) { delete static_cast<OwnedTensor*>(managed->manager_ctx); }

struct Range {
  const std::byte *begin, *end;
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

Range range_of(const DLTensor& tensor, const std::byte* data, DType dtype) {
  Dims sizes(tensor.shape, static_cast<size_t>(tensor.ndim));
  int64_t item = dtype_bytes(dtype), before = 0, after = 0;
  if (!tensor.strides || element_count(sizes) == 0) return {data, data + element_count(sizes) * item};
  for (size_t d = 0; d < sizes.size(); ++d)
    (tensor.strides[d] < 0 ? before : after) += (sizes[d] - 1) * tensor.strides[d] * item;
  return {data + before, data + after + item};
}

}  // namespace

void Run::take_outputs(kiln_value* outputs, size_t count) {
  const format::Plan& plan = program_.plan;
  if (count != plan.outputs.size())
    fail_user("K0621", str("Error: expected room for ", plan.outputs.size(), " outputs, but got ", count));
  bool any_caller = false;
  for (size_t i = 0; i < count; ++i) {
    OutputState& state = outputs_[i];
    state.value = &outputs[i];
    state.caller = outputs[i].kind == KILN_TENSOR ? outputs[i].as.tensor : nullptr;
    state.set = state.copy = false;
    state.owned = nullptr;
    if (plan.outputs[i].what != OutputWhat::tensor) continue;
    const format::Buffer& buffer = program_.buffer(plan.outputs[i].buffer);
    state.primary = buffer.role == format::BufferRole::output && buffer.position == static_cast<int64_t>(i);
    if (state.caller) {
      any_caller = true;
      state.kept = nullptr;
      check_output_itself(i, *state.caller);
      state.caller_data = static_cast<std::byte*>(state.caller->data) + state.caller->byte_offset;
    }
    if (state.primary && !program_.is_late(plan.outputs[i].buffer)) set_output(i);
  }
  bool any_mutated =
      std::any_of(plan.inputs.begin(), plan.inputs.end(), [](const format::Input& in) { return in.mutated; });
  if ((any_caller || any_mutated) && model_.options().check_inputs) check_overlaps();
}

// What can be said of a caller's tensor before the sizes of the output are known.
void Run::check_output_itself(size_t index, const DLTensor& tensor) const {
  const format::Buffer& buffer = program_.buffer(program_.plan.outputs[index].buffer);
  if (tensor.ndim != static_cast<int64_t>(buffer.sizes.size()))
    refuse_output(program_, index,
                  str("unmatched number of dimensions, expected: ", buffer.sizes.size(), ", but got: ", tensor.ndim));
  if (const char* fault = tensor_fault(tensor, dtype_bytes(buffer.dtype)))
    refuse_output(program_, index, str("the tensor makes no sense: ", fault));
  const Dims sizes(tensor.shape, buffer.sizes.size());
  if (tensor.strides && !is_row_major(sizes, {tensor.strides, sizes.size()}) &&
      overlaps_itself(sizes, {tensor.strides, sizes.size()}))
    refuse_output(program_, index, "several of its elements share memory, and each is to be written");
}

void Run::check_output_tensor(size_t index, const DLTensor& tensor) const {
  int32_t b = program_.plan.outputs[index].buffer;
  DLDataType expected = dl_dtype(program_.buffer(b).dtype);
  Dims sizes = layout_->sizes(program_, b);
  const bool on_host = program_.plan.outputs[index].on_host;
  if (!is_taken(tensor, on_host)) {
    const DLDevice there = on_host ? DLDevice{kDLCPU, 0} : model_.device().id();
    refuse_output(program_, index,
                  str("unmatched device type, expected: ", device_text(there, tensor.device),
                      ", but got: ", device_text(tensor.device, there)));
  }
  if (std::memcmp(&expected, &tensor.dtype, sizeof expected) != 0)
    refuse_output(program_, index,
                  str("unmatched dtype, expected: ", dtype_text(expected), ", but got: ", dtype_text(tensor.dtype)));
  for (size_t d = 0; d < sizes.size(); ++d)
    if (tensor.shape[d] != sizes[d])
      refuse_output(program_, index,
                    str("unmatched dim value at ", d, ", expected: ", sizes[d], ", but got: ", tensor.shape[d]));
}

void Run::allocate_output(OutputState& state, int64_t bytes, size_t alignment) {
  state.owned = std::make_unique<OwnedTensor>();
  if (!KeptMemory::is_worth_it(bytes) || !model_.keeps_outputs()) {
    state.kept = nullptr;  // what earlier calls needed and this one does not
    state.owned->memory = Block(model_.allocator(), bytes, alignment);
    return;
  }
  if (!state.kept) state.kept = KeptMemory::make();
  state.owned->memory = Block(state.kept->allocator(), bytes, alignment);
}

// The memory of an output whose buffer is its own, as soon as its sizes are known.
void Run::set_output(size_t index) {
  OutputState& state = outputs_[index];
  int32_t b = program_.plan.outputs[index].buffer;
  const BufferLayout& layout = layout_->buffers[static_cast<size_t>(b)];
  int32_t owner = program_.owner[static_cast<size_t>(b)];
  if (!layout.known) return;  // in a branch that may not be taken; the step that needs it says so
  int64_t bytes = 0;
  int64_t alignment = 1;
  for (int32_t member : program_.members[static_cast<size_t>(owner)]) {
    bytes = std::max(bytes, layout_->buffers[static_cast<size_t>(member)].group_bytes);
    alignment = std::max<int64_t>(alignment, program_.buffer(member).alignment);
  }
  state.set = true;
  if (!state.caller) {
    allocate_output(state, bytes, std::max(memory_alignment, static_cast<size_t>(alignment)));
    return set_group(owner, state.owned->memory.data());
  }
  check_output_tensor(index, *state.caller);
  Dims sizes = layout_->sizes(program_, b), strides = layout_->strides(program_, b);
  bool same = state.caller->strides ? same_layout(sizes, strides, {state.caller->strides, sizes.size()})
                                    : is_row_major(sizes, strides);
  bool aligned = reinterpret_cast<uintptr_t>(state.caller_data) % static_cast<uintptr_t>(alignment) == 0;
  // The caller's tensor holds its elements and nothing more: no room before the first or for a larger temp.
  bool fits = layout.offset_bytes == 0 && bytes <= layout.span_bytes;
  if ((same && aligned && fits && is_here(*state.caller)) || layout.span_bytes == 0)
    return set_group(owner, state.caller_data);
  grow(state.internal, bytes, std::max(memory_alignment, static_cast<size_t>(alignment)));
  state.copy = true;
  set_group(owner, state.internal.data());
}

void Run::check_overlaps() const {
  const format::Plan& plan = program_.plan;
  auto input_range = [&](size_t i) {
    return range_of(*inputs_[i].tensor, inputs_[i].data, program_.buffer(plan.inputs[i].buffer).dtype);
  };
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    if (plan.inputs[i].what != format::InputWhat::tensor) continue;
    Range here = input_range(i);
    for (size_t j = 0; plan.inputs[i].mutated && j < plan.inputs.size(); ++j) {
      if (j == i || plan.inputs[j].what != format::InputWhat::tensor || !here.meets(input_range(j))) continue;
      refuse_input(program_, "K0620", i,
                   str("the program writes to it, and it shares memory with input '", plan.inputs[j].name, "'"));
    }
    for (size_t o = 0; o < outputs_.size(); ++o) {
      if (!outputs_[o].caller || plan.outputs[o].what != OutputWhat::tensor) continue;
      auto dtype = program_.buffer(plan.outputs[o].buffer).dtype;
      if (here.meets(range_of(*outputs_[o].caller, outputs_[o].caller_data, dtype)))
        refuse_output(program_, o, str("it shares memory with input '", plan.inputs[i].name, "'"));
    }
  }
  for (size_t a = 0; a < outputs_.size(); ++a) {
    for (size_t b = a + 1; b < outputs_.size(); ++b) {
      if (!outputs_[a].caller || !outputs_[b].caller) continue;
      if (plan.outputs[a].what != OutputWhat::tensor || plan.outputs[b].what != OutputWhat::tensor) continue;
      Range first =
          range_of(*outputs_[a].caller, outputs_[a].caller_data, program_.buffer(plan.outputs[a].buffer).dtype);
      Range second =
          range_of(*outputs_[b].caller, outputs_[b].caller_data, program_.buffer(plan.outputs[b].buffer).dtype);
      if (first.meets(second)) refuse_output(program_, b, str("it shares memory with output ", a));
    }
  }
}

// An output that is not its buffer's own: returned twice, or an input, a constant or a temp returned as it is.
void Run::copy_output(size_t index) {
  OutputState& state = outputs_[index];
  int32_t b = program_.plan.outputs[index].buffer;
  if (!buffer_known(b)) fail_user("K0635", str("the sizes of output ", index, " are not known"));
  Dims sizes = layout_->sizes(program_, b), strides = layout_->strides(program_, b);
  int64_t item = dtype_bytes(program_.buffer(b).dtype);
  if (state.caller) {
    check_output_tensor(index, *state.caller);
    return copy_tensor(state.caller_data, is_here(*state.caller), strides_of(*state.caller), pointer(b), true, strides,
                       sizes, item);
  }
  allocate_output(state, layout_->buffers[static_cast<size_t>(b)].span_bytes, memory_alignment);
  // Overlapping strides (an expanded input) cannot be written: such an output is made whole, with its own strides kept.
  if (overlaps_itself(sizes, strides)) {
    const int64_t one = 1, bytes = layout_->buffers[static_cast<size_t>(b)].span_bytes;
    queue_->copy(state.owned->memory.data(), {&one, 1}, pointer(b), {&one, 1}, {&bytes, 1}, 1);
  } else {
    queue_->copy(state.owned->memory.data(), strides, pointer(b), strides, sizes, item);
  }
}

bool Run::goes_to_host(size_t index) const {
  return model_.options().host_tensors || program_.plan.outputs[index].on_host;
}

void Run::bring_to_host(size_t index) {
  synchronise();
  OutputState& state = outputs_[index];
  Block& there = state.owned->memory;
  Block here(model_.options().allocator, there.bytes());
  // The tensor alone: what lies around it was another's, if anybody's.
  const BufferLayout& layout = layout_->buffers[static_cast<size_t>(program_.plan.outputs[index].buffer)];
  const int64_t offset = state.primary ? layout.offset_bytes : 0;
  if (layout.span_bytes > 0) model_.device().copy_out(here.data() + offset, there.data() + offset, layout.span_bytes);
  there = std::move(here);
}

void Run::hand_over(size_t index) {
  OutputState& state = outputs_[index];
  int32_t b = program_.plan.outputs[index].buffer;
  OwnedTensor* owned = state.owned.release();
  Dims sizes = layout_->sizes(program_, b), strides = layout_->strides(program_, b);
  owned->dims.reserve(sizes.size() + strides.size());
  owned->dims.assign(sizes.begin(), sizes.end());
  owned->dims.insert(owned->dims.end(), strides.begin(), strides.end());
  DLTensor& tensor = owned->managed.dl_tensor;
  tensor.data = owned->memory.data() + (state.primary ? layout_->buffers[static_cast<size_t>(b)].offset_bytes : 0);
  tensor.device = model_.device().id();
  if (goes_to_host(index)) tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int32_t>(sizes.size());
  tensor.dtype = dl_dtype(program_.buffer(b).dtype);
  tensor.shape = owned->dims.data();
  tensor.strides = owned->dims.data() + sizes.size();
  owned->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  owned->managed.manager_ctx = owned;
  owned->managed.deleter = delete_owned;
  *state.value = {};
  state.value->kind = KILN_TENSOR;
  state.value->as.tensor = &tensor;
  state.value->owner = &owned->managed;
}

void Run::finish_outputs() {
  const format::Plan& plan = program_.plan;
  // First everything that can fail, then the handing over: after an error the caller owns nothing.
  for (size_t i = 0; i < outputs_.size(); ++i) {
    OutputState& state = outputs_[i];
    if (plan.outputs[i].what == OutputWhat::tensor) {
      int32_t b = plan.outputs[i].buffer;
      if (!state.primary) {
        copy_output(i);
      } else if (!state.set) {
        fail_user("K0635", str("output ", i, " ('", plan.outputs[i].shown_name(),
                               "') was not computed: its sizes are not known"));
      } else if (state.copy) {
        copy_tensor(state.caller_data, is_here(*state.caller), strides_of(*state.caller), pointer(b), true,
                    layout_->strides(program_, b), layout_->sizes(program_, b), dtype_bytes(program_.buffer(b).dtype));
      }
    } else if (plan.outputs[i].expr != format::none) {
      expr_value(plan.outputs[i].expr, PreparedStep());
    }
  }
  for (size_t i = 0; !host_ && i < outputs_.size(); ++i)
    if (outputs_[i].owned && goes_to_host(i)) bring_to_host(i);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    OutputState& state = outputs_[i];
    if (plan.outputs[i].what == OutputWhat::tensor) {
      if (state.owned) hand_over(i);
      continue;
    }
    *state.value = number_output(i);
  }
}

kiln_value Run::number_output(size_t index) const {
  const format::Output& output = program_.plan.outputs[index];
  kiln_value value{};
  if (output.what == OutputWhat::none) return value;
  if (output.what == OutputWhat::string) {
    value.kind = KILN_STRING;
    value.as.string = output.text.c_str();  // the plan's: it lives as long as the instance
    return value;
  }
  int64_t bits = layout_->values[static_cast<size_t>(output.expr)];
  bool is_float = program_.plan.exprs[static_cast<size_t>(output.expr)].is_float;
  switch (output.what) {
    case OutputWhat::floating:
      value.kind = KILN_FLOAT;
      value.as.floating = is_float ? std::bit_cast<double>(bits) : static_cast<double>(bits);
      break;
    case OutputWhat::boolean:
      value.kind = KILN_BOOL;
      value.as.boolean = bits != 0;
      break;
    default:
      value.kind = KILN_INT;
      value.as.integer = bits;
  }
  return value;
}

}  // namespace kiln::runtime
