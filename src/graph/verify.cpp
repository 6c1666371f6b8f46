#include <set>
#include <unordered_set>

#include "graph/graph.h"

namespace kiln {

namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void run() {
    for (const Value* input : graph_.inputs) {
      check(input != nullptr, "an input is null");
      check(!input->producer, str("input ", input->name, " has a producer"));
      define(*input);
    }
    for (const auto& node : graph_.nodes) {
      node_ = node.get();
      verify_node(*node);
    }
    node_ = nullptr;
    for (const Argument& output : graph_.outputs) verify_argument(output, 0);
  }

 private:
  void check(bool holds, const std::string& message) const {
    if (holds) return;
    fail_bug(str("graph ", graph_.name, ": ", message), node_ ? node_->where() : Where{});
  }

  void define(const Value& value) {
    check(defined_.insert(&value).second, str("%", value.name, " is defined twice"));
    check(graph_.find_value(value.name) == &value, str("%", value.name, " is not the graph's value of that name"));
    if (value.kind == ValueKind::tensor)
      check(
          value.type.sizes.size() == value.type.strides.size(),
          str("%", value.name, " has ", value.type.sizes.size(), " sizes and ", value.type.strides.size(), " strides"));
    check(value.kind == ValueKind::tensor_list || value.items.empty(),
          str("%", value.name, " is no list but has items"));
    for (const Value* item : value.items) {
      if (!item || defined_.contains(item)) continue;
      check(item->kind == ValueKind::tensor, str("%", value.name, " is a list of something else than tensors"));
      check(item->producer == value.producer, str("%", item->name, " has another producer than its list"));
      define(*item);
    }
  }

  void verify_node(const Node& node) {
    check(!node.target.empty(), str("node ", node.name, " calls nothing"));
    check(!node.name.empty(), str("a call of ", node.target, " has no name"));
    std::set<std::string_view> names;
    for (const auto& named : node.args) {
      check(named.name.empty() || names.insert(named.name).second, str("argument ", named.name, " is given twice"));
      verify_argument(named.arg, 0);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Value* result = node.results[i];
      check(result != nullptr, str("result ", i, " is null"));
      check(result->producer == &node, str("%", result->name, " does not know its producer"));
      check(result->result == static_cast<int>(i), str("%", result->name, " has the wrong number"));
      define(*result);
    }
  }

  void verify_argument(const Argument& arg, int depth) {
    check(depth < 64, "lists are nested too deeply");
    if (arg.is_value()) {
      const Value* value = arg.as_value();
      check(value != nullptr, "an argument is a null value");
      if (defined_.contains(value)) return;
      // A symbolic number that no node defines stands for its expression.
      bool number = value->kind == ValueKind::sym_int || value->kind == ValueKind::sym_float ||
                    value->kind == ValueKind::sym_bool;
      check(graph_.find_value(value->name) == value, str("%", value->name, " belongs to another graph"));
      check(number && !value->producer, str("%", value->name, " is used before it is defined"));
    } else if (arg.is_list()) {
      for (const Argument& element : arg.as_list()) verify_argument(element, depth + 1);
    } else if (arg.is_graph()) {
      check(arg.as_graph() != nullptr, "a subgraph is null");
      Verifier(*arg.as_graph()).run();
    }
  }

  const Graph& graph_;
  const Node* node_ = nullptr;
  std::unordered_set<const Value*> defined_;
};

bool is_constant(InputKind kind) {
  return kind == InputKind::parameter || kind == InputKind::buffer || kind == InputKind::constant_tensor;
}

}  // namespace

void verify(const Program& program) {
  Verifier(program.graph).run();
  const Graph& graph = program.graph;
  if (program.input_specs.size() != graph.inputs.size())
    fail_bug(str("the signature has ", program.input_specs.size(), " inputs, the graph ", graph.inputs.size()));
  if (program.output_specs.size() != graph.outputs.size())
    fail_bug(str("the signature has ", program.output_specs.size(), " outputs, the graph ", graph.outputs.size()));
  std::set<std::string> constant_names, input_names;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const InputSpec& spec = program.input_specs[i];
    input_names.insert(graph.inputs[i]->name);
    if (!is_constant(spec.kind)) continue;
    constant_names.insert(spec.target);
    if (!program.constants.contains(spec.target)) fail_bug(str("constant '", spec.target, "' is not in the program"));
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const OutputSpec& spec = program.output_specs[i];
    bool buffer = spec.kind == OutputKind::buffer_mutation, user = spec.kind == OutputKind::user_input_mutation;
    if ((buffer && !constant_names.contains(spec.target)) || (user && !input_names.contains(spec.target)))
      fail_bug(str("mutated '", spec.target, "' is not an input"));
    if ((buffer || user) && !(graph.outputs[i].is_value() && graph.outputs[i].as_value()->kind == ValueKind::tensor))
      fail_bug(str("what '", spec.target, "' becomes is not a tensor"));
  }
}

}  // namespace kiln
