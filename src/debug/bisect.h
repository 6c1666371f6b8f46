// `kiln bisect`: the first kernel of a shipped package that does not compute what it should, and inside it the first
// operator.
//
// The package runs as it is, with its own machine code and memory plan. Around each step its arguments are looked at:
// - what it read must still be what was written there (checksums), and must have been written at all: otherwise the
//   plan is at fault (overlapping lifetimes, a missing dependency), not a kernel;
// - prepared constants must follow from the constants (else they are stale);
// - what it wrote is compared with the fp64 reference of the operators it stands for, given the same inputs, so that
//   drift from upstream blames nobody innocent. Where that cannot be told (random numbers, control flow), with the
//   kernel's own loops.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "debug/tensor_difference.h"

namespace kiln {

struct BisectOptions {
  DifferenceOptions tolerance;
  std::vector<std::string> settings;  // "key=value" for loading the package
  std::vector<std::string> custom_op_libs;
};

enum class FaultClass { none, kernel, code, overlap, missing_dependency, stale_constant, failed };
const char* fault_class_name(FaultClass fault);

struct BisectResult {
  FaultClass fault = FaultClass::none;
  std::string step;  // the first that is wrong; of plan faults: the step that saw it
  std::string buffer;
  std::string op, node;  // first wrong operator inside the kernel; empty: none could be singled out
  std::optional<Difference> difference;
  int steps = 0, against_graph = 0, against_loops = 0;  // what was checked
  std::string text;                                     // for people, complete
};

BisectResult bisect(const std::string& package, const std::vector<Datum>& inputs, const BisectOptions& options);

}  // namespace kiln
