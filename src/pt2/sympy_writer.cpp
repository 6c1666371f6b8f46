#include "pt2/sympy_writer.h"

#include "base/error.h"

namespace kiln {
namespace {

// The values that symbols have in the sample inputs, where a size is a symbol alone. Used where the export said none:
// PyTorch wants a value for each symbol that inputs give.
void add_sample_hints(const Program& program, SymbolValues& hints) {
  size_t next = 0;
  for (size_t i = 0; i < program.input_specs.size(); ++i) {
    const InputKind kind = program.input_specs[i].kind;
    if (kind != InputKind::user && kind != InputKind::constant_value) continue;
    if (next >= program.sample_inputs.size()) return;
    const Datum& sample = program.sample_inputs[next++];
    const Value& value = *program.graph.inputs[i];
    if (value.kind == ValueKind::sym_int && value.expr.is_symbol() && sample.is_scalar() && sample.scalar().is_int())
      hints.try_emplace(value.expr.name(), sample.scalar().as_int());
    if (value.kind != ValueKind::tensor || !sample.is_tensor()) continue;
    const Tensor& tensor = sample.tensor();
    if (tensor.sizes.size() != value.type.sizes.size()) continue;
    for (size_t d = 0; d < tensor.sizes.size(); ++d)
      if (value.type.sizes[d].is_symbol()) hints.try_emplace(value.type.sizes[d].name(), tensor.sizes[d]);
  }
}

bool is_float_symbol(const std::string& name) { return starts_with(name, "zf") || starts_with(name, "zuf"); }

}  // namespace

SympyWriter::SympyWriter(const Program& program) : ranges_(program.ranges()) {
  for (size_t i = 0; i < program.input_specs.size(); ++i)
    if (program.input_specs[i].kind == InputKind::user && program.graph.inputs[i]->kind == ValueKind::tensor)
      for (const Expr& size : program.graph.inputs[i]->type.sizes) collect_symbols(size, positive_);
  for (const auto& [name, info] : program.symbols) {
    if (info.unbacked) positive_.erase(name);
    if (info.hint) hints_[name] = *info.hint;
  }
  add_sample_hints(program, hints_);
}

std::string SympyWriter::symbol(const std::string& name) const {
  if (is_float_symbol(name)) return str("Symbol('", name, "')");
  return str("Symbol('", name, positive_.contains(name) ? "', positive=True, integer=True)" : "', integer=True)");
}

std::string SympyWriter::call(const char* function, const Expr& expr) const {
  return str(function, "(", join_map(expr.args(), ", ", [this](const Expr& arg) { return srepr(arg); }), ")");
}

std::string SympyWriter::division(const Expr& expr) const {
  const bool integers = !expr.args()[0].is_float() && !expr.args()[1].is_float();
  return call(integers ? "IntTrueDiv" : "FloatTrueDiv", expr);
}

std::string SympyWriter::srepr(const Expr& expr) const {
  switch (expr.op()) {
    case ExprOp::constant:
      return str("Integer(", expr.value(), ")");
    case ExprOp::float_constant:
      return str("Float('", float_text(expr.float_value()), "', precision=53)");
    case ExprOp::symbol:
      return symbol(expr.name());
    case ExprOp::add:
      return call("Add", expr);
    case ExprOp::mul:
      return call("Mul", expr);
    case ExprOp::floordiv:
      return call("FloorDiv", expr);
    case ExprOp::mod: {
      // PyTorch's Mod is for natural numbers only.
      const bool natural = range_of(expr.args()[0], ranges_).low >= 0 && range_of(expr.args()[1], ranges_).low >= 0;
      return call(natural ? "Mod" : "PythonMod", expr);
    }
    case ExprOp::pow:
      return call(expr.is_float() ? "FloatPow" : expr.args()[1].is_constant() ? "Pow" : "PowByNatural", expr);
    case ExprOp::min:
      return call("Min", expr);
    case ExprOp::max:
      return call("Max", expr);
    case ExprOp::eq:
      return call("Equality", expr);
    case ExprOp::ne:
      return call("Unequality", expr);
    case ExprOp::lt:
      return call("StrictLessThan", expr);
    case ExprOp::le:
      return call("LessThan", expr);
    case ExprOp::logical_and:
      return call("And", expr);
    case ExprOp::logical_or:
      return call("Or", expr);
    case ExprOp::logical_not:
      return call("Not", expr);
    case ExprOp::ite:
      return str("Piecewise(ExprCondPair(", srepr(expr.args()[1]), ", ", srepr(expr.args()[0]), "), ExprCondPair(",
                 srepr(expr.args()[2]), ", true))");
    case ExprOp::to_float:
      return call("ToFloat", expr);
    case ExprOp::truediv:
      return division(expr);
    case ExprOp::to_int:
      return call("TruncToInt", expr);
    case ExprOp::floor_to_int:
      return call("FloorToInt", expr);
    case ExprOp::ceil_to_int:
      return call("CeilToInt", expr);
    case ExprOp::sqrt:
      return call("OpaqueUnaryFn_sqrt", expr);
  }
  fail_bug("an expression of no known kind");
}

Json SympyWriter::expression(const Expr& expr) const {
  Json body = Json::object();
  body.set("expr_str", srepr(expr));
  std::set<std::string> names;
  collect_symbols(expr, names);
  bool known = !expr.is_boolean();
  for (const std::string& name : names) known = known && hints_.contains(name);
  Json hint;
  // A hint that cannot be computed (a division by what is zero at export) is left out.
  if (known) try {
      Json value = Json::object();
      if (expr.is_float())
        value.set("as_float", evaluate_float(expr, hints_));
      else
        value.set("as_int", evaluate(expr, hints_));
      hint = std::move(value);
    } catch (const Error&) {
    }
  body.set("hint", std::move(hint));
  Json out = Json::object();
  out.set("as_expr", std::move(body));
  return out;
}

Json SympyWriter::sym_int(const Expr& expr) const {
  if (!expr.is_constant()) return expression(expr);
  Json out = Json::object();
  out.set("as_int", expr.value());
  return out;
}

Json SympyWriter::sym_float(const Expr& expr) const {
  if (expr.op() != ExprOp::float_constant && !expr.is_constant()) return expression(expr);
  Json out = Json::object();
  out.set("as_float", expr.is_constant() ? static_cast<double>(expr.value()) : expr.float_value());
  return out;
}

Json SympyWriter::sym_bool(const Expr& expr) const {
  if (!expr.is_constant()) return expression(expr);
  Json out = Json::object();
  out.set("as_bool", expr.value() != 0);
  return out;
}

}  // namespace kiln
