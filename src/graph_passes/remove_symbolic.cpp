#include "graph_passes/remove_symbolic.h"

#include <unordered_map>

#include "ops/op_record.h"

namespace kiln {

namespace {

class SymbolicRemover {
 public:
  SymbolicRemover(Program& program, Graph& graph, const RangeEnv& ranges, PassContext& context)
      : program_(program), graph_(graph), ranges_(ranges), context_(context), outermost_(&graph == &program.graph) {}

  bool run() {
    bool changed = false;
    std::vector<Node*> dead;
    for (auto& node : graph_.nodes) {
      for (auto& named : node->args)
        if (named.arg.is_graph() && named.arg.as_graph())
          changed |= SymbolicRemover(program_, *named.arg.as_graph(), ranges_, context_).run();
      bool assertion = node->op && node->op->kind == OpKind::assertion;
      if (assertion && is_settled(*node)) {
        dead.push_back(node.get());
      } else if (!assertion && node->op) {
        for (auto& named : node->args) changed |= use_expressions(named.arg);
      }
    }
    for (Node* node : dead) graph_.erase(node);
    return remove_unused() || changed || !dead.empty();
  }

 private:
  static bool has_expression(const Value& value) {
    if (value.kind == ValueKind::sym_int || value.kind == ValueKind::sym_bool) return true;
    return value.kind == ValueKind::sym_float && (value.expr.is_float() || !value.expr.is_symbol());
  }

  static bool use_expressions(Argument& arg) {
    if (arg.is_value() && has_expression(*arg.as_value())) {
      Expr expr = arg.as_value()->expr;
      ValueKind kind = arg.as_value()->kind;
      if (!expr.is_constant()) {
        arg = expr.op() == ExprOp::float_constant ? Argument(Scalar(expr.float_value())) : Argument(expr);
      } else if (kind == ValueKind::sym_float) {
        arg = Argument(Scalar(static_cast<double>(expr.value())));
      } else if (kind == ValueKind::sym_bool) {
        arg = Argument(Scalar(expr.value() != 0));
      } else {
        arg = Argument(Scalar(expr.value()));
      }
      return true;
    }
    bool changed = false;
    if (auto* list = std::get_if<Argument::List>(&arg.value))
      for (Argument& element : *list) changed |= use_expressions(element);
    return changed;
  }

  // Proven, or made a guard.
  bool is_settled(const Node& node) {
    if (node.op->facts.types_hold) return node.op->facts.types_hold(OpCall(node, node.op->schema));
    const Argument* condition = node.find("self");
    if (!condition || !condition->is_value() || condition->as_value()->kind != ValueKind::sym_bool) return false;
    const Expr& expr = condition->as_value()->expr;
    if (prove(expr, ranges_) == Proof::yes) {
      context_.note(str("proven: ", expr.text()));
      return true;
    }
    std::set<std::string> names;
    collect_symbols(expr, names);
    for (const std::string& name : names) {
      auto info = program_.symbols.find(name);
      if (info == program_.symbols.end() || info->second.unbacked) return false;
    }
    if (!outermost_ || names.empty()) return false;
    Guard guard;
    guard.condition = expr;
    guard.reason = "assertion in the program";
    if (const Argument* message = node.find("assert_msg"))
      if (const auto* text = std::get_if<std::string>(&message->value)) guard.reason = *text;
    context_.note(str("guard from an assertion: ", expr.text()));
    program_.guards.push_back(std::move(guard));
    return true;
  }

  // Symbolic nodes that nobody uses any more, last ones first; those that read a tensor's data stay.
  bool remove_unused() {
    std::unordered_map<const Value*, int> uses;
    auto count = [&](const Argument& arg, int change) {
      for_each_value(arg, [&](Value* value) { uses[value] += change; });
    };
    std::vector<Node*> nodes;
    for (auto& node : graph_.nodes) {
      nodes.push_back(node.get());
      for (const auto& named : node->args) count(named.arg, 1);
    }
    for (const Argument& output : graph_.outputs) count(output, 1);
    bool changed = false;
    for (size_t i = nodes.size(); i-- > 0;) {
      Node& node = *nodes[i];
      if (!node.op || node.op->kind != OpKind::symbolic || node.op->reads_data) continue;
      bool needed = false;
      for (const Value* result : node.results) needed |= uses[result] > 0;
      if (needed) continue;
      for (const auto& named : node.args) count(named.arg, -1);
      graph_.erase(&node);
      changed = true;
    }
    return changed;
  }

  Program& program_;
  Graph& graph_;
  const RangeEnv& ranges_;
  PassContext& context_;
  bool outermost_;
};

}  // namespace

bool remove_symbolic(Program& program, PassContext& context) {
  RangeEnv ranges = program.ranges();
  return SymbolicRemover(program, program.graph, ranges, context).run();
}

}  // namespace kiln
