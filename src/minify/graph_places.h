// Places in a program with subgraphs, by names: what an edit remembers between copies of a program.
#pragma once
#include "minify/edits.h"

namespace kiln::minify {

struct GraphStep {
  std::string node;     // of the outer graph
  size_t argument = 0;  // which of its arguments is the subgraph
};
using GraphPath = std::vector<GraphStep>;  // empty: the program's own graph

Graph* find_graph(Program& program, const GraphPath& path);  // nullptr: not there any more
Node* find_node(Graph& graph, const std::string& name);
// Every graph with its path, outer ones first.
void for_each_graph(const Program& program, const std::function<void(const Graph&, const GraphPath&)>& f);
// The node's result, where it is one tensor; else nullptr.
inline Value* only_tensor(const Node& node) {
  return node.results.size() == 1 && node.results[0]->kind == ValueKind::tensor ? node.results[0] : nullptr;
}
// An edit of one node, found by its place.
Edit node_edit(std::string what, const GraphPath& path, const std::string& node,
               std::function<bool(Graph&, Node&)> change);
// Removes nodes without effect whose results nothing uses.
void drop_dead_nodes(Graph& graph);

}  // namespace kiln::minify
