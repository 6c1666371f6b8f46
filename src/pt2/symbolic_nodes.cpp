#include "pt2/symbolic_nodes.h"

#include "base/error.h"

namespace kiln {
namespace {

struct SymbolicOperator {
  ExprOp op;
  const char* target;
  const char* names[3];  // of its arguments
};

constexpr SymbolicOperator operators[] = {
    {ExprOp::add, "_operator.add", {"a", "b", ""}},
    {ExprOp::mul, "_operator.mul", {"a", "b", ""}},
    {ExprOp::floordiv, "_operator.floordiv", {"a", "b", ""}},
    {ExprOp::mod, "_operator.mod", {"a", "b", ""}},
    {ExprOp::pow, "_operator.pow", {"a", "b", ""}},
    {ExprOp::min, "torch.sym_min", {"a", "b", ""}},
    {ExprOp::max, "torch.sym_max", {"a", "b", ""}},
    {ExprOp::eq, "_operator.eq", {"a", "b", ""}},
    {ExprOp::ne, "_operator.ne", {"a", "b", ""}},
    {ExprOp::lt, "_operator.lt", {"a", "b", ""}},
    {ExprOp::le, "_operator.le", {"a", "b", ""}},
    {ExprOp::logical_and, "_operator.and_", {"a", "b", ""}},
    {ExprOp::logical_or, "_operator.or_", {"a", "b", ""}},
    {ExprOp::logical_not, "torch.sym_not", {"a", "", ""}},
    {ExprOp::ite, "torch.sym_ite", {"b", "t", "f"}},
    {ExprOp::to_float, "torch.sym_float", {"a", "", ""}},
    {ExprOp::truediv, "_operator.truediv", {"a", "b", ""}},
    {ExprOp::to_int, "torch.sym_int", {"a", "", ""}},
    {ExprOp::sqrt, "torch.sym_sqrt", {"a", "", ""}},
};

class SymbolicNodes {
 public:
  explicit SymbolicNodes(Graph& graph) : graph_(graph) {}

  void run() {
    for (Value* input : graph_.inputs) note(input);
    for (auto& node : graph_.nodes) {
      // Nodes that are added stand before this one: the loop does not meet them.
      before_ = node.get();
      for (Node::NamedArgument& arg : node->args) replace(arg.arg);
      for (Value* result : node->results) {
        note(result);
        for (Value* item : result->items)
          if (item != nullptr) note(item);
      }
    }
    before_ = nullptr;
    for (Argument& output : graph_.outputs) replace(output);
  }

 private:
  void note(Value* value) {
    if (value->kind == ValueKind::tensor) {
      for (size_t d = 0; d < value->type.sizes.size(); ++d) {
        const Expr& size = value->type.sizes[d];
        if (!size.is_constant()) sizes_.try_emplace(size, value, static_cast<int64_t>(d));
      }
    } else if (value->kind == ValueKind::sym_int || value->kind == ValueKind::sym_float ||
               value->kind == ValueKind::sym_bool) {
      known_.try_emplace(value->expr, value);
    }
  }

  void replace(Argument& arg) {
    if (auto* list = std::get_if<Argument::List>(&arg.value))
      for (Argument& item : *list) replace(item);
    else if (auto* graph = std::get_if<std::shared_ptr<Graph>>(&arg.value))
      make_symbolic_nodes(**graph);
    else if (auto* expr = std::get_if<Expr>(&arg.value))
      arg = operand(Expr(*expr));
  }

  Argument operand(const Expr& expr) {
    if (expr.is_constant()) return Scalar(expr.value());
    if (expr.op() == ExprOp::float_constant) return Scalar(expr.float_value());
    return value_of(expr);
  }

  Value* value_of(const Expr& expr) {
    if (const auto found = known_.find(expr); found != known_.end()) return found->second;
    Value* value = nullptr;
    if (const auto found = sizes_.find(expr); found != sizes_.end())
      value = size_node(expr, found->second);
    else if (expr.is_symbol())
      value = solve(expr);
    else
      value = computed(expr);
    known_.emplace(expr, value);
    return value;
  }

  Value* add(const char* target, const char* wish, const Expr& expr, std::vector<Node::NamedArgument> args) {
    Node* node = graph_.add_node(target, graph_.unique_name(wish), before_);
    node->args = std::move(args);
    if (before_ != nullptr) node->origins = before_->origins;
    Value* value = graph_.add_result(node, node->name,
                                     expr.is_boolean() ? ValueKind::sym_bool
                                     : expr.is_float() ? ValueKind::sym_float
                                                       : ValueKind::sym_int);
    value->expr = expr;
    return value;
  }

  Value* size_node(const Expr& expr, const std::pair<Value*, int64_t>& place) {
    return add("aten.sym_size.int", "sym_size_int", expr, {{"self", place.first}, {"dim", Scalar(place.second)}});
  }

  // A symbol that no size is alone: from a size that is linear in it (x has s0 + 1 rows).
  Value* solve(const Expr& symbol) {
    for (const auto& [size, place] : sizes_) {
      const auto affine = affine_in(size, symbol.name());
      if (!affine || !affine->coefficient.is_constant() || affine->coefficient.value() <= 0) continue;
      std::set<std::string> others;
      collect_symbols(affine->rest, others);
      if (!others.empty()) continue;
      Value* whole = value_of(size);
      Value* part = whole;
      if (!affine->rest.is_constant(0))
        part = add("_operator.sub", "sub", size - affine->rest, {{"a", whole}, {"b", operand(affine->rest)}});
      if (affine->coefficient.is_constant(1)) return part;
      return add("_operator.floordiv", "floordiv", symbol, {{"a", part}, {"b", operand(affine->coefficient)}});
    }
    fail_user("K0167", str("a .pt2 cannot be written: no value of the graph ", quote(graph_.name), " gives the symbol ",
                           symbol.name()));
  }

  Value* computed(const Expr& expr) {
    for (const SymbolicOperator& row : operators) {
      if (row.op != expr.op()) continue;
      const std::vector<Expr>& args = expr.args();
      const std::string_view target = row.target;
      const std::string wish(target.substr(target.find('.') + 1));
      if (args.size() <= 1 || row.op == ExprOp::ite) {
        std::vector<Node::NamedArgument> named;
        for (size_t i = 0; i < args.size(); ++i) named.push_back({row.names[i], operand(args[i])});
        return add(row.target, wish.c_str(), expr, std::move(named));
      }
      // Flat sums and products become chains of two.
      Argument left = operand(args[0]);
      Expr so_far = args[0];
      Value* value = nullptr;
      for (size_t i = 1; i < args.size(); ++i) {
        so_far = i + 1 == args.size() ? expr : Expr::make(expr.op(), {so_far, args[i]});
        value = add(row.target, wish.c_str(), so_far, {{row.names[0], left}, {row.names[1], operand(args[i])}});
        left = value;
      }
      return value;
    }
    fail_unsupported("K0167", str("a .pt2 cannot be written: no operator computes ", expr.text()));
  }

  Graph& graph_;
  Node* before_ = nullptr;  // nullptr: at the end
  std::map<Expr, Value*> known_;
  std::map<Expr, std::pair<Value*, int64_t>> sizes_;
};

}  // namespace

void make_symbolic_nodes(Graph& graph) { SymbolicNodes(graph).run(); }

}  // namespace kiln
