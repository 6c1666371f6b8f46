#include "graph_passes/dead_code.h"

#include <unordered_set>

#include "graph_passes/node_kinds.h"
#include "ops/op_record.h"

namespace kiln {

namespace {

using Symbols = std::set<std::string>;

class DeadCode {
 public:
  DeadCode(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  bool run(Symbols needed) {
    needed_ = std::move(needed);
    bool changed = subgraphs();
    find_definitions();
    for (const Argument& output : graph_.outputs) need(output);
    std::vector<Node*> dead;
    for (auto it = graph_.nodes.rbegin(); it != graph_.nodes.rend(); ++it) {
      Node& node = **it;
      if (is_live(node)) {
        for (const auto& named : node.args) need(named.arg);
        mentioned_symbols(node, needed_);
      } else {
        dead.push_back(&node);
      }
    }
    for (Node* node : dead) {
      context_.note(str("dead: ", node->name, " = ", node->target));
      graph_.erase(node);
    }
    return changed || !dead.empty();
  }

 private:
  // A symbol that a subgraph mentions may come from outside, so inside it every symbol counts as needed.
  bool subgraphs() {
    bool changed = false;
    for (auto& node : graph_.nodes) {
      for (auto& named : node->args) {
        if (!named.arg.is_graph() || !named.arg.as_graph()) continue;
        Symbols inside;
        mentioned_symbols(named.arg, inside);
        changed |= DeadCode(*named.arg.as_graph(), context_).run(inside);
      }
    }
    return changed;
  }

  void find_definitions() {
    Symbols known;
    for (const Value* input : graph_.inputs) mentioned_symbols(*input, known);
    for (const auto& node : graph_.nodes) {
      Symbols here;
      for (const Value* result : node->results) mentioned_symbols(*result, here);
      for (const std::string& symbol : here)
        if (known.insert(symbol).second) defines_[node.get()].insert(symbol);
    }
  }

  bool is_live(const Node& node) const {
    if (has_effect(node)) return true;
    for (const Value* result : node.results) {
      if (used_.contains(result)) return true;
      for (const Value* item : result->items)
        if (item && used_.contains(item)) return true;
    }
    auto found = defines_.find(&node);
    if (found == defines_.end()) return is_claim(node);
    for (const std::string& symbol : found->second)
      if (needed_.contains(symbol)) return true;
    return false;
  }

  // The export knew what would be found in data (torch._check(n == 4)) and wrote that instead of a symbol. Nothing else
  // looks at the data any more, so reading it is the check.
  static bool is_claim(const Node& node) { return node.op && node.op->reads_data; }

  void need(const Argument& arg) {
    for_each_value(arg, [&](Value* value) {
      used_.insert(value);
      used_.insert(value->items.begin(), value->items.end());
    });
    mentioned_symbols(arg, needed_);
  }

  Graph& graph_;
  PassContext& context_;
  Symbols needed_;
  std::unordered_set<const Value*> used_;
  std::map<const Node*, Symbols> defines_;
};

}  // namespace

bool dead_code(Program& program, PassContext& context) { return DeadCode(program.graph, context).run({}); }

}  // namespace kiln
