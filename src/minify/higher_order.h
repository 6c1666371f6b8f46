// How operators with subgraphs hand their operands on: the one table that edits of them go by.
#pragma once
#include "graph/graph.h"

namespace kiln::minify {

struct HigherOrder {
  struct Operands {
    size_t argument = 0;  // position of a list
    bool sliced = false;  // the subgraph gets one element of the first dimension
  };
  const char* target = "";
  std::vector<size_t> graphs;      // positions of the subgraphs; all take the same inputs
  std::vector<Operands> operands;  // in the order of the subgraphs' inputs
  size_t additional = 0;           // the last of the lists: more may be added to it
  bool condition = false;          // the first subgraph only says whether to go on
  bool stacks = false;             // results stand one below the other, round by round (after those that are carried)
};

// Null: no such operator, or arguments that are not as they should be.
const HigherOrder* higher_order(const Node& node);
std::vector<Argument> operand_list(const Node& node, size_t argument);
// The first of the results that are stacked, all results counted.
size_t stacked_from(const Node& node, const HigherOrder& form);
// The values that stand for the results: themselves, or the items of a list.
std::vector<Value*> flat_results(const Node& node);

}  // namespace kiln::minify
