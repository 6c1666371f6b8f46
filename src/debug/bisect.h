// `kiln bisect`: the first kernel of a shipped package that does not compute what it should, and inside it the first
// operator.
//
// The package runs as it is, with its own machine code and memory plan. Around each step its arguments are looked at:
// - what it read must still be what was written there (checksums), and must have been written at all: otherwise the
//   plan is at fault (overlapping lifetimes, a missing dependency), not a kernel;
// - constants must be those the program was compiled for, prepared ones must follow from them (else they are stale);
// - sizes, strides, the branch taken and the number of iterations must be those of the loops;
// - what is only read must not change;
// - what it wrote is compared with the fp64 reference of the operators it stands for, given the same inputs, so that
//   drift from upstream blames nobody innocent. Where that cannot be told (random numbers, bodies of scans), with
//   the kernel's own loops.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "debug/fault_class.h"
#include "debug/tensor_difference.h"

namespace kiln {

struct BisectOptions {
  DifferenceOptions tolerance;
  std::vector<std::string> settings;  // "key=value" for loading the package
  std::vector<std::string> custom_op_libs;
  std::string compiler;  // for rebuilding a kernel whose code is wrong; empty: the first that is found
  std::function<void(std::string&)> rebuilt_source;  // for tests: a printer's fault, as driver/fault_injector.h has it
};

struct BisectResult {
  FaultClass fault = FaultClass::none;
  std::string step;  // the first that is wrong; of plan faults: the step that saw it
  std::string buffer;
  std::string op, value, node;  // first wrong operator inside the kernel, its value in the lowered graph, its node in
                                // the program; empty: none could be singled out
  std::string method;           // how: "loop interpreter", "instrumented rebuild"; empty: the kernel has only one
  std::optional<Difference> difference;
  int steps = 0, against_graph = 0, against_loops = 0;  // what was checked
  std::string text;                                     // for people, complete
};

BisectResult bisect(const std::string& package, const std::vector<Datum>& inputs, const BisectOptions& options);

}  // namespace kiln
