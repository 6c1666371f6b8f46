#include "graph_passes/effect_tokens.h"

#include "ops/called_operator.h"
#include "ops/op_record.h"

namespace kiln {

namespace {

constexpr std::string_view print_call = "higher_order.print";

// The operator of a with_effects call, in its place: %t1, results… = with_effects(%t0, "operator", arguments…).
void call_directly(Graph& graph, Node& call) {
  const std::string target = effect_target(call);
  if (call.results.empty() || !call.args[0].arg.is_value())
    fail_user("K0238", str(call.target, " of ", target, " has no token"), call.where());
  graph.replace_uses(call.results[0], call.args[0].arg.as_value());
  if (target != print_call) {
    Node* made = graph.add_node(target, graph.unique_name(call.name), &call);
    made->op = Registry::instance().find(target);
    made->origins = call.origins;
    for (size_t i = 2; i < call.args.size(); ++i) {
      made->args.push_back(call.args[i]);
      if (made->op && made->args.back().name.empty() && i - 2 < made->op->schema.args.size())
        made->args.back().name = made->op->schema.args[i - 2].name;
    }
    for (size_t i = 1; i < call.results.size(); ++i) {
      const Value* old = call.results[i];
      if (old->kind == ValueKind::none) continue;
      if (old->kind == ValueKind::tensor_list)
        fail_unsupported("K0238", str(call.target, " of ", target, " gives a list"), call.where());
      Value* value = graph.add_result(made, graph.unique_name(old->name), old->kind);
      value->type = old->type;
      value->expr = old->expr;
      graph.replace_uses(call.results[i], value);
    }
  }
  graph.erase(&call);
}

bool drop_calls(Graph& graph) {
  std::vector<Node*> calls;
  bool changed = false;
  for (auto& node : graph.nodes) {
    for (auto& named : node->args)
      if (named.arg.is_graph() && named.arg.as_graph()) changed |= drop_calls(*named.arg.as_graph());
    if (has_effect_call(*node)) calls.push_back(node.get());
  }
  for (Node* call : calls) {
    if (is_with_effects(*call))
      call_directly(graph, *call);
    else
      graph.erase(call);
  }
  return changed || !calls.empty();
}

}  // namespace

bool has_effect_call(const Node& node) { return is_with_effects(node) || node.target == print_call; }

bool drop_effect_tokens(Program& program) {
  bool changed = drop_calls(program.graph);
  for (size_t i = program.output_specs.size(); i-- > 0;) {
    if (program.output_specs[i].kind != OutputKind::token || i >= program.graph.outputs.size()) continue;
    program.graph.outputs.erase(program.graph.outputs.begin() + static_cast<std::ptrdiff_t>(i));
    program.output_specs.erase(program.output_specs.begin() + static_cast<std::ptrdiff_t>(i));
    changed = true;
  }
  auto uses = uses_of(program.graph);
  for (size_t i = program.input_specs.size(); i-- > 0;) {
    if (program.input_specs[i].kind != InputKind::token || i >= program.graph.inputs.size()) continue;
    const Value* token = program.graph.inputs[i];
    const bool given = std::any_of(program.graph.outputs.begin(), program.graph.outputs.end(),
                                   [&](const Argument& out) { return out.is_value() && out.as_value() == token; });
    if (given || (uses.contains(token) && !uses.at(token).empty()))
      fail_user("K0238", str("the token ", token->name, " of an effect is used as if it were a value of the program"));
    program.graph.inputs.erase(program.graph.inputs.begin() + static_cast<std::ptrdiff_t>(i));
    program.input_specs.erase(program.input_specs.begin() + static_cast<std::ptrdiff_t>(i));
    changed = true;
  }
  return changed;
}

}  // namespace kiln
