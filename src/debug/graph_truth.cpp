#include "debug/graph_truth.h"

#include <algorithm>
#include <set>

#include "interp/graph_run.h"
#include "interp/tensor_sharing.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

// Argument with every value replaced by its counterpart.
Argument mapped(const Argument& arg, const std::map<const Value*, Value*>& to) {
  if (arg.is_value()) return Argument(to.at(arg.as_value()));
  if (!arg.is_list()) return arg;
  Argument::List list;
  for (const Argument& item : arg.as_list()) list.push_back(mapped(item, to));
  return Argument(std::move(list));
}

bool is_number(const Value& value) {
  return value.kind == ValueKind::sym_int || value.kind == ValueKind::sym_float || value.kind == ValueKind::sym_bool;
}

// The part of a graph between known values and a wanted one, as a graph of its own.
class Part {
 public:
  Part(const Graph& whole, std::function<std::optional<Tensor>(const Value&)> known)
      : whole_(whole), known_(std::move(known)) {}

  // False: some value is neither known nor can be computed.
  bool add(const Value* wanted) {
    if (!collect(wanted)) return false;
    for (const Value* value : leaves_) {
      Value* input = graph.add_input(value->name, value->kind);
      input->type = value->type, input->expr = value->expr;
      to_[value] = input;
    }
    for (const auto& node : whole_.nodes)
      if (needed_.count(node.get())) copy(*node);
    graph.outputs = {Argument(to_.at(wanted))};
    return true;
  }

  Graph graph;
  std::vector<Tensor> inputs;
  std::map<const Node*, const Node*> original;

 private:
  bool collect(const Value* value) {
    if (seen_.count(value)) return true;
    seen_.insert(value);
    if (is_number(*value)) {
      Value* made = graph.new_value(value->name, value->kind);
      made->expr = value->expr;
      to_[value] = made;
      return true;
    }
    if (value->kind == ValueKind::tensor) {
      if (auto tensor = known_(*value)) {
        leaves_.push_back(value);
        inputs.push_back(*tensor);
        return true;
      }
    }
    const Node* node = value->producer;
    if (!node || !node->op || node->op->kind == OpKind::control_flow || !node->op->reference) return false;
    if (needed_.insert(node).second) {
      bool fine = true;
      for (const auto& named : node->args) {
        if (named.arg.is_graph()) return false;
        for_each_value(named.arg, [&](Value* v) { fine = fine && (!v || collect(v)); });
      }
      return fine;
    }
    return true;
  }

  void copy(const Node& node) {
    Node* made = graph.add_node(node.target, node.name);
    for (const auto& named : node.args) made->args.push_back({named.name, mapped(named.arg, to_)});
    made->op = node.op;
    made->origins = node.origins;
    for (const Value* result : node.results) {
      Value* value = graph.add_result(made, result->name + "_", result->kind);
      value->type = result->type, value->expr = result->expr;
      to_[result] = value;
      for (const Value* item : result->items) {
        if (!item) continue;
        Value* part = graph.add_item(value, item->name + "_");
        part->type = item->type, part->kind = item->kind;
        to_[item] = part;
      }
    }
    original[made] = &node;
  }

  const Graph& whole_;
  std::function<std::optional<Tensor>(const Value&)> known_;
  std::set<const Value*> seen_;
  std::set<const Node*> needed_;
  std::vector<const Value*> leaves_;
  std::map<const Value*, Value*> to_;
};

}  // namespace

GraphTruth::GraphTruth(const Program& program, const std::map<std::string, Tensor>& constants)
    : program_(program), constants_(constants) {
  index(program.graph, 0);
}

void GraphTruth::index(const Graph& graph, int order) {
  const auto add = [&](const Value* value, int at) {
    if (value) values_.emplace(value->name, Place{&graph, value, at});
  };
  for (const Value* input : graph.inputs) add(input, order);
  for (const auto& node : graph.nodes) {
    ++order;
    for (const Value* result : node->results) {
      add(result, order);
      for (const Value* item : result->items) add(item, order);
    }
    for (const auto& named : node->args)
      if (named.arg.is_graph()) index(*named.arg.as_graph(), order);
  }
}

int GraphTruth::order(const std::string& value) const {
  const auto found = values_.find(value);
  return found == values_.end() ? -1 : found->second.order;
}

// Constants are known to everybody, unless runs change them.
std::optional<Tensor> GraphTruth::leaf(const Graph& graph, const Value& value) const {
  if (&graph != &program_.graph) return std::nullopt;
  for (size_t i = 0; i < graph.inputs.size() && i < program_.input_specs.size(); ++i) {
    if (graph.inputs[i] != &value) continue;
    const InputSpec& spec = program_.input_specs[i];
    for (const OutputSpec& out : program_.output_specs)
      if (out.kind == OutputKind::buffer_mutation && out.target == spec.target) return std::nullopt;
    const auto found = constants_.find(spec.target);
    if (!spec.target.empty() && found != constants_.end()) return found->second;
  }
  return std::nullopt;
}

std::optional<Truth> GraphTruth::compute(const TruthRequest& request) const {
  const auto place = values_.find(request.wanted);
  if (place == values_.end()) return std::nullopt;
  const Graph& whole = *place->second.graph;
  const auto known = [&](const Value& value) -> std::optional<Tensor> {
    if (value.name == request.wanted) return std::nullopt;
    const auto found = request.known.find(value.name);
    return found != request.known.end() ? std::optional(found->second) : leaf(whole, value);
  };
  Part part(whole, known);
  if (!part.add(place->second.value)) return std::nullopt;
  Truth truth;
  for (const bool fp64 : {true, false}) {
    InterpretOptions options;
    options.fp64 = fp64;
    if (fp64)
      options.after_node = [&](const Node& node, const std::vector<Datum>& results) {
        const Node* original = part.original.at(&node);
        if (!results.empty() && results[0].is_tensor())
          truth.nodes.push_back({original, original->results[0], results[0].tensor()});
      };
    SharingCopier copier(fp64);
    std::vector<Datum> inputs;
    for (const Tensor& tensor : part.inputs) inputs.push_back(Datum{copier.widen(tensor)});
    GraphRun run(program_, options, request.seed, request.symbols);
    std::vector<Datum> outputs = run.run(part.graph, inputs);
    if (!outputs[0].is_tensor()) return std::nullopt;
    (fp64 ? truth.fp64 : truth.nominal) = outputs[0].tensor();
  }
  return truth;
}

}  // namespace kiln
