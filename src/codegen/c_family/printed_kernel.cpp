#include "codegen/c_family/printed_kernel.h"

#include "base/error.h"

namespace kiln::codegen {
using namespace loops;
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

}  // namespace

PrintedKernel printed_kernel(const Kernel& kernel, const LoopProgram& program, const FaultInjection& fault,
                             const Dialect& dialect, bool any_size) {
  try {
    PrintedKernel out = KernelPrinter(kernel, program, dialect, any_size).print();
    add_fault(fault, program, kernel, out.text);
    return out;
  } catch (Error& error) {
    Where where;
    where.node = kernel.name;
    where.pass = "codegen";
    if (!kernel.origins.empty()) {
      const Origin& origin = kernel.origins.back();
      where.module_path = origin.module_path;
      where.op = origin.op;
      if (origin.line()) where.source = *origin.line();
    }
    error.locate(where);
    throw;
  }
}

}  // namespace kiln::codegen
