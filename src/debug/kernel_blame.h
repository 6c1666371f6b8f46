// A kernel wrote something else than its operators give: why. Its loops are executed on the inputs it had, to tell a
// fault of the loops from one of the machine code, and to find the first operator inside it that goes wrong by the
// values between its operators (operator_values.h); where the loops are right, in a rebuild of its code.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>

#include "debug/fault_class.h"
#include "debug/graph_truth.h"
#include "debug/package_debug.h"
#include "debug/tensor_difference.h"
#include "kiln/kiln.h"

namespace kiln {

struct BlameRequest {
  PackageDebug& package;
  const GraphTruth& graph;
  const kiln_step& step;
  const std::map<std::string, Tensor>& inputs;  // the arguments before the launch
  const std::set<std::string>& internal;        // those that the kernel fills itself
  const std::map<std::string, Tensor>& known;   // values of the graph that the step may start from
  const std::map<std::string, Tensor>& stored;  // and those that it has left in memory
  const std::string& buffer;                    // the output that is wrong
  const Truth& truth;                           // what it should be
  const DifferenceOptions& tolerance;
  std::function<void(std::string&)> source;   // tests of faults in the printer: done to a rebuilt kernel's text
  const std::string& compiler;                // for a rebuild; empty: the first that is found
  int call = 1;                               // of the instance: rebuilt code runs as often
  std::optional<int64_t> row = std::nullopt;  // of the buffer, where `truth` is of that alone
  bool part = false;                          // of the buffer is all that the step is to write
};

struct KernelBlame {
  FaultClass fault = FaultClass::kernel;
  const Node* op = nullptr;             // nullptr: none could be singled out
  std::vector<const Node*> candidates;  // it is uncertain which of these it is; empty: it is certain, or there is none
  std::string method;                   // how it was found; empty: there is only one
  std::string notes;                    // lines, each with a newline before it
};

KernelBlame blame_kernel(const BlameRequest& request);

// The same for a step that cannot be run: it would end the process, or damage it. `near` is the operator whose result
// it leaves, where that is known.
KernelBlame blame_without_result(const BlameRequest& request, const Node* near);

// Of a step that makes no value of the graph: those that other kernels compute first from what it writes.
std::vector<std::string> values_made_of(const StepInterpreter& steps, const std::string& step);

// The step computes other values than its loops do, and what these should be nobody can tell: the first value of the
// graph inside it that an instrumented rebuild computes otherwise than the loops, by name. Empty: none was found.
// `notes` says why.
std::string first_differing_value(PackageDebug& package, const kiln_step& step,
                                  const std::map<std::string, Tensor>& inputs, const DifferenceOptions& tolerance,
                                  const std::string& compiler, std::string& notes);

}  // namespace kiln
