// What a program of the graph says of its inputs.
#include "graph/input_binder.h"
#include "interp/interp.h"

namespace kiln {
namespace {

InputRule rule_of(const Value& value, const InputSpec& spec) {
  InputRule rule;
  rule.name = value.name;
  if (spec.kind == InputKind::constant_value) {
    rule.kind = InputRule::Kind::constant;
    rule.constant = spec.constant;
    return rule;
  }
  switch (value.kind) {
    case ValueKind::tensor:
      rule.kind = InputRule::Kind::tensor;
      rule.dtype = value.type.dtype, rule.device = value.type.device.type, rule.sizes = &value.type.sizes;
      break;
    case ValueKind::sym_int:
    case ValueKind::sym_bool:
      rule.kind = value.expr.is_constant() ? InputRule::Kind::constant : InputRule::Kind::integer;
      rule.number = value.expr;
      if (value.expr.is_constant()) rule.constant = Argument(Scalar(value.expr.value()));
      break;
    case ValueKind::sym_float:
      rule.kind = InputRule::Kind::number;
      break;
    case ValueKind::tensor_list:
      rule.kind = InputRule::Kind::list;
      break;
    case ValueKind::none:
      rule.kind = InputRule::Kind::constant;
      break;
    case ValueKind::object:
      break;
  }
  return rule;
}

}  // namespace

SymbolValues bind_symbols(const Program& program, const std::vector<Datum>& inputs) {
  static const InputSpec plain;
  InputRules rules;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    const InputSpec& spec = i < program.input_specs.size() ? program.input_specs[i] : plain;
    if (spec.kind == InputKind::user || spec.kind == InputKind::constant_value)
      rules.inputs.push_back(rule_of(*program.graph.inputs[i], spec));
  }
  rules.symbols = &program.symbols, rules.guards = &program.guards;
  return bind_inputs(rules, inputs);
}

}  // namespace kiln
