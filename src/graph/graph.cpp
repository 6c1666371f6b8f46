#include "graph/graph.h"

#include <algorithm>

#include "graph/graph_text.h"

namespace kiln {

const SourceLine* Origin::line() const {
  auto inside_torch = [](const std::string& file) { return file.find("site-packages/torch/") != std::string::npos; };
  for (size_t i = stack.size(); i-- > 0;)
    if (!inside_torch(stack[i].file)) return &stack[i];
  return stack.empty() ? nullptr : &stack.back();
}

TensorType contiguous_type(DType dtype, std::vector<Expr> sizes, Device device) {
  TensorType type;
  type.dtype = dtype;
  type.device = device;
  type.strides = contiguous_strides(sizes);
  type.sizes = std::move(sizes);
  return type;
}

namespace {
struct FormatName {
  MemoryFormat format;
  const char* name;
};
constexpr FormatName format_names[] = {{MemoryFormat::contiguous, "contiguous_format"},
                                       {MemoryFormat::channels_last, "channels_last"},
                                       {MemoryFormat::channels_last_3d, "channels_last_3d"},
                                       {MemoryFormat::preserve, "preserve_format"}};
}  // namespace

const char* memory_format_name(MemoryFormat format) {
  for (const FormatName& row : format_names)
    if (row.format == format) return row.name;
  fail_bug("unknown memory format");
}

std::optional<MemoryFormat> memory_format_from_name(std::string_view name) {
  for (const FormatName& row : format_names)
    if (row.name == name) return row.format;
  return std::nullopt;
}

const Argument* Node::find(std::string_view arg_name) const {
  for (const NamedArgument& named : args)
    if (named.name == arg_name) return &named.arg;
  return nullptr;
}

Where Node::where() const {
  Where where;
  where.node = name;
  where.op = target;
  if (!origins.empty()) {
    const Origin& origin = origins.front();
    if (const SourceLine* line = origin.line()) where.source = *line;
    where.module_path = origin.module_path;
  }
  return where;
}

Value* Graph::new_value(std::string wish, ValueKind kind) {
  auto value = std::make_unique<Value>();
  value->name = unique_name(wish);
  value->kind = kind;
  Value* raw = value.get();
  values_.emplace(raw->name, std::move(value));
  return raw;
}

Value* Graph::add_input(std::string wish, ValueKind kind) {
  Value* value = new_value(std::move(wish), kind);
  inputs.push_back(value);
  return value;
}

std::list<std::unique_ptr<Node>>::iterator Graph::position(const Node* node) {
  auto found = positions_.find(node);
  if (found != positions_.end()) return found->second;
  auto it = std::find_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.get() == node; });
  KILN_CHECK(it != nodes.end(), "node is not in this graph");
  return it;
}

Node* Graph::add_node(std::string target, std::string node_name, Node* before) {
  auto node = std::make_unique<Node>();
  node->target = std::move(target);
  node->name = std::move(node_name);
  Node* raw = node.get();
  auto where = before ? position(before) : nodes.end();
  positions_[raw] = nodes.insert(where, std::move(node));
  return raw;
}

Value* Graph::add_result(Node* node, std::string wish, ValueKind kind) {
  Value* value = new_value(std::move(wish), kind);
  value->producer = node;
  value->result = static_cast<int>(node->results.size());
  node->results.push_back(value);
  return value;
}

Value* Graph::add_item(Value* list, std::string wish) {
  KILN_CHECK(list->kind == ValueKind::tensor_list, "only a list has items");
  Value* value = new_value(std::move(wish), ValueKind::tensor);
  value->producer = list->producer;
  value->result = list->result;
  list->items.push_back(value);
  return value;
}

void Graph::erase(Node* node) {
  auto where = position(node);
  for (Value* result : node->results) {
    for (Value* item : result->items)
      if (item && item->producer == node) values_.erase(item->name);
    values_.erase(result->name);
  }
  positions_.erase(node);
  nodes.erase(where);
}

void Graph::replace_uses(Value* from, Value* to) {
  auto swap = [&](Value*& value) {
    if (value == from) value = to;
  };
  for (auto& node : nodes)
    for (auto& named : node->args) for_each_value(named.arg, swap);
  for (Argument& output : outputs) for_each_value(output, swap);
}

Value* Graph::find_value(std::string_view value_name) const {
  auto found = values_.find(value_name);
  return found == values_.end() ? nullptr : found->second.get();
}

std::string Graph::unique_name(std::string_view wish) const {
  std::string candidate(wish.empty() ? "value" : wish);
  if (!values_.contains(candidate)) return candidate;
  // The number is remembered only as a place to start: until the name is taken, asking again gives it again.
  int& taken = next_suffix_[candidate];
  std::string numbered = str(candidate, "_", taken + 1);
  while (values_.contains(numbered)) numbered = str(candidate, "_", ++taken + 1);
  return numbered;
}

namespace {

using ValueMap = std::unordered_map<const Value*, Value*>;

Argument clone_argument(const Argument& arg, const ValueMap& map) {
  if (arg.is_value()) {
    auto found = map.find(arg.as_value());
    KILN_CHECK(found != map.end(), "argument refers to a value outside the graph");
    return Argument(found->second);
  }
  if (arg.is_list()) {
    Argument::List list;
    list.reserve(arg.as_list().size());
    for (const Argument& element : arg.as_list()) list.push_back(clone_argument(element, map));
    return Argument(std::move(list));
  }
  if (arg.is_graph()) {
    if (!arg.as_graph()) return arg;
    return Argument(std::shared_ptr<Graph>(arg.as_graph()->clone()));
  }
  return arg;
}

}  // namespace

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>();
  copy->name = name;
  ValueMap map;
  for (const auto& [value_name, value] : values_) {
    auto twin = std::make_unique<Value>(*value);
    map[value.get()] = twin.get();
    copy->values_.emplace(value_name, std::move(twin));
  }
  auto twin_of = [&](const Value* value) -> Value* { return value ? map.at(value) : nullptr; };
  for (const Value* input : inputs) copy->inputs.push_back(twin_of(input));
  for (const auto& node : nodes) {
    Node* twin = copy->add_node(node->target, node->name);
    twin->op = node->op;
    twin->origins = node->origins;
    twin->args.reserve(node->args.size());
    for (const auto& named : node->args) twin->args.push_back({named.name, clone_argument(named.arg, map)});
    for (const Value* result : node->results) {
      Value* twin_result = twin_of(result);
      twin_result->producer = twin;
      twin->results.push_back(twin_result);
      for (const Value* item : result->items)
        if (item && item->producer == node.get()) twin_of(item)->producer = twin;
    }
  }
  for (auto& [value_name, value] : copy->values_)
    for (Value*& item : value->items) item = twin_of(item);
  for (const Argument& output : outputs) copy->outputs.push_back(clone_argument(output, map));
  return copy;
}

void for_each_value(Argument& arg, const std::function<void(Value*&)>& f) {
  if (auto* value = std::get_if<Value*>(&arg.value)) {
    f(*value);
  } else if (auto* list = std::get_if<Argument::List>(&arg.value)) {
    for (Argument& element : *list) for_each_value(element, f);
  }
}

void for_each_value(const Argument& arg, const std::function<void(Value*)>& f) {
  if (arg.is_value()) {
    f(arg.as_value());
  } else if (arg.is_list()) {
    for (const Argument& element : arg.as_list()) for_each_value(element, f);
  }
}

std::map<const Value*, std::vector<Node*>> uses_of(const Graph& graph) {
  std::map<const Value*, std::vector<Node*>> uses;
  for (const auto& node : graph.nodes)
    for (const auto& named : node->args)
      for_each_value(named.arg, std::function<void(Value*)>([&](Value* value) { uses[value].push_back(node.get()); }));
  return uses;
}

RangeEnv Program::ranges() const {
  RangeEnv env;
  for (const auto& [symbol, info] : symbols) env.ranges[symbol] = info.range;
  return env;
}

bool is_all_zero(const Program& program, const std::string& constant) {
  const auto found = program.constants.find(constant);
  if (found == program.constants.end()) return false;
  const Tensor& tensor = found->second;
  if (tensor.numel() == 0) return true;
  if (tensor.defined()) {
    const auto bytes = static_cast<size_t>(storage_bytes_needed(tensor.dtype, tensor.sizes, tensor.strides, 0));
    return std::all_of(tensor.data(), tensor.data() + bytes, [](std::byte b) { return b == std::byte{0}; });
  }
  const auto hash = program.constant_hashes.find(constant);
  return hash != program.constant_hashes.end() &&
         hash->second == graph_text::constant_hash(Tensor::empty_strided(tensor.dtype, tensor.sizes, tensor.strides));
}

Program Program::clone() const {
  Program copy;
  copy.name = name;
  copy.graph = std::move(*graph.clone());
  copy.input_specs = input_specs;
  copy.output_specs = output_specs;
  copy.symbols = symbols;
  copy.guards = guards;
  copy.constants = constants;
  copy.constant_hashes = constant_hashes;
  copy.sample_inputs = sample_inputs;
  copy.in_spec = in_spec;
  copy.out_spec = out_spec;
  copy.forward_arg_names = forward_arg_names;
  copy.torch_version = torch_version;
  copy.schema_major = schema_major;
  copy.schema_minor = schema_minor;
  copy.opset_version = opset_version;
  copy.keep_alive = keep_alive;
  return copy;
}

}  // namespace kiln
