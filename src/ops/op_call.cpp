#include "ops/op_record.h"

namespace kiln {

namespace {

// The argument as given: by name, or by position where the file has no names (Python functions such as _operator.add).
const Argument* given_argument(const Node& node, const Schema& schema, std::string_view name) {
  if (const Argument* found = node.find(name)) return found;
  int index = schema.find(name);
  if (index < 0 || static_cast<size_t>(index) >= node.args.size()) return nullptr;
  const Node::NamedArgument& positional = node.args[static_cast<size_t>(index)];
  return positional.name.empty() ? &positional.arg : nullptr;
}

[[noreturn]] void wrong_kind(const OpCall& call, std::string_view name, std::string_view wanted) {
  fail_user("K0201", str(call.schema().name, ": argument '", name, "' must be ", wanted), call.where());
}

std::optional<Expr> number_of(const Argument& arg) {
  if (const auto* expr = std::get_if<Expr>(&arg.value)) return *expr;
  if (arg.is_scalar() && (arg.as_scalar().is_int() || arg.as_scalar().is_bool())) return Expr(arg.as_scalar().as_int());
  if (arg.is_value()) {
    const Value* value = arg.as_value();
    if (value->kind == ValueKind::sym_int || value->kind == ValueKind::sym_bool) return value->expr;
  }
  return std::nullopt;
}

}  // namespace

void refuse(const OpCall& call, const char* code, std::string_view why) {
  fail_user(code, str(call.schema().name, ": ", why), call.where());
}

std::string op_short_name(std::string_view target) {
  auto parts = split(target, '.');
  return parts.size() >= 2 ? parts[1] : std::string(target);
}

const Argument& OpCall::arg(std::string_view name) const {
  static const Argument none;
  if (const Argument* found = given_argument(node_, schema_, name)) return *found;
  int index = schema_.find(name);
  if (index < 0) fail_bug(str(schema_.name, " has no argument '", name, "'"), where());
  const SchemaArg& declared = schema_.args[static_cast<size_t>(index)];
  if (declared.has_default) return declared.default_value;
  if (declared.optional) return none;
  fail_user("K0201", str(schema_.name, ": argument '", name, "' is missing"), where());
}

bool OpCall::given(std::string_view name) const { return !arg(name).is_none(); }

Value* OpCall::tensor(std::string_view name) const {
  Value* value = tensor_or_null(name);
  if (!value) wrong_kind(*this, name, "a tensor");
  return value;
}

Value* OpCall::tensor_or_null(std::string_view name) const {
  const Argument& argument = arg(name);
  if (argument.is_none()) return nullptr;
  if (!argument.is_value() || argument.as_value()->kind != ValueKind::tensor) wrong_kind(*this, name, "a tensor");
  return argument.as_value();
}

std::vector<Value*> OpCall::tensors(std::string_view name) const {
  const Argument& argument = arg(name);
  if (argument.is_none()) return {};
  if (argument.is_value() && argument.as_value()->kind == ValueKind::tensor_list) return argument.as_value()->items;
  if (!argument.is_list()) wrong_kind(*this, name, "a list of tensors");
  std::vector<Value*> out;
  for (const Argument& element : argument.as_list()) {
    if (element.is_none()) {
      out.push_back(nullptr);
    } else if (element.is_value() && element.as_value()->kind == ValueKind::tensor) {
      out.push_back(element.as_value());
    } else {
      wrong_kind(*this, name, "a list of tensors");
    }
  }
  return out;
}

Expr OpCall::integer(std::string_view name) const {
  auto number = number_of(arg(name));
  if (!number) wrong_kind(*this, name, "an integer");
  return *number;
}

std::vector<Expr> OpCall::integers(std::string_view name) const {
  const Argument& argument = arg(name);
  if (argument.is_none()) return {};
  if (!argument.is_list()) {
    auto number = number_of(argument);
    if (!number) wrong_kind(*this, name, "a list of integers");
    return {*number};
  }
  std::vector<Expr> out;
  for (const Argument& element : argument.as_list()) {
    auto number = number_of(element);
    if (!number) wrong_kind(*this, name, "a list of integers");
    out.push_back(*number);
  }
  return out;
}

int64_t OpCall::constant_integer(std::string_view name) const {
  Expr value = integer(name);
  if (!value.is_constant()) {
    fail_unsupported("K0202",
                     str(schema_.name, ": argument '", name, "' depends on sizes (", value.text(),
                         "); Kiln needs it to be a constant"),
                     where());
  }
  return value.value();
}

std::vector<int64_t> OpCall::constant_integers(std::string_view name) const {
  std::vector<int64_t> out;
  for (const Expr& value : integers(name)) {
    if (!value.is_constant()) {
      fail_unsupported("K0202",
                       str(schema_.name, ": argument '", name, "' depends on sizes (", value.text(),
                           "); Kiln needs it to be a constant"),
                       where());
    }
    out.push_back(value.value());
  }
  return out;
}

bool OpCall::boolean(std::string_view name) const {
  auto number = number_of(arg(name));
  if (!number || !number->is_constant()) wrong_kind(*this, name, "true or false");
  return number->value() != 0;
}

std::string OpCall::string(std::string_view name) const {
  const auto* text = std::get_if<std::string>(&arg(name).value);
  if (!text) wrong_kind(*this, name, "a string");
  return *text;
}

std::variant<Scalar, Expr> OpCall::scalar(std::string_view name) const {
  const Argument& argument = arg(name);
  if (argument.is_scalar()) return argument.as_scalar();
  Expr expr;
  if (const auto* symbolic = std::get_if<Expr>(&argument.value)) {
    expr = *symbolic;
  } else if (argument.is_value() &&
             (argument.as_value()->kind == ValueKind::sym_int || argument.as_value()->kind == ValueKind::sym_float ||
              argument.as_value()->kind == ValueKind::sym_bool)) {
    expr = argument.as_value()->expr;
  } else {
    wrong_kind(*this, name, "a number");
  }
  if (expr.is_constant()) return Scalar(expr.value());
  if (expr.op() == ExprOp::float_constant) return Scalar(expr.float_value());
  return expr;
}

std::optional<DType> OpCall::dtype(std::string_view name) const {
  const Argument& argument = arg(name);
  if (argument.is_none()) return std::nullopt;
  const auto* dtype = std::get_if<DType>(&argument.value);
  if (!dtype) wrong_kind(*this, name, "a dtype");
  return *dtype;
}

}  // namespace kiln
