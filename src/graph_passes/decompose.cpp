#include "graph_passes/decompose.h"

#include <unordered_map>
#include <unordered_set>

#include "ops/decompose_call.h"

namespace kiln {

namespace {

class Decomposer {
 public:
  Decomposer(Graph& graph, const RangeEnv& ranges, PassContext& context, bool only_early)
      : graph_(graph), ranges_(ranges), context_(context), only_early_(only_early) {}

  bool run() {
    bool changed = false;
    size_t limit = 100000 + graph_.nodes.size() * 1000;
    auto it = graph_.nodes.begin();
    while (it != graph_.nodes.end()) {
      Node& node = **it;
      if (done_.contains(&node)) {
        ++it;
        continue;
      }
      for (auto& named : node.args) {
        named.arg = renewed(named.arg);
        if (named.arg.is_graph() && named.arg.as_graph())
          changed |= Decomposer(*named.arg.as_graph(), ranges_, context_, only_early_).run();
      }
      if (!node.op || !node.op->decompose || (only_early_ && !node.op->early)) {
        ++it;
        continue;
      }
      if (done_.size() > limit) fail_bug("decompositions do not end", node.where());
      // The new nodes stand before this one; they are looked at next, since they may have decompositions themselves.
      bool first = it == graph_.nodes.begin();
      auto before = first ? it : std::prev(it);
      replace(node);
      done_.insert(&node);
      it = first ? graph_.nodes.begin() : std::next(before);
    }
    for (Argument& output : graph_.outputs) output = renewed(output);
    // Erased only now: until here their values' addresses are keys.
    for (const Node* node : done_) graph_.erase(const_cast<Node*>(node));
    return changed || !done_.empty();
  }

 private:
  Argument renewed(const Argument& arg) const {
    if (arg.is_list()) {
      Argument::List list;
      for (const Argument& element : arg.as_list()) list.push_back(renewed(element));
      return Argument(std::move(list));
    }
    if (!arg.is_value()) return arg;
    Value* value = arg.as_value();
    if (value->kind == ValueKind::tensor_list && lists_.contains(value)) {
      Argument::List list;
      for (Value* item : value->items) list.push_back(item ? Argument(latest(item)) : Argument());
      return Argument(std::move(list));
    }
    return Argument(latest(value));
  }

  Value* latest(Value* value) const {
    for (auto found = replaced_.find(value); found != replaced_.end(); found = replaced_.find(value))
      value = found->second;
    return value;
  }

  void replace(Node& node) {
    std::unordered_set<const Node*> old;
    DecomposeCall call(node, node.op->schema, graph_, ranges_);
    try {
      node.op->decompose(call);
    } catch (Error& error) {
      Where where = node.where();
      where.pass = "decompose";
      error.locate(where);
      throw;
    }
    context_.note(str("decomposed: ", node.name, " = ", node.target));
    bool is_list = node.results.size() == 1 && node.results[0]->kind == ValueKind::tensor_list;
    const std::vector<Value*>& results = is_list ? node.results[0]->items : node.results;
    if (is_list) lists_.insert(node.results[0]);
    KILN_CHECK(call.replacements().size() == results.size(), str(node.target, " must replace all its results"));
    for (size_t i = 0; i < results.size(); ++i) {
      Value* value = call.replacements()[i];
      if (!results[i]) continue;
      if (!value) fail_bug(str("the decomposition of ", node.target, " does not give result ", i), node.where());
      keep_layout(*results[i], *value, call);
      replaced_[results[i]] = value;
    }
  }

  // The file says which strides eager gives; a value that the decomposition has made takes them over.
  static void keep_layout(const Value& from, Value& to, const DecomposeCall& call) {
    if (from.kind != ValueKind::tensor || !call.made(to.producer)) return;
    if (from.type.dtype != to.type.dtype || from.type.sizes.size() != to.type.sizes.size())
      fail_user("K0237",
                str("the program says that ", from.name, " is ", dtype_name(from.type.dtype), "[",
                    shape_text(from.type.sizes), "], but ", call.schema().name, " gives ", dtype_name(to.type.dtype),
                    "[", shape_text(to.type.sizes), "]"),
                call.where());
    to.type = from.type;
  }

  Graph& graph_;
  const RangeEnv& ranges_;
  PassContext& context_;
  bool only_early_;
  std::unordered_map<Value*, Value*> replaced_;
  std::unordered_set<const Value*> lists_;
  std::set<const Node*> done_;
};

}  // namespace

bool decompose(Program& program, PassContext& context) {
  RangeEnv ranges = program.ranges();
  return Decomposer(program.graph, ranges, context, false).run();
}

bool expand_writes(Program& program, PassContext& context) {
  RangeEnv ranges = program.ranges();
  return Decomposer(program.graph, ranges, context, true).run();
}

}  // namespace kiln
