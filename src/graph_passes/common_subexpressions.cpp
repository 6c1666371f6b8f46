#include "graph_passes/common_subexpressions.h"

#include <unordered_map>

#include "graph_passes/node_kinds.h"
#include "ops/op_record.h"

namespace kiln {

namespace {

class Merger {
 public:
  Merger(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  bool run() {
    bool changed = false;
    std::unordered_map<std::string, Node*> seen;
    std::vector<Node*> dead;
    for (auto& node : graph_.nodes) {
      for (auto& named : node->args) {
        for_each_value(named.arg, std::function<void(Value*&)>([&](Value*& value) { value = latest(value); }));
        if (named.arg.is_graph() && named.arg.as_graph()) changed |= Merger(*named.arg.as_graph(), context_).run();
      }
      if (!mergeable(*node)) continue;
      auto [found, fresh] = seen.emplace(key(*node), node.get());
      if (fresh || !same_types(*found->second, *node)) continue;
      context_.note(str("merged: ", node->name, " into ", found->second->name, " = ", node->target));
      merge(*found->second, *node);
      dead.push_back(node.get());
    }
    for (Argument& output : graph_.outputs)
      for_each_value(output, std::function<void(Value*&)>([&](Value*& value) { value = latest(value); }));
    for (Node* node : dead) graph_.erase(node);
    return changed || !dead.empty();
  }

 private:
  static bool mergeable(const Node& node) {
    if (!node.op || has_effect(node) || has_subgraph(node) || is_random(node)) return false;
    return node.op->kind == OpKind::plain || node.op->kind == OpKind::symbolic;
  }

  // Arguments by name, so that their order does not matter; those that equal the schema's default are left out.
  static std::string key(const Node& node) {
    OpCall call(node, node.op->schema);
    std::string out = node.target;
    for (const SchemaArg& declared : node.op->schema.args) out += str("|", argument_key(call.arg(declared.name)));
    return out;
  }

  static std::string argument_key(const Argument& arg) {
    struct Visit {
      std::string operator()(const Argument::None&) const { return "None"; }
      std::string operator()(Value* value) const { return "%" + value->name; }
      std::string operator()(const Argument::List& list) const {
        return str("[", join_map(list, ",", argument_key), "]");
      }
      std::string operator()(const Scalar& scalar) const { return scalar.text(); }
      std::string operator()(const std::string& text) const { return quote(text); }
      std::string operator()(const Expr& expr) const { return expr.text(); }
      std::string operator()(DType dtype) const { return dtype_name(dtype); }
      std::string operator()(const Device& device) const { return device_text(device); }
      std::string operator()(Layout) const { return "strided"; }
      std::string operator()(MemoryFormat format) const { return memory_format_name(format); }
      std::string operator()(const std::shared_ptr<Graph>&) const { return "graph"; }
    };
    return std::visit(Visit{}, arg.value);
  }

  static bool same_types(const Node& a, const Node& b) {
    if (a.results.size() != b.results.size()) return false;
    for (size_t i = 0; i < a.results.size(); ++i) {
      const Value &x = *a.results[i], &y = *b.results[i];
      if (x.kind != y.kind || x.items.size() != y.items.size() || !(x.type == y.type)) return false;
      if (!x.expr.same(y.expr)) return false;
      for (size_t k = 0; k < x.items.size(); ++k) {
        if (!x.items[k] || !y.items[k]) return false;
        if (!(x.items[k]->type == y.items[k]->type)) return false;
      }
    }
    return true;
  }

  void merge(Node& into, Node& from) {
    for (size_t i = 0; i < from.results.size(); ++i) {
      replaced_[from.results[i]] = into.results[i];
      for (size_t k = 0; k < from.results[i]->items.size(); ++k)
        replaced_[from.results[i]->items[k]] = into.results[i]->items[k];
    }
    into.origins.insert(into.origins.end(), from.origins.begin(), from.origins.end());
  }

  Value* latest(Value* value) const {
    auto found = replaced_.find(value);
    return found == replaced_.end() ? value : found->second;
  }

  Graph& graph_;
  PassContext& context_;
  std::unordered_map<Value*, Value*> replaced_;
};

}  // namespace

bool common_subexpressions(Program& program, PassContext& context) { return Merger(program.graph, context).run(); }

}  // namespace kiln
