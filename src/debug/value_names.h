// Which value of the lowered graph each buffer of a running package holds. A buffer mostly holds the value of its own
// name; updates in place put several into one, one after the other; results of branches and loops hold what the branch
// or the last iteration gave.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "debug/graph_truth.h"
#include "debug/package_debug.h"
#include "kiln/kiln.h"

namespace kiln {

class ValueNames {
 public:
  ValueNames(PackageDebug& package, const GraphTruth& truth);  // both must outlive this
  bool is_input(const std::string& buffer) const;              // of the graph
  bool holds_several(const std::string& buffer) const { return values_in_.count(buffer) > 0; }

  // The values that this write of the buffer may have been: of its own name, or one that lives there.
  std::vector<std::string> candidates(const std::string& buffer, bool in_loop) const;
  // The result of a scan or map in the buffer that each iteration writes a slice of; nullptr: none lives there.
  const GraphTruth::Stacked* stacked_in(const std::string& buffer) const;
  // Whether the operator that gives the value is among those that the kernel is named for.
  bool of_kernel(const kiln_step& step, const std::string& value) const;
  // The buffer holds the value from now on.
  void hold(const kiln_step& step, const std::string& buffer, const std::string& value_name, const Tensor& value);
  void see(const std::string& value_name, Tensor value) { seen_[value_name] = std::move(value); }

  // Values that a step may be judged by: those of whole runs, and what it reads. `unfinished`: buffers that some of
  // their writers have not written yet.
  std::map<std::string, Tensor> known(const kiln_step& step, const std::map<std::string, Tensor>& inputs,
                                      const std::set<std::string>& unfinished) const;

 private:
  struct Held {
    std::string value;
    std::vector<int64_t> iterations;  // of the loops around the step that wrote it
  };
  std::string resolve(std::string buffer) const;
  std::vector<std::string> results_in(const std::string& value, const std::string& buffer) const;

  PackageDebug& package_;
  const GraphTruth& truth_;
  std::map<std::string, std::vector<std::string>> values_in_;  // buffer -> values merged into it, in order
  std::map<std::string, Held> holds_;
  std::map<std::string, Tensor> seen_;  // as the run computed them, by their graph name
};

}  // namespace kiln
