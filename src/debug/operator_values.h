// The values between the operators of a fused kernel, and which operator is the first to go wrong: the first, in the
// order of the graph, whose own value is not what the reference gives, although the values it was computed from are.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "debug/exposed_kernel.h"
#include "debug/graph_truth.h"
#include "debug/tensor_difference.h"

namespace kiln {

// What a kernel computed of one value of the graph, in one of the places where it does.
struct OperatorValue {
  Tensor values;           // of the value's dtype; elements that the kernel did not compute are the reference's
  bool everything = true;  // it computed all elements
};

class OperatorValues {
 public:
  // All must outlive this.
  OperatorValues(const loops::Kernel& kernel, const SymbolValues& symbols, const Exposed& exposed,
                 const GraphTruth& graph, std::set<std::string> loaded);  // values that it reads from memory
  // Empty: the kernel does not show it.
  std::vector<OperatorValue> of(const TruthNode& node) const;
  // Whether the kernel computes nothing for it but takes elements from memory.
  bool only_moves(const TruthNode& node) const;
  // Whether the kernel does not compute it at all: nobody there uses it.
  bool unused(const TruthNode& node) const;

 private:
  bool names(const loops::NamedValue& named, const TruthNode& node) const;
  std::optional<OperatorValue> gather(const loops::NamedValue& named, const TruthNode& node) const;

  const loops::Kernel& kernel_;
  const SymbolValues& symbols_;
  const Exposed& exposed_;
  const GraphTruth& graph_;
  std::set<std::string> loaded_;
  std::map<std::string, Expr> extents_;                    // of loops, by variable
  std::map<std::string, loops::ValueId> checked_indices_;  // by variable
  std::map<loops::ValueId, const loops::Stmt*> made_by_;
};

struct OperatorVerdict {
  const TruthNode* first = nullptr;  // the operator that is at fault; nullptr: the reference explains all values
  std::vector<const TruthNode*> candidates;  // not empty: it is one of these, and it is uncertain which
  std::string text;                          // where its value is wrong
};

struct VerdictRequest {
  const OperatorValues& values;
  const Truth& truth;
  const std::map<std::string, Tensor>& stored;  // values of the graph that the step left in memory
  const DifferenceOptions& tolerance;
  // The reference's value of the node, given other values for what it is computed from; by name.
  std::function<std::optional<Truth>(const TruthNode&, const std::map<std::string, Tensor>&)> given;
  // The loops are known to be right: what only takes elements from memory has no code of its own.
  bool loops_are_right = false;
};
OperatorVerdict first_wrong_operator(const VerdictRequest& request);

}  // namespace kiln
