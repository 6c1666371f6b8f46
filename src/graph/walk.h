// The ways into what a graph has inside: the subgraphs of control flow and of wrappers, which stand among the arguments
// of nodes (also in lists). A subgraph that is not there, as in a damaged file, is passed over.
#pragma once
#include "graph/graph.h"

namespace kiln {

template <class F>
void for_each_subgraph(const Argument& argument, const F& f) {
  if (argument.is_graph()) {
    if (argument.as_graph()) f(*argument.as_graph());
  } else if (argument.is_list()) {
    for (const Argument& item : argument.as_list()) for_each_subgraph(item, f);
  }
}

template <class F>
void for_each_subgraph(const Node& node, const F& f) {
  for (const Node::NamedArgument& named : node.args) for_each_subgraph(named.arg, f);
}

// Every node, each before the nodes inside it. GraphType: Graph or const Graph.
template <class GraphType, class F>
requires std::is_same_v<std::remove_const_t<GraphType>, Graph>
void for_each_node(GraphType& graph, const F& f) {
  for (const auto& node : graph.nodes) {
    f(*node);
    for_each_subgraph(*node, [&](Graph& inner) { for_each_node(static_cast<GraphType&>(inner), f); });
  }
}

// The graph itself, then those inside it.
template <class GraphType, class F>
requires std::is_same_v<std::remove_const_t<GraphType>, Graph>
void for_each_graph(GraphType& graph, const F& f) {
  f(graph);
  for (const auto& node : graph.nodes)
    for_each_subgraph(*node, [&](Graph& inner) { for_each_graph(static_cast<GraphType&>(inner), f); });
}

}  // namespace kiln
