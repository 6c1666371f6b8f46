#include "graph_passes/node_kinds.h"

#include "ops/op_record.h"

namespace kiln {

bool is_random(const Node& node) { return node.op && (node.op->random || node.op->facts.uninitialised); }

bool has_subgraph(const Node& node) {
  for (const auto& named : node.args)
    if (named.arg.is_graph()) return true;
  return false;
}

bool has_effect(const Node& node) {
  if (!node.op || node.op->kind == OpKind::assertion || node.op->schema.mutates()) return true;
  for (const auto& named : node.args) {
    if (!named.arg.is_graph() || !named.arg.as_graph()) continue;
    for (const auto& inner : named.arg.as_graph()->nodes)
      if (has_effect(*inner)) return true;
  }
  return false;
}

void mentioned_symbols(const Value& value, std::set<std::string>& out) {
  switch (value.kind) {
    case ValueKind::tensor:
      for (const Expr& size : value.type.sizes) collect_symbols(size, out);
      for (const Expr& stride : value.type.strides) collect_symbols(stride, out);
      collect_symbols(value.type.offset, out);
      break;
    case ValueKind::tensor_list:
      for (const Value* item : value.items)
        if (item) mentioned_symbols(*item, out);
      break;
    case ValueKind::sym_int:
    case ValueKind::sym_float:
    case ValueKind::sym_bool:
      collect_symbols(value.expr, out);
      break;
    case ValueKind::none:
    case ValueKind::object:
      break;
  }
}

void mentioned_symbols(const Argument& arg, std::set<std::string>& out) {
  if (arg.is_value()) {
    mentioned_symbols(*arg.as_value(), out);
  } else if (arg.is_list()) {
    for (const Argument& element : arg.as_list()) mentioned_symbols(element, out);
  } else if (const auto* expr = std::get_if<Expr>(&arg.value)) {
    collect_symbols(*expr, out);
  } else if (arg.is_graph() && arg.as_graph()) {
    for (const auto& node : arg.as_graph()->nodes) mentioned_symbols(*node, out);
    for (const Argument& output : arg.as_graph()->outputs) mentioned_symbols(output, out);
  }
}

void mentioned_symbols(const Node& node, std::set<std::string>& out) {
  for (const auto& named : node.args) mentioned_symbols(named.arg, out);
  for (const Value* result : node.results) mentioned_symbols(*result, out);
}

}  // namespace kiln
