// A kernel wrote something else than its operators give: why. Its loops are executed on the inputs it had, to tell a
// fault of the loops from one of the machine code, and to find the first operator inside it that goes wrong; where the
// loops are right, by a rebuild with every statement's value stored.
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
  const kiln_step& step;
  const std::map<std::string, Tensor>& inputs;  // the arguments before the launch
  const std::set<std::string>& internal;        // those that the kernel fills itself
  const std::string& buffer;                    // the output that is wrong
  const Truth& truth;                           // what it should be
  const DifferenceOptions& tolerance;
  std::function<void(std::string&)> source;  // tests of faults in the printer: done to a rebuilt kernel's text
  const std::string& compiler;               // for a rebuild; empty: the first that is found
};

struct KernelBlame {
  FaultClass fault = FaultClass::kernel;
  const Node* op = nullptr;  // nullptr: none could be singled out
  std::string method;        // how it was found; empty: there is only one
  std::string notes;         // lines, each with a newline before it
};

KernelBlame blame_kernel(const BlameRequest& request);

}  // namespace kiln
