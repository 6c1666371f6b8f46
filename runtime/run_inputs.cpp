// Inputs of a call: checked, symbols solved, pointers set.
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

using format::ConstantKind;
using format::InputWhat;
using format::none;

namespace {

bool row_major_strides(const DLTensor& tensor, Dims expected) {
  Dims sizes(tensor.shape, static_cast<size_t>(tensor.ndim));
  return is_row_major(sizes, expected);
}

}  // namespace

void Run::take_inputs(const kiln_value* inputs, size_t count) {
  const format::Plan& plan = program_.plan;
  if (count != plan.inputs.size()) [[unlikely]]
    refuse_count(program_, count);
  bool check = model_.options().check_inputs;
  for (size_t i = 0; i < count; ++i) {
    switch (plan.inputs[i].what) {
      case InputWhat::tensor:
        if (check) check_tensor(i, inputs[i]);
        inputs_[i].tensor = inputs[i].as.tensor;
        break;
      case InputWhat::constant:
        check_constant(i, inputs[i]);
        break;
      case InputWhat::ignored:
        break;
      default:
        check_number(i, inputs[i]);
    }
  }
  solve_symbols(inputs);
  find_bound();
  any_copied_ = false;
  for (size_t i = 0; i < count; ++i)
    if (plan.inputs[i].what == InputWhat::tensor) set_input(i, *inputs_[i].tensor);
  if (check) check_shared_symbols(inputs);
}

void Run::check_tensor(size_t index, const kiln_value& value) const {
  if (value.kind != KILN_TENSOR || !value.as.tensor) refuse_kind(program_, index, "a tensor", value);
  const DLTensor& tensor = *value.as.tensor;
  const format::Buffer& buffer = program_.buffer(program_.plan.inputs[index].buffer);
  const bool on_host = program_.plan.inputs[index].on_host;
  if ((!host_ || tensor.device.device_type != kDLCPU) && !is_taken(tensor, on_host)) [[unlikely]] {
    const DLDevice expected = on_host ? DLDevice{kDLCPU, 0} : model_.device().id();
    refuse_input_device(input_place(program_, index), device_text(expected, tensor.device),
                        device_text(tensor.device, expected));
  }
  DLDataType expected = dl_dtype(buffer.dtype);
  if (std::memcmp(&expected, &tensor.dtype, sizeof expected) != 0) [[unlikely]]
    refuse_input_dtype(input_place(program_, index), dtype_text(expected), dtype_text(tensor.dtype));
  if (tensor.ndim != static_cast<int64_t>(buffer.sizes.size())) [[unlikely]]
    refuse_input_rank(input_place(program_, index), buffer.sizes.size(), tensor.ndim);
  const char* fault = tensor_fault(tensor, dtype_bytes(buffer.dtype));
  if (fault) [[unlikely]]
    refuse_input(program_, "K0622", index, str("the tensor makes no sense: ", fault));
}

void Run::check_number(size_t index, const kiln_value& value) {
  const format::Input& input = program_.plan.inputs[index];
  int64_t bits = 0;
  if (input.what == InputWhat::sym_float) {
    if (value.kind != KILN_FLOAT && value.kind != KILN_INT) refuse_kind(program_, index, "a number", value);
    bits = std::bit_cast<int64_t>(value.kind == KILN_FLOAT ? value.as.floating : static_cast<double>(value.as.integer));
  } else {
    if (value.kind != KILN_INT && value.kind != KILN_BOOL)
      refuse_kind(program_, index, input.what == InputWhat::sym_bool ? "a bool" : "an integer", value);
    bits = value.kind == KILN_INT ? value.as.integer : value.as.boolean != 0;
    if (input.what == InputWhat::sym_bool) bits = bits != 0;
  }
  if (input.symbol == none) return;
  // Given twice: the first place counts, the others are compared with it.
  const format::Symbol& symbol = program_.plan.symbols[static_cast<size_t>(input.symbol)];
  if (symbol.input == static_cast<int64_t>(index)) symbols_[static_cast<size_t>(input.symbol)] = bits;
}

// A number that is also the size of some input, or given twice, must agree with where its symbol was taken from.
void Run::check_shared_symbols(const kiln_value* inputs) const {
  for (size_t i = 0; i < program_.plan.inputs.size(); ++i) {
    const format::Input& input = program_.plan.inputs[i];
    if ((input.what != InputWhat::sym_int && input.what != InputWhat::sym_bool) || input.symbol == none) continue;
    const format::Symbol& symbol = program_.plan.symbols[static_cast<size_t>(input.symbol)];
    if (symbol.source == format::SymbolSource::input_value && symbol.input == static_cast<int64_t>(i)) continue;
    int64_t got = inputs[i].kind == KILN_INT ? inputs[i].as.integer : inputs[i].as.boolean != 0;
    int64_t expected = symbols_[static_cast<size_t>(input.symbol)];
    if (got != expected)
      refuse_input_size(input_place(program_, i), expected, got, symbol.name,
                        symbols_text(program_, {input.symbol}, symbols_));
  }
}

void Run::check_constant(size_t index, const kiln_value& value) const {
  if (model_.options().check_inputs) kiln::runtime::check_constant(program_, index, value);
}

void Run::solve_symbols(const kiln_value* inputs) {
  const auto& symbols = program_.plan.symbols;
  for (int32_t slot : program_.early) {
    const format::Symbol& symbol = symbols[static_cast<size_t>(slot)];
    if (symbol.source != format::SymbolSource::input_size) continue;
    int64_t size = inputs[symbol.input].as.tensor->shape[symbol.dim];
    if (symbol.scale != 1 || symbol.rest != none) [[unlikely]] {
      int64_t rest = 0;
      ExprResult known = ExprResult::ok;
      if (symbol.rest != none) known = evaluate(program_.plan.exprs[static_cast<size_t>(symbol.rest)], symbols_, rest);
      const auto solved = solve_symbol(size, symbol.scale, rest);
      if (known != ExprResult::ok || !solved)
        refuse_unsolved(input_place(program_, static_cast<size_t>(symbol.input), symbol.dim),
                        size_expression(program_, symbol)->text, symbol.name, size);
      size = *solved;
    }
    symbols_[static_cast<size_t>(slot)] = size;
  }
}

void Run::find_bound() {
  const std::vector<int32_t>& early = program_.early;
  auto matches = [&](const BoundPlan& plan) {
    for (size_t i = 0; i < early.size(); ++i)
      if (plan.key[i] != symbols_[static_cast<size_t>(early[i])]) return false;
    return true;
  };
  if (bound_ && matches(*bound_)) [[likely]] {
    layout_ = &bound_->layout;
    return;
  }
  for (auto it = recent_.begin(); it != recent_.end(); ++it) {
    if (!matches(**it)) continue;
    std::shared_ptr<const BoundPlan> found = std::move(*it);
    recent_.erase(it);
    return use_bound(std::move(found));
  }
  std::vector<int64_t> key;
  for (int32_t slot : early) key.push_back(symbols_[static_cast<size_t>(slot)]);
  std::shared_ptr<const BoundPlan> plan = model_.bounds().find(key);
  if (!plan) {
    std::vector<int64_t> values = symbols_;
    for (size_t s = 0; s < values.size(); ++s)
      if (program_.symbol_late[s]) values[s] = 0;
    plan = bind_plan(program_, std::move(values), model_.options().check_inputs);
    model_.bounds().insert(plan);
  }
  use_bound(std::move(plan));
}

void Run::set_input(size_t index, const DLTensor& tensor) {
  int32_t b = program_.plan.inputs[index].buffer;
  const format::Buffer& buffer = program_.buffer(b);
  Dims sizes = layout_->sizes(program_, b), strides = layout_->strides(program_, b);
  if (model_.options().check_inputs) {
    for (size_t d = 0; d < sizes.size(); ++d)
      if (tensor.shape[d] != sizes[d]) [[unlikely]]
        refuse_size(program_, index, d, sizes[d], tensor.shape[d], symbols_);
  }
  InputState& state = inputs_[index];
  state.copied = false;
  state.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  int64_t span = layout_->buffers[static_cast<size_t>(b)].span_bytes;
  if (span > 0 && !tensor.data) [[unlikely]]
    refuse_input(program_, "K0622", index, "the tensor has no data");
  if (program_.plan.inputs[index].mutated && tensor.strides && !is_row_major(sizes, {tensor.strides, sizes.size()}) &&
      overlaps_itself(sizes, {tensor.strides, sizes.size()})) [[unlikely]]
    refuse_input(program_, "K0620", index, "the program writes to it, and several of its elements share memory");
  bool same =
      tensor.strides ? same_layout(sizes, strides, {tensor.strides, sizes.size()}) : row_major_strides(tensor, strides);
  bool aligned = (reinterpret_cast<uintptr_t>(state.data) & static_cast<uintptr_t>(buffer.alignment - 1)) == 0;
  const bool here = host_ || is_here(tensor);
  if ((!same || !aligned || !here) && span > 0) [[unlikely]] {
    if (model_.options().report_copies && here) report_copy(index, strides, same);
    copy_input(index, tensor, strides);
  }
  std::byte* element = state.copied ? state.copy.data() : state.data;
  if (program_.members[static_cast<size_t>(b)].size() > 1)
    set_group(b, element - layout_->buffers[static_cast<size_t>(b)].offset_bytes);
  pointers_[static_cast<size_t>(b)] = element;
}

bool Run::is_here(const DLTensor& tensor) const { return host_ || model_.device().holds(tensor.device); }
// A tensor of the host without dimensions is a number to PyTorch, wherever the others are.
// What the program itself has on the host is given there, and nowhere else.
bool Run::is_taken(const DLTensor& tensor, bool on_host) const {
  const bool of_host = is_host(tensor.device.device_type);
  if (on_host) return of_host;
  return model_.device().holds(tensor.device) || ((model_.options().host_tensors || tensor.ndim == 0) && of_host);
}

void Run::copy_tensor(void* to, bool to_here, Dims to_strides, const void* from, bool from_here, Dims from_strides,
                      Dims sizes, int64_t item) {
  if (to_here && from_here) return queue_->copy(to, to_strides, from, from_strides, sizes, item);
  synchronise();
  model_.device().copy(to, to_here, to_strides, from, from_here, from_strides, sizes, item);
}

// Once per input, or a server's log would hold nothing else.
void Run::report_copy(size_t index, Dims expected, bool same_layout) {
  InputState& state = inputs_[index];
  if (std::exchange(state.copy_reported, true)) return;
  const format::Input& input = program_.plan.inputs[index];
  const auto numbers = [](auto values) {
    return join_map(values, ", ", [](int64_t value) { return std::to_string(value); });
  };
  const std::string why = same_layout
                              ? str("its data is not aligned to ", program_.buffer(input.buffer).alignment, " bytes")
                              : str("its strides are [", numbers(strides_of(*state.tensor)), "], the kernels take [",
                                    numbers(expected), "]");
  model_.log().write(KILN_LOG_WARNING,
                     str("input_handles[", index, "] is copied before each run: ", why, " (input '", input.name, "')"));
}

void Run::copy_input(size_t index, const DLTensor& tensor, Dims strides) {
  const format::Input& input = program_.plan.inputs[index];
  const format::Buffer& buffer = program_.buffer(input.buffer);
  InputState& state = inputs_[index];
  Dims sizes = layout_->sizes(program_, input.buffer);
  std::vector<int64_t> from = strides_of(tensor);
  size_t alignment = std::max(memory_alignment, static_cast<size_t>(buffer.alignment));
  const int64_t item = dtype_bytes(buffer.dtype), span = layout_->buffers[static_cast<size_t>(input.buffer)].span_bytes;
  const bool anew = span > state.copy.bytes();
  grow(state.copy, span, alignment);
  // A device is given gaps between elements with what was in them: something has to be.
  if (anew && !host_ && span != element_count(sizes) * item)
    model_.device().copy_in(state.copy.data(), std::vector<std::byte>(static_cast<size_t>(span)).data(), span);
  copy_tensor(state.copy.data(), true, strides, state.data, is_here(tensor), from, sizes, item);
  state.copied = any_copied_ = true;
  // Compilers before this one asked for the strides of an expanded example.
  if (overlaps_itself(sizes, strides) &&
      (!host_ || !copy_kept(sizes, state.copy.data(), strides, state.data, from, item)))
    refuse_input(program_, "K0684", index,
                 "the package was compiled for a layout in which several elements share memory, and those of this "
                 "tensor differ: compile the model again");
}

void Run::write_back_inputs() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const format::Input& input = program_.plan.inputs[i];
    if (input.what != InputWhat::tensor || !inputs_[i].copied || !input.mutated) continue;
    copy_tensor(inputs_[i].data, is_here(*inputs_[i].tensor), strides_of(*inputs_[i].tensor), inputs_[i].copy.data(),
                true, layout_->strides(program_, input.buffer), layout_->sizes(program_, input.buffer),
                dtype_bytes(program_.buffer(input.buffer).dtype));
  }
}

}  // namespace kiln::runtime
