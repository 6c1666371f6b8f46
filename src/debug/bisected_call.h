// One call of a package, watched step by step: what is wrong about it first. bisection.h says what is looked at; the
// order of the looks stands in bisected_call.cpp, those at the plan in bisected_plan.cpp, those at the values that the
// steps compute in bisected_values.cpp.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "debug/bisection.h"
#include "debug/constant_checks.h"
#include "debug/control_watch.h"
#include "debug/graph_truth.h"
#include "debug/kernel_blame.h"
#include "debug/package_debug.h"
#include "debug/step_copy.h"
#include "debug/value_names.h"
#include "debug/write_log.h"

namespace kiln {

class BisectedCall {
 public:
  // `state`: buffers as the last call left them. What is given must outlive this.
  BisectedCall(PackageDebug& package, const std::vector<Datum>& inputs, const BisectOptions& options,
               const BisectionRun& run, int call, const std::map<std::string, Tensor>& state);

  // `user` is the call.
  static kiln_hook_answer hook(void* user, kiln_hook_when when, const kiln_step* step);
  // After the run: loops that ended it must have been over, nothing left out, and given back what was computed.
  void finish(const std::vector<Datum>& outputs);
  // The runtime has found that the step wrote beside one of its arguments: "… outside of buffer NAME (…".
  void blame_write_outside(const std::string& message);

  BisectResult& result() { return result_; }
  const std::string& problem() const { return problem_; }
  const std::string& current() const { return current_; }

 private:
  struct Part {
    std::string step;
    int32_t number;
    Tensor value;                    // of the whole buffer, after it
    std::shared_ptr<StepCopy> copy;  // of the step and what it was given, to look inside it when the buffer is complete
    std::map<std::string, Tensor> inputs, known;
    std::set<std::string> internal;
  };

  // ---- the order of the looks
  void find_parts(const std::vector<format::Step>& block);
  void before(const kiln_step& step);
  void after(const kiln_step& step);
  void check_outputs(const std::vector<Datum>& outputs);
  void check_program(const std::vector<Datum>& outputs);
  void note(std::vector<std::string>& names, const kiln_step& step);
  void blame(FaultClass fault, const kiln_step& step, const std::string& buffer, const std::string& message);
  void blame_loops(const kiln_step& step, const std::string& message);
  std::string at(const kiln_step& step) const;  // " (step 3, iteration 1.2, call 2)"

  // ---- the plan
  void check_plan(const kiln_step& step);
  void check_read(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value);
  void check_watched(const kiln_step& step);
  void check_unchanged(const kiln_step& step, const kiln_step_arg& arg, const Tensor& value);
  void poison(const kiln_step& step) const;
  bool inside_kernel(const kiln_step& step, const kiln_step_arg& arg) const;
  bool reads_own_memory(const kiln_step_arg& arg) const;
  bool unwritten(const kiln_step_arg& arg) const;
  bool fills_itself(const kiln_step& step, const kiln_step_arg& arg) const;

  // ---- the values
  bool check_against_graph(const kiln_step& step, const std::string& buffer, const Tensor& value);
  // Undefined where it cannot be computed, or has other sizes than the value.
  std::optional<Truth> truth_of(const TruthRequest& request, const Tensor& value) const;
  std::optional<bool> check_complete(const kiln_step& step, const std::string& buffer, const Tensor& value,
                                     const std::vector<std::string>& candidates);
  std::optional<bool> check_slice(const kiln_step& step, const std::string& buffer, const Tensor& value);
  std::optional<bool> check_joined(const kiln_step& step, const std::string& buffer, const Tensor& value);
  void check_against_loops(const kiln_step& step);
  bool complete(const kiln_step& step, const std::string& buffer) const;
  std::optional<Difference> differs(const Tensor& value, const Truth& truth, const TruthRequest& request) const;
  bool blame_part(const kiln_step& step, const std::string& buffer, const std::string& value_name, const Tensor& value,
                  const Truth& truth, const TruthRequest& request);
  KernelBlame look_inside_part(const Part& part, const std::string& buffer, const std::string& value_name);
  void only_written(const std::string& buffer, const Tensor& value, Truth& truth) const;
  void blame_wrong(const kiln_step& step);
  void look_inside(const kiln_step& step);
  void name_operator(const KernelBlame& found, std::string& text);

  PackageDebug& package_;
  const std::vector<Datum>& given_;
  const std::map<std::string, Tensor>& state_;
  const BisectOptions& options_;
  const BisectionRun& run_;
  int call_;
  GraphTruth truth_;
  ValueNames names_;
  ControlWatch control_;
  ConstantChecks constants_;
  WriteLog writes_;
  BisectResult result_;
  std::map<int32_t, std::string> unclear_;  // steps that no reference could clear, by number
  std::string problem_, current_;
  std::map<std::string, Tensor> inputs_;     // of the current step, before its launch
  std::set<std::string> internal_;           // those of them that the kernel fills itself
  std::string reads_unwritten_;              // the one of them that it reads before it fills it
  std::set<std::string> partly_;             // buffers that several steps write
  std::map<std::string, int> writers_left_;  // steps of the plan that have not written it yet
  std::map<std::string, Tensor> known_;      // values that the current step may start from
  std::vector<std::pair<std::string, Tensor>> outputs_;
  std::map<std::string, Tensor> stored_;  // values of the graph that the current step has left in them
  struct Wrong {
    std::string buffer, value;
    Difference difference;
    Truth truth;
    std::optional<int64_t> row;  // of the buffer, where it is that alone
  };
  std::optional<Wrong> wrong_;
  std::map<std::string, std::vector<Part>> parts_;  // of buffers that several steps write
};

}  // namespace kiln
