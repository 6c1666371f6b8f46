#include "pt2/graph_json.h"

#include <limits>

#include "base/error.h"
#include "pt2/node_metadata.h"
#include "pt2/sympy_text.h"
#include "types/device_names.h"

namespace kiln {
namespace {

// The one member of a union: {"as_tensor": {…}}.
const JsonMember& union_member(const Json& json) {
  const Json::Object& members = json.members();
  if (members.size() != 1)
    fail_user("K0160", str("expected one alternative but found ", members.size(), " at byte ", json.position(),
                           " of the JSON text"));
  return members[0];
}

// Non-finite floats are strings.
double read_float(const Json& json) {
  if (!json.is_string()) return json.as_double();
  const std::string& word = json.as_string();
  if (word == "Infinity") return std::numeric_limits<double>::infinity();
  if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  fail_user("K0160", str("expected a number but found ", quote(word)));
}

DType read_dtype(const Json& json) {
  const int64_t number = json.as_int();
  const auto dtype = number >= 0 && number < 1000 ? dtype_from_schema(static_cast<int>(number)) : std::nullopt;
  if (!dtype) fail_unsupported("K0174", str("element type number ", number, " of torch.export is not supported"));
  return *dtype;
}

Layout read_layout(const Json& json) {
  constexpr int64_t strided = 7;
  if (json.as_int() != strided)
    fail_unsupported("K0174", str("tensors with layout number ", json.as_int(), " (not strided) are not supported"));
  return Layout::strided;
}

MemoryFormat read_memory_format(const Json& json) {
  const int64_t number = json.as_int();
  if (number < 1 || number > 4) fail_unsupported("K0174", str("memory format number ", number, " is not known"));
  return static_cast<MemoryFormat>(number);
}

std::string strip_target(const std::string& target) {
  constexpr std::string_view prefix = "torch.ops.";
  return starts_with(target, prefix) ? target.substr(prefix.size()) : target;
}

}  // namespace

// ---- symbols
// ---------------------------------------------------------------------------------------------------------

void SymbolTable::note(const Expr& expr) {
  std::set<std::string> names;
  collect_symbols(expr, names);
  for (const std::string& name : names) hints_.try_emplace(name);
}

Expr SymbolTable::expression(const Json& json) {
  const std::string& text = json.at("expr_str").as_string();
  auto found = read_.find(text);
  if (found == read_.end()) {
    const Expr expr = parse_sympy(text);
    note(expr);
    found = read_.emplace(text, settle(expr, ranges_)).first;
  }
  const Json* hint = json.find_value("hint");
  if (hint != nullptr && found->second.is_symbol())
    if (const Json* value = hint->find("as_int"); value != nullptr && value->is_int())
      hints_[found->second.name()] = value->as_int();
  return found->second;
}

Expr SymbolTable::sym_int(const Json& json) {
  const JsonMember& member = union_member(json);
  if (member.key == "as_int") return Expr(member.value.as_int());
  if (member.key != "as_expr") fail_user("K0160", str("a symbolic integer cannot be ", quote(member.key)));
  const Expr expr = expression(member.value);
  if (expr.is_float()) fail_user("K0160", str("a symbolic integer that is the fraction ", expr.text()));
  return expr;
}

Expr SymbolTable::sym_float(const Json& json) {
  const JsonMember& member = union_member(json);
  if (member.key == "as_float") return Expr::float_constant(read_float(member.value));
  if (member.key == "as_expr") return expression(member.value);
  fail_user("K0160", str("a symbolic float cannot be ", quote(member.key)));
}

Expr SymbolTable::sym_bool(const Json& json) {
  const JsonMember& member = union_member(json);
  if (member.key == "as_bool") return Expr(member.value.as_bool() ? 1 : 0);
  if (member.key == "as_expr") return expression(member.value);
  fail_user("K0160", str("a symbolic bool cannot be ", quote(member.key)));
}

Device read_device(const Json& json) {
  const std::string& name = json.at("type").as_string();
  const auto type = device_type_from_name(name);
  if (!type) fail_unsupported("K0174", str("the device ", quote(name), " is not supported"));
  Device device{*type, -1};
  if (const Json* index = json.find_value("index")) {
    if (index->as_int() < -1 || index->as_int() > 1000) fail_user("K0160", "a device index is out of range");
    device.index = static_cast<int>(index->as_int());
  }
  return device;
}

TensorType read_tensor_meta(const Json& json, SymbolTable& symbols) {
  TensorType type;
  type.dtype = read_dtype(json.at("dtype"));
  type.device = read_device(json.at("device"));
  read_layout(json.at("layout"));
  for (const Json& size : json.at("sizes").items()) type.sizes.push_back(symbols.sym_int(size));
  for (const Json& stride : json.at("strides").items()) type.strides.push_back(symbols.sym_int(stride));
  type.offset = symbols.sym_int(json.at("storage_offset"));
  if (type.sizes.size() != type.strides.size()) fail_user("K0160", "a tensor whose sizes and strides differ in number");
  for (const Expr& size : type.sizes)
    if (size.is_constant() && size.value() < 0) fail_user("K0160", "a tensor with a negative size");
  return type;
}

// ---- graph
// -----------------------------------------------------------------------------------------------------------

GraphJson::GraphJson(const Json& json, Graph& graph, SymbolTable& symbols)
    : json_(json), graph_(graph), symbols_(symbols) {
  auto index = [&json](const char* key, Index& out) {
    if (const Json* table = json.find_value(key))
      for (const JsonMember& member : table->members()) out.emplace(member.key, &member.value);
  };
  index("tensor_values", tensors_);
  index("sym_int_values", sym_ints_);
  index("sym_bool_values", sym_bools_);
  index("sym_float_values", sym_floats_);
}

void GraphJson::read(const std::map<size_t, std::string>& constant_names) {
  const Json::Array& inputs = json_.at("inputs").items();
  for (size_t i = 0; i < inputs.size(); ++i) read_input(i, inputs[i], constant_names);
  for (const Json& node : json_.at("nodes").items()) read_node(node);
  for (const Json& output : json_.at("outputs").items()) graph_.outputs.push_back(argument(output));
}

Value* GraphJson::define(Node* node, const std::string& name, ValueKind kind) {
  if (name.empty()) fail_user("K0173", "a value without a name");
  if (values_.contains(name)) fail_user("K0173", str("the value ", quote(name), " is defined twice"));
  Value* value = node != nullptr ? graph_.add_result(node, name, kind) : graph_.add_input(name, kind);
  values_.emplace(name, value);
  return value;
}

void GraphJson::describe_tensor(Value* value) {
  const auto found = tensors_.find(value->name);
  if (found == tensors_.end()) fail_user("K0173", str("the tensor ", quote(value->name), " has no type"));
  value->type = read_tensor_meta(*found->second, symbols_);
}

Value* GraphJson::define_tensor(Node* node, const std::string& name) {
  Value* value = define(node, name, ValueKind::tensor);
  describe_tensor(value);
  return value;
}

void GraphJson::describe_symbolic(Value* value) {
  const Index& table = value->kind == ValueKind::sym_int    ? sym_ints_
                       : value->kind == ValueKind::sym_bool ? sym_bools_
                                                            : sym_floats_;
  const auto found = table.find(value->name);
  if (found == table.end()) fail_user("K0173", str("the symbolic value ", quote(value->name), " has no expression"));
  value->expr = value->kind == ValueKind::sym_int    ? symbols_.sym_int(*found->second)
                : value->kind == ValueKind::sym_bool ? symbols_.sym_bool(*found->second)
                                                     : symbols_.sym_float(*found->second);
}

Value* GraphJson::define_symbolic(Node* node, const std::string& name, ValueKind kind) {
  Value* value = define(node, name, kind);
  describe_symbolic(value);
  return value;
}

void GraphJson::read_input(size_t position, const Json& json, const std::map<size_t, std::string>& constant_names) {
  const JsonMember& member = union_member(json);
  const std::string& kind = member.key;
  if (kind == "as_tensor") {
    define_tensor(nullptr, member.value.at("name").as_string());
    return;
  }
  if (kind == "as_custom_obj") {
    define(nullptr, member.value.at("name").as_string(), ValueKind::object);
    return;
  }
  const auto symbolic = kind == "as_sym_int"     ? ValueKind::sym_int
                        : kind == "as_sym_bool"  ? ValueKind::sym_bool
                        : kind == "as_sym_float" ? ValueKind::sym_float
                                                 : ValueKind::object;
  if (symbolic != ValueKind::object) {
    if (const Json* name = member.value.find("as_name")) {
      define_symbolic(nullptr, name->as_string(), symbolic);
      return;
    }
  }
  const auto found = constant_names.find(position);
  std::string name = found != constant_names.end() ? found->second : str("constant_input_", position);
  while (values_.contains(name)) name += "_";
  define(nullptr, name, kind == "as_none" ? ValueKind::none : ValueKind::object);
}

void GraphJson::read_node(const Json& json) {
  const std::string target = strip_target(json.at("target").as_string());
  const Json::Array& outputs = json.at("outputs").items();
  const Json* name = json.find_value("name");
  if (target.empty()) fail_user("K0173", "a node that calls nothing");
  const bool named = name != nullptr && !name->as_string().empty();
  Node* node = graph_.add_node(target, named ? name->as_string() : target);
  Origin origin;
  origin.node = node->name;
  origin.op = target;
  if (const Json* metadata = json.find_value("metadata")) {
    if (const Json* trace = metadata->find_value("stack_trace")) origin.stack = parse_stack_trace(trace->as_string());
    if (const Json* modules = metadata->find_value("nn_module_stack"))
      origin.module_path = parse_module_path(modules->as_string());
  }
  node->origins.push_back(std::move(origin));
  try {
    for (const Json& input : json.at("inputs").items())
      node->args.push_back({input.at("name").as_string(), argument(input.at("arg"))});
    // A single None is how operators without results say so; beside others it holds a place.
    const bool nothing = outputs.size() == 1 && outputs[0].find("as_none") != nullptr;
    if (!nothing)
      for (const Json& output : outputs) add_result(node, output);
  } catch (Error& error) {
    error.locate(node->where());
    throw;
  }
}

void GraphJson::add_result(Node* node, const Json& json) {
  const JsonMember& member = union_member(json);
  const std::string& kind = member.key;
  const Json& value = member.value;
  if (kind == "as_tensor") {
    define_tensor(node, value.at("name").as_string());
  } else if (kind == "as_none") {
    graph_.add_result(node, node->name + "_none", ValueKind::none);
  } else if (kind == "as_optional_tensor") {
    add_result(node, value);
  } else if (kind == "as_tensors" || kind == "as_optional_tensors") {
    // The list itself has no name in the file. Its items do, and later nodes use those; an item's name must not be
    // taken by the list.
    std::string list_name = node->name;
    while (tensors_.contains(list_name) || values_.contains(list_name)) list_name += "_list";
    Value* list_value = define(node, list_name, ValueKind::tensor_list);
    for (const Json& item : value.items()) {
      const Json* tensor = kind == "as_tensors" ? &item : item.find("as_tensor");
      if (tensor == nullptr) {
        list_value->items.push_back(nullptr);
        continue;
      }
      const std::string& name = tensor->at("name").as_string();
      if (values_.contains(name)) fail_user("K0173", str("the value ", quote(name), " is defined twice"));
      Value* element = graph_.new_value(name, ValueKind::tensor);
      values_.emplace(name, element);
      element->producer = node;
      element->result = list_value->result;
      describe_tensor(element);
      list_value->items.push_back(element);
    }
  } else if (kind == "as_sym_int" || kind == "as_sym_bool" || kind == "as_sym_float") {
    const auto value_kind = kind == "as_sym_int"    ? ValueKind::sym_int
                            : kind == "as_sym_bool" ? ValueKind::sym_bool
                                                    : ValueKind::sym_float;
    define_symbolic(node, value.at("as_name").as_string(), value_kind);
  } else if (kind == "as_sym_ints") {
    for (const Json& item : value.items()) define_symbolic(node, item.at("as_name").as_string(), ValueKind::sym_int);
  } else if (kind == "as_custom_obj") {
    define(node, value.at("name").as_string(), ValueKind::object);
  } else {
    fail_unsupported("K0174", str("a result of the kind ", quote(kind), " is not supported"));
  }
}

Argument GraphJson::by_name(const std::string& name) {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  if (const auto found = sym_ints_.find(name); found != sym_ints_.end()) return symbols_.sym_int(*found->second);
  if (const auto found = sym_bools_.find(name); found != sym_bools_.end()) return symbols_.sym_bool(*found->second);
  if (const auto found = sym_floats_.find(name); found != sym_floats_.end()) return symbols_.sym_float(*found->second);
  fail_user("K0173", str("the value ", quote(name), " is used but not defined before"));
}

Argument GraphJson::optional_tensor(const Json& json) {
  const JsonMember& member = union_member(json);
  if (member.key == "as_none") return Argument();
  return by_name(member.value.at("name").as_string());
}

template <class Read>
Argument GraphJson::list(const Json& json, Read read) {
  Argument::List items;
  for (const Json& item : json.items()) items.push_back(read(item));
  return items;
}

Argument GraphJson::argument(const Json& json) {
  const JsonMember& member = union_member(json);
  const std::string& kind = member.key;
  const Json& value = member.value;
  auto named = [this](const Json& item) { return by_name(item.at("name").as_string()); };
  // {"as_name": …} or a number.
  auto symbolic = [this](const Json& item) -> Argument {
    const JsonMember& inner = union_member(item);
    return inner.key == "as_name" ? by_name(inner.value.as_string()) : argument(item);
  };
  if (kind == "as_none") return Argument();
  if (kind == "as_tensor" || kind == "as_custom_obj") return named(value);
  if (kind == "as_tensors") return list(value, named);
  if (kind == "as_sym_int" || kind == "as_sym_bool" || kind == "as_sym_float") return symbolic(value);
  if (kind == "as_sym_ints" || kind == "as_sym_bools" || kind == "as_sym_floats") return list(value, symbolic);
  if (kind == "as_optional_tensor") return optional_tensor(value);
  if (kind == "as_optional_tensors") return list(value, [this](const Json& item) { return optional_tensor(item); });
  if (kind == "as_nested_tensors") return list(value, [this, named](const Json& inner) { return list(inner, named); });
  if (kind == "as_graph") {
    auto graph = std::make_shared<Graph>();
    graph->name = value.at("name").as_string();
    GraphJson(value.at("graph"), *graph, symbols_).read();
    return graph;
  }
  if (kind == "as_string_to_argument") {  // pairs of a key and its value
    Argument::List pairs;
    for (const JsonMember& pair : value.members()) pairs.push_back(Argument::List{pair.key, argument(pair.value)});
    return pairs;
  }
  return constant_or_list(kind, value);
}

Argument GraphJson::constant_or_list(const std::string& kind, const Json& json) {
  auto integer = [](const Json& v) -> Argument { return Scalar(v.as_int()); };
  auto real = [](const Json& v) -> Argument { return Scalar(read_float(v)); };
  auto boolean = [](const Json& v) -> Argument { return Scalar(v.as_bool()); };
  auto text = [](const Json& v) -> Argument { return v.as_string(); };
  if (kind == "as_int") return integer(json);
  if (kind == "as_float") return real(json);
  if (kind == "as_bool") return boolean(json);
  if (kind == "as_string" || kind == "as_operator") return text(json);
  if (kind == "as_complex")
    return Scalar(std::complex<double>(read_float(json.at("real")), read_float(json.at("imag"))));
  if (kind == "as_ints") return list(json, integer);
  if (kind == "as_floats") return list(json, real);
  if (kind == "as_bools") return list(json, boolean);
  if (kind == "as_strings") return list(json, text);
  if (kind == "as_int_lists") return list(json, [&](const Json& inner) { return list(inner, integer); });
  if (kind == "as_float_lists") return list(json, [&](const Json& inner) { return list(inner, real); });
  if (kind == "as_scalar_type") return read_dtype(json);
  if (kind == "as_layout") return read_layout(json);
  if (kind == "as_memory_format") return read_memory_format(json);
  if (kind == "as_device") return read_device(json);
  fail_unsupported("K0174", str("an argument of the kind ", quote(kind), " is not supported"));
}

}  // namespace kiln
