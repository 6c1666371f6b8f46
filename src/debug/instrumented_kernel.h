// A kernel rebuilt with a store behind every statement, to see what the machine code computes inside it. Used where a
// kernel's loops are right and its code is not: the same printer and C++ compiler make the code anew, it runs on the
// inputs that the step had, and the first statement whose stored value differs from the loop interpreter's is where
// the code goes wrong.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "codegen/cpu/generate.h"
#include "kiln/kiln.h"
#include "loops/loops.h"
#include "types/tensor.h"

namespace kiln {

struct InstrumentedRequest {
  const loops::LoopProgram& program;
  const loops::Kernel& kernel;
  codegen::CpuTarget target;
  const kiln_step& step;                        // symbols, seed, arguments
  const std::map<std::string, Tensor>& inputs;  // arguments as they were before the launch
  std::function<void(std::string&)> source;     // tests of faults in the printer: done to the printed text
  const std::string& compiler;                  // empty: the first that is found
};

struct InstrumentedResult {
  loops::ValueId first = loops::no_value;  // the first statement whose value differs; none: all agree
  std::vector<loops::ValueId> order;       // the stored statements, in the order of the program
  std::string text;                        // the element, both values
  std::map<std::string, Tensor> outputs;   // the step's arguments after the instrumented code ran
};

// Throws K0410 without a C++ compiler, K0411 where it fails, K0543 when the stored values would need absurd memory.
InstrumentedResult run_instrumented(const InstrumentedRequest& request);

}  // namespace kiln
