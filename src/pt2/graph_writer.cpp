#include "pt2/graph_writer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "pt2/node_metadata.h"

namespace kiln {
namespace {

constexpr std::array<std::string_view, 35> python_words = {
    "False",  "None",     "True", "and",    "as",   "assert", "async",  "await",   "break", "class",  "continue", "def",
    "del",    "elif",     "else", "except", "for",  "from",   "global", "finally", "if",    "import", "in",       "is",
    "lambda", "nonlocal", "not",  "or",     "pass", "raise",  "return", "try",     "while", "with",   "yield"};

bool is_python_word(std::string_view name) {
  return std::find(python_words.begin(), python_words.end(), name) != python_words.end();
}

std::string identifier(const std::string& wish) {
  std::string out;
  for (const char c : wish) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0) out = "v_" + out;
  return is_python_word(out) ? out + "_1" : out;
}

Json one(const char* key, Json value) { return Json(Json::Object{JsonMember{key, std::move(value)}}); }
Json none() { return one("as_none", true); }

Json device_json(const Device& device) {
  Json out = Json::object();
  out.set("type", device_type_name(device.type));
  out.set("index", device.index < 0 ? Json() : Json(device.index));
  return out;
}

// "aten.add.Tensor" -> "torch.ops.aten.add.Tensor". Python's functions on symbols have their own modules.
std::string target_text(const std::string& target) {
  for (const std::string_view module : {"_operator.", "torch.", "math.", "#"})
    if (starts_with(target, module)) return target;
  return "torch.ops." + target;
}

Json scalar_json(const Scalar& scalar) {
  if (scalar.is_bool()) return one("as_bool", scalar.as_int() != 0);
  if (scalar.is_int()) return one("as_int", scalar.as_int());
  if (scalar.is_float()) return one("as_float", scalar.as_double());
  Json parts = Json::object();
  parts.set("real", scalar.as_complex().real());
  parts.set("imag", scalar.as_complex().imag());
  return one("as_complex", std::move(parts));
}

bool is_value_of(const Argument& arg, ValueKind kind) { return arg.is_value() && arg.as_value()->kind == kind; }
template <class Test>
bool all(const Argument::List& items, Test test) {
  return std::all_of(items.begin(), items.end(), test);
}
bool is_text(const Argument& arg) { return std::holds_alternative<std::string>(arg.value); }
bool is_list(const Argument& arg) { return arg.is_list(); }
bool is_int(const Argument& arg) { return arg.is_scalar() && arg.as_scalar().is_int(); }
bool is_bool(const Argument& arg) { return arg.is_scalar() && arg.as_scalar().is_bool(); }
// Among floats an integer is one of them.
bool is_real(const Argument& arg) {
  return arg.is_scalar() && (arg.as_scalar().is_float() || arg.as_scalar().is_int());
}
bool is_pair(const Argument& arg) {
  return arg.is_list() && arg.as_list().size() == 2 && is_text(arg.as_list()[0]) && !is_text(arg.as_list()[1]);
}

template <class Make>
Json array_of(const Argument::List& items, Make make) {
  Json::Array out;
  out.reserve(items.size());
  for (const Argument& item : items) out.push_back(make(item));
  return out;
}
Json int_of(const Argument& arg) { return arg.as_scalar().as_int(); }
Json real_of(const Argument& arg) { return arg.as_scalar().as_double(); }
Json bool_of(const Argument& arg) { return arg.as_scalar().as_int() != 0; }
Json text_of(const Argument& arg) { return std::get<std::string>(arg.value); }

// Functions that PyTorch calls for a tensor, not for a tuple of one: the condition of while_loop, and the small
// functions of flex_attention.
bool gives_bare_value(const std::string& target, int which_graph) {
  if (starts_with(target, "higher_order.while_loop")) return which_graph == 0;
  return starts_with(target, "higher_order.flex_attention");
}

bool is_higher_order(const Node& node) { return starts_with(node.target, "higher_order."); }

}  // namespace

Json tensor_meta_json(const TensorType& type, const SympyWriter& sympy) {
  auto sizes = [&sympy](const std::vector<Expr>& exprs) {
    Json::Array out;
    for (const Expr& expr : exprs) out.push_back(sympy.sym_int(expr));
    return Json(std::move(out));
  };
  constexpr int strided = 7;
  Json out = Json::object();
  out.set("dtype", dtype_schema_number(type.dtype));
  out.set("sizes", sizes(type.sizes));
  out.set("requires_grad", false);
  out.set("device", device_json(type.device));
  out.set("strides", sizes(type.strides));
  out.set("storage_offset", sympy.sym_int(type.offset));
  out.set("layout", strided);
  return out;
}

GraphWriter::GraphWriter(const Graph& graph, const SympyWriter& sympy, std::map<size_t, Argument> constants)
    : graph_(graph), sympy_(sympy), constants_(std::move(constants)) {
  name_values();
}

std::string GraphWriter::free_name(const std::string& wish) {
  const std::string base = identifier(wish);
  std::string name = base;
  for (int i = 1; !taken_.insert(name).second; ++i) name = str(base, "_", i);
  return name;
}

void GraphWriter::name_values() {
  auto add = [this](const Value* value) {
    names_.emplace(value, free_name(value->name));
    order_.push_back(value);
  };
  for (const Value* input : graph_.inputs) add(input);
  for (const auto& node : graph_.nodes) {
    for (const Value* result : node->results) {
      // A list has no name in the file, its items do.
      if (result->kind != ValueKind::tensor_list) add(result);
      for (const Value* item : result->items)
        if (item != nullptr) add(item);
    }
  }
}

Json GraphWriter::value_argument(const Value* value) const {
  auto tensor = [this](const Value* item) { return one("name", names_.at(item)); };
  auto symbol = [this, value] { return one("as_name", names_.at(value)); };
  switch (value->kind) {
    case ValueKind::tensor:
      return one("as_tensor", tensor(value));
    case ValueKind::sym_int:
      return one("as_sym_int", symbol());
    case ValueKind::sym_float:
      return one("as_sym_float", symbol());
    case ValueKind::sym_bool:
      return one("as_sym_bool", symbol());
    case ValueKind::none:
      return none();
    case ValueKind::tensor_list: {
      Json::Array items;
      const bool optional = std::find(value->items.begin(), value->items.end(), nullptr) != value->items.end();
      for (const Value* item : value->items) {
        if (!optional)
          items.push_back(tensor(item));
        else
          items.push_back(item == nullptr ? none() : one("as_tensor", tensor(item)));
      }
      return one(optional ? "as_optional_tensors" : "as_tensors", std::move(items));
    }
    case ValueKind::object:
      break;
  }
  fail_unsupported("K0168",
                   str("the value ", quote(value->name), " is a custom object, which a .pt2 of Kiln cannot hold"));
}

Json GraphWriter::symbolic_list(const Argument::List& items, ValueKind kind) {
  const char* constant = kind == ValueKind::sym_int ? "as_int" : kind == ValueKind::sym_float ? "as_float" : "as_bool";
  return array_of(items, [this, kind, constant](const Argument& item) {
    if (item.is_value()) return one("as_name", names_.at(item.as_value()));
    return one(constant, kind == ValueKind::sym_int     ? int_of(item)
                         : kind == ValueKind::sym_float ? real_of(item)
                                                        : bool_of(item));
  });
}

Json GraphWriter::list_of_lists(const Argument::List& items) {
  auto inner_all = [&items](bool (*test)(const Argument&)) {
    return all(items, [test](const Argument& inner) { return all(inner.as_list(), test); });
  };
  auto nested = [&items](const char* kind, auto make) {
    return one(kind, array_of(items, [make](const Argument& inner) { return array_of(inner.as_list(), make); }));
  };
  if (all(items, is_pair)) {
    Json::Object members;
    for (const Argument& pair : items)
      members.push_back({std::get<std::string>(pair.as_list()[0].value), argument(pair.as_list()[1])});
    return one("as_string_to_argument", std::move(members));
  }
  if (inner_all(is_int)) return nested("as_int_lists", int_of);
  if (inner_all(is_real)) return nested("as_float_lists", real_of);
  if (inner_all([](const Argument& a) { return is_value_of(a, ValueKind::tensor); }))
    return nested("as_nested_tensors", [this](const Argument& a) { return one("name", names_.at(a.as_value())); });
  fail_unsupported("K0168", "a nested list that a .pt2 cannot hold");
}

Json GraphWriter::list(const Argument::List& items) {
  auto kind_or = [](ValueKind kind, bool (*constant)(const Argument&)) {
    return [kind, constant](const Argument& a) { return is_value_of(a, kind) || constant(a); };
  };
  if (items.empty()) return one("as_tensors", Json::array());
  if (all(items, is_bool)) return one("as_bools", array_of(items, bool_of));
  if (all(items, is_int)) return one("as_ints", array_of(items, int_of));
  if (all(items, is_real)) return one("as_floats", array_of(items, real_of));
  if (all(items, is_text)) return one("as_strings", array_of(items, text_of));
  if (all(items, is_list)) return list_of_lists(items);
  if (all(items, kind_or(ValueKind::sym_int, is_int)))
    return one("as_sym_ints", symbolic_list(items, ValueKind::sym_int));
  if (all(items, kind_or(ValueKind::sym_float, is_real)))
    return one("as_sym_floats", symbolic_list(items, ValueKind::sym_float));
  if (all(items, kind_or(ValueKind::sym_bool, is_bool)))
    return one("as_sym_bools", symbolic_list(items, ValueKind::sym_bool));
  // Operands of cond mix tensors and symbolic numbers, all by name.
  if (all(items, [](const Argument& a) { return a.is_value() && a.as_value()->kind != ValueKind::none; }))
    return one("as_tensors",
               array_of(items, [this](const Argument& a) { return one("name", names_.at(a.as_value())); }));
  if (all(items, [](const Argument& a) { return a.is_none() || a.is_value(); }))
    return one("as_optional_tensors", array_of(items, [this](const Argument& a) {
                 const bool nothing = a.is_none() || a.as_value()->kind == ValueKind::none;
                 return nothing ? none() : one("as_tensor", one("name", names_.at(a.as_value())));
               }));
  fail_unsupported("K0168", "a list of mixed kinds that a .pt2 cannot hold");
}

Json GraphWriter::subgraph(const Graph& graph) {
  std::string name = identifier(graph.name);
  for (int i = 0; taken_.contains(name) || taken_subgraphs_.contains(name); ++i)
    name = str(identifier(graph.name), "_", i);
  taken_subgraphs_.insert(name);
  Json out = Json::object();
  out.set("name", name);
  GraphWriter inner(graph, sympy_);
  out.set("graph", inner.write(graph.outputs, gives_bare_value(current_->target, graph_arguments_++)));
  return one("as_graph", std::move(out));
}

Json GraphWriter::argument(const Argument& arg) {
  return std::visit(
      [this](const auto& v) -> Json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, Argument::None>) return none();
        if constexpr (std::is_same_v<T, Value*>) return value_argument(v);
        if constexpr (std::is_same_v<T, Argument::List>) return list(v);
        if constexpr (std::is_same_v<T, Scalar>) return scalar_json(v);
        // Higher-order operators take operators as arguments, which Kiln keeps by name.
        if constexpr (std::is_same_v<T, std::string>)
          return one(current_ != nullptr && is_higher_order(*current_) && starts_with(v, "torch.ops.") ? "as_operator"
                                                                                                       : "as_string",
                     v);
        if constexpr (std::is_same_v<T, DType>) return one("as_scalar_type", dtype_schema_number(v));
        if constexpr (std::is_same_v<T, Device>) return one("as_device", device_json(v));
        if constexpr (std::is_same_v<T, Layout>) return one("as_layout", 7);
        if constexpr (std::is_same_v<T, MemoryFormat>) return one("as_memory_format", static_cast<int>(v));
        if constexpr (std::is_same_v<T, std::shared_ptr<Graph>>) return subgraph(*v);
        fail_bug("an argument is still an expression");
      },
      arg.value);
}

Json GraphWriter::node_outputs(const Node& node) {
  Json::Array out;
  for (const Value* result : node.results) out.push_back(value_argument(result));
  // A Python function that gives nothing gives None; only operators have schemas that say "nothing".
  const bool has_schema = starts_with(target_text(node.target), "torch.ops.") && !is_higher_order(node);
  if (out.empty() && !has_schema) out.push_back(none());
  return out;
}

Json GraphWriter::node(const Node& node) {
  current_ = &node;
  graph_arguments_ = 0;
  // PyTorch passes by keyword what is not marked and has a default; a name that is a Python keyword cannot go so.
  size_t positional = 0;
  for (size_t i = 0; i < node.args.size(); ++i)
    if (is_python_word(node.args[i].name)) positional = i + 1;
  constexpr int by_position = 1;
  Json::Array inputs;
  for (size_t i = 0; i < node.args.size(); ++i) {
    Json input = Json::object();
    input.set("name", node.args[i].name);
    input.set("arg", argument(node.args[i].arg));
    input.set("kind", i < positional || node.args[i].name.empty() ? Json(by_position) : Json());
    inputs.push_back(std::move(input));
  }
  Json out = Json::object();
  out.set("target", target_text(node.target));
  out.set("inputs", std::move(inputs));
  out.set("outputs", node_outputs(node));
  out.set("metadata", node_metadata_json(node));
  // A higher-order operator gives a tuple, whose elements have names of their own, but for the few that give a tensor.
  const bool bare = node.results.size() == 1 && node.results[0]->name == node.name;
  out.set("is_hop_single_tensor_return", is_higher_order(node) ? Json(bare) : Json());
  const bool single = (bare || !is_higher_order(node)) && node.results.size() == 1 && names_.contains(node.results[0]);
  out.set("name", single ? names_.at(node.results[0]) : free_name(node.name));
  current_ = nullptr;
  return out;
}

Json GraphWriter::value_table(ValueKind kind) const {
  Json::Object members;
  for (const Value* value : order_) {
    if (value->kind != kind) continue;
    members.push_back({names_.at(value), kind == ValueKind::tensor      ? tensor_meta_json(value->type, sympy_)
                                         : kind == ValueKind::sym_int   ? sympy_.sym_int(value->expr)
                                         : kind == ValueKind::sym_float ? sympy_.sym_float(value->expr)
                                                                        : sympy_.sym_bool(value->expr)});
  }
  return members;
}

Json GraphWriter::input(size_t position) {
  const auto constant = constants_.find(position);
  return constant != constants_.end() ? argument(constant->second) : value_argument(graph_.inputs[position]);
}

Json GraphWriter::write(const std::vector<Argument>& outputs, bool bare) {
  Json::Array inputs, results, nodes;
  for (size_t i = 0; i < graph_.inputs.size(); ++i) inputs.push_back(input(i));
  for (const auto& item : graph_.nodes) {
    try {
      nodes.push_back(node(*item));
    } catch (Error& error) {
      error.locate(item->where());
      throw;
    }
  }
  for (const Argument& output : outputs) results.push_back(argument(output));
  Json out = Json::object();
  out.set("inputs", std::move(inputs));
  out.set("outputs", std::move(results));
  out.set("nodes", std::move(nodes));
  out.set("tensor_values", value_table(ValueKind::tensor));
  out.set("sym_int_values", value_table(ValueKind::sym_int));
  out.set("sym_bool_values", value_table(ValueKind::sym_bool));
  out.set("is_single_tensor_return", bare && outputs.size() == 1);
  out.set("custom_obj_values", Json::object());
  out.set("sym_float_values", value_table(ValueKind::sym_float));
  return out;
}

}  // namespace kiln
