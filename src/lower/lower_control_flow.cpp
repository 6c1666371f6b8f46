#include "lower/lowering.h"
#include "types/float_symbol.h"

namespace kiln {
using namespace loops;

namespace {

[[noreturn]] void misfit(const Node& node, const std::string& why) { fail_user("K0231", str(node.target, ": ", why)); }

const Graph& subgraph(const Node& node, size_t i) {
  if (i >= node.args.size() || !node.args[i].arg.is_graph() || !node.args[i].arg.as_graph())
    misfit(node, str("argument ", i, " must be a subgraph"));
  return *node.args[i].arg.as_graph();
}

Argument::List operands_at(const Node& node, size_t i) {
  if (i >= node.args.size()) return {};
  if (!node.args[i].arg.is_list()) misfit(node, str("argument ", i, " must be a list of operands"));
  return node.args[i].arg.as_list();
}

}  // namespace

void Lowering::lower_control_flow(const Node& node, Block& block) {
  if (node.target == "higher_order.cond") return lower_cond(node, block);
  if (node.target == "higher_order.while_loop") return lower_while(node, block);
  lower_iteration(node, iteration_of(node), block);
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
  if (graph.inputs.size() != operands.size())
    fail_user("K0231",
              str("subgraph ", graph.name, " takes ", graph.inputs.size(), " values and gets ", operands.size()));
  for (size_t i = 0; i < operands.size(); ++i) bind_operand(*graph.inputs[i], operands[i], block);
  for (const auto& node : graph.nodes) lower_node(*node, block);
  return graph.outputs;
}

void Lowering::bind_operand(const Value& input, const Argument& operand, Block& block) {
  if (operand.is_value() && operand.as_value()->kind == ValueKind::tensor) {
    buffers_[&input] = buffers_.at(operand.as_value());
    check_operand(input, buffers_.at(&input), block);
    return;
  }
  bool number = input.kind == ValueKind::sym_int || input.kind == ValueKind::sym_bool ||
                (input.kind == ValueKind::sym_float && input.expr.is_float());
  if (!number || !input.expr.is_symbol() || bound_.count(input.expr.name())) return;
  Expr given;
  if (operand.is_value()) given = operand.as_value()->expr;
  if (auto* expr = std::get_if<Expr>(&operand.value)) given = *expr;
  if (operand.is_scalar()) {
    Scalar scalar = operand.as_scalar();
    given = scalar.is_float() ? Expr::float_constant(scalar.as_double()) : Expr(scalar.as_int());
  }
  bind_symbol(input.expr.name(), given, block);
}

void Lowering::bind_symbol(const std::string& symbol, const Expr& value, Block& block) {
  Buffer holder;
  holder.name = "value_of_" + symbol;
  holder.dtype = is_float_symbol(symbol) ? DType::f64 : DType::i64;
  DType dtype = holder.dtype;
  BufferId id = program_.add_buffer(std::move(holder));
  add_kernel("number_" + symbol, {}, block, [&](KernelBuilder& k) { k.store(id, {}, k.index_value(value, dtype)); });
  block.push_back(Item{BindSymbol{symbol, id, {}}});
  bound_.insert(symbol);
}

std::string Lowering::new_counter() {
  SymbolInfo info;
  info.name = str("it", control_flow_count_++);
  info.range = {0, INT64_MAX};
  info.unbacked = true;
  program_.symbols[info.name] = info;
  ranges_.ranges[info.name] = info.range;
  return info.name;
}

void Lowering::add_kernel(const std::string& name, const std::vector<Origin>& origins, Block& block,
                          const std::function<void(KernelBuilder&)>& fill) {
  Kernel kernel;
  kernel.name = name;
  kernel.op_names = {name.substr(0, name.find('_'))};
  kernel.origins = origins;
  KernelBuilder k(program_, kernel);
  fill(k);
  block.push_back(Item{std::move(kernel)});
}

BufferId Lowering::tensor_of(const Node& node, const Argument& arg) const {
  if (!arg.is_value() || arg.as_value()->kind != ValueKind::tensor)
    fail_unsupported("K0308", str(node.name, " (", node.target,
                                  ") carries a number from iteration to iteration; only tensors are supported"));
  return buffers_.at(arg.as_value());
}

// All new values are computed before the first carried buffer changes; a value that is itself a carried buffer
// (a, b = b, a) is copied first.
void Lowering::update_carried(const Node& node, const std::vector<BufferId>& carried, const Argument* next,
                              Block& block) {
  std::vector<BufferId> values;
  for (size_t i = 0; i < carried.size(); ++i) {
    BufferId value = tensor_of(node, next[i]);
    bool carried_itself = false;
    for (size_t j = 0; j < carried.size(); ++j) carried_itself |= j != i && value == carried[j];
    values.push_back(carried_itself ? copy_of(value, BufferRole::temp, block) : value);
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != carried[i]) {
      check_same(carried[i], values[i], block);
      copy(values[i], carried[i], block, node.origins);
    }
}

void Lowering::lower_cond(const Node& node, Block& block) {
  for (Value* result : node.results) make_result(*result);
  Cond cond;
  cond.name = str("cond_", control_flow_count_++);
  cond.origins = node.origins;
  if (node.args.empty()) misfit(node, "it needs a predicate");
  cond.predicate = predicate(node.args[0].arg);
  const Argument::List operands = operands_at(node, 3);
  std::set<std::string> bound_before = bound_, given;
  auto branch = [&](const Graph& graph) {
    auto body = std::make_unique<Block>();
    bound_ = bound_before;
    given.clear();
    std::vector<Argument> outputs = lower_subgraph(graph, operands, *body);
    if (outputs.size() != node.results.size()) misfit(node, "a branch gives another number of results than its cond");
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Value& result = *node.results[i];
      if (result.kind != ValueKind::tensor) continue;
      BufferId from = tensor_of(node, outputs[i]);
      // Where the branches give different sizes, the result's size is a symbol that each branch gives its own value.
      for (size_t d = 0; d < result.type.sizes.size(); ++d) {
        const Expr& size = result.type.sizes[d];
        std::set<std::string> symbols;
        collect_symbols(size, symbols);
        for (const std::string& symbol : symbols) {
          if (bound_before.count(symbol) || given.count(symbol)) continue;
          if (!size.is_symbol())
            fail_unsupported("K0307",
                             str("the branches of ", node.name, " give results of different sizes (", symbol, ")"));
          bind_symbol(symbol, buffer(from).sizes.at(d), *body);
          given.insert(symbol);
        }
      }
      check_operand(result, from, *body);
      copy(from, buffers_.at(&result), *body, node.origins);
    }
    return body;
  };
  cond.then_block = branch(subgraph(node, 1));
  cond.else_block = branch(subgraph(node, 2));
  bound_ = bound_before;
  bound_.insert(given.begin(), given.end());
  block.push_back(Item{std::move(cond)});
}

void Lowering::lower_while(const Node& node, Block& block) {
  for (Value* result : node.results) make_result(*result);
  const Graph &condition_graph = subgraph(node, 0), &body_graph = subgraph(node, 1);
  const Argument::List carried = operands_at(node, 2), extra = operands_at(node, 3);
  if (carried.size() != node.results.size()) misfit(node, "it carries another number of values than it gives");
  // The results are the carried buffers: they start as copies of the initial values and each iteration rewrites them.
  std::vector<Argument> operands;
  std::vector<BufferId> carried_buffers;
  for (size_t i = 0; i < carried.size(); ++i) {
    check_operand(*node.results[i], tensor_of(node, carried[i]), block);
    copy(tensor_of(node, carried[i]), buffers_.at(node.results[i]), block, node.origins);
    operands.push_back(Argument(node.results[i]));
    carried_buffers.push_back(buffers_.at(node.results[i]));
  }
  operands.insert(operands.end(), extra.begin(), extra.end());
  While loop;
  loop.name = str("while_", control_flow_count_);
  loop.iteration_symbol = new_counter();
  loop.origins = node.origins;
  std::set<std::string> bound_before = bound_;
  loop.condition_block = std::make_unique<Block>();
  std::vector<Argument> condition = lower_subgraph(condition_graph, operands, *loop.condition_block);
  if (condition.empty()) misfit(node, "its condition gives nothing");
  loop.predicate = predicate(condition[0]);
  loop.body_block = std::make_unique<Block>();
  bound_ = bound_before;
  std::vector<Argument> next = lower_subgraph(body_graph, operands, *loop.body_block);
  if (next.size() != carried.size()) misfit(node, "its body gives another number of values than are carried");
  update_carried(node, carried_buffers, next.data(), *loop.body_block);
  bound_ = bound_before;
  block.push_back(Item{std::move(loop)});
}

}  // namespace kiln
