// Values of the lowered graph computed anew from values that a run really had: what a kernel should have written, given
// the inputs it was given. Drift that came in from upstream does not count against it.
//
// Values go by name. Those of subgraphs are values too: an input of a branch or of a loop's body is what the node that
// runs it binds to it, and what a branch or body gives is written to the node's result. Where several values of a
// program share a name (branches often do), each gets a name of its own here that no buffer has.
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
  const Value* value = nullptr;  // one of its results, a tensor
  std::string name;              // of the value, as requests have it
  bool wanted = false;           // that is the value that was asked for
  Tensor truth, nominal;         // fp64; in the program's own dtypes
};

struct Truth {
  Tensor fp64, nominal;
  std::vector<TruthNode> nodes;   // those between the known values and the wanted one, in order
  const Node* only_node() const;  // nullptr: there are several
};

class GraphTruth {
 public:
  // `constants` by fully qualified name. Both must outlive this.
  GraphTruth(const Program& program, const std::map<std::string, Tensor>& constants);
  bool has(const std::string& value) const { return values_.count(value) > 0; }
  // A position in the order of execution; values of subgraphs stand at the node that runs them.
  int order(const std::string& value) const;
  // The values that are written where `result`, of a cond or while_loop, lives: what branches or the body give, and the
  // start values.
  const std::vector<std::string>& given_to(const std::string& result) const;
  // The results that the value is written to; `start`: as a loop's start value.
  struct Target {
    std::string result;
    bool start = false;
  };
  const std::vector<Target>& targets(const std::string& value) const;
  std::vector<std::string> control_flow_results() const;
  const Node* producer(const std::string& value) const;
  // Nothing: it cannot be told (a custom operator, control flow, values that nobody has). Random operators draw other
  // numbers here than in the run: do not ask for what depends on them.
  std::optional<Truth> compute(const TruthRequest& request) const;

 private:
  struct Place {
    const Graph* graph = nullptr;
    const Value* value = nullptr;
    int order = 0;
  };
  void index(const Graph& graph, int order, std::map<const Value*, Place>& places);
  void index_control_flow(const Node& node);
  void bind(const Graph& graph, const Argument::List& operands);
  void give(const Graph& graph, const std::vector<Value*>& results);
  void give(const Value* value, const Value* result, bool start);
  const std::string& key(const Value* value) const { return keys_.at(value); }
  std::optional<Tensor> known(const Value& value, const TruthRequest& request) const;
  std::optional<Tensor> leaf(const Value& value) const;

  const Program& program_;
  const std::map<std::string, Tensor>& constants_;
  std::map<std::string, Place> values_;
  std::map<const Value*, std::string> keys_;
  std::map<const Value*, const Value*> bound_;  // input of a subgraph -> what it is
  std::map<std::string, std::vector<std::string>> given_;
  std::map<std::string, std::vector<Target>> targets_;
};

}  // namespace kiln
