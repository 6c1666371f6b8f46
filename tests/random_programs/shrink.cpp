#include "shrink.h"

#include <cmath>
#include <utility>

#include "interp/interp.h"
#include "ops/op_record.h"

namespace kiln::random_programs {

namespace {

Node* node_named(Graph& graph, const std::string& name) {
  for (auto& node : graph.nodes)
    if (node->name == name) return node.get();
  return nullptr;
}

bool used(const Graph& graph, const Node& node) {
  bool found = false;
  auto look = [&](const Argument& arg) {
    for_each_value(arg, [&](Value* value) { found |= value->producer == &node; });
  };
  for (const auto& other : graph.nodes)
    for (const auto& named : other->args) look(named.arg);
  for (const Argument& output : graph.outputs) look(output);
  return found;
}

// Nodes that nothing needs; a node that writes is needed by what it writes to.
void drop_unused(Program& program, bool keep_writes) {
  for (bool again = true; again;) {
    again = false;
    for (auto it = program.graph.nodes.rbegin(); it != program.graph.nodes.rend(); ++it) {
      Node& node = **it;
      if ((keep_writes && node.op->schema.mutates()) || used(program.graph, node)) continue;
      program.graph.erase(&node);
      again = true;
      break;
    }
  }
}

class Shrinker {
 public:
  Shrinker(const RandomProgram& failing, const std::function<bool(const RandomProgram&)>& fails)
      : best_(failing.clone()), fails_(fails) {}

  RandomProgram run() {
    for (bool progress = true; progress;) {
      progress = drop_outputs();
      progress |= each_node([this](RandomProgram& trial, Node& node) { return skip(trial, node); });
      progress |= each_node([this](RandomProgram& trial, Node& node) { return cut(trial, node); });
      progress |= try_change([](RandomProgram& trial) {
        drop_unused(trial.program, false);
        return true;
      });
      progress |= drop_layouts();
    }
    return std::move(best_);
  }

 private:
  bool try_change(const std::function<bool(RandomProgram&)>& change) {
    RandomProgram trial = best_.clone();
    try {
      if (!change(trial)) return false;
      drop_unused(trial.program, true);
      drop_unused_inputs(trial);
      if (trial.program.graph.nodes.empty() || size(trial) >= size(best_)) return false;
      fill_values(trial);
      verify(trial.program);
    } catch (const Error&) {
      return false;
    }
    if (!fails_(trial)) return false;
    best_ = std::move(trial);
    return true;
  }

  static size_t size(const RandomProgram& r) {
    size_t layouts = 0;
    for (const Value* input : r.program.graph.inputs) layouts += r.sources.at(input->name).layout != 0;
    return r.program.graph.nodes.size() * 1000 + r.program.graph.outputs.size() * 100 +
           r.program.graph.inputs.size() * 10 + layouts;
  }

  bool drop_outputs() {
    bool progress = false;
    for (size_t i = best_.program.graph.outputs.size(); i-- > 0;)
      progress |= try_change([i](RandomProgram& trial) {
        if (i >= trial.program.graph.outputs.size()) return false;
        trial.program.graph.outputs.erase(trial.program.graph.outputs.begin() + static_cast<std::ptrdiff_t>(i));
        trial.program.output_specs.pop_back();
        return true;
      });
    return progress;
  }

  bool drop_layouts() {
    bool progress = false;
    std::vector<std::string> names;
    for (const auto& [name, source] : best_.sources) names.push_back(name);
    for (const std::string& name : names)
      progress |=
          try_change([&](RandomProgram& trial) { return std::exchange(trial.sources.at(name).layout, 0) != 0; });
    return progress;
  }

  bool each_node(const std::function<bool(RandomProgram&, Node&)>& change) {
    std::vector<std::string> names;
    for (const auto& node : best_.program.graph.nodes) names.push_back(node->name);
    bool progress = false;
    for (const std::string& name : names)
      progress |= try_change([&](RandomProgram& trial) {
        Node* node = node_named(trial.program.graph, name);
        return node && change(trial, *node);
      });
    return progress;
  }

  // Uses an argument of the same type instead of the result.
  static bool skip(RandomProgram& trial, Node& node) {
    if (node.results.size() != 1 || node.results[0]->kind != ValueKind::tensor) return false;
    Value* same = nullptr;
    for (const auto& named : node.args)
      for_each_value(named.arg, [&](Value* value) {
        if (value->kind == ValueKind::tensor && value->type == node.results[0]->type && !same) same = value;
      });
    if (!same) return false;
    trial.program.graph.replace_uses(node.results[0], same);
    trial.program.graph.erase(&node);
    return true;
  }

  // Makes the results inputs, with values of the range that they had.
  static bool cut(RandomProgram& trial, Node& node) {
    std::map<const Value*, ValueSource> ranges;
    InterpretOptions options;
    options.after_node = [&](const Node& ran, const std::vector<Datum>& results) {
      if (&ran != &node) return;
      for (size_t i = 0; i < results.size(); ++i)
        if (results[i].is_tensor()) ranges[node.results[i]] = range_of_values(results[i].tensor(), i);
    };
    fill_values(trial);
    Interpreter(trial.program, options).run(trial.program.sample_inputs);
    for (Value* result : node.results) {
      if (result->kind != ValueKind::tensor || !ranges.contains(result)) return false;
      std::set<std::string> symbols;
      for (const Expr& size : result->type.sizes) collect_symbols(size, symbols);
      for (const std::string& symbol : symbols)
        if (trial.program.symbols.at(symbol).unbacked) return false;
    }
    for (Value* result : node.results) {
      Value* input =
          trial.program.graph.add_input(trial.program.graph.unique_name(result->name + "_in"), ValueKind::tensor);
      input->type = contiguous_type(result->type.dtype, result->type.sizes);
      trial.program.input_specs.push_back({});
      trial.sources[input->name] = ranges[result];
      trial.program.graph.replace_uses(result, input);
    }
    trial.program.graph.erase(&node);
    return true;
  }

  static ValueSource range_of_values(const Tensor& tensor, size_t seed) {
    ValueSource out{INFINITY, -INFINITY, 1000 + seed};
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      double v = tensor.item(i).as_complex().real();
      if (!std::isfinite(v)) continue;
      out.low = std::min(out.low, v);
      out.high = std::max(out.high, v);
    }
    return out.low <= out.high ? out : ValueSource{0, 0, seed};
  }

  static void drop_unused_inputs(RandomProgram& trial) {
    Program& program = trial.program;
    std::set<const Value*> needed;
    for (const auto& node : program.graph.nodes)
      for (const auto& named : node->args) for_each_value(named.arg, [&](Value* value) { needed.insert(value); });
    for (const Argument& output : program.graph.outputs)
      for_each_value(output, [&](Value* value) { needed.insert(value); });
    for (size_t i = program.graph.inputs.size(); i-- > 0;) {
      if (needed.contains(program.graph.inputs[i])) continue;
      program.constants.erase(program.input_specs[i].target);
      program.graph.inputs.erase(program.graph.inputs.begin() + static_cast<std::ptrdiff_t>(i));
      program.input_specs.erase(program.input_specs.begin() + static_cast<std::ptrdiff_t>(i));
    }
    std::set<std::string> symbols;
    for (const Value* input : program.graph.inputs)
      for (const Expr& size : input->type.sizes) collect_symbols(size, symbols);
    std::erase_if(program.symbols,
                  [&](const auto& entry) { return !entry.second.unbacked && !symbols.contains(entry.first); });
  }

  RandomProgram best_;
  const std::function<bool(const RandomProgram&)>& fails_;
};

}  // namespace

RandomProgram shrink(const RandomProgram& failing, const std::function<bool(const RandomProgram&)>& fails) {
  return Shrinker(failing, fails).run();
}

}  // namespace kiln::random_programs
