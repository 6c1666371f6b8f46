#include "ops/op_record.h"

namespace kiln {

namespace {

ValueKind kind_of(SchemaType type) {
  switch (type) {
    case SchemaType::tensor_list:
    case SchemaType::optional_tensor_list:
      return ValueKind::tensor_list;
    case SchemaType::integer:
      return ValueKind::sym_int;
    case SchemaType::floating:
      return ValueKind::sym_float;
    case SchemaType::boolean:
      return ValueKind::sym_bool;
    case SchemaType::scalar:
      return ValueKind::sym_int;
    default:
      return ValueKind::tensor;
  }
}

bool is_number(ValueKind kind) {
  return kind == ValueKind::sym_int || kind == ValueKind::sym_float || kind == ValueKind::sym_bool;
}

void make_results(Node& node, Graph& graph) {
  if (!node.results.empty()) return;
  for (const SchemaArg& result : node.op->schema.returns) {
    std::string wish = node.results.empty() ? node.name : str(node.name, "_", node.results.size());
    graph.add_result(&node, wish, kind_of(result.type));
  }
}

// Elements keep their values where they exist, so that users of them stay valid.
void set_items(Value& list, const std::vector<TensorType>& types, size_t first, Graph& graph) {
  for (size_t i = first; i < types.size(); ++i) {
    size_t index = i - first;
    if (index >= list.items.size()) graph.add_item(&list, str(list.name, "_item_", index));
    if (list.items[index]) list.items[index]->type = types[i];
  }
  if (list.items.size() != types.size() - first)
    fail_bug(str(list.name, " has ", list.items.size(), " elements; its operator gives ", types.size() - first));
}

// Rules compute sizes; those that the ranges leave one value have it, so that what asks whether a size is 1 is told.
void settle_sizes(InferCall& call, const RangeEnv& ranges) {
  for (TensorType& type : call.results) {
    for (Expr& size : type.sizes) size = settle(size, ranges);
    for (Expr& stride : type.strides) stride = settle(stride, ranges);
    type.offset = settle(type.offset, ranges);
  }
  for (Expr& number : call.numbers) number = settle(number, ranges);
}

}  // namespace

void infer_types(Node& node, Graph& graph, const RangeEnv& ranges) {
  if (!node.op) fail_bug("operator is not resolved", node.where());
  if (!node.op->infer) fail_bug(str(node.target, " has no shape-and-dtype rule"), node.where());
  InferCall call(node, node.op->schema, ranges);
  try {
    node.op->infer(call);
  } catch (Error& error) {
    error.locate(node.where());
    throw;
  }
  settle_sizes(call, ranges);
  make_results(node, graph);
  size_t next_type = 0, next_number = 0;
  for (Value* result : node.results) {
    if (result->kind == ValueKind::tensor) {
      if (next_type >= call.results.size())
        fail_bug(str("the rule of ", node.target, " gives ", call.results.size(), " types, too few"), node.where());
      result->type = call.results[next_type++];
    } else if (result->kind == ValueKind::tensor_list) {
      // A list takes all types that are left: no operator has a list followed by tensors.
      set_items(*result, call.results, next_type, graph);
      next_type = call.results.size();
    } else if (is_number(result->kind) && next_number < call.numbers.size()) {
      result->expr = call.numbers[next_number++];
    }
  }
  if (next_type != call.results.size())
    fail_bug(str("the rule of ", node.target, " gives ", call.results.size(), " types, too many"), node.where());
}

}  // namespace kiln
