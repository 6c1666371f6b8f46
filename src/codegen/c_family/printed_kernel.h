// One kernel's function in a dialect, as every backend prints it: with the line of a fault that a test asked for, and
// errors that say where in the user's program the kernel comes from.
#pragma once
#include <cctype>

#include "codegen/c_family/kernel_printer.h"

namespace kiln::codegen {

PrintedKernel printed_kernel(const loops::Kernel& kernel, const loops::LoopProgram& program,
                             const loops::FaultInjection& fault, const Dialect& dialect, bool any_size = false);

// Whether a name of generated code goes on with it.
inline bool goes_on(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace kiln::codegen
