// Values of the lowered graph computed anew from values that a run really had: what a kernel should have written, given
// the inputs it was given. Drift that came in from upstream does not count against it.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace kiln {

struct TruthRequest {
  std::string wanted;                   // the value's name
  std::map<std::string, Tensor> known;  // values as the run had them, by name
  SymbolValues symbols;
  uint64_t seed = 0;
};

struct TruthNode {
  const Node* node = nullptr;    // of the whole graph
  const Value* value = nullptr;  // its first tensor result
  Tensor truth;                  // fp64
};

struct Truth {
  Tensor fp64, nominal;
  std::vector<TruthNode> nodes;  // those between the known values and the wanted one, in order
};

class GraphTruth {
 public:
  // `constants` by fully qualified name. Both must outlive this.
  GraphTruth(const Program& program, const std::map<std::string, Tensor>& constants);
  bool has(const std::string& value) const { return values_.count(value) > 0; }
  // A position in the order of execution; values of subgraphs stand at the node that runs them.
  int order(const std::string& value) const;
  // Nothing: it cannot be told (a custom operator, control flow, values that nobody has). Random operators draw other
  // numbers here than in the run: do not ask for what depends on them.
  std::optional<Truth> compute(const TruthRequest& request) const;

 private:
  struct Place {
    const Graph* graph = nullptr;
    const Value* value = nullptr;
    int order = 0;
  };
  void index(const Graph& graph, int order);
  std::optional<Tensor> leaf(const Graph& graph, const Value& value) const;

  const Program& program_;
  const std::map<std::string, Tensor>& constants_;
  std::map<std::string, Place> values_;
};

}  // namespace kiln
