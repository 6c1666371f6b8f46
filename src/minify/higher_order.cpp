#include "minify/higher_order.h"

namespace kiln::minify {
namespace {

const std::vector<HigherOrder>& table() {
  static const std::vector<HigherOrder> rows = {
      {"higher_order.cond", {1, 2}, {{3}}, 3},
      {"higher_order.while_loop", {0, 1}, {{2}, {3}}, 3, true},
      {"higher_order.map_impl", {0}, {{1, true}, {2}}, 2, false, true},
      {"higher_order.scan", {0}, {{1}, {2, true}, {3}}, 3, false, true},
      {"higher_order.associative_scan", {0}, {{1, true}, {1, true}, {2}}, 2, false, true},
  };
  return rows;
}

}  // namespace

const HigherOrder* higher_order(const Node& node) {
  for (const HigherOrder& row : table()) {
    if (node.target != row.target) continue;
    for (const size_t at : row.graphs)
      if (at >= node.args.size() || !node.args[at].arg.is_graph() || !node.args[at].arg.as_graph()) return nullptr;
    for (const HigherOrder::Operands& operands : row.operands)
      if (operands.argument < node.args.size() && !node.args[operands.argument].arg.is_list()) return nullptr;
    return &row;
  }
  return nullptr;
}

std::vector<Argument> operand_list(const Node& node, size_t argument) {
  return argument < node.args.size() && node.args[argument].arg.is_list() ? node.args[argument].arg.as_list()
                                                                          : std::vector<Argument>{};
}

std::vector<Value*> flat_results(const Node& node) {
  if (node.results.size() == 1 && node.results[0]->kind == ValueKind::tensor_list) return node.results[0]->items;
  return node.results;
}

size_t stacked_from(const Node& node, const HigherOrder& form) {
  if (!form.stacks) return flat_results(node).size();
  // What is carried stands before what is iterated over.
  return form.operands[0].sliced ? 0 : operand_list(node, form.operands[0].argument).size();
}

}  // namespace kiln::minify
