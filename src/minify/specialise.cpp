#include "minify/specialise.h"

#include <set>

#include "base/error.h"
#include "graph/walk.h"
#include "ops/op_record.h"

namespace kiln::minify {
namespace {

bool is_number(const Value& value) {
  return value.kind == ValueKind::sym_int || value.kind == ValueKind::sym_float || value.kind == ValueKind::sym_bool;
}

std::optional<Scalar> constant_of(const Expr& expr, ValueKind kind) {
  if (expr.is_constant()) return kind == ValueKind::sym_bool ? Scalar(expr.value() != 0) : Scalar(expr.value());
  if (expr.op() == ExprOp::float_constant) return Scalar(expr.float_value());
  return std::nullopt;
}

// Every value that the graph defines or mentions.
void for_each_defined(Graph& graph, const std::function<void(Value&)>& f) {
  for (Value* input : graph.inputs) f(*input);
  for (auto& node : graph.nodes) {
    for (auto& named : node->args)
      for_each_value(named.arg, [&](Value*& value) {
        if (value && !value->producer) f(*value);
      });
    for (Value* result : node->results) {
      f(*result);
      for (Value* item : result->items)
        if (item) f(*item);
    }
  }
}

class Specialiser {
 public:
  explicit Specialiser(const SymbolValues& values) {
    for (const auto& [name, value] : values) map_.emplace(name, Expr(value));
  }

  void run(Program& program) {
    for_each_graph(program.graph, [&](Graph& graph) {
      for_each_defined(graph, [&](Value& value) { change(value); });
      for (auto& node : graph.nodes)
        for (auto& named : node->args) change(named.arg);
      for (Argument& output : graph.outputs) change(output);
      drop_unused_numbers(graph);
    });
    std::erase_if(program.guards, [&](Guard& guard) {
      guard.condition = substitute(guard.condition, map_);
      return guard.condition.is_constant();
    });
    for (const auto& [name, expr] : map_) program.symbols.erase(name);
  }

 private:
  void change(std::vector<Expr>& exprs) {
    for (Expr& expr : exprs) expr = substitute(expr, map_);
  }
  void change(Value& value) {
    change(value.type.sizes);
    change(value.type.strides);
    value.type.offset = substitute(value.type.offset, map_);
    if (is_number(value)) value.expr = substitute(value.expr, map_);
  }
  void change(Argument& arg) {
    if (auto* list = std::get_if<Argument::List>(&arg.value)) {
      for (Argument& element : *list) change(element);
    } else if (auto* expr = std::get_if<Expr>(&arg.value)) {
      *expr = substitute(*expr, map_);
      if (const auto scalar = constant_of(*expr, ValueKind::sym_int)) arg = Argument(*scalar);
    } else if (arg.is_value() && arg.as_value() && is_number(*arg.as_value())) {
      if (const auto scalar = constant_of(arg.as_value()->expr, arg.as_value()->kind)) arg = Argument(*scalar);
    }
  }

  static void drop_unused_numbers(Graph& graph) {
    std::set<const Value*> used;
    const auto use = [&](const Argument& arg) { for_each_value(arg, [&](Value* value) { used.insert(value); }); };
    for (const Argument& output : graph.outputs) use(output);
    std::vector<Node*> dead;
    for (auto it = graph.nodes.rbegin(); it != graph.nodes.rend(); ++it) {
      Node& node = **it;
      const OpRecord* record = Registry::instance().find(node.target);
      const bool unused =
          std::none_of(node.results.begin(), node.results.end(), [&](const Value* v) { return used.contains(v); });
      if (record && record->kind == OpKind::symbolic && unused) {
        dead.push_back(&node);
        continue;
      }
      for (const auto& named : node.args) use(named.arg);
    }
    for (Node* node : dead) graph.erase(node);
  }

  Substitution map_;
};

void collect(const std::vector<Expr>& exprs, std::set<std::string>& out) {
  for (const Expr& expr : exprs) collect_symbols(expr, out);
}

void collect(const Value& value, std::set<std::string>& out) {
  collect(value.type.sizes, out);
  collect(value.type.strides, out);
  collect_symbols(value.type.offset, out);
  if (is_number(value)) collect_symbols(value.expr, out);
}

void collect(const Argument& arg, std::set<std::string>& out) {
  if (arg.is_list())
    for (const Argument& element : arg.as_list()) collect(element, out);
  if (const auto* expr = std::get_if<Expr>(&arg.value)) collect_symbols(*expr, out);
}

// Symbols that the inputs' sizes determine: plain ones, then expressions affine in one that is still unknown.
std::set<std::string> bound_by_inputs(const Program& program) {
  std::vector<Expr> given;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    if (program.input_specs[i].kind != InputKind::user) continue;
    const Value& value = *program.graph.inputs[i];
    if (value.kind == ValueKind::tensor)
      given.insert(given.end(), value.type.sizes.begin(), value.type.sizes.end());
    else if (value.kind == ValueKind::sym_int)
      given.push_back(value.expr);
  }
  std::set<std::string> bound;
  for (bool progress = true; progress;) {
    progress = false;
    for (const Expr& expr : given) {
      std::set<std::string> unknown;
      collect_symbols(expr, unknown);
      std::erase_if(unknown, [&](const std::string& name) { return bound.contains(name); });
      if (unknown.size() != 1 || !affine_in(expr, *unknown.begin())) continue;
      bound.insert(*unknown.begin());
      progress = true;
    }
  }
  return bound;
}

}  // namespace

void specialise(Program& program, const SymbolValues& values) { Specialiser(values).run(program); }

std::set<std::string> used_symbols(const Program& program) {
  std::set<std::string> out;
  // The walk changes nothing.
  for_each_graph(const_cast<Graph&>(program.graph), [&](Graph& graph) {
    for_each_defined(graph, [&](Value& value) { collect(value, out); });
    for (auto& node : graph.nodes)
      for (auto& named : node->args) collect(named.arg, out);
    for (const Argument& output : graph.outputs) collect(output, out);
  });
  return out;
}

std::set<std::string> unbound_symbols(const Program& program) {
  std::set<std::string> bound = bound_by_inputs(program);
  // A symbol found while running is given by the first node that has it in its results and not in its arguments; what
  // an input mentions beforehand nobody gives.
  std::set<std::string> by_inputs;
  for (const Value* input : program.graph.inputs) collect(*input, by_inputs);
  for_each_graph(const_cast<Graph&>(program.graph), [&](Graph& graph) {
    for (auto& node : graph.nodes) {
      std::set<std::string> here;
      for (const Value* result : node->results) {
        collect(*result, here);
        for (const Value* item : result->items)
          if (item) collect(*item, here);
      }
      for (const std::string& name : here) {
        const auto info = program.symbols.find(name);
        const bool unbacked = info == program.symbols.end() || info->second.unbacked;
        if (unbacked && !by_inputs.contains(name)) bound.insert(name);
      }
    }
  });
  std::set<std::string> out;
  for (const std::string& name : used_symbols(program))
    if (!bound.contains(name)) out.insert(name);
  return out;
}

}  // namespace kiln::minify
