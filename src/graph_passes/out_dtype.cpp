#include "graph_passes/out_dtype.h"

#include "ops/called_operator.h"
#include "ops/common_operators.h"

namespace kiln {

void expand_out_dtype(Graph& graph, Node& call, const RangeEnv& ranges) {
  const std::string target = functionalized_target(call);
  const OpRecord* record = Registry::instance().find(target);
  const DType* wanted = call.args.size() > 1 ? std::get_if<DType>(&call.args[1].arg.value) : nullptr;
  if (!record || !wanted || call.results.size() != 1 || call.args.size() - 2 > record->schema.args.size())
    fail_user("K0231", str(call.target, " of ", target, ": its arguments do not fit"), call.where());
  DType common = *wanted;
  for (const auto& named : call.args)
    if (named.arg.is_value() && named.arg.as_value()->kind == ValueKind::tensor)
      common = promote(common, named.arg.as_value()->type.dtype);
  auto add = [&](const OpRecord* op, std::vector<Node::NamedArgument> args) {
    Node* node = graph.add_node(op->name(), graph.unique_name(op_short_name(op->name())), &call);
    node->op = op;
    node->origins = call.origins;
    node->args = std::move(args);
    infer_types(*node, graph, ranges);
    return node->results.at(0);
  };
  auto cast = [&](Value* value, DType dtype) {
    return value->type.dtype == dtype
               ? value
               : add(&common_operators::cast(), {{"self", Argument(value)}, {"dtype", Argument(dtype)}});
  };
  std::vector<Node::NamedArgument> args;
  for (size_t i = 2; i < call.args.size(); ++i) {
    Argument arg = call.args[i].arg;
    if (arg.is_value() && arg.as_value()->kind == ValueKind::tensor) arg = Argument(cast(arg.as_value(), common));
    args.push_back({record->schema.args[i - 2].name, std::move(arg)});
  }
  graph.replace_uses(call.results[0], cast(add(record, std::move(args)), *wanted));
  graph.erase(&call);
}

}  // namespace kiln
