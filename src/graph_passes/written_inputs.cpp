#include "graph_passes/written_inputs.h"

#include "ops/custom_ops.h"
#include "ops/op_record.h"

namespace kiln {

namespace {

using Roots = std::set<const Value*>;

class WriteFinder {
 public:
  explicit WriteFinder(const Graph& graph) {
    for (const Value* input : graph.inputs) roots_[input] = {input};
    for (const auto& node : graph.nodes) {
      bool has_graph = false;
      for (const auto& named : node->args) has_graph |= named.arg.is_graph();
      if (has_graph) {
        visit_control_flow(*node);
      } else if (node->op) {
        visit_call(*node);
      } else {
        visit_custom(*node);
      }
    }
  }
  Roots written;

 private:
  Roots roots_of(const Argument& arg) const {
    Roots out;
    for_each_value(arg, [&](Value* value) {
      auto found = roots_.find(value);
      if (found != roots_.end()) out.insert(found->second.begin(), found->second.end());
    });
    return out;
  }

  void set_roots(const Value* value, const Roots& roots) {
    if (roots.empty()) return;
    roots_[value].insert(roots.begin(), roots.end());
    for (const Value* item : value->items)
      if (item) roots_[item].insert(roots.begin(), roots.end());
  }

  void visit_call(const Node& node) {
    const Schema& schema = node.op->schema;
    std::map<std::string, Roots> by_alias;
    for (const SchemaArg& declared : schema.args) {
      const Argument* arg = node.find(declared.name);
      if (declared.alias.empty() || !arg) continue;
      Roots roots = roots_of(*arg);
      if (declared.writes) written.insert(roots.begin(), roots.end());
      by_alias[declared.alias].insert(roots.begin(), roots.end());
    }
    for (size_t i = 0; i < node.results.size() && i < schema.returns.size(); ++i) {
      auto found = by_alias.find(schema.returns[i].alias);
      if (found != by_alias.end()) set_roots(node.results[i], found->second);
    }
  }

  // The results of a custom operator are never aliases of its arguments: PyTorch does not allow it.
  void visit_custom(const Node& node) {
    for (const std::string& name : custom_writes(node))
      if (const Argument* arg = node.find(name)) {
        Roots roots = roots_of(*arg);
        written.insert(roots.begin(), roots.end());
      }
  }

  // The operands, lists flattened, are the subgraphs' inputs in order. Any result may be an alias of any operand.
  void visit_control_flow(const Node& node) {
    std::vector<const Graph*> graphs;
    std::vector<Roots> operands;
    Roots all;
    for (const auto& named : node.args) {
      if (named.arg.is_graph()) {
        graphs.push_back(named.arg.as_graph().get());
      } else if (named.arg.is_list()) {
        for (const Argument& element : named.arg.as_list()) operands.push_back(roots_of(element));
      } else {
        operands.push_back(roots_of(named.arg));
      }
    }
    for (const Roots& roots : operands) all.insert(roots.begin(), roots.end());
    for (const Graph* graph : graphs) {
      Roots inner = written_inputs(*graph);
      // Wrappers and cond have operands before the subgraph's own (a flag, the predicate).
      size_t skip = operands.size() > graph->inputs.size() ? operands.size() - graph->inputs.size() : 0;
      for (size_t i = 0; i < graph->inputs.size() && i + skip < operands.size(); ++i)
        if (inner.contains(graph->inputs[i])) written.insert(operands[i + skip].begin(), operands[i + skip].end());
    }
    for (const Value* result : node.results) set_roots(result, all);
  }

  std::map<const Value*, Roots> roots_;
};

}  // namespace

std::set<const Value*> written_inputs(const Graph& graph) { return WriteFinder(graph).written; }

}  // namespace kiln
