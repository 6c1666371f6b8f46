#include "ops/wrappers.h"

#include "ops/custom_ops.h"
#include "ops/effect_tokens.h"
#include "ops/op_record.h"
#include "ops/vmap_regions.h"

namespace kiln {

namespace {

bool is_wrapper(const Node& node) {
  for (const char* name :
       {"wrap_with_set_grad_enabled", "wrap_with_autocast", "strict_mode", "hints_wrapper", "invoke_subgraph",
        "run_const_graph", "wrap", "wrap_activation_checkpoint", "tag_activation_checkpoint"})
    if (starts_with(node.target, "higher_order.") && node.target.substr(13) == name) return true;
  return false;
}

// What the subgraph gets: the arguments behind it, with lists opened (strict_mode and hints_wrapper give one list).
// invoke_subgraph has the region's name between; options (hints, use_reentrant) have names.
std::vector<Argument> operands_of(const Node& node, size_t graph_at) {
  std::vector<Argument> out;
  for (size_t i = graph_at + 1; i < node.args.size(); ++i) {
    const Argument& arg = node.args[i].arg;
    if (!node.args[i].name.empty() || std::holds_alternative<std::string>(arg.value)) continue;
    if (arg.is_list())
      out.insert(out.end(), arg.as_list().begin(), arg.as_list().end());
    else
      out.push_back(arg);
  }
  return out;
}

// Where the subgraph stands among the arguments; the rest are its inputs.
size_t graph_position(const Node& node) {
  for (size_t i = 0; i < node.args.size(); ++i)
    if (node.args[i].arg.is_graph() && node.args[i].arg.as_graph()) return i;
  fail_user("K0231", str(node.target, " has no subgraph"), node.where());
}

struct Autocast {
  bool enabled = false;
  DType dtype = DType::bf16;
};

Autocast autocast_of(const Node& node) {
  Autocast out;
  if (node.target != "higher_order.wrap_with_autocast") return out;
  for (const auto& named : node.args)
    if (const auto* dtype = std::get_if<DType>(&named.arg.value)) out.dtype = *dtype;
  // (device type, dtype, enabled, cache enabled, subgraph, …)
  if (node.args.size() > 2 && node.args[2].arg.is_scalar()) out.enabled = node.args[2].arg.as_scalar().as_int() != 0;
  return out;
}

// Inlines one call. Nodes are rebuilt in the outer graph; values are mapped.
class Inliner {
 public:
  Inliner(Graph& graph, Node& call, const RangeEnv& ranges)
      : graph_(graph), call_(call), ranges_(ranges), autocast_(autocast_of(call)) {}

  void run() {
    size_t at = graph_position(call_);
    const Graph& inner = *call_.args[at].arg.as_graph();
    const std::vector<Argument> operands = operands_of(call_, at);
    if (operands.size() != inner.inputs.size())
      fail_user("K0231",
                str(call_.target, " gives its subgraph ", operands.size(), " inputs, not ", inner.inputs.size()),
                call_.where());
    for (size_t i = 0; i < inner.inputs.size(); ++i) map_[inner.inputs[i]] = operands[i];
    for (const auto& node : inner.nodes) copy_node(*node);
    if (call_.results.size() > inner.outputs.size())
      fail_user("K0231", str(call_.target, " has more results than its subgraph has outputs"), call_.where());
    for (size_t i = 0; i < call_.results.size(); ++i) {
      Argument output = mapped(inner.outputs[i]);
      if (!output.is_value()) fail_unsupported("K0231", str(call_.target, " gives a constant"), call_.where());
      graph_.replace_uses(call_.results[i], output.as_value());
    }
    graph_.erase(&call_);
  }

 private:
  Argument mapped(const Argument& arg) const {
    if (arg.is_value()) return map_.at(arg.as_value());
    if (!arg.is_list()) return arg;
    Argument::List list;
    for (const Argument& element : arg.as_list()) list.push_back(mapped(element));
    return Argument(std::move(list));
  }

  void copy_node(const Node& node) {
    Node* twin = graph_.add_node(node.target, graph_.unique_name(node.name), &call_);
    twin->op = node.op;
    twin->origins = node.origins;
    for (const auto& named : node.args) twin->args.push_back({named.name, mapped(named.arg)});
    for (const Value* result : node.results) {
      Value* value = graph_.add_result(twin, result->name, result->kind);
      value->type = result->type;
      value->expr = result->expr;
      map_[result] = Argument(value);
      for (const Value* item : result->items) {
        if (!item) {
          value->items.push_back(nullptr);
          continue;
        }
        Value* made = graph_.add_item(value, item->name);
        made->type = item->type;
        map_[item] = Argument(made);
      }
    }
    if (autocast_.enabled && twin->op && twin->op->infer && twin->op->kind == OpKind::plain) write_casts(*twin);
  }

  // The dtypes that the rule gives for these arguments, or nothing where they are refused (mixed types).
  std::optional<std::vector<DType>> inferred(Node& node) const {
    InferCall call(node, node.op->schema, ranges_);
    try {
      node.op->infer(call);
    } catch (const Error&) {
      return std::nullopt;
    }
    std::vector<DType> out;
    for (const TensorType& type : call.results) out.push_back(type.dtype);
    return out;
  }

  bool agrees(Node& node) const {
    auto dtypes = inferred(node);
    if (!dtypes) return false;
    size_t next = 0;
    for (const Value* result : node.results) {
      if (result->kind != ValueKind::tensor) continue;
      if (next >= dtypes->size() || (*dtypes)[next++] != result->type.dtype) return false;
    }
    return true;
  }

  void write_casts(Node& node) {
    if (agrees(node)) return;
    std::vector<Node::NamedArgument> original = node.args;
    for (DType dtype : {autocast_.dtype, DType::f32, DType::f64}) {
      std::vector<Node*> made;
      for (auto& named : node.args)
        for_each_value(
            named.arg, std::function<void(Value*&)>([&](Value*& value) {
              if (value->kind == ValueKind::tensor && is_float(value->type.dtype) && value->type.dtype != dtype)
                value = cast(value, dtype, node, made);
            }));
      if (agrees(node)) return;
      node.args = original;
      for (Node* extra : made) graph_.erase(extra);
    }
    fail_unsupported("K0231", str("autocast: no cast of the arguments of ", node.target, " gives its result's dtype"),
                     node.where());
  }

  Value* cast(Value* value, DType dtype, Node& before, std::vector<Node*>& made) {
    Node* node = graph_.add_node("aten._to_copy.default", graph_.unique_name("autocast"), &before);
    node->op = Registry::instance().find(node->target);
    if (!node->op) fail_bug("aten._to_copy.default is not declared");
    node->origins = before.origins;
    node->args = {{"self", Argument(value)}, {"dtype", Argument(dtype)}};
    infer_types(*node, graph_, ranges_);
    made.push_back(node);
    return node->results[0];
  }

  Graph& graph_;
  Node& call_;
  const RangeEnv& ranges_;
  Autocast autocast_;
  std::unordered_map<const Value*, Argument> map_;
};

// out_dtype(operator, dtype, arguments…): the operator on arguments of a type that has room for the result's.
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
    const OpRecord* to_copy = Registry::instance().find("aten._to_copy.default");
    if (!to_copy) fail_bug("aten._to_copy.default is not declared");
    return value->type.dtype == dtype ? value : add(to_copy, {{"self", Argument(value)}, {"dtype", Argument(dtype)}});
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

}  // namespace

bool has_wrappers(const Graph& graph) {
  if (has_vmap_regions(graph)) return true;
  for (const auto& node : graph.nodes) {
    if (is_wrapper(*node) || is_auto_functionalized(*node) || has_effect_call(*node)) return true;
    if (node->target == "higher_order.out_dtype") return true;
    for (const auto& named : node->args)
      if (named.arg.is_graph() && named.arg.as_graph() && has_wrappers(*named.arg.as_graph())) return true;
  }
  return false;
}

bool inline_wrapper_calls(Graph& graph, const RangeEnv& ranges) {
  bool changed = expand_vmap_regions(graph, ranges);
  std::vector<Node*> calls;
  for (auto& node : graph.nodes) {
    for (auto& named : node->args)
      if (named.arg.is_graph() && named.arg.as_graph()) changed |= inline_wrapper_calls(*named.arg.as_graph(), ranges);
    if (is_wrapper(*node) || is_auto_functionalized(*node) || node->target == "higher_order.out_dtype")
      calls.push_back(node.get());
  }
  for (Node* call : calls) {
    if (is_auto_functionalized(*call))
      expand_auto_functionalized(graph, *call, ranges);
    else if (call->target == "higher_order.out_dtype")
      expand_out_dtype(graph, *call, ranges);
    else
      Inliner(graph, *call, ranges).run();
  }
  return changed || !calls.empty();
}

}  // namespace kiln
