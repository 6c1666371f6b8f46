// All kernels of a scheduled program as C++ translation units. Kernels that print the same text are generated once.
#pragma once
#include "codegen/cpu/kernel_printer.h"
#include "codegen/cpu/prelude.h"
#include "loop_passes/inject_fault.h"

namespace kiln::codegen {

struct CpuTarget {
  std::string name;  // "x86-64-v4"
  CpuLevel level = CpuLevel::generic;
  int lanes = 16;  // f32 lanes; 1: scalar code
};
// Throws K0403 for a name nobody knows, listing those that are known.
CpuTarget cpu_target(const std::string& name, int simdlen_bits = 0);
std::string host_target_name();  // the best level this machine runs
std::vector<std::string> cpu_target_names();

struct StepCode {
  int function = 0;      // index into GeneratedCode::symbols
  PrintedKernel kernel;  // buffers, ints, sites, items of this step; its text is empty
};

struct GeneratedCode {
  std::vector<std::string> sources;  // translation units, complete
  std::vector<std::string> flags;    // for the compiler
  std::vector<std::string> symbols;  // exported functions
  std::vector<std::string> texts;    // of the functions alone, for people
  std::map<const loops::Kernel*, StepCode> steps;
};
// Of the table kiln_kernels that the last unit ends with (include/kiln/kernel_abi.h).
inline constexpr uint32_t kernel_table_version = 2;
// A complete translation unit of such texts: what they need stands in front.
std::string unit_text(const std::string& kernels, const CpuTarget& target);

// The functions of a translation unit, by name: what generate_cpu put together, taken apart again.
std::map<std::string, std::string> functions_of_unit(const std::string& unit);

// `fault`: kernels that it hits begin with its line of C++ (testing only).
GeneratedCode generate_cpu(const loops::LoopProgram& program, const CpuTarget& target,
                           const loops::FaultInjection& fault = {});

}  // namespace kiln::codegen
