// Hostile packages: any bytes give a model or an Error. An input is a whole archive; or, since a changed archive mostly
// fails its checksums, a plan alone, which is then bound to kernels that do nothing and called with inputs of its own
// declared sizes: whatever plan passes the check must bind, place its buffers and run within them.
#include <cstdint>
#include <cstdlib>
#include <list>

#include "base/error.h"
#include "package/plan_io.h"
#include "runtime/element.h"
#include "runtime/package_loader.h"

namespace kiln::runtime {
namespace {

constexpr int64_t most_bytes = 1 << 22;

void* allocate_little(void*, size_t bytes, size_t alignment) {
  return bytes > most_bytes ? nullptr : std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}
void release(void*, void* memory, size_t) { std::free(memory); }

int32_t nothing(const kiln_kernel_context*, void* const*, const int64_t*, int64_t, int64_t) { return 0; }

class EmptyKernels : public CodeModule {
 public:
  void* symbol(const std::string&) const override { return reinterpret_cast<void*>(&nothing); }
};

// A program may loop for ever, and that is no fault of the runtime.
bool has_loop(const std::vector<format::Step>& steps) {
  for (const format::Step& step : steps) {
    if (step.kind == format::StepKind::while_loop) return true;
    for (const auto& block : step.blocks)
      if (has_loop(block)) return true;
  }
  return false;
}

struct Inputs {
  std::list<std::vector<int64_t>> sizes;
  std::list<std::vector<std::byte>> bytes;
  std::list<DLTensor> tensors;
  std::vector<kiln_value> values;
};

// Sizes that are numbers as the plan says; of those that follow from symbols, three.
bool make_inputs(const format::Plan& plan, Inputs& out) {
  for (const format::Input& input : plan.inputs) {
    kiln_value value{};
    if (input.buffer < 0) {
      value.kind = KILN_INT, value.as.integer = 3;
      out.values.push_back(value);
      continue;
    }
    const format::Buffer& buffer = plan.buffers.at(static_cast<size_t>(input.buffer));
    auto dtype = buffer.dtype;
    int64_t total = dtype_bytes(dtype);
    out.sizes.emplace_back();
    for (int32_t size : buffer.sizes) {
      const auto& code = plan.exprs.at(static_cast<size_t>(size)).code;
      bool number = code.size() == 1 && code[0].code == format::ExprCode::constant;
      int64_t extent = number ? code[0].operand : 3;
      if (extent < 0 || extent > most_bytes || (total *= extent) > most_bytes) return false;
      out.sizes.back().push_back(extent);
    }
    out.bytes.emplace_back(static_cast<size_t>(total) + 1);
    DLTensor& tensor = out.tensors.emplace_back();
    tensor.data = out.bytes.back().data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(out.sizes.back().size());
    tensor.dtype = dl_dtype(dtype);
    tensor.shape = out.sizes.back().data();
    value.kind = KILN_TENSOR, value.as.tensor = &tensor;
    out.values.push_back(value);
  }
  return true;
}

void run_plan(ByteSpan bytes) {
  ModelParts parts;
  parts.plan = format::read_plan(bytes);
  if (has_loop(parts.plan.steps)) return;
  parts.code = std::make_unique<EmptyKernels>();
  for (const format::Constant& constant : parts.plan.constants) {
    if (constant.bytes < 0 || constant.bytes > most_bytes) return;
    std::shared_ptr<std::byte> keep(
        static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(constant.bytes) / 64 * 64 + 64)), std::free);
    std::fill_n(keep.get(), static_cast<size_t>(constant.bytes), std::byte{0});
    parts.constants.push_back({keep.get(), keep});
  }
  Inputs inputs;
  if (!make_inputs(parts.plan, inputs)) return;
  std::vector<kiln_value> outputs(parts.plan.outputs.size());
  ModelOptions options;
  options.allocator = {allocate_little, release, nullptr};
  options.threads = 1;
  auto model = std::make_shared<Model>(std::move(parts), options);
  Instance instance(model);
  instance.run(inputs.values.data(), inputs.values.size(), outputs.data(), outputs.size());
  for (kiln_value& value : outputs)
    if (value.owner) value.owner->deleter(value.owner);
}

}  // namespace
}  // namespace kiln::runtime

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln::runtime;
  kiln::ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    if (size > 1 && data[0] == 'P' && data[1] == 'K')
      load_package({bytes, "fuzz", nullptr, "", nullptr, cpu_device()}, {}, system_allocator(), Log{},
                   kiln::CpuFeatures{});
    else
      run_plan(bytes);
  } catch (const kiln::Error&) {
  }
  return 0;
}
