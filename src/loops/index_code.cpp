#include "loops/index_code.h"

#include <bit>

#include "types/checked.h"

namespace kiln::loops {

int SlotTable::slot(const std::string& name) {
  auto [found, fresh] = slots_.try_emplace(name, static_cast<int>(names_.size()));
  if (fresh) names_.push_back(name);
  return found->second;
}

IndexCode::IndexCode(const Expr& expr, SlotTable& slots) : is_float_(expr.is_float()) {
  affine_ = make_affine(expr, slots);
  if (!affine_) add(expr, slots);
}

bool IndexCode::make_affine(const Expr& expr, SlotTable& slots) {
  if (is_float_) return false;
  std::vector<Expr> terms = expr.op() == ExprOp::add ? expr.args() : std::vector<Expr>{expr};
  for (const Expr& term : terms) {
    if (term.is_constant()) {
      constant_ = term.value();
    } else if (term.is_symbol()) {
      multiples_.push_back({slots.slot(term.name()), 1});
    } else if (term.op() == ExprOp::mul && term.args().size() == 2 && term.args()[0].is_symbol() &&
               term.args()[1].is_constant()) {
      multiples_.push_back({slots.slot(term.args()[0].name()), term.args()[1].value()});
    } else {
      return false;
    }
  }
  return true;
}

int IndexCode::add(const Expr& expr, SlotTable& slots) {
  Node node;
  node.op = expr.op();
  node.is_float = expr.is_float();
  if (expr.is_constant()) node.value = expr.value();
  if (expr.is_symbol()) node.value = slots.slot(expr.name());
  if (expr.op() == ExprOp::float_constant) node.number = expr.float_value();
  for (const Expr& arg : expr.args()) node.args.push_back(add(arg, slots));
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size() - 1);
}

int64_t IndexCode::evaluate(const int64_t* slots) const {
  if (!affine_) return tree(nodes_.back(), slots);
  int64_t out = constant_;
  for (const Multiple& m : multiples_) {
    int64_t value = slots[m.slot];
    if (m.factor != 1) value = checked::mul(value, m.factor);
    out = checked::add(out, value);
  }
  return out;
}

double IndexCode::evaluate_float(const int64_t* slots) const {
  return is_float_ ? float_tree(nodes_.back(), slots) : static_cast<double>(evaluate(slots));
}

bool IndexCode::truth(const Node& node, const int64_t* slots) const {
  return node.is_float ? float_tree(node, slots) != 0 : tree(node, slots) != 0;
}

bool IndexCode::relation(const Node& node, const int64_t* slots) const {
  const Node &a = nodes_[static_cast<size_t>(node.args[0])], &b = nodes_[static_cast<size_t>(node.args[1])];
  auto compare = [&](auto x, auto y) {
    return node.op == ExprOp::eq ? x == y : node.op == ExprOp::ne ? x != y : node.op == ExprOp::lt ? x < y : x <= y;
  };
  if (a.is_float || b.is_float) return compare(float_tree(a, slots), float_tree(b, slots));
  return compare(tree(a, slots), tree(b, slots));
}

int64_t IndexCode::tree(const Node& node, const int64_t* slots) const {
  auto arg = [&](size_t i) -> const Node& { return nodes_[static_cast<size_t>(node.args[i])]; };
  auto fold = [&](auto f) {
    int64_t out = tree(arg(0), slots);
    for (size_t i = 1; i < node.args.size(); ++i) out = f(out, tree(arg(i), slots));
    return out;
  };
  switch (node.op) {
    case ExprOp::constant:
      return node.value;
    case ExprOp::symbol:
      return slots[node.value];
    case ExprOp::add:
      return fold(checked::add);
    case ExprOp::mul:
      return fold(checked::mul);
    case ExprOp::floordiv:
      return fold(checked::floordiv);
    case ExprOp::mod:
      return fold(checked::mod);
    case ExprOp::pow:
      return fold(checked::pow);
    case ExprOp::min:
      return fold([](int64_t a, int64_t b) { return std::min(a, b); });
    case ExprOp::max:
      return fold([](int64_t a, int64_t b) { return std::max(a, b); });
    case ExprOp::eq:
    case ExprOp::ne:
    case ExprOp::lt:
    case ExprOp::le:
      return relation(node, slots);
    case ExprOp::logical_and:
      for (size_t i = 0; i < node.args.size(); ++i)
        if (!truth(arg(i), slots)) return 0;
      return 1;
    case ExprOp::logical_or:
      for (size_t i = 0; i < node.args.size(); ++i)
        if (truth(arg(i), slots)) return 1;
      return 0;
    case ExprOp::logical_not:
      return !truth(arg(0), slots);
    case ExprOp::ite:
      return tree(arg(truth(arg(0), slots) ? 1 : 2), slots);
    // The few float conversions go through Expr's own evaluation of a constant expression.
    case ExprOp::to_int:
    case ExprOp::floor_to_int:
    case ExprOp::ceil_to_int:
      return kiln::evaluate(Expr::make(node.op, {Expr::float_constant(float_tree(arg(0), slots))}), {});
    default:
      fail_bug("index expression of an unknown kind");
  }
}

double IndexCode::float_tree(const Node& node, const int64_t* slots) const {
  if (!node.is_float) return static_cast<double>(tree(node, slots));
  if (node.op == ExprOp::float_constant) return node.number;
  if (node.op == ExprOp::symbol) return std::bit_cast<double>(slots[node.value]);
  if (node.op == ExprOp::ite) {
    bool yes = truth(nodes_[static_cast<size_t>(node.args[0])], slots);
    return float_tree(nodes_[static_cast<size_t>(node.args[yes ? 1 : 2])], slots);
  }
  std::vector<Expr> args;
  for (int a : node.args) {
    const Node& n = nodes_[static_cast<size_t>(a)];
    args.push_back(n.is_float ? Expr::float_constant(float_tree(n, slots)) : Expr(tree(n, slots)));
  }
  return kiln::evaluate_float(Expr::make(node.op, std::move(args)), {});
}

}  // namespace kiln::loops
