#include "codegen/cpu/generate.h"

namespace kiln::codegen {
using namespace loops;
namespace {

// Kernel text per translation unit: large enough that the compiler's start-up does not count, small enough that units
// can be compiled side by side. It depends on the program only, so packages are the same wherever they are made.
constexpr size_t unit_bytes = 48 * 1024;

}  // namespace

std::string unit_text(const std::string& kernels, const CpuTarget& target) {
  PreludeRequest request;
  request.lanes = target.lanes;
  request.level = target.level;
  collect_prelude_names(kernels, request);
  return prelude(request) + "\n" + kernels;
}

namespace {

// Puts the line of an injected fault at the beginning of the function.
void add_fault(const FaultInjection& fault, const LoopProgram& program, const Kernel& kernel, std::string& text) {
  const std::string line = fault_line(fault);
  if (line.empty()) return;
  const bool nested = std::none_of(program.block.begin(), program.block.end(),
                                   [&](const Item& item) { return std::get_if<Kernel>(&item.what) == &kernel; });
  if (!fault_hits(fault, program, kernel, nested)) return;
  const size_t begin = text.find("{\n");
  KILN_CHECK(begin != std::string::npos, "a printed kernel without a body");
  text.insert(begin + 2, str("  ", line, "\n"));
}

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

std::map<std::string, std::string> functions_of_unit(const std::string& unit) {
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

GeneratedCode generate_cpu(const LoopProgram& program, const CpuTarget& target, const FaultInjection& fault) {
  GeneratedCode code;
  std::map<std::string, int> by_text;
  std::vector<std::string> texts;
  std::vector<Taken> taken;
  auto visit = [&](const Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel) return;
    StepCode step;
    try {
      step.kernel = KernelPrinter(*kernel, program, target.lanes).print();
      add_fault(fault, program, *kernel, step.kernel.text);
    } catch (Error& error) {
      Where where;
      where.node = kernel->name;
      where.pass = "codegen";
      if (!kernel->origins.empty()) {
        const Origin& origin = kernel->origins.back();
        where.module_path = origin.module_path;
        where.op = origin.op;
        if (origin.line()) where.source = *origin.line();
      }
      error.locate(where);
      throw;
    }
    auto [found, inserted] = by_text.emplace(step.kernel.text, static_cast<int>(texts.size()));
    if (inserted) {
      texts.push_back(replace_all(step.kernel.text, "$NAME", kernel->name));
      code.symbols.push_back(kernel->name);
      taken.push_back({step.kernel.buffers.size(), step.kernel.ints.size()});
    }
    step.function = found->second;
    step.kernel.text.clear();
    code.steps.emplace(kernel, std::move(step));
  };
  for_each_item(program.init, visit);
  for_each_item(program.block, visit);
  std::string unit;
  for (const std::string& text : texts) {
    if (!unit.empty() && unit.size() + text.size() > unit_bytes) {
      code.sources.push_back(unit_text(unit, target));
      unit.clear();
    }
    unit += text + "\n";
  }
  if (!unit.empty()) code.sources.push_back(unit_text(unit + kernel_table(code.symbols, taken), target));
  code.texts = std::move(texts);
  code.flags = prelude_flags(target.level, target.lanes);
  code.flags.push_back("-fPIC");
  return code;
}

}  // namespace kiln::codegen
