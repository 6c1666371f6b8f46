#include "ops/op_record.h"

namespace kiln {

namespace {

[[noreturn]] void wrong_kind(const Node& node, const Schema& schema, std::string_view name, std::string_view wanted) {
  fail_user("K0201", str(schema.name, ": argument '", name, "' must be ", wanted), node.where());
}

const Datum& datum(const ReferenceCall& call, const Schema& schema, std::string_view name) {
  static const Datum none;
  auto found = call.values.find(name);
  if (found != call.values.end()) return found->second;
  if (schema.find(name) < 0) fail_bug(str(schema.name, " has no argument '", name, "'"), call.node().where());
  return none;
}

// A number, also when the file passes it as a tensor without dimensions.
std::optional<Scalar> number_of(const Datum& value) {
  if (value.is_scalar()) return value.scalar();
  if (value.is_tensor() && value.tensor().rank() == 0) return value.tensor().item();
  return std::nullopt;
}

const Value* tensor_result(const Node& node, int index) {
  int seen = 0;
  for (const Value* result : node.results) {
    if (result->kind == ValueKind::tensor_list) {
      for (const Value* item : result->items)
        if (item && seen++ == index) return item;
    } else if (result->kind == ValueKind::tensor && seen++ == index) {
      return result;
    }
  }
  fail_bug(str(node.target, " has no tensor result ", index), node.where());
}

}  // namespace

bool ReferenceCall::given(std::string_view name) const { return !datum(*this, schema_, name).is_none(); }

Tensor ReferenceCall::tensor(std::string_view name) const {
  const Datum& value = datum(*this, schema_, name);
  if (!value.is_tensor()) wrong_kind(node_, schema_, name, "a tensor");
  return value.tensor();
}

std::optional<Tensor> ReferenceCall::tensor_or_none(std::string_view name) const {
  if (!given(name)) return std::nullopt;
  return tensor(name);
}

std::vector<std::optional<Tensor>> ReferenceCall::tensors(std::string_view name) const {
  const Datum& value = datum(*this, schema_, name);
  if (value.is_none()) return {};
  if (!value.is_list()) wrong_kind(node_, schema_, name, "a list of tensors");
  std::vector<std::optional<Tensor>> out;
  for (const Datum& element : value.list()) {
    if (element.is_none()) {
      out.emplace_back(std::nullopt);
    } else if (element.is_tensor()) {
      out.emplace_back(element.tensor());
    } else {
      wrong_kind(node_, schema_, name, "a list of tensors");
    }
  }
  return out;
}

int64_t ReferenceCall::integer(std::string_view name) const {
  auto number = number_of(datum(*this, schema_, name));
  if (!number || number->is_complex()) wrong_kind(node_, schema_, name, "an integer");
  return number->as_int();
}

std::vector<int64_t> ReferenceCall::integers(std::string_view name) const {
  const Datum& value = datum(*this, schema_, name);
  if (value.is_none()) return {};
  if (!value.is_list()) return {integer(name)};
  std::vector<int64_t> out;
  for (const Datum& element : value.list()) {
    auto number = number_of(element);
    if (!number || number->is_complex()) wrong_kind(node_, schema_, name, "a list of integers");
    out.push_back(number->as_int());
  }
  return out;
}

double ReferenceCall::real(std::string_view name) const {
  auto number = number_of(datum(*this, schema_, name));
  if (!number || number->is_complex()) wrong_kind(node_, schema_, name, "a number");
  return number->as_double();
}

bool ReferenceCall::boolean(std::string_view name) const {
  auto number = number_of(datum(*this, schema_, name));
  if (!number || number->is_complex()) wrong_kind(node_, schema_, name, "true or false");
  return number->as_double() != 0;
}

Scalar ReferenceCall::scalar(std::string_view name) const {
  auto number = number_of(datum(*this, schema_, name));
  if (!number) wrong_kind(node_, schema_, name, "a number");
  return *number;
}

std::string ReferenceCall::string(std::string_view name) const {
  const Datum& value = datum(*this, schema_, name);
  const auto* text = std::get_if<std::string>(&value.value);
  if (!text) wrong_kind(node_, schema_, name, "a string");
  return *text;
}

std::optional<DType> ReferenceCall::dtype(std::string_view name) const {
  if (!given(name)) return std::nullopt;
  auto dtype = dtype_from_name(string(name));
  if (!dtype) wrong_kind(node_, schema_, name, "a dtype");
  return dtype;
}

DType ReferenceCall::nominal_dtype(int result) const { return tensor_result(node_, result)->type.dtype; }

DType ReferenceCall::result_dtype(int result) const {
  DType nominal = nominal_dtype(result);
  return fp64 ? wide_dtype(nominal) : nominal;
}

DType wide_dtype(DType dtype) {
  if (is_float(dtype)) return DType::f64;
  if (is_complex(dtype)) return DType::c128;
  return dtype;
}

Datum constant_datum(const Argument& arg) {
  struct Visit {
    Datum operator()(const Argument::None&) const { return {}; }
    Datum operator()(Value*) const { fail_bug("a constant argument was expected"); }
    Datum operator()(const Argument::List& list) const {
      std::vector<Datum> out;
      for (const Argument& element : list) out.push_back(constant_datum(element));
      return Datum{std::move(out)};
    }
    Datum operator()(const Scalar& scalar) const { return Datum{scalar}; }
    Datum operator()(const std::string& text) const { return Datum{text}; }
    Datum operator()(const Expr& expr) const {
      if (expr.is_constant()) return Datum{Scalar(expr.value())};
      if (expr.op() == ExprOp::float_constant) return Datum{Scalar(expr.float_value())};
      fail_bug(str("a constant argument was expected, not ", expr.text()));
    }
    Datum operator()(DType dtype) const { return Datum{std::string(dtype_name(dtype))}; }
    Datum operator()(const Device& device) const { return Datum{device_text(device)}; }
    Datum operator()(Layout) const { return Datum{std::string("strided")}; }
    Datum operator()(MemoryFormat format) const { return Datum{std::string(memory_format_name(format))}; }
    Datum operator()(const std::shared_ptr<Graph>&) const { fail_bug("a subgraph is not a value"); }
  };
  return std::visit(Visit{}, arg.value);
}

}  // namespace kiln
