#include "runtime/model.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/self_overlap.h"
#include "runtime/element.h"
#include "runtime/step_text.h"
#include "runtime/tensor_sanity.h"

namespace kiln::runtime {

Model::Model(ModelParts parts, ModelOptions options)
    : options_(std::move(options)),
      target_(std::move(parts.target)),
      device_(std::move(parts.device)),
      allocator_(device_->allocator(options_.allocator)),
      keep_(std::move(parts.keep)),
      files_(parts.files),
      code_(std::move(parts.code)),
      custom_code_(std::move(parts.custom_code)),
      program_(std::move(parts.plan), code_.get(), parts.custom_ops),
      origins_(std::move(parts.origins)),
      parallel_(options_.threads, options_.parallel_for, options_.parallel_for_user),
      fixed_(bind_fixed(program_)),
      weights_(
          program_, [this](Weights& weights, const InitSlice& slice) { derive(weights, slice); },
          [this](const Weights& weights, int32_t constant) { return plain_constant(weights, constant); }) {
  for (size_t c = 0; c < plan().constants.size(); ++c)
    constant_buffers_.push_back(buffer_of_constant(program_, static_cast<int32_t>(c)));
  check_constant_extents();
  make_origins();
  watch_ = std::make_unique<Watch>(options_.debug, program_, origins_, std::move(parts.files), target_, *device_,
                                   options_.log);
  hint_at_graphs();
  Uploads uploads;
  std::vector<ConstantData> constants = constants_on_device(std::move(parts.constants), uploads),
                            derived = derived_on_device(parts.derived, uploads);
  device_->upload(uploads.pieces);
  weights_.start(std::move(constants), std::move(derived));
}

// Settings of GPUs that do nothing here, and where triton.cudagraphs asks for what cannot be.
void Model::hint_at_graphs() const {
  if (device_->is_host()) {
    std::vector<std::string> idle;
    if (options_.launch_blocking) idle.push_back("CUDA_LAUNCH_BLOCKING (triton.debug_sync_kernel)");
    if (options_.sync_run) idle.push_back("triton.debug_sync_graph");
    if (options_.graphs == 1) idle.push_back("triton.cudagraphs");
    if (!idle.empty())
      log().write(KILN_LOG_WARNING, str(join(idle, ", "), " does nothing: the package runs on the CPU"));
    return;
  }
  if (options_.graphs != 1) return;
  std::string why;
  if (options_.launch_blocking)
    why = "each launch is waited for";
  else if (watch_->on())
    why = "a setting watches every step";
  else
    for (const PreparedStep& step : program_.steps)
      if (why.empty() && (step.library || step.custom || (step.kernel && step.late)))
        why = str("the kernels before and after ", step.step->name, " are launched or replayed apart: ",
                  step.kernel ? "what it does depends on values found while running" : "it runs on the host");
  if (!why.empty()) log().write(KILN_LOG_WARNING, str("performance hint: triton.cudagraphs: ", why));
}

Model::~Model() = default;

ConstantData Model::on_device(ConstantData host, int64_t bytes, size_t alignment, Uploads& uploads) const {
  if (device_->is_host() || !host.data) return host;
  auto block = std::make_shared<Block>(allocator(), bytes, std::max(memory_alignment, alignment));
  uploads.pieces.push_back({block->data(), host.data, static_cast<size_t>(bytes)});
  uploads.sources.push_back(std::move(host.keep));
  return {block->data(), block, host.missing};
}

std::vector<ConstantData> Model::constants_on_device(std::vector<ConstantData> constants, Uploads& uploads) const {
  for (size_t c = 0; c < constants.size(); ++c)
    constants[c] = on_device(std::move(constants[c]), plan().constants[c].bytes,
                             constant_alignment(static_cast<int32_t>(c)), uploads);
  return constants;
}

std::vector<ConstantData> Model::derived_on_device(const std::vector<StoredBuffer>& derived, Uploads& uploads) const {
  std::vector<ConstantData> out(plan().buffers.size());
  for (size_t b = 0; b < derived.size(); ++b) {
    if (!derived[b].memory.data) continue;
    const format::Buffer& buffer = plan().buffers[b];
    const BufferLayout& layout = fixed_->layout.buffers[b];
    if (!layout.known || layout.group_bytes != derived[b].bytes)
      fail_user("K0503",
                str("the plan of this package is inconsistent: ", buffer.name, " has another size than its entry"));
    out[b] = on_device(derived[b].memory, derived[b].bytes, static_cast<size_t>(buffer.alignment), uploads);
    out[b].data += layout.offset_bytes;
  }
  return out;
}

void Model::check_constant_extents() const {
  for (size_t b = 0; b < plan().buffers.size(); ++b) {
    const format::Buffer& buffer = plan().buffers[b];
    if (buffer.role != format::BufferRole::constant) continue;
    const BufferLayout& layout = fixed_->layout.buffers[b];
    if (!layout.known || layout.span_bytes > plan().constants[static_cast<size_t>(buffer.position)].bytes)
      fail_user("K0503",
                str("the plan of this package is inconsistent: constant ", buffer.name, " is larger than its data"));
    // Compilers before this one took such buffers.
    const auto index = static_cast<int32_t>(b);
    if (plan().constants[static_cast<size_t>(buffer.position)].mutated &&
        overlaps_itself(fixed_->layout.sizes(program_, index), fixed_->layout.strides(program_, index)))
      fail_user("K0684", str("the model writes to the buffer ", buffer.name,
                             ", several elements of which share memory: export it with a buffer of its own"));
  }
}

void Model::make_origins() {
  for (const format::StepOrigin& step : origins_.steps) {
    std::vector<kiln_origin>& list = origins_by_step_[step.number];
    for (size_t i = 0; i < step.lines.size(); ++i)
      list.push_back({step.nodes[i].c_str(), step.ops[i].c_str(), step.modules[i].c_str(), step.lines[i].c_str()});
  }
}

namespace {
const std::vector<kiln_origin> no_origins;
}  // namespace

const std::vector<kiln_origin>& Model::origins(int32_t step_number) const {
  auto found = origins_by_step_.find(step_number);
  return found == origins_by_step_.end() ? no_origins : found->second;
}

std::string Model::origin_text(int32_t step_number) const {
  const std::vector<kiln_origin>& list = origins(step_number);
  kiln_step step{};
  step.origins = list.data(), step.origin_count = list.size();
  return origins_text(step);
}

void Model::derive(Weights& weights, const InitSlice& slice, bool watched) {
  for (int32_t b : slice.derived) {
    const BufferLayout& layout = fixed_->layout.buffers[static_cast<size_t>(b)];
    if (!layout.known) fail_user("K0503", str("the derived constant ", program_.buffer(b).name, " has no fixed size"));
    auto alignment = std::max<size_t>(memory_alignment, static_cast<size_t>(program_.buffer(b).alignment));
    auto block = std::make_shared<Block>(allocator(), layout.group_bytes, alignment);
    weights.derived[static_cast<size_t>(b)] = {block->data() + layout.offset_bytes, block};
  }
  if (!slice.steps.empty()) Run(*this).derive(weights, slice, watched);
}

int32_t Model::find_constant(std::string_view name) const {
  std::vector<std::string> names;
  for (size_t c = 0; c < plan().constants.size(); ++c) {
    if (plan().constants[c].name == name && constant_has_buffer(static_cast<int32_t>(c)))
      return static_cast<int32_t>(c);
    names.push_back(plan().constants[c].name);
  }
  std::string close = nearest(name, names);
  fail_user("K0640", str("the model has no constant named ", quote(name), close.empty() ? "" : "; did you mean ", close,
                         close.empty() ? "" : "?"));
}

bool Model::constant_has_buffer(int32_t constant) const {
  return constant_buffers_[static_cast<size_t>(constant)] >= 0;
}
Dims Model::constant_sizes(int32_t c) const {
  return fixed_->layout.sizes(program_, constant_buffers_[static_cast<size_t>(c)]);
}
Dims Model::constant_strides(int32_t c) const {
  return fixed_->layout.strides(program_, constant_buffers_[static_cast<size_t>(c)]);
}
DType Model::constant_dtype(int32_t c) const {
  return program_.buffer(constant_buffers_[static_cast<size_t>(c)]).dtype;
}
int64_t Model::constant_span(int32_t c) const {
  return fixed_->layout.buffers[static_cast<size_t>(constant_buffers_[static_cast<size_t>(c)])].span_bytes;
}
size_t Model::constant_alignment(int32_t constant) const {
  size_t alignment = 1;
  for (const format::Buffer& b : plan().buffers)
    if (b.role == format::BufferRole::constant && b.position == constant)
      alignment = std::max(alignment, static_cast<size_t>(b.alignment));
  return alignment;
}

void Model::check_constant_tensor(int32_t constant, const DLTensor& value, bool written) const {
  const std::string& name = plan().constants[static_cast<size_t>(constant)].name;
  auto refuse = [&](const std::string& text) { fail_user("K0641", str("constant ", name, ": ", text)); };
  auto list = [](Dims dims) {
    return str("[", join_map(dims, ", ", [](int64_t d) { return std::to_string(d); }), "]");
  };
  if (!is_host(value.device.device_type) && !device_->holds(value.device))
    refuse(str("unmatched device type, expected: ", device_text(device_->id(), value.device),
               ", but got: ", device_text(value.device, device_->id())));
  DLDataType expected = dl_dtype(constant_dtype(constant));
  if (dtype_of(value.dtype) != constant_dtype(constant))
    refuse(str("unmatched dtype, expected: ", dtype_text(expected), ", but got: ", dtype_text(value.dtype)));
  Dims sizes = constant_sizes(constant);
  if (value.ndim != static_cast<int64_t>(sizes.size()))
    refuse(str("unmatched number of dimensions, expected: ", sizes.size(), ", but got: ", value.ndim));
  if (const char* fault = tensor_fault(value, dtype_bytes(constant_dtype(constant))))
    refuse(str("the tensor makes no sense: ", fault));
  Dims got(value.shape, sizes.size());
  if (!std::equal(sizes.begin(), sizes.end(), got.begin(), got.end()))
    refuse(str("unmatched sizes, expected: ", list(sizes), ", but got: ", list(got)));
  if (written && overlaps_itself(sizes, strides_of(value))) refuse("several elements of the tensor share memory");
}

ConstantData Model::copy_constant(int32_t constant, const DLTensor& value) const {
  check_constant_tensor(constant, value);
  auto alignment = std::max(memory_alignment, constant_alignment(constant));
  auto block = std::make_shared<Block>(allocator(), constant_span(constant), alignment);
  Dims sizes = constant_sizes(constant);
  Dims strides = constant_strides(constant);
  std::vector<int64_t> from = strides_of(value);
  const std::byte* data = static_cast<const std::byte*>(value.data) + value.byte_offset;
  const int64_t item = dtype_bytes(constant_dtype(constant));
  device_->copy(block->data(), true, strides, data, !is_host(value.device.device_type), from, sizes, item);
  if (overlaps_itself(sizes, strides) &&
      (!device_->is_host() || !copy_kept(sizes, block->data(), strides, data, from, item)))
    fail_user("K0641", str("constant ", plan().constants[static_cast<size_t>(constant)].name,
                           ": it was exported with strides that put several elements in one place (an expanded "
                           "tensor), and the given values of those elements differ"));
  return {block->data(), block};
}

ConstantData Model::borrow_constant(int32_t constant, const DLTensor& value) const {
  check_constant_tensor(constant, value);
  const std::string& name = plan().constants[static_cast<size_t>(constant)].name;
  auto* data = static_cast<std::byte*>(value.data) + value.byte_offset;
  if (!device_->holds(value.device))
    fail_user("K0641", str("constant ", name, ": borrowed memory must be the device's; let Kiln copy it"));
  if (!same_layout(constant_sizes(constant), constant_strides(constant), strides_of(value)))
    fail_user("K0641",
              str("constant ", name, ": borrowed memory must have the constant's own strides; let Kiln copy it"));
  const size_t alignment = std::max(memory_alignment, constant_alignment(constant));
  if (reinterpret_cast<uintptr_t>(data) % alignment != 0 && element_count(constant_sizes(constant)) > 0)
    fail_user("K0641",
              str("constant ", name, ": borrowed memory must be aligned to ", alignment, " bytes; let Kiln copy it"));
  ConstantData out{data, nullptr};
  out.borrowed = device_->is_host();
  if (out.borrowed) out.sample = sample(constant, data);
  return out;
}

std::vector<int32_t> Model::same_constants(int32_t constant) const {
  const int32_t tied = plan().constants[static_cast<size_t>(constant)].same_as;
  const int32_t first = tied == format::none ? constant : tied;
  std::vector<int32_t> out;
  for (size_t c = 0; c < plan().constants.size(); ++c)
    if (static_cast<int32_t>(c) == first || plan().constants[c].same_as == first)
      out.push_back(static_cast<int32_t>(c));
  return out;
}

bool Model::same_values(int32_t constant, const ConstantData& a, const ConstantData& b) const {
  if (a.data == b.data) return true;
  const Dims sizes = constant_sizes(constant), strides = constant_strides(constant);
  const int64_t item = dtype_bytes(constant_dtype(constant)), bytes = element_count(sizes) * item;
  std::vector<int64_t> dense(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) dense[d - 1] = dense[d] * sizes[d];
  std::vector<std::byte> values[2];
  for (size_t i = 0; i < 2; ++i) {
    values[i].resize(static_cast<size_t>(bytes));
    device_->copy(values[i].data(), false, dense, (i == 0 ? a : b).data, true, strides, sizes, item);
  }
  return values[0] == values[1];
}

uint64_t Model::sample(int32_t constant, const std::byte* data) const {
  constexpr int64_t few = 256, places = 16;
  const Dims sizes = constant_sizes(constant), strides = constant_strides(constant);
  const int64_t count = element_count(sizes), item = dtype_bytes(constant_dtype(constant));
  uint64_t sum = 0x243f6a8885a308d3u;
  for (int64_t i = 0; i < std::min(count, few < count ? places : few); ++i) {
    // Spread over the whole, the last element included.
    int64_t at = few < count ? count - 1 - (count - 1) / places * i : i, offset = 0;
    for (size_t d = sizes.size(); d-- > 0; at /= sizes[d]) offset += at % sizes[d] * strides[d];
    for (int64_t byte = 0; byte < item; byte += 8) {
      uint64_t word = 0;
      std::memcpy(&word, data + offset * item + byte, static_cast<size_t>(std::min<int64_t>(8, item - byte)));
      sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
      sum ^= sum >> 32;
    }
  }
  return sum;
}

}  // namespace kiln::runtime
