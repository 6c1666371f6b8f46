// Edits of nodes and subgraphs.
#include "base/error.h"
#include "minify/edits.h"
#include "minify/graph_places.h"
#include "ops/op_record.h"

namespace kiln::minify {
namespace {

bool same_type(const Value& a, const Value& b) {
  return a.kind == ValueKind::tensor && b.kind == ValueKind::tensor && a.type == b.type;
}

// The only result of a node, if it is a tensor.
Value* only_tensor(const Node& node) {
  return node.results.size() == 1 && node.results[0]->kind == ValueKind::tensor ? node.results[0] : nullptr;
}

void replace_and_erase(Graph& graph, Node& node, Value* by) {
  graph.replace_uses(node.results[0], by);
  graph.erase(&node);
}

bool bypass(Graph& graph, Node& node) {
  Value* result = only_tensor(node);
  if (!result) return false;
  Value* twin = nullptr;
  for (auto& named : node.args)
    for_each_value(named.arg, [&](Value*& value) {
      if (!twin && value != result && same_type(*value, *result)) twin = value;
    });
  if (!twin) return false;
  replace_and_erase(graph, node, twin);
  return true;
}

bool use_subgraph_input(Graph& graph, Node& node) {
  Value* result = only_tensor(node);
  if (!result) return false;
  for (Value* input : graph.inputs)
    if (same_type(*input, *result)) {
      replace_and_erase(graph, node, input);
      drop_dead_nodes(graph);
      return true;
    }
  return false;
}

Edit node_edit(std::string what, const GraphPath& path, const std::string& node,
               std::function<bool(Graph&, Node&)> change) {
  return {str(what, " ", node), [path, node, change = std::move(change)](Program& program) {
            Graph* graph = find_graph(program, path);
            Node* found = graph ? find_node(*graph, node) : nullptr;
            return found && change(*graph, *found);
          }};
}

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

// The values that stand for a higher-order operator's results.
std::vector<Value*> flat_results(const Node& node) {
  if (node.results.size() == 1 && node.results[0]->kind == ValueKind::tensor_list) return node.results[0]->items;
  return node.results;
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

std::vector<Argument> list_of(const Argument& arg) { return arg.is_list() ? arg.as_list() : std::vector<Argument>{}; }

bool inline_cond(Graph& graph, Node& node, bool taken) {
  if (node.args.size() < 4 || !node.args[1].arg.is_graph() || !node.args[2].arg.is_graph()) return false;
  const std::shared_ptr<Graph> branch = node.args[taken ? 1 : 2].arg.as_graph();
  const std::vector<Argument> operands = list_of(node.args[3].arg);
  if (operands.size() != branch->inputs.size()) return false;
  return replace_by(graph, node, copy_nodes(graph, &node, *branch, operands));
}

bool inline_while(Graph& graph, Node& node) {
  if (node.args.size() < 3 || !node.args[1].arg.is_graph()) return false;
  const std::shared_ptr<Graph> body = node.args[1].arg.as_graph();
  std::vector<Argument> operands = list_of(node.args[2].arg);
  if (node.args.size() > 3)
    for (const Argument& arg : list_of(node.args[3].arg)) operands.push_back(arg);
  if (operands.size() != body->inputs.size()) return false;
  return replace_by(graph, node, copy_nodes(graph, &node, *body, operands));
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
  return node.target == "higher_order.cond" && node.args.size() >= 4 && node.args[1].arg.is_graph() &&
         node.args[2].arg.is_graph() && node.args[3].arg.is_list();
}

// A value of a branch becomes an operand of its cond, and so an input of the program.
bool lift_to_operand(Program& program, Node& cond, size_t branch, const std::string& inner, const Tensor& sample) {
  Graph& graph = *cond.args[branch].arg.as_graph();
  Graph& other = *cond.args[3 - branch].arg.as_graph();
  Node* node = find_node(graph, inner);
  Value* result = node ? only_tensor(*node) : nullptr;
  if (!result) return false;
  const TensorType type = result->type;
  for (const Expr& size : type.sizes)
    if (!size.is_constant()) return false;
  const std::string name = program.graph.unique_name(result->name);
  Value* input = program.graph.add_input(name, ValueKind::tensor);
  input->type = type;
  input->type.offset = Expr(0);
  input->type.strides.assign(sample.strides.begin(), sample.strides.end());
  program.input_specs.push_back({});
  program.sample_inputs.push_back(Datum{sample});
  Argument::List operands = cond.args[3].arg.as_list();
  operands.emplace_back(input);
  cond.args[3].arg = Argument(std::move(operands));
  Value* inside = graph.add_input(graph.unique_name(str(name, "_operand")), ValueKind::tensor);
  inside->type = input->type;
  other.add_input(other.unique_name(str(name, "_operand")), ValueKind::tensor)->type = input->type;
  replace_and_erase(graph, *node, inside);
  drop_dead_nodes(graph);
  return true;
}

bool drop_unused_operands(Node& cond) {
  Graph &yes = *cond.args[1].arg.as_graph(), &no = *cond.args[2].arg.as_graph();
  Argument::List operands = cond.args[3].arg.as_list(), kept;
  if (yes.inputs.size() != operands.size() || no.inputs.size() != operands.size()) return false;
  const auto used_in = [](const Graph& graph, const Value* value) {
    bool used = false;
    const auto look = [&](const Argument& arg) { for_each_value(arg, [&](Value* v) { used |= v == value; }); };
    for (const auto& node : graph.nodes)
      for (const auto& named : node->args) look(named.arg);
    for (const Argument& output : graph.outputs) look(output);
    return used;
  };
  std::vector<Value*> yes_inputs, no_inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!used_in(yes, yes.inputs[i]) && !used_in(no, no.inputs[i])) continue;
    kept.push_back(operands[i]);
    yes_inputs.push_back(yes.inputs[i]);
    no_inputs.push_back(no.inputs[i]);
  }
  if (kept.size() == operands.size()) return false;
  cond.args[3].arg = Argument(std::move(kept));
  yes.inputs = std::move(yes_inputs);
  no.inputs = std::move(no_inputs);
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

}  // namespace

std::vector<Edit> bypass_edits(const Program& program) {
  std::vector<Edit> edits;
  for_each_graph(program, [&](const Graph& graph, const GraphPath& path) {
    for (const auto& node : graph.nodes) {
      if (!only_tensor(*node)) continue;
      edits.push_back(node_edit("bypass", path, node->name, bypass));
      if (!path.empty()) edits.push_back(node_edit("replace by an input", path, node->name, use_subgraph_input));
    }
  });
  return edits;
}

std::vector<Edit> inline_edits(const Program& program, const RecordedValues& recorded) {
  std::vector<Edit> edits;
  for_each_graph(program, [&](const Graph& graph, const GraphPath& path) {
    for (const auto& node : graph.nodes) {
      if (is_cond(*node)) {
        const bool taken = recorded_truth(node->args[0].arg, graph.name, recorded).value_or(true);
        for (const bool branch : {taken, !taken})
          edits.push_back(
              node_edit("inline", path, node->name, [branch](Graph& g, Node& n) { return inline_cond(g, n, branch); }));
      } else if (node->target == "higher_order.while_loop") {
        edits.push_back(node_edit("inline", path, node->name, inline_while));
      }
    }
  });
  return edits;
}

std::vector<Edit> branch_edits(const Program& program, const RecordedValues& recorded) {
  std::vector<Edit> edits;
  for (const auto& node : program.graph.nodes) {
    if (!is_cond(*node)) continue;
    for (const size_t branch : {size_t{1}, size_t{2}}) {
      const Graph& graph = *node->args[branch].arg.as_graph();
      for (const auto& inner : graph.nodes) {
        const Value* result = only_tensor(*inner);
        if (!result) continue;
        edits.push_back({str("lift ", inner->name), [cond = node->name, branch, name = inner->name,
                                                     sample = recorded.tensor_for(graph.name, *result)](Program& p) {
                           Node* found = find_node(p.graph, cond);
                           return found && is_cond(*found) && lift_to_operand(p, *found, branch, name, sample);
                         }});
      }
    }
    edits.push_back(node_edit("drop operands of", {}, node->name,
                              [](Graph&, Node& n) { return is_cond(n) && drop_unused_operands(n); }));
    edits.push_back(node_edit("drop a result of", {}, node->name,
                              [](Graph& g, Node& n) { return is_cond(n) && drop_unused_result(g, n); }));
  }
  return edits;
}

}  // namespace kiln::minify
