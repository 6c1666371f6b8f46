#include "debug/step_copy.h"

#include <cstring>

#include "custom/dlpack.h"

namespace kiln {
namespace {

void point_at(kiln_step_arg& arg, Tensor& tensor) {
  arg.tensor.data = tensor.data();
  arg.tensor.byte_offset = 0;
  arg.tensor.ndim = static_cast<int32_t>(tensor.sizes.size());
  arg.tensor.dtype = dlpack_dtype(tensor.dtype);
  arg.tensor.shape = tensor.sizes.data();
  arg.tensor.strides = tensor.strides.data();
}

std::vector<int64_t> fixed_sizes(const std::vector<Expr>& exprs) {
  std::vector<int64_t> out;
  for (const Expr& e : exprs) out.push_back(evaluate(e, {}));
  return out;
}

}  // namespace

std::vector<int64_t> sizes_of(const DLTensor& tensor) { return {tensor.shape, tensor.shape + tensor.ndim}; }
std::vector<int64_t> strides_of(const DLTensor& tensor) { return {tensor.strides, tensor.strides + tensor.ndim}; }

int64_t bytes_of(const DLTensor& tensor) {
  return storage_bytes_needed(dtype_from_dlpack(tensor.dtype), sizes_of(tensor), strides_of(tensor), 0);
}

const DLTensor& host_view(const kiln_step& step, size_t arg) {
  const DLTensor* tensor = step.host ? step.host(step.host_context, arg) : &step.args[arg].tensor;
  if (!tensor) fail_user("K0785", str("the values of ", step.args[arg].name, " cannot be copied from the GPU"));
  return *tensor;
}
Tensor value_of(const kiln_step& step, size_t arg) { return tensor_from_dlpack(host_view(step, arg)); }

bool overlap(const DLTensor& a, const DLTensor& b) {
  const auto at_a = reinterpret_cast<uintptr_t>(a.data), at_b = reinterpret_cast<uintptr_t>(b.data);
  return at_a < at_b + static_cast<uintptr_t>(bytes_of(b)) && at_b < at_a + static_cast<uintptr_t>(bytes_of(a));
}

Tensor poisoned_tensor(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides, int poison) {
  Tensor tensor = Tensor::empty_strided(dtype, std::move(sizes), std::move(strides));
  if (tensor.storage->bytes > 0) std::memset(tensor.storage->data, poison, static_cast<size_t>(tensor.storage->bytes));
  return tensor;
}

StepCopy::StepCopy(const kiln_step& step, const std::map<std::string, Tensor>& inputs, int poison)
    : args_(step.args, step.args + step.arg_count),
      symbol_names_(step.symbol_names, step.symbol_names + step.symbol_count),
      symbol_values_(step.symbol_values, step.symbol_values + step.symbol_count),
      iterations_(step.iterations, step.iterations + step.loop_depth),
      step_(step) {
  for (kiln_step_arg& arg : args_) {
    Tensor copy =
        poisoned_tensor(dtype_from_dlpack(arg.tensor.dtype), sizes_of(arg.tensor), strides_of(arg.tensor), poison);
    if (const auto found = inputs.find(arg.name); found != inputs.end()) copy_into(found->second, copy);
    tensors_[arg.name] = std::move(copy);
  }
  for (kiln_step_arg& arg : args_) point_at(arg, tensors_.at(arg.name));
  step_.args = args_.data();
  step_.symbol_names = symbol_names_.data(), step_.symbol_values = symbol_values_.data();
  step_.iterations = iterations_.data();
  step_.host = nullptr, step_.host_context = nullptr;  // the copies are where the host can read them
}

std::map<std::string, Tensor> run_init(StepInterpreter& steps, const std::map<std::string, Tensor>& constants) {
  const loops::LoopProgram& program = steps.program();
  std::map<std::string, Tensor> memory, derived;
  for (const loops::Item& item : program.init) {
    const auto* kernel = std::get_if<loops::Kernel>(&item.what);
    if (!kernel) return {};
    std::map<std::string, const loops::Buffer*> used;
    loops::for_each_stmt(kernel->body, [&](const loops::Stmt& stmt) {
      if (stmt.buffer == loops::no_buffer) return;
      const loops::Buffer& buffer = program.buffers[static_cast<size_t>(stmt.buffer)];
      used[buffer.name] = &buffer;
    });
    std::vector<kiln_step_arg> args;
    for (const auto& [name, buffer] : used) {
      Tensor& tensor = memory[name];
      if (!tensor.defined()) {
        const auto constant = constants.find(buffer->constant);
        if (buffer->role == loops::BufferRole::constant && constant == constants.end()) return {};
        tensor = buffer->role == loops::BufferRole::constant
                     ? constant->second
                     : poisoned_tensor(buffer->dtype, fixed_sizes(buffer->sizes), fixed_sizes(buffer->strides), 0xff);
      }
      kiln_step_arg arg{};
      arg.name = buffer->name.c_str(), arg.access = 3, arg.producer = "";
      point_at(arg, tensor);
      args.push_back(arg);
    }
    kiln_step step{};
    step.struct_size = sizeof step, step.name = kernel->name.c_str(), step.kind = "kernel";
    step.args = args.data(), step.arg_count = args.size();
    steps.run(step);
  }
  for (const loops::Buffer& buffer : program.buffers)
    if (buffer.role == loops::BufferRole::derived && memory.count(buffer.name))
      derived[buffer.name] = memory[buffer.name];
  return derived;
}

}  // namespace kiln
