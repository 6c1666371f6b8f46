// Values of the lowered graph computed anew from values that a run really had: what a kernel should have written, given
// the inputs it was given. Drift that came in from upstream does not count against it.
//
// Values go by the name of the buffer that they were lowered to. Those of subgraphs are values too: an input of a
// branch or of a loop's body is what the node that runs it binds to it, or, of what a scan or a map iterates over, the
// slice of the iteration; what a branch or body gives is written to the node's result, or to a slice of it. A value
// without a buffer of its own that shares its name with another (branches often do) gets a name here that no buffer
// has.
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
  std::vector<int64_t> iterations;  // of the loops around the step that is judged, outermost first
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

Tensor row_of(Tensor tensor, int64_t row);  // of the first dimension, where it lies

class GraphTruth {
 public:
  // `constants` by fully qualified name, `buffers` by value. The first two must outlive this.
  GraphTruth(const Program& program, const std::map<std::string, Tensor>& constants,
             const std::map<const Value*, std::string>& buffers = {});
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
  // A result of a scan or a map into which every iteration writes one slice: what that slice is.
  struct Stacked {
    std::string result, value;  // the value is one of the body's
    size_t loop = 0;            // which of the loops around it counts the slices, the outermost first
    int64_t first = 0;          // slice of the first iteration
    std::optional<int64_t> slice(const std::vector<int64_t>& iterations) const;
  };
  const std::vector<Stacked>& stacked() const { return stacked_; }
  const Node* producer(const std::string& value) const;
  // Nothing: it cannot be told (a custom operator, control flow, values that nobody has). Random operators draw other
  // numbers here than in the run: do not ask for what depends on them.
  std::optional<Truth> compute(const TruthRequest& request) const;
  // What rounding may make of it: the fp64 value again, with all that it is computed from off by about as much as in
  // the program's own dtypes. One sample of it. `truth`: of the same request.
  std::optional<Tensor> compute_rounded(const TruthRequest& request, const Truth& truth, int sample) const;

 private:
  struct Place {
    const Graph* graph = nullptr;
    const Value* value = nullptr;
    int order = 0;
  };
  struct Slice {
    const Value* whole = nullptr;
    size_t loop = 0;
    int64_t first = 0;
  };
  void name_values(const std::map<const Value*, std::string>& buffers);
  void index(const Graph& graph, int order, size_t loops, std::map<const Value*, Place>& places);
  void index_iteration(const Node& node);
  void index_control_flow(const Node& node);
  void bind(const Graph& graph, const Argument::List& operands);
  void give(const Graph& graph, const std::vector<Value*>& results);
  void give(const Value* value, const Value* result, bool start);
  const std::string& key(const Value* value) const { return keys_.at(value); }
  // `outside`: takes the nodes that had to be computed in graphs around the value's own.
  using Nodes = std::vector<TruthNode>;
  std::optional<Tensor> known(const Value& value, const TruthRequest& request, Nodes& outside) const;
  std::optional<Tensor> known_or_computed(const Value& value, const TruthRequest& request, Nodes& outside) const;
  std::optional<Tensor> slice_of(const Slice& slice, const TruthRequest& request, Nodes& outside) const;
  std::optional<Tensor> leaf(const Value& value) const;

  const Program& program_;
  const std::map<std::string, Tensor>& constants_;
  std::map<std::string, Place> values_;
  std::map<const Value*, std::string> keys_;
  std::map<const Value*, const Value*> bound_;  // input of a subgraph -> what it is
  std::map<const Value*, Slice> sliced_;        // input of a subgraph -> what it is a slice of
  std::map<const Node*, size_t> loops_around_;
  std::vector<Stacked> stacked_;
  std::map<std::string, std::vector<std::string>> given_;
  std::map<std::string, std::vector<Target>> targets_;
};

}  // namespace kiln
