#include "bounds_checks/step_interpreter.h"

#include "base/made_once.h"

namespace kiln {

StepInterpreter::StepInterpreter(std::string_view loops_text) : program_(loops::parse_loops(loops_text)) {
  loops::verify(program_);
  for (const loops::Block* block : {&program_.init, &program_.block})
    loops::for_each_item(*block, [&](const loops::Item& item) {
      if (const auto* found = std::get_if<loops::Kernel>(&item.what)) {
        kernels_[found->name] = found;
        codes_[found];
      }
    });
}

const loops::Kernel* StepInterpreter::kernel(std::string_view name) const {
  const auto found = kernels_.find(name);
  return found == kernels_.end() ? nullptr : found->second;
}

const loops::KernelCode& StepInterpreter::code_of(const loops::Kernel& kernel) {
  return made_once(codes_.at(&kernel).code, [&] { return loops::KernelCode(kernel, program_); });
}

bool StepInterpreter::run(const kiln_step& step) {
  const loops::Kernel* found = kernel(step.name);
  if (!found) return false;
  const loops::KernelCode& code = code_of(*found);
  std::vector<loops::BufferView> views;
  std::vector<std::vector<int64_t>> parts;  // sizes and strides of what is seen as the parts of complex numbers
  parts.reserve(2 * code.buffers.size());
  for (loops::BufferId id : code.buffers) {
    const std::string& name = program_.buffers[static_cast<size_t>(id)].name;
    const kiln_step_arg* arg = nullptr;
    for (size_t i = 0; i < step.arg_count && !arg; ++i)
      if (name == step.args[i].name) arg = &step.args[i];
    if (!arg)
      fail_user("K0335",
                str("kernel ", step.name, " uses the buffer ", name, " in the loops of the debug section, but ",
                    "its step has no such argument: the debug section belongs to another package"));
    const DLTensor& tensor = arg->tensor;
    std::byte* const data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
    if (!program_.buffers[static_cast<size_t>(id)].complex) {
      views.push_back({data, tensor.shape, tensor.strides});
      continue;
    }
    std::vector<int64_t>& sizes = parts.emplace_back(tensor.shape, tensor.shape + tensor.ndim);
    sizes.push_back(2);
    std::vector<int64_t>& strides = parts.emplace_back(tensor.strides, tensor.strides + tensor.ndim);
    for (int64_t& stride : strides) stride *= 2;
    strides.push_back(1);
    views.push_back({data, sizes.data(), strides.data()});
  }
  SymbolValues symbols;
  for (size_t i = 0; i < step.symbol_count; ++i) symbols[step.symbol_names[i]] = step.symbol_values[i];
  loops::run_kernel(code, views, symbols, step.seed);
  return true;
}

}  // namespace kiln
