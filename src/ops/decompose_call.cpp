#include "ops/decompose_call.h"

namespace kiln {

Argument number(const Expr& size) { return size.is_constant() ? Argument(Scalar(size.value())) : Argument(size); }
Argument list_of(const std::vector<int64_t>& values) {
  Argument::List list;
  for (int64_t value : values) list.push_back(Argument(Scalar(value)));
  return Argument(std::move(list));
}
Argument list_of(const std::vector<Value*>& values) {
  Argument::List list;
  for (Value* value : values) list.push_back(Argument(value));
  return Argument(std::move(list));
}

Node* DecomposeCall::add_call(std::string_view op, std::vector<Argument> args) {
  const OpRecord* record = Registry::instance().find(op);
  if (!record) fail_bug(str("decomposition of ", schema().name, " calls ", op, ", which is not declared"), where());
  if (args.size() > record->schema.args.size())
    fail_bug(str("decomposition of ", schema().name, " gives ", op, " too many arguments"), where());
  Node* made = graph_.add_node(std::string(op), graph_.unique_name(op_short_name(op)), &old_);
  made_.insert(made);
  made->op = record;
  made->origins = old_.origins;
  for (size_t i = 0; i < args.size(); ++i) made->args.push_back({record->schema.args[i].name, std::move(args[i])});
  return made;
}

std::vector<Value*> DecomposeCall::call_all(std::string_view op, std::vector<Argument> args) {
  Node* made = add_call(op, std::move(args));
  infer_types(*made, graph_, ranges_);
  return made->results;
}

std::vector<Value*> DecomposeCall::call_as(std::string_view op, std::vector<Argument> args,
                                           const std::vector<TensorType>& types) {
  Node* made = add_call(op, std::move(args));
  for (const TensorType& type : types) {
    std::string wish = made->results.empty() ? made->name : str(made->name, "_", made->results.size());
    graph_.add_result(made, wish, ValueKind::tensor)->type = type;
  }
  return made->results;
}

namespace {

TensorType slice_type(const TensorType& whole) {
  return contiguous_type(whole.dtype, {whole.sizes.begin() + 1, whole.sizes.end()}, whole.device);
}

TensorType stacked_type(const TensorType& slice, const Expr& length) {
  std::vector<Expr> sizes = {length};
  sizes.insert(sizes.end(), slice.sizes.begin(), slice.sizes.end());
  return contiguous_type(slice.dtype, std::move(sizes), slice.device);
}

}  // namespace

std::vector<Value*> DecomposeCall::scan(const std::vector<Value*>& carried, const std::vector<Value*>& xs,
                                        const std::vector<Value*>& extra, const ScanBody& body) {
  auto inner = std::make_shared<Graph>();
  inner->name = graph_.unique_name("step");
  std::vector<Value*> inputs;
  auto add_input = [&](const Value* like, const TensorType& type) {
    inputs.push_back(inner->add_input(inner->unique_name(like->name), ValueKind::tensor));
    inputs.back()->type = type;
  };
  for (const Value* value : carried)
    add_input(value, contiguous_type(value->type.dtype, value->type.sizes, value->type.device));
  for (const Value* value : xs) add_input(value, slice_type(value->type));
  for (const Value* value : extra) add_input(value, value->type);
  // Calls are made before a node; in the body, one that stands for this node until the body is complete.
  Node* end = inner->add_node(old_.target, inner->unique_name(old_.name));
  end->op = old_.op;
  end->origins = old_.origins;
  DecomposeCall steps(*end, schema(), *inner, ranges_);
  std::vector<Value*> outputs = body(steps, inputs);
  inner->erase(end);
  for (Value* output : outputs) inner->outputs.push_back(Argument(output));

  Node* made = graph_.add_node("higher_order.scan", graph_.unique_name("scan"), &old_);
  made_.insert(made);
  made->op = Registry::instance().find(made->target);
  made->origins = old_.origins;
  made->args = {{"", Argument(inner)}, {"", list_of(carried)}, {"", list_of(xs)}, {"", list_of(extra)}};
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value* result = graph_.add_result(made, str(made->name, "_", i), ValueKind::tensor);
    const TensorType& type = outputs[i]->type;
    result->type = i < carried.size() ? contiguous_type(type.dtype, type.sizes, type.device)
                                      : stacked_type(type, xs.at(0)->type.sizes.at(0));
  }
  return made->results;
}

Argument DecomposeCall::int_list(const std::vector<Expr>& values) {
  Argument::List list;
  for (const Expr& value : values) list.push_back(number(value));
  return Argument(std::move(list));
}

}  // namespace kiln
