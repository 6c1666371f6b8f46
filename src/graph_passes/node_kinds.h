// Questions about nodes that several passes ask.
#pragma once
#include <set>

#include "graph/graph.h"

namespace kiln {

// Two calls with equal arguments may differ (random numbers, uninitialised memory): never merged, never folded.
bool is_random(const Node& node);
// Has an effect besides its results: it writes, asserts, or Kiln does not know it.
bool has_effect(const Node& node);
bool has_subgraph(const Node& node);
// Symbols that the node's arguments, its results' types and its subgraphs mention.
void mentioned_symbols(const Node& node, std::set<std::string>& out);
void mentioned_symbols(const Value& value, std::set<std::string>& out);
void mentioned_symbols(const Argument& arg, std::set<std::string>& out);

}  // namespace kiln
