#include "ops/promotion.h"

#include "ops/complex_reference.h"

namespace kiln {

namespace {

std::optional<DType> promote_known(std::optional<DType> a, std::optional<DType> b) {
  if (!a) return b;
  if (!b) return a;
  return promote(*a, *b);
}

std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || is_complex(*higher)) return higher;
  if (is_float(*higher)) return is_complex(*lower) ? complex_of(*higher) : *higher;
  if (*higher == DType::boolean || is_float(*lower) || is_complex(*lower)) return promote(*higher, *lower);
  return higher;
}

}  // namespace

void Promotion::add_tensor(DType dtype, bool has_dimensions) {
  auto& slot = has_dimensions ? dimensioned_ : scalar_tensor_;
  slot = promote_known(slot, dtype);
}

void Promotion::add_number(DType kind) {
  if (kind == DType::f64) kind = default_float;
  if (kind == DType::c128) kind = complex_of(default_float);
  number_ = promote_known(number_, kind);
}

DType Promotion::result() const {
  return combine(dimensioned_, combine(scalar_tensor_, number_)).value_or(DType::boolean);
}

DType number_kind(const Scalar& number) {
  if (number.is_bool()) return DType::boolean;
  if (number.is_int()) return DType::i64;
  return number.is_float() ? DType::f64 : DType::c128;
}

DType number_kind(const Expr& number) {
  if (number.is_boolean()) return DType::boolean;
  return number.is_float() ? DType::f64 : DType::i64;
}

DType Operand::dtype() const {
  if (tensor) return tensor->type.dtype;
  return std::visit([](const auto& value) { return number_kind(value); }, number);
}

Operand operand(const OpCall& call, std::string_view arg) {
  Operand out;
  const Argument& argument = call.arg(arg);
  if (argument.is_value() && argument.as_value()->kind == ValueKind::tensor) {
    out.tensor = argument.as_value();
  } else {
    out.number = call.scalar(arg);
  }
  return out;
}

void add_operand(Promotion& promotion, const Operand& operand) {
  if (operand.tensor) {
    promotion.add_tensor(operand.tensor->type.dtype, !operand.tensor->type.sizes.empty());
  } else {
    promotion.add_number(operand.dtype());
  }
}

DType to_float(DType dtype) { return is_integral(dtype) ? default_float : dtype; }

void refuse_dtype(const OpCall& call, DType dtype) {
  std::string name = call.schema().name;
  if (ends_with(name, ".default")) name.resize(name.size() - std::string_view(".default").size());
  fail_unsupported("K0203", str(name, " does not take ", dtype_torch_name(dtype)), call.where());
}

void refuse_complex(const OpCall& call, DType dtype) {
  if (is_complex(dtype) && complex_form(call).rule == ComplexRule::none) refuse_dtype(call, dtype);
}

}  // namespace kiln
