// Edits of operators with subgraphs: cond, while_loop, map, scan.
#include "base/error.h"
#include "minify/edits.h"
#include "minify/graph_places.h"
#include "minify/higher_order.h"
#include "ops/common_operators.h"
#include "ops/op_record.h"

namespace kiln::minify {
namespace {

// Copies the nodes of a subgraph in front of `before`; gives the values of the subgraph's outputs.
std::vector<Argument> copy_nodes(Graph& into, Node* before, const Graph& from, const std::vector<Argument>& inputs) {
  std::map<const Value*, Argument> map;
  for (size_t i = 0; i < from.inputs.size(); ++i) map[from.inputs[i]] = inputs.at(i);
  const std::function<Argument(const Argument&)> translate = [&](const Argument& arg) -> Argument {
    if (arg.is_value()) {
      const auto found = map.find(arg.as_value());
      if (found != map.end()) return found->second;
      if (arg.as_value()->kind == ValueKind::sym_int) return Argument(arg.as_value()->expr);
      fail_bug(str("%", arg.as_value()->name, " has no value outside its subgraph"));
    }
    if (arg.is_list()) {
      Argument::List list;
      for (const Argument& element : arg.as_list()) list.push_back(translate(element));
      return Argument(std::move(list));
    }
    if (arg.is_graph() && arg.as_graph()) return Argument(std::shared_ptr<Graph>(arg.as_graph()->clone()));
    return arg;
  };
  for (const auto& node : from.nodes) {
    std::vector<Node::NamedArgument> args;
    for (const auto& named : node->args) args.push_back({named.name, translate(named.arg)});
    Node* copy = into.add_node(node->target, into.unique_name(node->name), before);
    copy->op = node->op;
    copy->origins = node->origins;
    copy->args = std::move(args);
    for (const Value* result : node->results) {
      Value* made = into.add_result(copy, result->name, result->kind);
      made->type = result->type;
      made->expr = result->expr;
      map[result] = Argument(made);
      for (const Value* item : result->items) {
        Value* twin = item ? into.add_item(made, item->name) : nullptr;
        if (!item) made->items.push_back(nullptr);
        if (!item) continue;
        twin->type = item->type;
        map[item] = Argument(twin);
      }
    }
  }
  std::vector<Argument> outputs;
  for (const Argument& output : from.outputs) outputs.push_back(translate(output));
  return outputs;
}

Node* add_call(Graph& graph, Node* before, const OpRecord& op, std::vector<Node::NamedArgument> args,
               const RangeEnv& ranges) {
  Node* node = graph.add_node(op.name(), graph.unique_name("inlined"), before);
  node->op = &op;
  node->args = std::move(args);
  infer_types(*node, graph, ranges);
  return node;
}

bool replace_by(Graph& graph, Node& node, const std::vector<Argument>& values) {
  const std::vector<Value*> results = flat_results(node);
  if (results.size() > values.size()) return false;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) continue;
    if (!values[i].is_value()) return false;
    graph.replace_uses(results[i], values[i].as_value());
  }
  graph.erase(&node);
  return true;
}

// What the subgraph's inputs are in one round: operands as they are, or the first slices of what is iterated over.
std::vector<Argument> operands_of_a_round(Graph& graph, Node& node, const HigherOrder& form, const RangeEnv& ranges) {
  std::vector<Argument> out;
  for (const HigherOrder::Operands& operands : form.operands)
    for (const Argument& arg : operand_list(node, operands.argument)) {
      if (!operands.sliced) {
        out.push_back(arg);
        continue;
      }
      Node* slice = add_call(graph, &node, common_operators::select(),
                             {{"self", arg}, {"dim", Argument(Scalar(0))}, {"index", Argument(Scalar(0))}}, ranges);
      out.emplace_back(slice->results[0]);
    }
  return out;
}

// One round of the subgraph in place of the operator; what the rounds would give one below the other is repeated.
bool inline_round(Program& program, Graph& graph, Node& node, size_t which) {
  const HigherOrder* form = higher_order(node);
  if (!form || which >= node.args.size() || !node.args[which].arg.is_graph()) return false;
  const std::shared_ptr<Graph> body = node.args[which].arg.as_graph();
  const RangeEnv ranges = program.ranges();
  const std::vector<Argument> operands = operands_of_a_round(graph, node, *form, ranges);
  if (operands.size() != body->inputs.size()) return false;
  std::vector<Argument> values = copy_nodes(graph, &node, *body, operands);
  const std::vector<Value*> results = flat_results(node);
  for (size_t i = stacked_from(node, *form); i < values.size() && i < results.size(); ++i) {
    if (!values[i].is_value() || !results[i] || results[i]->type.sizes.empty()) return false;
    Argument::List repeats;
    const Expr& length = results[i]->type.sizes[0];
    repeats.push_back(length.is_constant() ? Argument(Scalar(length.value())) : Argument(length));
    for (size_t d = 1; d < results[i]->type.sizes.size(); ++d) repeats.emplace_back(Scalar(1));
    Node* repeat = add_call(graph, &node, common_operators::repeat(),
                            {{"self", values[i]}, {"repeats", Argument(std::move(repeats))}}, ranges);
    values[i] = Argument(repeat->results[0]);
  }
  return replace_by(graph, node, values);
}

std::optional<bool> recorded_truth(const Argument& predicate, const std::string& graph,
                                   const RecordedValues& recorded) {
  if (predicate.is_scalar()) return predicate.as_scalar().as_double() != 0;
  if (!predicate.is_value()) return std::nullopt;
  const Datum* datum = recorded.find(graph, predicate.as_value()->name);
  if (datum && datum->is_scalar()) return datum->scalar().as_double() != 0;
  if (datum && datum->is_tensor() && datum->tensor().numel() == 1) return datum->tensor().item().as_double() != 0;
  return std::nullopt;
}

bool is_cond(const Node& node) {
  const HigherOrder* form = higher_order(node);
  return form && node.target == "higher_order.cond";
}

// A value of a subgraph becomes an operand of its operator, and so an input of the program.
bool lift_to_operand(Program& program, Node& node, size_t which, const std::string& inner, const Tensor& sample) {
  const HigherOrder* form = higher_order(node);
  if (!form) return false;
  Graph& graph = *node.args[which].arg.as_graph();
  Node* lifted = find_node(graph, inner);
  Value* result = lifted ? only_tensor(*lifted) : nullptr;
  if (!result) return false;
  TensorType type = result->type;
  for (const Expr& size : type.sizes)
    if (!size.is_constant()) return false;
  type.offset = Expr(0);
  type.strides.assign(sample.strides.begin(), sample.strides.end());
  const std::string name = program.graph.unique_name(result->name);
  Value* input = program.graph.add_input(name, ValueKind::tensor);
  input->type = type;
  program.input_specs.push_back({});
  program.sample_inputs.push_back(Datum{sample});
  Argument::List operands = operand_list(node, form->additional);
  operands.emplace_back(input);
  if (node.args.size() <= form->additional) node.args.emplace_back();
  node.args[form->additional].arg = Argument(std::move(operands));
  Value* inside = nullptr;
  for (const size_t at : form->graphs) {
    Graph& each = *node.args[at].arg.as_graph();
    Value* made = each.add_input(each.unique_name(str(name, "_operand")), ValueKind::tensor);
    made->type = type;
    if (at == which) inside = made;
  }
  graph.replace_uses(result, inside);
  graph.erase(lifted);
  drop_dead_nodes(graph);
  return true;
}

bool used_in(const Graph& graph, const Value* value) {
  bool used = false;
  const auto look = [&](const Argument& arg) { for_each_value(arg, [&](Value* v) { used |= v == value; }); };
  for (const auto& node : graph.nodes)
    for (const auto& named : node->args) look(named.arg);
  for (const Argument& output : graph.outputs) look(output);
  return used;
}

// Additional operands that no subgraph uses.
bool drop_unused_operands(Node& node) {
  const HigherOrder* form = higher_order(node);
  if (!form || node.args.size() <= form->additional) return false;
  const Argument::List operands = operand_list(node, form->additional);
  std::vector<bool> used(operands.size());
  for (const size_t at : form->graphs) {
    const Graph& graph = *node.args[at].arg.as_graph();
    if (graph.inputs.size() < operands.size()) return false;
    const size_t first = graph.inputs.size() - operands.size();  // they come last
    for (size_t i = 0; i < operands.size(); ++i) used[i] = used[i] || used_in(graph, graph.inputs[first + i]);
  }
  Argument::List kept;
  for (size_t i = 0; i < operands.size(); ++i)
    if (used[i]) kept.push_back(operands[i]);
  if (kept.size() == operands.size()) return false;
  for (const size_t at : form->graphs) {
    std::vector<Value*>& inputs = node.args[at].arg.as_graph()->inputs;
    const size_t first = inputs.size() - operands.size();
    for (size_t i = operands.size(); i-- > 0;)
      if (!used[i]) inputs.erase(inputs.begin() + static_cast<ptrdiff_t>(first + i));
  }
  node.args[form->additional].arg = Argument(std::move(kept));
  return true;
}

// One of several results of a cond that nobody uses.
bool drop_unused_result(Graph& graph, Node& cond) {
  Graph &yes = *cond.args[1].arg.as_graph(), &no = *cond.args[2].arg.as_graph();
  const auto uses = uses_of(graph);
  for (size_t i = cond.results.size(); cond.results.size() > 1 && i-- > 0;) {
    Value* result = cond.results[i];
    bool used = uses.contains(result);
    for (const Argument& output : graph.outputs) for_each_value(output, [&](Value* v) { used |= v == result; });
    if (used || i >= yes.outputs.size() || i >= no.outputs.size()) continue;
    yes.outputs.erase(yes.outputs.begin() + static_cast<ptrdiff_t>(i));
    no.outputs.erase(no.outputs.begin() + static_cast<ptrdiff_t>(i));
    cond.results.erase(cond.results.begin() + static_cast<ptrdiff_t>(i));
    for (size_t k = 0; k < cond.results.size(); ++k) cond.results[k]->result = static_cast<int>(k);
    drop_dead_nodes(yes);
    drop_dead_nodes(no);
    return true;
  }
  return false;
}

// The recorded inputs of one round of a subgraph, and the subgraph as the program.
bool become_subgraph(Program& program, const GraphPath& path, const RecordedValues& recorded) {
  const Graph* found = find_graph(program, path);
  if (!found || found->nodes.empty() || found->outputs.empty()) return false;
  const std::unique_ptr<Graph> body = found->clone();
  Program out;
  out.name = program.name;
  out.graph.name = program.graph.name;
  std::vector<Argument> inputs;
  for (const Value* input : body->inputs) {
    if (input->kind != ValueKind::tensor) return false;
    const Tensor sample = recorded.tensor_for(body->name, *input);
    Value* made = out.graph.add_input(input->name, ValueKind::tensor);
    made->type = input->type;
    made->type.offset = Expr(0);
    const bool fixed = std::all_of(input->type.sizes.begin(), input->type.sizes.end(),
                                   [](const Expr& size) { return size.is_constant(); });
    if (fixed) made->type.strides.assign(sample.strides.begin(), sample.strides.end());
    out.input_specs.push_back({});
    out.sample_inputs.push_back(Datum{fixed ? sample : sample.as_contiguous()});
    inputs.emplace_back(made);
  }
  for (const Argument& output : copy_nodes(out.graph, nullptr, *body, inputs)) {
    if (!output.is_value() || output.as_value()->kind != ValueKind::tensor || !output.as_value()->producer) continue;
    out.graph.outputs.push_back(output);
    out.output_specs.emplace_back();
  }
  if (out.graph.outputs.empty()) return false;
  out.symbols = program.symbols;
  out.guards = program.guards;
  out.torch_version = program.torch_version;
  out.schema_major = program.schema_major;
  out.schema_minor = program.schema_minor;
  out.opset_version = program.opset_version;
  out.keep_alive = program.keep_alive;
  program = std::move(out);
  return true;
}

}  // namespace

std::vector<Edit> inline_edits(const Program& program, const RecordedValues& recorded) {
  std::vector<Edit> edits;
  for_each_graph(program, [&](const Graph& graph, const GraphPath& path) {
    for (const auto& node : graph.nodes) {
      const HigherOrder* form = higher_order(*node);
      if (!form) continue;
      std::vector<size_t> parts = form->graphs;
      // Of a cond first the branch that ran; of a while_loop only the body.
      if (is_cond(*node) && !recorded_truth(node->args[0].arg, graph.name, recorded).value_or(true))
        std::swap(parts[0], parts[1]);
      if (form->condition) parts.erase(parts.begin());
      for (const size_t part : parts)
        edits.push_back({str("inline ", node->name), [path, name = node->name, part](Program& changed) {
                           Graph* place = find_graph(changed, path);
                           Node* found = place ? find_node(*place, name) : nullptr;
                           return found && inline_round(changed, *place, *found, part);
                         }});
    }
  });
  return edits;
}

std::vector<Edit> subgraph_edits(const Program& program, const RecordedValues& recorded) {
  std::vector<Edit> edits;
  for_each_graph(program, [&](const Graph&, const GraphPath& path) {
    if (!path.empty())
      edits.push_back({str("only a subgraph of ", path.back().node),
                       [path, &recorded](Program& changed) { return become_subgraph(changed, path, recorded); }});
  });
  return edits;
}

std::vector<Edit> branch_edits(const Program& program, const RecordedValues& recorded) {
  std::vector<Edit> edits;
  for (const auto& node : program.graph.nodes) {
    const HigherOrder* form = higher_order(*node);
    if (!form) continue;
    for (const size_t which : form->graphs) {
      const Graph& graph = *node->args[which].arg.as_graph();
      for (const auto& inner : graph.nodes) {
        const Value* result = only_tensor(*inner);
        if (!result) continue;
        edits.push_back({str("lift ", inner->name), [outer = node->name, which, name = inner->name,
                                                     sample = recorded.tensor_for(graph.name, *result)](Program& p) {
                           Node* found = find_node(p.graph, outer);
                           return found && lift_to_operand(p, *found, which, name, sample);
                         }});
      }
    }
    edits.push_back(
        node_edit("drop operands of", {}, node->name, [](Graph&, Node& n) { return drop_unused_operands(n); }));
    edits.push_back(node_edit("drop a result of", {}, node->name,
                              [](Graph& g, Node& n) { return is_cond(n) && drop_unused_result(g, n); }));
  }
  return edits;
}

}  // namespace kiln::minify
