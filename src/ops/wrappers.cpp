#include "ops/wrappers.h"

#include "ops/custom_ops.h"
#include "ops/op_record.h"

namespace kiln {

namespace {

bool is_wrapper(const Node& node) {
  return node.target == "higher_order.wrap_with_set_grad_enabled" || node.target == "higher_order.wrap_with_autocast";
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
    if (call_.args.size() - at - 1 != inner.inputs.size())
      fail_user(
          "K0231",
          str(call_.target, " gives its subgraph ", call_.args.size() - at - 1, " inputs, not ", inner.inputs.size()),
          call_.where());
    for (size_t i = 0; i < inner.inputs.size(); ++i) map_[inner.inputs[i]] = call_.args[at + 1 + i].arg;
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

}  // namespace

bool has_wrappers(const Graph& graph) {
  for (const auto& node : graph.nodes) {
    if (is_wrapper(*node) || is_auto_functionalized(*node)) return true;
    for (const auto& named : node->args)
      if (named.arg.is_graph() && named.arg.as_graph() && has_wrappers(*named.arg.as_graph())) return true;
  }
  return false;
}

bool inline_wrapper_calls(Graph& graph, const RangeEnv& ranges) {
  bool changed = false;
  std::vector<Node*> calls;
  for (auto& node : graph.nodes) {
    for (auto& named : node->args)
      if (named.arg.is_graph() && named.arg.as_graph()) changed |= inline_wrapper_calls(*named.arg.as_graph(), ranges);
    if (is_wrapper(*node) || is_auto_functionalized(*node)) calls.push_back(node.get());
  }
  for (Node* call : calls) {
    if (is_auto_functionalized(*call))
      expand_auto_functionalized(graph, *call, ranges);
    else
      Inliner(graph, *call, ranges).run();
  }
  return changed || !calls.empty();
}

}  // namespace kiln
