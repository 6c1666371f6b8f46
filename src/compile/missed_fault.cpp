#include "compile/missed_fault.h"

#include <algorithm>

#include "loops/walk.h"

namespace kiln {
namespace {

// The passes that ran so far and put faults in.
struct FaultPasses {
  bool ran = false, put_in = false;
};

FaultPasses fault_passes(const Compilation& compilation, bool fused) {
  FaultPasses out;
  for (const PassReport& pass : compilation.reports()) {
    if (pass.name != (fused ? "inject_fused_fault" : "inject_fault")) continue;
    out.ran = true;
    out.put_in |= pass.changed;
  }
  return out;
}

// Whether the printer's caller puts a line into a kernel (codegen/c_family/printed_kernel.cpp).
bool hits_code(const loops::FaultInjection& fault, const loops::LoopProgram& program) {
  bool hit = false;
  const auto look = [&](const loops::Item& item) {
    const auto* kernel = std::get_if<loops::Kernel>(&item.what);
    if (!kernel) return;
    const bool nested = std::none_of(program.block.begin(), program.block.end(), [&](const loops::Item& outer) {
      return std::get_if<loops::Kernel>(&outer.what) == kernel;
    });
    hit |= loops::fault_hits(fault, program, *kernel, nested);
  };
  loops::for_each_item(program.init, look);
  loops::for_each_item(program.block, look);
  return hit;
}

}  // namespace

std::string missed_fault(Compilation& compilation, FaultReach reach) {
  const loops::FaultInjection& fault = compilation.fault();
  if (fault.ops.empty()) return "";
  if (!loops::fault_line(fault).empty()) {
    if (reach != FaultReach::code)
      return "the fault to inject is a line of C++ in a kernel's code, and no code is made here";
    if (hits_code(fault, compilation.scheduled())) return "";
  } else {
    if (fault.fused() && reach == FaultReach::lowered)
      return "the fault to inject is one of fused kernels, and nothing is fused here";
    const FaultPasses passes = fault_passes(compilation, fault.fused());
    if (passes.put_in || !passes.ran) return "";
  }
  return str("the fault to inject met no operator: the program has no ", join(fault.ops, " fused with "),
             " where it could be put in");
}

}  // namespace kiln
