#include "debug/graph_truth.h"

#include <algorithm>
#include <set>

#include "check/rounding_noise.h"
#include "graph/walk.h"
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

// The tensors among a node's results, lists of them included.
void for_each_tensor(const Node& node, const std::vector<Datum>& results,
                     const std::function<void(const Value*, const Tensor&)>& f) {
  for (size_t i = 0; i < results.size() && i < node.results.size(); ++i) {
    if (results[i].is_tensor()) f(node.results[i], results[i].tensor());
    if (!results[i].is_list()) continue;
    const auto& items = results[i].list();
    for (size_t j = 0; j < items.size() && j < node.results[i]->items.size(); ++j)
      if (node.results[i]->items[j] && items[j].is_tensor()) f(node.results[i]->items[j], items[j].tensor());
  }
}

}  // namespace

Tensor row_of(Tensor tensor, int64_t row) {
  tensor.offset += row * tensor.strides[0];
  tensor.sizes.erase(tensor.sizes.begin()), tensor.strides.erase(tensor.strides.begin());
  return tensor;
}

const Node* Truth::only_node() const {
  for (const TruthNode& at : nodes)
    if (at.node != nodes[0].node) return nullptr;
  return nodes.empty() ? nullptr : nodes[0].node;
}

GraphTruth::GraphTruth(const Program& program, const std::map<std::string, Tensor>& constants,
                       const std::map<const Value*, std::string>& buffers)
    : program_(program), constants_(constants) {
  std::map<const Value*, Place> places;
  index(program.graph, 0, 0, places);
  name_values(buffers);
  for (const auto& [value, name] : keys_) values_[name] = places.at(value);
  for (const auto& [name, place] : values_)
    if (const Node* node = place.value->producer)
      if (node->results[0] == place.value) index_control_flow(*node);
}

// Of values that share a name, and have no buffers to tell them apart, none can be told from its buffer's, but that the
// program's own input has the name.
void GraphTruth::name_values(const std::map<const Value*, std::string>& buffers) {
  std::map<std::string, int> names;
  for (auto& [value, name] : keys_) {
    if (const auto buffer = buffers.find(value); buffer != buffers.end()) name = buffer->second;
    ++names[name];
  }
  const std::set<const Value*> inputs(program_.graph.inputs.begin(), program_.graph.inputs.end());
  std::map<std::string, int> numbers;
  for (auto& [value, name] : keys_)
    if (names.at(name) > 1 && !inputs.count(value) && !buffers.count(value)) name += str("'", ++numbers[name]);
}

void GraphTruth::index(const Graph& graph, int order, size_t loops, std::map<const Value*, Place>& places) {
  const auto add = [&](const Value* value, int at) {
    if (!value) return;
    keys_[value] = value->name;
    places[value] = {&graph, value, at};
  };
  for (const Value* input : graph.inputs) add(input, order);
  for (const auto& node : graph.nodes) {
    ++order;
    loops_around_[node.get()] = loops;
    for (const Value* result : node->results) {
      add(result, order);
      for (const Value* item : result->items) add(item, order);
    }
    const size_t inside = loops + (node->target == "higher_order.cond" ? 0 : 1);
    for_each_subgraph(*node, [&](const Graph& inner) { index(inner, order, inside, places); });
  }
}

std::optional<int64_t> GraphTruth::Stacked::slice(const std::vector<int64_t>& iterations) const {
  return iterations.size() > loop ? std::optional(iterations[loop] + first) : std::nullopt;
}

void GraphTruth::bind(const Graph& graph, const Argument::List& operands) {
  for (size_t i = 0; i < graph.inputs.size() && i < operands.size(); ++i)
    if (operands[i].is_value()) bound_[graph.inputs[i]] = operands[i].as_value();
}

void GraphTruth::give(const Value* value, const Value* result, bool start) {
  if (!keys_.count(value) || !keys_.count(result)) return;
  given_[key(result)].push_back(key(value));
  targets_[key(value)].push_back({key(result), start});
}

void GraphTruth::give(const Graph& graph, const std::vector<Value*>& results) {
  for (size_t i = 0; i < graph.outputs.size() && i < results.size(); ++i)
    if (graph.outputs[i].is_value()) give(graph.outputs[i].as_value(), results[i], false);
}

void GraphTruth::index_control_flow(const Node& node) {
  const auto list = [&](size_t i) {
    return node.args.size() > i && node.args[i].arg.is_list() ? node.args[i].arg.as_list() : Argument::List{};
  };
  if (node.target == "higher_order.cond") {
    for (size_t branch : {1, 2}) {
      const Graph& graph = *node.args[branch].arg.as_graph();
      bind(graph, list(3));
      give(graph, node.results);
    }
  } else if (node.target == "higher_order.while_loop") {
    Argument::List operands;
    const Argument::List carried = list(2), extra = list(3);
    for (size_t i = 0; i < carried.size() && i < node.results.size(); ++i) {
      operands.push_back(Argument(node.results[i]));
      if (carried[i].is_value()) give(carried[i].as_value(), node.results[i], true);
    }
    operands.insert(operands.end(), extra.begin(), extra.end());
    for (size_t part : {0, 1}) bind(*node.args[part].arg.as_graph(), operands);
    give(*node.args[1].arg.as_graph(), node.results);
  } else if (node.target == "higher_order.scan" || node.target == "higher_order.map_impl" ||
             node.target == "higher_order.associative_scan") {
    index_iteration(node);
  }
}

// scan(body, carried, xs, extra), map_impl(body, xs, extra), associative_scan(body, xs, extra).
void GraphTruth::index_iteration(const Node& node) {
  const bool scan = node.target == "higher_order.scan", associative = node.target == "higher_order.associative_scan";
  const auto list = [&](size_t i) {
    return node.args.size() > i && node.args[i].arg.is_list() ? node.args[i].arg.as_list() : Argument::List{};
  };
  if (node.args.empty() || !node.args[0].arg.is_graph() || !node.args[0].arg.as_graph()) return;
  const Graph& body = *node.args[0].arg.as_graph();
  const Argument::List carried = scan ? list(1) : Argument::List{}, xs = list(scan ? 2 : 1), extra = list(scan ? 3 : 2);
  const size_t kept = associative ? xs.size() : carried.size(), loop = loops_around_.at(&node);
  if (body.inputs.size() != kept + xs.size() + extra.size() || body.outputs.size() != node.results.size() ||
      node.results.size() < kept)
    return;
  const int64_t first = associative ? 1 : 0;  // the first slice is what an associative scan begins with
  for (size_t i = 0; i < kept; ++i) {
    // What an associative scan carries has a buffer of its own, a scan's is its result.
    const Value* state = associative ? body.inputs[i] : node.results[i];
    if (!associative) bound_[body.inputs[i]] = state;
    if (!associative && carried[i].is_value()) give(carried[i].as_value(), state, true);
    if (body.outputs[i].is_value()) give(body.outputs[i].as_value(), state, false);
  }
  for (size_t i = 0; i < xs.size(); ++i)
    if (xs[i].is_value()) sliced_[body.inputs[kept + i]] = {xs[i].as_value(), loop, first};
  for (size_t i = 0; i < extra.size(); ++i)
    if (extra[i].is_value()) bound_[body.inputs[kept + xs.size() + i]] = extra[i].as_value();
  for (size_t i = associative ? 0 : kept; i < body.outputs.size(); ++i)
    if (body.outputs[i].is_value() && keys_.count(body.outputs[i].as_value()))
      stacked_.push_back({key(node.results[i]), key(body.outputs[i].as_value()), loop, first});
}

const std::vector<std::string>& GraphTruth::given_to(const std::string& result) const {
  static const std::vector<std::string> none;
  const auto found = given_.find(result);
  return found == given_.end() ? none : found->second;
}

const std::vector<GraphTruth::Target>& GraphTruth::targets(const std::string& value) const {
  static const std::vector<Target> none;
  const auto found = targets_.find(value);
  return found == targets_.end() ? none : found->second;
}

std::vector<std::string> GraphTruth::control_flow_results() const {
  std::vector<std::string> out;
  for (const auto& [result, values] : given_) out.push_back(result);
  return out;
}

const Node* GraphTruth::producer(const std::string& value) const {
  const auto found = values_.find(value);
  return found == values_.end() ? nullptr : found->second.value->producer;
}

int GraphTruth::order(const std::string& value) const {
  const auto found = values_.find(value);
  return found == values_.end() ? -1 : found->second.order;
}

// Constants are known to everybody, unless runs change them.
std::optional<Tensor> GraphTruth::leaf(const Value& value) const {
  const Graph& graph = program_.graph;
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

std::optional<Tensor> GraphTruth::known(const Value& value, const TruthRequest& request, Nodes& outside) const {
  const std::string& name = key(&value);
  if (name == request.wanted) return std::nullopt;
  if (const auto found = request.known.find(name); found != request.known.end()) return found->second;
  if (auto constant = leaf(value)) return constant;
  if (const auto slice = sliced_.find(&value); slice != sliced_.end()) return slice_of(slice->second, request, outside);
  if (const auto outer = bound_.find(&value); outer != bound_.end())
    return known_or_computed(*outer->second, request, outside);
  return std::nullopt;
}

// What a subgraph is given may have been computed inside its kernels (a view of a weight), and be stored nowhere.
std::optional<Tensor> GraphTruth::known_or_computed(const Value& value, const TruthRequest& request,
                                                    Nodes& outside) const {
  if (auto tensor = known(value, request, outside)) return tensor;
  TruthRequest outer = request;
  outer.wanted = key(&value);
  if (outer.wanted == request.wanted) return std::nullopt;
  const auto truth = compute(outer);
  if (!truth) return std::nullopt;
  outside.insert(outside.end(), truth->nodes.begin(), truth->nodes.end());
  for (TruthNode& node : outside) node.wanted = false;
  return truth->nominal;
}

std::optional<Tensor> GraphTruth::slice_of(const Slice& slice, const TruthRequest& request, Nodes& outside) const {
  if (request.iterations.size() <= slice.loop) return std::nullopt;
  auto tensor = known_or_computed(*slice.whole, request, outside);
  const int64_t at = request.iterations[slice.loop] + slice.first;
  if (!tensor || tensor->sizes.empty() || at < 0 || at >= tensor->sizes[0]) return std::nullopt;
  return row_of(*tensor, at);
}

std::optional<Truth> GraphTruth::compute(const TruthRequest& request) const {
  const auto place = values_.find(request.wanted);
  if (place == values_.end()) return std::nullopt;
  if (const auto slice = sliced_.find(place->second.value); slice != sliced_.end()) {
    Nodes outside;
    const auto tensor = slice_of(slice->second, request, outside);
    if (!tensor) return std::nullopt;
    if (!outside.empty()) outside.back().wanted = true;  // what it is a slice of
    return Truth{SharingCopier(true).widen(*tensor), *tensor, std::move(outside)};
  }
  Truth truth;
  Part part(*place->second.graph, [&](const Value& value) { return known(value, request, truth.nodes); });
  if (!part.add(place->second.value)) return std::nullopt;
  const size_t outside = truth.nodes.size();
  NearMatrices near(part.graph);
  for (const bool fp64 : {true, false}) {
    InterpretOptions options;
    options.fp64 = fp64;
    size_t next = outside;
    options.after_node = [&](const Node& node, const std::vector<Datum>& results) {
      const Node* original = part.original.at(&node);
      for_each_tensor(*original, results, [&](const Value* value, const Tensor& tensor) {
        if (fp64)
          truth.nodes.push_back({original, value, key(value), key(value) == request.wanted, tensor, {}});
        else if (next < truth.nodes.size() && truth.nodes[next].value == value)
          truth.nodes[next++].nominal = tensor;
      });
      if (!fp64) near.disturb_results(node, results);
    };
    SharingCopier copier(fp64);
    std::vector<Datum> inputs;
    for (const Tensor& tensor : part.inputs) inputs.push_back(Datum{copier.widen(tensor)});
    if (!fp64) near.disturb_inputs(part.graph.inputs, inputs);
    GraphRun run(program_, options, request.seed, request.symbols);
    std::vector<Datum> outputs = run.run(part.graph, inputs);
    if (!outputs[0].is_tensor()) return std::nullopt;
    (fp64 ? truth.fp64 : truth.nominal) = outputs[0].tensor();
  }
  return truth;
}

std::optional<Tensor> GraphTruth::compute_rounded(const TruthRequest& request, const Truth& truth, int sample) const {
  const auto place = values_.find(request.wanted);
  if (place == values_.end() || sliced_.contains(place->second.value)) return std::nullopt;
  Nodes between;
  Part part(*place->second.graph, [&](const Value& value) { return known(value, request, between); });
  if (!part.add(place->second.value)) return std::nullopt;
  RoundingNoise noise(sample);
  InterpretOptions options;
  options.fp64 = true;
  options.after_node = [&](const Node& node, const std::vector<Datum>& results) {
    for_each_tensor(*part.original.at(&node), results, [&](const Value* value, const Tensor& tensor) {
      const auto like = std::find_if(truth.nodes.begin(), truth.nodes.end(),
                                     [&](const TruthNode& one) { return one.value == value; });
      if (like != truth.nodes.end() && like->nominal.defined()) noise.disturb_like(tensor, like->truth, like->nominal);
    });
  };
  SharingCopier copier(true);
  std::vector<Datum> inputs;
  for (const Tensor& tensor : part.inputs) inputs.push_back(Datum{copier.widen(tensor)});
  GraphRun run(program_, options, request.seed, request.symbols);
  const std::vector<Datum> outputs = run.run(part.graph, inputs);
  return outputs[0].is_tensor() ? std::optional(outputs[0].tensor()) : std::nullopt;
}

}  // namespace kiln
