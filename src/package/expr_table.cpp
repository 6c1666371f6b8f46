#include "package/expr_table.h"

#include <bit>

#include "base/error.h"

namespace kiln {
using format::ExprCode;

int ExprTable::slot(const std::string& name) const {
  auto found = slots_.find(name);
  if (found == slots_.end()) fail_unsupported("K0505", str("nothing gives the symbol ", name, " a value"));
  return found->second;
}

format::ExprIndex ExprTable::add(const Expr& expr) {
  std::string text = expr.text();
  auto [found, inserted] = by_text_.emplace(text, static_cast<format::ExprIndex>(programs_.size()));
  if (!inserted) return found->second;
  format::ExprProgram program;
  program.text = text;
  program.is_float = expr.is_float();
  compile(expr, program.code);
  programs_.push_back(std::move(program));
  return found->second;
}

std::vector<format::ExprIndex> ExprTable::add_all(const std::vector<Expr>& exprs) {
  std::vector<format::ExprIndex> out;
  for (const Expr& e : exprs) out.push_back(add(e));
  return out;
}

namespace {

// The code of an operator on integers, and its twin on floats.
struct Codes {
  ExprCode integer, floating;
};
Codes codes_of(ExprOp op) {
  switch (op) {
    case ExprOp::add:
      return {ExprCode::add, ExprCode::float_add};
    case ExprOp::mul:
      return {ExprCode::mul, ExprCode::float_mul};
    case ExprOp::floordiv:
      return {ExprCode::floordiv, ExprCode::float_floordiv};
    case ExprOp::mod:
      return {ExprCode::mod, ExprCode::float_mod};
    case ExprOp::pow:
      return {ExprCode::pow, ExprCode::float_pow};
    case ExprOp::min:
      return {ExprCode::min, ExprCode::float_min};
    case ExprOp::max:
      return {ExprCode::max, ExprCode::float_max};
    case ExprOp::eq:
      return {ExprCode::eq, ExprCode::float_eq};
    case ExprOp::ne:
      return {ExprCode::ne, ExprCode::float_ne};
    case ExprOp::lt:
      return {ExprCode::lt, ExprCode::float_lt};
    case ExprOp::le:
      return {ExprCode::le, ExprCode::float_le};
    case ExprOp::logical_and:
      return {ExprCode::logical_and, ExprCode::logical_and};
    case ExprOp::logical_or:
      return {ExprCode::logical_or, ExprCode::logical_or};
    default:
      fail_bug("not a binary operator of expressions");
  }
}

}  // namespace

void ExprTable::compile(const Expr& e, std::vector<format::ExprInstruction>& code) {
  auto unary = [&](ExprCode c) {
    compile(e.args()[0], code);
    code.push_back({c, 0});
  };
  switch (e.op()) {
    case ExprOp::constant:
      return code.push_back({ExprCode::constant, e.value()});
    case ExprOp::float_constant:
      return code.push_back({ExprCode::float_constant, std::bit_cast<int64_t>(e.float_value())});
    case ExprOp::symbol:
      return code.push_back({ExprCode::symbol, slot(e.name())});
    case ExprOp::logical_not:
      return unary(ExprCode::logical_not);
    case ExprOp::to_float:
      return unary(ExprCode::to_float);
    case ExprOp::to_int:
      return unary(ExprCode::to_int);
    case ExprOp::floor_to_int:
      return unary(ExprCode::floor_to_int);
    case ExprOp::ceil_to_int:
      return unary(ExprCode::ceil_to_int);
    case ExprOp::sqrt:
      compile(e.args()[0], code);
      if (!e.args()[0].is_float()) code.push_back({ExprCode::to_float, 0});
      return code.push_back({ExprCode::sqrt, 0});
    case ExprOp::ite:
      for (const Expr& arg : e.args()) compile(arg, code);
      return code.push_back({ExprCode::ite, 0});
    case ExprOp::truediv:
      // Integers are divided as doubles.
      for (const Expr& arg : e.args()) {
        compile(arg, code);
        if (!arg.is_float()) code.push_back({ExprCode::to_float, 0});
      }
      return code.push_back({ExprCode::truediv, 0});
    default:
      break;
  }
  bool floating = false;
  for (const Expr& arg : e.args()) floating |= arg.is_float();
  Codes codes = codes_of(e.op());
  for (size_t i = 0; i < e.args().size(); ++i) {
    compile(e.args()[i], code);
    if (floating && !e.args()[i].is_float()) code.push_back({ExprCode::to_float, 0});
    if (i > 0) code.push_back({floating ? codes.floating : codes.integer, 0});
  }
}

}  // namespace kiln
