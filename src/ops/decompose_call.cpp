#include "ops/decompose_call.h"

namespace kiln {

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

Argument DecomposeCall::int_list(const std::vector<Expr>& values) {
  Argument::List list;
  for (const Expr& value : values)
    list.push_back(value.is_constant() ? Argument(Scalar(value.value())) : Argument(value));
  return Argument(std::move(list));
}

}  // namespace kiln
