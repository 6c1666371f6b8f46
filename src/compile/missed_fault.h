// A fault that a testing setting asks for and that is put in nowhere: a test of a debugging tool would say that the
// tool finds nothing. Whoever asks a Compilation for a program to run or to show says what this gives.
#pragma once
#include <string>

#include "compile/compilation.h"

namespace kiln {

// What of the Compilation is used. Faults of fused kernels come with the schedule, those that are a line of C++ with
// the code.
enum class FaultReach : uint8_t { lowered, scheduled, code };

// "": no fault was asked for, or it was put in, or the passes were to stop before its turn.
std::string missed_fault(Compilation& compilation, FaultReach reach);

}  // namespace kiln
