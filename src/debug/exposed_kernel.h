// A kernel with a store behind every statement that computes a value of the graph (loops::Kernel::named): what is
// between the operators of a fused kernel, made visible. The values inside a reduction are computed once more beside
// it, by a parallel copy of its loop. Executed by the loop interpreter it shows what the loops compute; printed and
// compiled anew, by the same printer and C++ compiler, what the machine code does.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "debug/package_debug.h"
#include "kiln/kiln.h"
#include "loops/loops.h"
#include "types/tensor.h"

namespace kiln {

struct ExposeRequest {
  const loops::LoopProgram& program;
  const loops::Kernel& kernel;
  PackageDebug& package;                        // whose compile its code is made by again
  const kiln_step& step;                        // symbols, seed, arguments
  const std::map<std::string, Tensor>& inputs;  // arguments as they were before the launch
  std::function<void(std::string&)> source;     // tests of faults in the printer: done to the printed text
  const std::string& compiler;                  // empty: the first that is found
  int runs = 1;                                 // of the code, each on the same inputs; the last one shows
};

// The values of one statement, one per iteration of the loops around it.
struct ExposedValue {
  std::vector<std::string> vars;  // of the loops, outermost first; one dimension of `values` each
  Tensor values;
};

struct Exposed {
  std::map<loops::ValueId, ExposedValue> values;
  std::map<std::string, Tensor> arguments;  // of the step, after the run
};

Exposed expose_by_loops(const ExposeRequest& request);
// Throws K0410 without a C++ compiler, K0411 where it fails, K0544 when what it made cannot be loaded; for a GPU, which
// the kernel then runs on, K0770 without NVRTC, K0771 where it fails.
Exposed expose_by_code(const ExposeRequest& request);

}  // namespace kiln
