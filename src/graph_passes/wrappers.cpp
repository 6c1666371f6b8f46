#include "graph_passes/wrappers.h"

#include "graph_passes/auto_functionalized.h"
#include "graph_passes/effect_tokens.h"
#include "graph_passes/out_dtype.h"
#include "graph_passes/vmap_regions.h"
#include "ops/called_operator.h"
#include "ops/common_operators.h"
#include "ops/op_record.h"
#include "types/device_names.h"

namespace kiln {

bool is_wrapper(const Node& node) { return node.op && node.op->facts.wraps; }

namespace {

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

// What holds inside the call, given what holds around it.
Autocast autocast_inside(const Node& node, const Autocast& around) {
  if (node.target != "higher_order.wrap_with_autocast") return around;
  // (device type, dtype, enabled, cache enabled, subgraph, …). Other devices' autocast leaves CPU tensors alone.
  const auto* device = node.args.empty() ? nullptr : std::get_if<std::string>(&node.args[0].arg.value);
  if (device && device_type_from_name(*device) != DeviceType::cpu) return around;
  Autocast out;
  if (node.args.size() > 1)
    if (const auto* dtype = std::get_if<DType>(&node.args[1].arg.value)) out.dtype = *dtype;
  if (node.args.size() > 2 && node.args[2].arg.is_scalar()) out.enabled = node.args[2].arg.as_scalar().as_int() != 0;
  return out;
}

AutocastRule autocast_rule(const Node& node) {
  const AutocastForm& form = node.op->facts.autocast;
  return form.by_arguments ? form.by_arguments(OpCall(node, node.op->schema)) : form.rule;
}

std::vector<const Value*> tensors_of(const Argument& arg) {
  std::vector<const Value*> out;
  for_each_value(arg, std::function<void(Value*)>([&](Value* value) {
                   if (value->kind == ValueKind::tensor) out.push_back(value);
                 }));
  return out;
}

// The dtypes that the rule gives for these arguments, or nothing where they are refused (mixed types).
std::optional<std::vector<DType>> inferred_dtypes(Node& node, const RangeEnv& ranges) {
  InferCall call(node, node.op->schema, ranges);
  try {
    node.op->infer(call);
  } catch (const Error&) {
    return std::nullopt;
  }
  std::vector<DType> out;
  for (const TensorType& type : call.results) out.push_back(type.dtype);
  return out;
}

// Sets the results' dtypes by the operator's rule; sizes and strides stay. False: the rule refuses the arguments.
bool adopt_dtypes(Node& node, const RangeEnv& ranges) {
  auto dtypes = inferred_dtypes(node, ranges);
  if (!dtypes) return false;
  size_t next = 0;
  auto adopt = [&](Value* value) {
    if (next < dtypes->size() && value) value->type.dtype = (*dtypes)[next];
    ++next;
  };
  for (Value* result : node.results) {
    if (result->kind == ValueKind::tensor) adopt(result);
    if (result->kind == ValueKind::tensor_list)
      for (Value* item : result->items) adopt(item);
  }
  return true;
}

// Inlines one call and the wrappers inside it. Nodes are rebuilt in the outer graph; values are mapped.
// Export does not always run autocast while it traces (strict mode does not): the file's dtypes may be those of a run
// without. The lists decide; what depends on a result that is not what the file says gets its dtype from the rules.
class Inliner {
 public:
  Inliner(Graph& graph, Node& call, const RangeEnv& ranges) : graph_(graph), call_(call), ranges_(ranges) {}

  // Whether a result has another dtype than the file says.
  bool run() {
    std::vector<Argument> outputs = expand(call_, Autocast{});
    bool retyped = false;
    for (size_t i = 0; i < call_.results.size(); ++i) {
      if (!outputs[i].is_value()) fail_unsupported("K0231", str(call_.target, " gives a constant"), call_.where());
      retyped |= outputs[i].as_value()->type.dtype != call_.results[i]->type.dtype;
      graph_.replace_uses(call_.results[i], outputs[i].as_value());
    }
    graph_.erase(&call_);
    return retyped;
  }

 private:
  // The subgraph's nodes, before the outermost call; gives the call's results.
  std::vector<Argument> expand(const Node& call, const Autocast& around) {
    const size_t at = graph_position(call);
    const Graph& inner = *call.args[at].arg.as_graph();
    const Autocast inside = autocast_inside(call, around);
    const std::vector<Argument> operands = operands_of(call, at);
    if (operands.size() != inner.inputs.size())
      fail_user("K0231",
                str(call.target, " gives its subgraph ", operands.size(), " inputs, not ", inner.inputs.size()),
                call.where());
    for (size_t i = 0; i < inner.inputs.size(); ++i) map_[inner.inputs[i]] = mapped(operands[i]);
    for (const auto& node : inner.nodes) {
      if (!is_wrapper(*node)) {
        copy_node(*node, inside);
        continue;
      }
      std::vector<Argument> results = expand(*node, inside);
      for (size_t i = 0; i < node->results.size(); ++i) map_[node->results[i]] = results[i];
    }
    if (call.results.size() > inner.outputs.size())
      fail_user("K0231", str(call.target, " has more results than its subgraph has outputs"), call.where());
    std::vector<Argument> outputs;
    for (const Argument& output : inner.outputs) outputs.push_back(mapped(output));
    return outputs;
  }

  // Values of the outer graph stand for themselves.
  Argument mapped(const Argument& arg) const {
    if (arg.is_value()) {
      auto found = map_.find(arg.as_value());
      return found == map_.end() ? arg : found->second;
    }
    if (!arg.is_list()) return arg;
    Argument::List list;
    for (const Argument& element : arg.as_list()) list.push_back(mapped(element));
    return Argument(std::move(list));
  }

  void copy_node(const Node& node, const Autocast& autocast) {
    const bool moved = has_other_dtypes(node);
    // Export's check of a dtype that autocast changes when the program runs.
    if (moved && node.op && node.op->facts.types_hold) return;
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
    if (!twin->op || !twin->op->infer || twin->op->kind != OpKind::plain) return;
    if (autocast.enabled && autocast_rule(*twin) != AutocastRule::none && cast_by_rule(*twin, autocast)) return;
    if (moved)
      adopt_dtypes(*twin, ranges_);
    else if (autocast.enabled)
      cast_by_result(*twin, autocast);
  }

  bool has_other_dtypes(const Node& node) const {
    for (const auto& named : node.args) {
      std::vector<const Value*> before = tensors_of(named.arg), now = tensors_of(mapped(named.arg));
      for (size_t i = 0; i < before.size() && i < now.size(); ++i)
        if (before[i]->type.dtype != now[i]->type.dtype) return true;
    }
    return false;
  }

  // False, with the node as it was, where the operator refuses what the lists say.
  bool cast_by_rule(Node& node, const Autocast& autocast) {
    const AutocastRule rule = autocast_rule(node);
    DType to = rule == AutocastRule::single ? DType::f32 : autocast.dtype;
    if (rule == AutocastRule::promote) {
      for (const auto& named : node.args)
        for (const Value* value : tensors_of(named.arg))
          if (value->type.dtype == DType::f32) to = DType::f32;
    }
    std::vector<Node::NamedArgument> original = node.args;
    std::vector<Node*> made = cast_floats(node, to, false);
    if (adopt_dtypes(node, ranges_)) return true;
    node.args = original;
    for (Node* extra : made) graph_.erase(extra);
    return false;
  }

  std::vector<Node*> cast_floats(Node& node, DType to, bool doubles) {
    std::vector<Node*> made;
    for (auto& named : node.args)
      for_each_value(named.arg, std::function<void(Value*&)>([&](Value*& value) {
                       if (value->kind != ValueKind::tensor || !is_float(value->type.dtype)) return;
                       if (value->type.dtype == to || (value->type.dtype == DType::f64 && !doubles)) return;
                       value = cast(value, to, node, made);
                     }));
    return made;
  }

  bool agrees(Node& node) const {
    auto dtypes = inferred_dtypes(node, ranges_);
    if (!dtypes) return false;
    size_t next = 0;
    for (const Value* result : node.results) {
      if (result->kind != ValueKind::tensor) continue;
      if (next >= dtypes->size() || (*dtypes)[next++] != result->type.dtype) return false;
    }
    return true;
  }

  // An operator that the lists do not have, made of some that they have: the file says what came out.
  void cast_by_result(Node& node, const Autocast& autocast) {
    if (agrees(node)) return;
    std::vector<Node::NamedArgument> original = node.args;
    for (DType dtype : {autocast.dtype, DType::f32, DType::f64}) {
      std::vector<Node*> made = cast_floats(node, dtype, true);
      if (agrees(node)) return;
      node.args = original;
      for (Node* extra : made) graph_.erase(extra);
    }
    fail_unsupported("K0231", str("autocast: no cast of the arguments of ", node.target, " gives its result's dtype"),
                     node.where());
  }

  Value* cast(Value* value, DType dtype, Node& before, std::vector<Node*>& made) {
    Node* node = graph_.add_node(common_operators::cast().name(), graph_.unique_name("autocast"), &before);
    node->op = &common_operators::cast();
    node->origins = before.origins;
    node->args = {{"self", Argument(value)}, {"dtype", Argument(dtype)}};
    infer_types(*node, graph_, ranges_);
    made.push_back(node);
    return node->results[0];
  }

  Graph& graph_;
  Node& call_;
  const RangeEnv& ranges_;
  std::unordered_map<const Value*, Argument> map_;
};

}  // namespace

bool has_wrappers(const Graph& graph) {
  if (has_vmap_regions(graph)) return true;
  for (const auto& node : graph.nodes) {
    if (is_wrapper(*node) || is_auto_functionalized(*node) || has_effect_call(*node)) return true;
    if (is_out_dtype(*node)) return true;
    for (const auto& named : node->args)
      if (named.arg.is_graph() && named.arg.as_graph() && has_wrappers(*named.arg.as_graph())) return true;
  }
  return false;
}

namespace {

void adopt_all(Graph& graph, const RangeEnv& ranges);

// The branches of a cond and the bodies of a loop take their operands' dtypes; the results are the branches'.
void adopt_operands(Node& node, const RangeEnv& ranges) {
  std::vector<const Value*> operands;
  for (const auto& named : node.args)
    if (named.arg.is_list())
      for_each_value(named.arg, std::function<void(Value*)>([&](Value* value) { operands.push_back(value); }));
  const Graph* last = nullptr;
  for (auto& named : node.args) {
    if (!named.arg.is_graph() || !named.arg.as_graph()) continue;
    Graph& inner = *named.arg.as_graph();
    if (inner.inputs.size() != operands.size()) return;
    for (size_t i = 0; i < operands.size(); ++i) inner.inputs[i]->type.dtype = operands[i]->type.dtype;
    adopt_all(inner, ranges);
    last = &inner;
  }
  if (!last || last->outputs.size() != node.results.size()) return;
  for (size_t i = 0; i < node.results.size(); ++i)
    if (last->outputs[i].is_value()) node.results[i]->type.dtype = last->outputs[i].as_value()->type.dtype;
}

// After a result got another dtype than the file says: what depends on it follows.
void adopt_all(Graph& graph, const RangeEnv& ranges) {
  for (auto& node : graph.nodes) {
    if (node->op && node->op->infer && node->op->kind == OpKind::plain)
      adopt_dtypes(*node, ranges);
    else if (node->target == "higher_order.cond" || node->target == "higher_order.while_loop")
      adopt_operands(*node, ranges);
  }
}

}  // namespace

bool inline_wrapper_calls(Graph& graph, const RangeEnv& ranges) {
  auto calls_that = [&](auto matches) {
    std::vector<Node*> calls;
    for (auto& node : graph.nodes)
      if (matches(*node)) calls.push_back(node.get());
    return calls;
  };
  bool retyped = false, changed = false;
  for (Node* call : calls_that(is_wrapper)) retyped |= Inliner(graph, *call, ranges).run(), changed = true;
  changed |= expand_vmap_regions(graph, ranges);
  for (Node* call : calls_that(is_auto_functionalized))
    expand_auto_functionalized(graph, *call, ranges), changed = true;
  for (Node* call : calls_that(is_out_dtype)) expand_out_dtype(graph, *call, ranges), changed = true;
  for (auto& node : graph.nodes)
    for (auto& named : node->args)
      if (named.arg.is_graph() && named.arg.as_graph()) changed |= inline_wrapper_calls(*named.arg.as_graph(), ranges);
  if (retyped) adopt_all(graph, ranges);
  return changed;
}

}  // namespace kiln
