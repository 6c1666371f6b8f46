#include "lower/lowering.h"

namespace kiln {
using namespace loops;

void Lowering::lower_control_flow(const Node& node, Block& block) {
  if (node.target == "higher_order.cond") return lower_cond(node, block);
  if (node.target == "higher_order.while_loop") return lower_while(node, block);
  fail_unsupported("K0306", str(node.target, " is not supported by the compiled backends yet"));
}

std::variant<BufferId, Expr> Lowering::predicate(const Argument& arg) {
  if (arg.is_scalar()) return Expr(arg.as_scalar().as_int() != 0 ? 1 : 0);
  if (auto* expr = std::get_if<Expr>(&arg.value)) return *expr;
  if (!arg.is_value()) fail_unsupported("K0309", "a predicate must be a tensor or a number");
  Value* value = arg.as_value();
  if (value->kind == ValueKind::tensor) return buffers_.at(value);
  return value->expr;
}

std::vector<Argument> Lowering::lower_subgraph(const Graph& graph, const std::vector<Argument>& operands,
                                               Block& block) {
  KILN_CHECK(graph.inputs.size() == operands.size(), str("subgraph ", graph.name, " takes other operands"));
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].is_value() && operands[i].as_value()->kind == ValueKind::tensor)
      buffers_[graph.inputs[i]] = buffers_.at(operands[i].as_value());
  for (const auto& node : graph.nodes) lower_node(*node, block);
  return graph.outputs;
}

void Lowering::lower_cond(const Node& node, Block& block) {
  for (Value* result : node.results) make_result(*result);
  Cond cond;
  cond.name = str("cond_", control_flow_count_++);
  cond.origins = node.origins;
  cond.predicate = predicate(node.args[0].arg);
  const Argument::List operands = node.args.size() > 3 ? node.args[3].arg.as_list() : Argument::List{};
  std::set<std::string> bound_before = bound_;
  auto branch = [&](const Argument& arg) {
    auto body = std::make_unique<Block>();
    bound_ = bound_before;
    std::vector<Argument> outputs = lower_subgraph(*arg.as_graph(), operands, *body);
    KILN_CHECK(outputs.size() == node.results.size(), "a branch gives another number of results than its cond");
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Value& result = *node.results[i];
      if (result.kind != ValueKind::tensor) continue;
      for (const Expr& size : result.type.sizes) {
        std::set<std::string> symbols;
        collect_symbols(size, symbols);
        for (const std::string& symbol : symbols)
          if (!bound_before.count(symbol))
            fail_unsupported("K0307",
                             str("the branches of ", node.name, " give results of different sizes (", symbol, ")"));
      }
      copy(buffers_.at(outputs[i].as_value()), buffers_.at(&result), *body, node.origins);
    }
    return body;
  };
  cond.then_block = branch(node.args[1].arg);
  cond.else_block = branch(node.args[2].arg);
  bound_ = bound_before;
  block.push_back(Item{std::move(cond)});
}

void Lowering::lower_while(const Node& node, Block& block) {
  for (Value* result : node.results) make_result(*result);
  const Graph& condition_graph = *node.args[0].arg.as_graph();
  const Graph& body_graph = *node.args[1].arg.as_graph();
  Argument::List carried = node.args[2].arg.as_list();
  Argument::List extra = node.args.size() > 3 ? node.args[3].arg.as_list() : Argument::List{};
  // The results are the carried buffers: they start as copies of the initial values and each iteration rewrites them.
  std::vector<Argument> operands;
  for (size_t i = 0; i < carried.size(); ++i) {
    if (!carried[i].is_value() || carried[i].as_value()->kind != ValueKind::tensor)
      fail_unsupported("K0308",
                       str(node.name, " carries a number from iteration to iteration; only tensors are supported"));
    copy(buffers_.at(carried[i].as_value()), buffers_.at(node.results[i]), block, node.origins);
    operands.push_back(Argument(node.results[i]));
  }
  operands.insert(operands.end(), extra.begin(), extra.end());
  While loop;
  loop.name = str("while_", control_flow_count_);
  loop.iteration_symbol = str("it", control_flow_count_++);
  loop.origins = node.origins;
  std::set<std::string> bound_before = bound_;
  loop.condition_block = std::make_unique<Block>();
  std::vector<Argument> condition = lower_subgraph(condition_graph, operands, *loop.condition_block);
  loop.predicate = predicate(condition.at(0));
  loop.body_block = std::make_unique<Block>();
  bound_ = bound_before;
  std::vector<Argument> next = lower_subgraph(body_graph, operands, *loop.body_block);
  // All new values are computed before the first carried buffer changes; a value that is itself a carried buffer
  // (a, b = b, a) is copied first.
  std::vector<BufferId> values;
  for (size_t i = 0; i < carried.size(); ++i) {
    BufferId value = buffers_.at(next.at(i).as_value());
    bool carried_itself = false;
    for (size_t j = 0; j < carried.size(); ++j) carried_itself |= j != i && value == buffers_.at(node.results[j]);
    values.push_back(carried_itself ? copy_of(value, BufferRole::temp, *loop.body_block) : value);
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != buffers_.at(node.results[i]))
      copy(values[i], buffers_.at(node.results[i]), *loop.body_block, node.origins);
  bound_ = bound_before;
  block.push_back(Item{std::move(loop)});
}

}  // namespace kiln
