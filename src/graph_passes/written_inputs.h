// Which inputs of a graph may be written by its nodes, through any alias and inside subgraphs. Says too many rather
// than too few: an input that is named is copied before the graph runs.
#pragma once
#include <set>

#include "graph/graph.h"

namespace kiln {

std::set<const Value*> written_inputs(const Graph& graph);

}  // namespace kiln
