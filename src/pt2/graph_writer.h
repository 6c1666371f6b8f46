// Graph -> JSON as torch.export's schema 8.x has it; the inverse of graph_json.h.
//
// Names in the JSON are Python identifiers and unique per graph: PyTorch makes an fx node of each. A value keeps its
// name where that is one. The graph must not hold expressions as arguments (symbolic_nodes.h sees to that).
#pragma once
#include <map>
#include <set>
#include <string>

#include "base/json.h"
#include "graph/graph.h"
#include "pt2/sympy_writer.h"

namespace kiln {

Json tensor_meta_json(const TensorType& type, const SympyWriter& sympy);

class GraphWriter {
 public:
  // `constants`: what inputs of kind object or none stand for, by position.
  GraphWriter(const Graph& graph, const SympyWriter& sympy, std::map<size_t, Argument> constants = {});
  // The value of "graph". `outputs`: in the order in which the file lists them. `bare`: gives its one output itself,
  // not a tuple of one.
  Json write(const std::vector<Argument>& outputs, bool bare = false);
  // {"as_tensor": {"name": …}} and so on.
  Json argument(const Argument& arg);
  Json value_argument(const Value* value) const;
  Json input(size_t position);
  const std::string& name_of(const Value* value) const { return names_.at(value); }

 private:
  std::string free_name(const std::string& wish);
  void name_values();
  Json node(const Node& node);
  Json node_outputs(const Node& node);
  Json list(const Argument::List& items);
  Json list_of_lists(const Argument::List& items);
  Json symbolic_list(const Argument::List& items, ValueKind kind);
  Json subgraph(const Graph& graph);
  Json value_table(ValueKind kind) const;

  const Graph& graph_;
  const SympyWriter& sympy_;
  const std::map<size_t, Argument> constants_;
  std::map<const Value*, std::string> names_;
  std::vector<const Value*> order_;  // every value, as defined
  std::set<std::string> taken_, taken_subgraphs_;
  const Node* current_ = nullptr;  // the node whose arguments are written
  int graph_arguments_ = 0;        // of it, so far
};

}  // namespace kiln
