#include "base/error.h"
#include "codegen/c_family/printed_kernel.h"
#include "codegen/cuda/backend.h"
#include "codegen/cuda/checked_access.h"
#include "codegen/cuda/dialect.h"
#include "codegen/cuda/prelude.h"
#include "schedule/factors.h"

namespace kiln::codegen {
using namespace loops;
namespace {

// Kernel text per unit: as the CPU's, so that units can be compiled side by side.
constexpr size_t cuda_unit_bytes = 48 * 1024;

constexpr const char* cuda_function_head = "extern \"C\" __global__ void ";

// An array of no elements is none in C++: the lists of arguments have one at least.
std::string with_counts(std::string text, const StepCode& step) {
  text = replace_all(text, "$BUFFERS", std::to_string(std::max<size_t>(1, step.buffers.size())));
  return replace_all(text, "$INTS", std::to_string(std::max<size_t>(1, step.ints.size())));
}

// Of a block's tile: its stages, or what its warps spread of their results.
int64_t shared_bytes(const Kernel& kernel) {
  const Grid& grid = kernel.schedule->grid;
  if (grid.tile_rows == 0) return 0;
  const ContractionNest nest = contraction_nest(kernel);
  const int64_t sum = dtype_bytes(nest.innermost_sum().reduce_dtype);
  const int64_t spread = grid.threads / 32 * 16 * (grid.thread_columns + 8) * sum;
  if (grid.keys > 0)  // and the greatest score and the sum of a row's weights
    return std::max(
        2 * (grid.tile_rows * grid.tile_terms + grid.stages * grid.keys * (grid.tile_terms + grid.tile_columns)),
        spread + grid.threads / 32 * 16 * 4 * sum);
  const int64_t terms = grid.stages * grid.tile_terms;
  if (!grid.tensor_cores) return terms * (grid.tile_rows + grid.tile_columns + 8) * sum;
  const int64_t left = dtype_bytes(factor_value(nest, kernel.contraction->left, true).dtype),
                right = dtype_bytes(factor_value(nest, kernel.contraction->right, false).dtype);
  const int64_t stages = terms * (grid.tile_rows * left + grid.tile_columns * right);
  const int64_t joined = grid.parts > 1 ? grid.tile_rows * (grid.tile_columns + 8) * sum : 0;
  return std::max({stages, spread, joined});
}

PrintedKernel printed_cuda(const Kernel& kernel, const LoopProgram& program, const FaultInjection& fault) {
  PrintedKernel out = printed_kernel(kernel, program, fault, CudaDialect(kernel.schedule->grid));
  out.text = with_counts(std::move(out.text), out.step);
  return out;
}

}  // namespace

std::string CudaBackend::unit_text(const std::string& kernels, const Target&) const { return cuda_unit(kernels); }

StepCode CudaBackend::step_code(const Kernel& kernel, const LoopProgram& program) const {
  return printed_cuda(kernel, program, {}).step;
}

std::string CudaBackend::with_checked_accesses(const std::string& unit, int) const {
  return cuda_with_checked_accesses(unit);
}

std::map<std::string, std::string> CudaBackend::functions_of_unit(const std::string& unit) const {
  const std::string head = cuda_function_head;
  std::map<std::string, std::string> out;
  for (size_t at = unit.find(head); at != std::string::npos;) {
    const size_t next = unit.find(head, at + 1), name = unit.find(") ", at + head.size()) + 2;
    std::string text = unit.substr(at, next == std::string::npos ? next : next - at);
    while (ends_with(text, "\n\n")) text.pop_back();
    out[unit.substr(name, unit.find('(', name) - name)] = std::move(text);
    at = next;
  }
  return out;
}

GeneratedCode CudaBackend::generate(const LoopProgram& program, const Target& target,
                                    const FaultInjection& fault) const {
  GeneratedCode code;
  std::map<std::string, int> by_text;
  auto visit = [&](const Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel) return;
    PrintedKernel made = printed_cuda(*kernel, program, fault);
    auto [found, inserted] = by_text.emplace(made.text, static_cast<int>(code.texts.size()));
    if (inserted) {
      code.texts.push_back(replace_all(made.text, "$NAME", kernel->name));
      code.symbols.push_back(kernel->name);
      const Grid& grid = kernel->schedule->grid;
      code.launches.push_back(
          {0, made.step.buffers.size(), made.step.ints.size(), grid.threads, grid.team, shared_bytes(*kernel)});
    }
    made.step.function = found->second;
    code.steps.emplace(kernel, std::move(made.step));
  };
  for_each_item(program.init, visit);
  for_each_item(program.block, visit);
  std::string unit;
  auto finish = [&] {
    if (!unit.empty()) code.sources.push_back(unit_text(unit, target));
    unit.clear();
  };
  for (size_t i = 0; i < code.texts.size(); ++i) {
    if (unit.size() + code.texts[i].size() > cuda_unit_bytes) finish();
    code.launches[i].unit = code.sources.size();
    unit += code.texts[i] + "\n";
  }
  finish();
  // Products are added where the schedule says so and nowhere else; functions that say nothing are the device's.
  code.flags = {"--std=c++17",     str("--gpu-architecture=", target.name),
                "--fmad=false",    "--device-as-default-execution-space",
                "--device-int128", "--disable-warnings"};
  return code;
}

}  // namespace kiln::codegen
