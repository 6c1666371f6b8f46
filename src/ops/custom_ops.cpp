#include "ops/custom_ops.h"

namespace kiln {

namespace {

std::vector<std::string> names_of(const Argument* arg) {
  std::vector<std::string> out;
  if (!arg || !arg->is_list()) return out;
  for (const Argument& element : arg->as_list())
    if (const auto* text = std::get_if<std::string>(&element.value)) out.push_back(*text);
  return out;
}

void set_argument(Node& node, std::string_view name, Argument value) {
  for (auto& named : node.args) {
    if (named.name != name) continue;
    named.arg = std::move(value);
    return;
  }
  node.args.push_back({std::string(name), std::move(value)});
}

[[noreturn]] void refuse_undeclared(const Node& node, const std::string& target) {
  fail_user(
      "K0234",
      str("the custom operator ", target, " gives no result, so it writes to an argument, and neither the file nor ",
          "its library says to which: the library's table must have its schema (kiln/custom_op.h), like ",
          "\"name(Tensor(a!) x) -> ()\""),
      node.where());
}

void check_against_schema(const Node& node, const Schema& schema) {
  for (const auto& named : node.args)
    if (!named.name.empty() && schema.find(named.name) < 0)
      fail_user("K0201", str(node.target, " has no argument ", named.name, " in the schema that its library declares"),
                node.where());
}

void declare(Node& node, const CustomOp& custom) {
  if (!custom.schema) {
    if (node.results.empty() && custom_writes(node).empty() && custom_updates(node).names.empty())
      refuse_undeclared(node, custom.target);
    return;
  }
  check_against_schema(node, *custom.schema);
  for (size_t i = 0; i < node.args.size() && i < custom.schema->args.size(); ++i)
    if (node.args[i].name.empty()) node.args[i].name = custom.schema->args[i].name;
  std::vector<std::string> writes;
  for (const SchemaArg& arg : custom.schema->args)
    if (arg.writes && node.find(arg.name)) writes.push_back(arg.name);
  if (!writes.empty()) set_argument(node, writes_argument, names_argument(writes));
}

// The call itself is expanded later (inline_wrapper_calls); what only the schema knows is noted here: the order of the
// arguments and, in the first form, which of them are written.
void declare_functionalized(Node& node, const std::vector<CustomOp>& custom_ops) {
  std::string target = functionalized_target(node);
  const Schema* schema = nullptr;
  if (const OpRecord* record = Registry::instance().find(target)) schema = &record->schema;
  for (const CustomOp& custom : custom_ops)
    if (custom.target == target && custom.schema) schema = &*custom.schema;
  if (!schema) return;
  std::vector<std::string> order, writes;
  for (const SchemaArg& arg : schema->args) {
    order.push_back(arg.name);
    if (arg.writes) writes.push_back(arg.name);
  }
  set_argument(node, writes_argument, names_argument(writes));
  set_argument(node, "_kiln_order", names_argument(order));
}

void declare_in(Graph& graph, const std::vector<CustomOp>& custom_ops) {
  for (auto& node : graph.nodes) {
    for (auto& named : node->args)
      if (named.arg.is_graph() && named.arg.as_graph()) declare_in(*named.arg.as_graph(), custom_ops);
    if (is_auto_functionalized(*node)) declare_functionalized(*node, custom_ops);
    if (node->op) continue;
    for (const CustomOp& custom : custom_ops)
      if (custom.target == node->target) declare(*node, custom);
  }
}

}  // namespace

std::vector<CustomOp> undeclared(const std::vector<std::string>& targets) {
  std::vector<CustomOp> out;
  for (const std::string& target : targets) out.push_back({target, {}});
  return out;
}

void resolve_with_custom(Graph& graph, const std::vector<CustomOp>& custom_ops) {
  std::vector<std::string> names;
  for (const CustomOp& custom : custom_ops) names.push_back(custom.target);
  resolve_operators(graph, names);
  declare_in(graph, custom_ops);
}

bool is_custom_note(std::string_view argument) { return argument == writes_argument || argument == updates_argument; }

std::vector<std::string> custom_writes(const Node& node) { return names_of(node.find(writes_argument)); }

CustomUpdates custom_updates(const Node& node) {
  CustomUpdates out;
  for (const std::string& entry : names_of(node.find(updates_argument))) {
    size_t at = entry.find('=');
    if (at == std::string::npos)
      out.names.push_back(entry);
    else
      out.same.emplace_back(entry.substr(0, at), entry.substr(at + 1));
  }
  return out;
}

Argument names_argument(const std::vector<std::string>& names) {
  Argument::List list;
  for (const std::string& name : names) list.push_back(Argument(name));
  return Argument(std::move(list));
}

std::vector<Value*> argument_tensors(const Argument& arg) {
  std::vector<Value*> out;
  if (arg.is_list()) {
    for (const Argument& element : arg.as_list())
      for (Value* value : argument_tensors(element)) out.push_back(value);
  } else if (arg.is_value() && arg.as_value()->kind == ValueKind::tensor) {
    out.push_back(arg.as_value());
  } else if (arg.is_value() && arg.as_value()->kind == ValueKind::tensor_list) {
    for (Value* item : arg.as_value()->items)
      if (item) out.push_back(item);
  }
  return out;
}

}  // namespace kiln
