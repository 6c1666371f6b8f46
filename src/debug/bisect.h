// `kiln bisect`: the first kernel of a shipped package that does not compute what it should, and inside it the first
// operator.
//
// The package runs as it is, with its own machine code and memory plan, more than once on one instance (state, caches
// and addresses of the first call show in the second), in a child process: a kernel that crashes or never ends is
// named like any other. Then it runs with each buffer alone in memory, between pages that nobody may touch, so that
// what reads or writes outside is seen. bisection.h has what is looked at.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "debug/fault_class.h"
#include "debug/tensor_difference.h"

namespace kiln {

struct BisectOptions {
  DifferenceOptions tolerance;
  std::vector<std::string> settings;  // "key=value" for loading the package
  std::vector<std::string> custom_op_libs;
  std::string weights;   // as PackageOptions::weights
  std::string compiler;  // for rebuilding a kernel whose code is wrong; empty: the first that is found
  std::function<void(std::string&)> rebuilt_source;  // for tests: a printer's fault, as compile/fault_injector.h has it
  std::function<void(const std::string&)> told;      // hears where it is, some ten times a second, and "" before
                                                     // anything else is printed; may be empty
  bool inside = true;  // false: the kernel is enough, without the operator inside it (a large matrix product takes
                       // minutes to interpret)
  int calls = 2;       // on one instance
  double hang_seconds = 60;  // a single step that runs longer is taken to hang
};

struct BisectResult {
  FaultClass fault = FaultClass::none;
  std::string step;  // the first that is wrong; of plan faults: the step that saw it
  std::string buffer;
  std::string op, value, node;  // first wrong operator inside the kernel, its value in the lowered graph, its node in
                                // the program; empty: none could be singled out
  std::vector<std::string> candidates;  // not empty: it is uncertain which of these values' operators it is; of
                                        // FaultClass::uncertain: which of these steps
  std::string method;                   // how: "loop interpreter", "instrumented rebuild"; empty: there is only one
  std::optional<Difference> difference;
  int steps = 0, against_graph = 0, against_loops = 0;  // what was checked
  std::vector<std::string> by_loops;                    // steps compared with their own loops only, by name
  std::vector<std::string> untold;                      // steps whose results nothing could be compared with, by name
  bool unexplained = false;                             // a buffer changed, and by whom is not known
  std::vector<std::vector<uint64_t>> output_sums;       // checksums, of each call
  std::string text;                                     // for people, complete
};

// Forks: to be called while no other thread of the process runs.
BisectResult bisect(const std::string& package, const std::vector<Datum>& inputs, const BisectOptions& options);
Json bisect_json(const BisectResult& result);

}  // namespace kiln
