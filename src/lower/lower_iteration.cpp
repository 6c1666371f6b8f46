// map, scan and associative_scan: a loop over the first dimension of what is iterated over. The loop's counter is a
// symbol, so taking a slice is an index map that inlining removes, and the number of iterations may be a dynamic size.
#include "lower/lowering.h"

namespace kiln {
using namespace loops;

Lowering::Iteration Lowering::iteration_of(const Node& node) {
  auto list = [&](size_t i) {
    return i < node.args.size() && node.args[i].arg.is_list() ? node.args[i].arg.as_list() : Argument::List{};
  };
  Iteration out;
  if (node.target == "higher_order.scan") {
    out.carried = list(1);
    out.xs = list(2);
    out.extra = list(3);
  } else if (node.target == "higher_order.map_impl" || node.target == "higher_order.associative_scan") {
    out.xs = list(1);
    out.extra = list(2);
    out.associative = node.target == "higher_order.associative_scan";
  } else {
    fail_unsupported("K0306", str(node.target, " is not supported by the compiled backends yet"));
  }
  if (node.args.empty() || !node.args[0].arg.is_graph() || !node.args[0].arg.as_graph())
    fail_user("K0306", str(node.target, ": its first argument must be a subgraph"));
  if (out.xs.empty()) fail_user("K0306", str(node.target, ": nothing to iterate over"));
  out.body = node.args[0].arg.as_graph().get();
  size_t given = out.carried.size() + out.xs.size() * (out.associative ? 2 : 1) + out.extra.size();
  if (out.body->inputs.size() != given)
    fail_user("K0306", str(node.target, ": its subgraph takes ", out.body->inputs.size(), " values and gets ", given));
  return out;
}

void Lowering::take_slice(BufferId from, const Expr& at, BufferId to, Block& block,
                          const std::vector<Origin>& origins) {
  add_kernel("slice_" + buffer(to).name, origins, block, [&](KernelBuilder& k) {
    k.parallel(buffer(to).sizes, [&](const std::vector<Expr>& i) {
      std::vector<Expr> index = {at};
      index.insert(index.end(), i.begin(), i.end());
      k.store(to, i, k.load(from, index));
    });
  });
}

void Lowering::put_slice(BufferId from, BufferId to, const Expr& at, Block& block, const std::vector<Origin>& origins) {
  add_kernel("stack_" + buffer(to).name, origins, block, [&](KernelBuilder& k) {
    k.parallel(buffer(from).sizes, [&](const std::vector<Expr>& i) {
      std::vector<Expr> index = {at};
      index.insert(index.end(), i.begin(), i.end());
      k.store(to, index, k.load(from, i));
    });
  });
}

// The buffers that each iteration rewrites, with their first values.
std::vector<BufferId> Lowering::initial_carry(const Node& node, const Iteration& parts, const Expr& length,
                                              Block& block) {
  std::vector<BufferId> carried;
  if (!parts.associative) {
    for (size_t i = 0; i < parts.carried.size(); ++i) {
      carried.push_back(buffers_.at(node.results.at(i)));
      check_operand(*node.results[i], tensor_of(node, parts.carried[i]), block);
      copy(tensor_of(node, parts.carried[i]), carried[i], block, node.origins);
    }
    return carried;
  }
  // The first slice, if there is one.
  Cond nonempty;
  nonempty.name = str("cond_", control_flow_count_++);
  nonempty.origins = node.origins;
  nonempty.predicate = compare_lt(0, length);
  nonempty.then_block = std::make_unique<Block>();
  nonempty.else_block = std::make_unique<Block>();
  bool certain = prove(compare_lt(0, length), ranges_) == Proof::yes;
  Block& here = certain ? block : *nonempty.then_block;
  for (size_t i = 0; i < parts.xs.size(); ++i) {
    carried.push_back(make_buffer(*parts.body->inputs[i], BufferRole::temp));
    BufferId from = tensor_of(node, parts.xs[i]), to = buffers_.at(node.results.at(i));
    check_slice(carried[i], from, length, block);
    check_slice(carried[i], to, length, block);
    take_slice(from, 0, carried[i], here, node.origins);
    put_slice(carried[i], to, 0, here, node.origins);
  }
  if (!certain) block.push_back(Item{std::move(nonempty)});
  return carried;
}

void Lowering::lower_iteration(const Node& node, const Iteration& parts, Block& block) {
  for (Value* result : node.results) make_result(*result);
  const Graph& body = *parts.body;
  if (body.outputs.size() != node.results.size() || node.results.size() < parts.carried.size() ||
      (parts.associative && node.results.size() != parts.xs.size()))
    fail_user("K0231",
              str(node.target, ": its subgraph gives ", body.outputs.size(), " values, not ", node.results.size()));
  for (Value* result : node.results) tensor_of(node, Argument(result));
  for (const Argument& x : parts.xs)
    if (buffer(tensor_of(node, x)).sizes.empty())
      fail_user("K0306", str(node.target, ": what is iterated over must have a dimension"));
  Expr length = buffer(tensor_of(node, parts.xs[0])).sizes[0];
  std::vector<BufferId> carried = initial_carry(node, parts, length, block);
  While loop;
  loop.name = str(node.target.substr(node.target.find('.') + 1), "_", control_flow_count_);
  loop.iteration_symbol = new_counter();
  loop.origins = node.origins;
  Expr counter = Expr::symbol(loop.iteration_symbol), at = parts.associative ? counter + 1 : counter;
  loop.predicate = compare_lt(at, length);
  loop.condition_block = std::make_unique<Block>();
  loop.body_block = std::make_unique<Block>();
  std::set<std::string> bound_before = bound_;
  bound_.insert(loop.iteration_symbol);
  size_t next_input = 0;
  for (BufferId id : carried) {
    check_operand(*body.inputs[next_input], id, block);
    buffers_[body.inputs[next_input++]] = id;
  }
  for (const Argument& x : parts.xs) {
    const Value& input = *body.inputs[next_input++];
    const BufferId slice = make_buffer(input, BufferRole::temp);
    check_slice(slice, tensor_of(node, x), length, block);
    take_slice(tensor_of(node, x), at, slice, *loop.body_block, node.origins);
  }
  for (const Argument& operand : parts.extra) bind_operand(*body.inputs[next_input++], operand, *loop.body_block);
  for (const auto& inner : body.nodes) lower_node(*inner, *loop.body_block);
  size_t stacked = parts.associative ? 0 : carried.size();
  for (size_t i = stacked; i < body.outputs.size(); ++i) {
    check_slice(tensor_of(node, body.outputs[i]), buffers_.at(node.results[i]), length, *loop.body_block);
    put_slice(tensor_of(node, body.outputs[i]), buffers_.at(node.results[i]), at, *loop.body_block, node.origins);
  }
  update_carried(node, carried, body.outputs.data(), *loop.body_block);
  bound_ = bound_before;
  block.push_back(Item{std::move(loop)});
}

}  // namespace kiln
