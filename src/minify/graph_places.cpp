#include "minify/graph_places.h"

#include <set>

#include "ops/op_record.h"

namespace kiln::minify {
namespace {

void walk(const Graph& graph, GraphPath& path, const std::function<void(const Graph&, const GraphPath&)>& f) {
  f(graph, path);
  for (const auto& node : graph.nodes)
    for (size_t i = 0; i < node->args.size(); ++i) {
      const Argument& arg = node->args[i].arg;
      if (!arg.is_graph() || !arg.as_graph()) continue;
      path.push_back({node->name, i});
      walk(*arg.as_graph(), path, f);
      path.pop_back();
    }
}

}  // namespace

Node* find_node(Graph& graph, const std::string& name) {
  for (auto& node : graph.nodes)
    if (node->name == name) return node.get();
  return nullptr;
}

Graph* find_graph(Program& program, const GraphPath& path) {
  Graph* graph = &program.graph;
  for (const GraphStep& step : path) {
    Node* node = find_node(*graph, step.node);
    if (!node || step.argument >= node->args.size() || !node->args[step.argument].arg.is_graph()) return nullptr;
    graph = node->args[step.argument].arg.as_graph().get();
    if (!graph) return nullptr;
  }
  return graph;
}

void for_each_graph(const Program& program, const std::function<void(const Graph&, const GraphPath&)>& f) {
  GraphPath path;
  walk(program.graph, path, f);
}

Edit node_edit(std::string what, const GraphPath& path, const std::string& node,
               std::function<bool(Graph&, Node&)> change) {
  return {str(what, " ", node), [path, node, change = std::move(change)](Program& program) {
            Graph* graph = find_graph(program, path);
            Node* found = graph ? find_node(*graph, node) : nullptr;
            return found && change(*graph, *found);
          }};
}

void drop_dead_nodes(Graph& graph) {
  std::set<const Value*> used;
  const auto use = [&](const Argument& arg) {
    for_each_value(arg, [&](Value* value) {
      used.insert(value);
      for (const Value* item : value->items) used.insert(item);
    });
  };
  for (const Argument& output : graph.outputs) use(output);
  std::vector<Node*> dead;
  for (auto it = graph.nodes.rbegin(); it != graph.nodes.rend(); ++it) {
    Node& node = **it;
    const OpRecord* record = Registry::instance().find(node.target);
    bool wanted = node.results.empty() || !record || record->kind == OpKind::assertion || record->schema.mutates();
    for (const Value* result : node.results) {
      wanted |= used.contains(result);
      for (const Value* item : result->items) wanted |= item && used.contains(item);
    }
    if (!wanted) {
      dead.push_back(&node);
      continue;
    }
    for (const auto& named : node.args) use(named.arg);
  }
  for (Node* node : dead) graph.erase(node);
}

}  // namespace kiln::minify
