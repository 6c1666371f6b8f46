#include "codegen/c_family/kernel_printer.h"
#include "codegen/c_family/printed_kernel.h"
#include "codegen/cpu/backend.h"
#include "codegen/cpu/checked_access.h"
#include "codegen/cpu/dialect.h"

namespace kiln::codegen {
using namespace loops;
namespace {

// Kernel text per translation unit: large enough that the compiler's start-up does not count, small enough that units
// can be compiled side by side. It depends on the program only, so packages are the same wherever they are made.
constexpr size_t unit_bytes = 48 * 1024;

}  // namespace

std::string CpuBackend::unit_text(const std::string& kernels, const Target& target) const {
  PreludeRequest request;
  request.lanes = target.lanes;
  request.level = cpu_level(target);
  collect_prelude_names(kernels, request);
  return prelude(request) + "\n" + kernels;
}

std::string CpuBackend::with_checked_accesses(const std::string& unit, int lanes) const {
  return codegen::with_checked_accesses(unit, lanes);
}

StepCode CpuBackend::step_code(const Kernel& kernel, const LoopProgram& program) const {
  return KernelPrinter(kernel, program, cpu_dialect()).print().step;
}

namespace {

struct Taken {
  size_t buffers, ints;
};

// Says to the runtime which kernels there are and what each takes.
std::string kernel_table(const std::vector<std::string>& symbols, const std::vector<Taken>& taken) {
  const char* parameters = "(const kiln_kernel_context*, void* const*, const i64*, i64, i64)";
  std::string text = "extern \"C\" {\n", entries;
  for (size_t i = 0; i < symbols.size(); ++i) {
    text += str("int ", symbols[i], parameters, ";\n");
    entries += str("  {\"", symbols[i], "\", ", symbols[i], ", ", taken[i].buffers, ", ", taken[i].ints, "},\n");
  }
  return text + str("struct kiln_kernel_entry { const char* name; int (*run)", parameters,
                    "; unsigned buffer_count, int_count; };\n",
                    "struct kiln_kernel_table { unsigned version, count; const kiln_kernel_entry* kernels; };\n",
                    "static const kiln_kernel_entry kernel_entries[] = {\n", entries, "};\n",
                    "extern __attribute__((visibility(\"default\"))) const kiln_kernel_table kiln_kernels;\n",
                    "const kiln_kernel_table kiln_kernels = {", kernel_table_version, ", ", symbols.size(),
                    ", kernel_entries};\n}\n");
}

}  // namespace

std::map<std::string, std::string> CpuBackend::functions_of_unit(const std::string& unit) const {
  static const std::string head = "extern \"C\" __attribute__((visibility(\"default\"))) int ";
  std::map<std::string, std::string> out;
  for (size_t at = unit.find(head); at != std::string::npos;) {
    const size_t next = unit.find(head, at + 1), name = at + head.size();
    std::string text = unit.substr(at, next == std::string::npos ? next : next - at);
    while (ends_with(text, "\n\n")) text.pop_back();
    out[unit.substr(name, unit.find('(', name) - name)] = std::move(text);
    at = next;
  }
  return out;
}

namespace {

// A distinct function: its text, and what it takes.
struct Function {
  std::string text;
  int lanes;
  Taken taken;
};

}  // namespace

GeneratedCode CpuBackend::generate(const LoopProgram& program, const Target& target,
                                   const FaultInjection& fault) const {
  GeneratedCode code;
  std::map<std::string, int> by_text;
  std::vector<Function> functions;
  auto visit = [&](const Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel) return;
    PrintedKernel made = printed_kernel(*kernel, program, fault, cpu_dialect());
    auto [found, inserted] = by_text.emplace(made.text, static_cast<int>(functions.size()));
    if (inserted) {
      functions.push_back({replace_all(made.text, "$NAME", kernel->name),
                           kernel->schedule->lanes,
                           {made.step.buffers.size(), made.step.ints.size()}});
      code.symbols.push_back(kernel->name);
    }
    made.step.function = found->second;
    code.steps.emplace(kernel, std::move(made.step));
  };
  for_each_item(program.init, visit);
  for_each_item(program.block, visit);
  // A unit has one width of vectors.
  std::string unit;
  Target unit_target = target;
  auto finish = [&](const std::string& last) {
    if (!unit.empty()) code.sources.push_back(unit_text(unit + last, unit_target));
    unit.clear();
  };
  std::vector<Taken> taken;
  for (const Function& function : functions) {
    if (unit.size() + function.text.size() > unit_bytes || function.lanes != unit_target.lanes) finish("");
    unit_target.lanes = function.lanes;
    unit += function.text + "\n";
    code.texts.push_back(function.text);
    taken.push_back(function.taken);
  }
  finish(kernel_table(code.symbols, taken));
  code.flags = prelude_flags(cpu_level(target), target.lanes);
  code.flags.push_back("-fPIC");
  return code;
}

}  // namespace kiln::codegen
