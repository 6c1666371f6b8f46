#include "minify/cut.h"

#include <set>
#include <unordered_set>

#include "base/error.h"
#include "graph/walk.h"
#include "minify/specialise.h"
#include "ops/op_record.h"

namespace kiln::minify {
namespace {

bool is_number(ValueKind kind) {
  return kind == ValueKind::sym_int || kind == ValueKind::sym_float || kind == ValueKind::sym_bool;
}

class NoSuchProgram : public std::exception {};

// Builds the new program from the old one's kept nodes; the cost goes with what is kept.
class Cutter {
 public:
  Cutter(const Program& from, const std::vector<bool>& keep, const RecordedValues& recorded)
      : from_(from), recorded_(recorded) {
    size_t position = 0;
    for (const auto& node : from.graph.nodes) {
      if (keep[position++])
        kept_.push_back(node.get());
      else
        dropped_.push_back(node.get());
    }
  }

  Program run(const std::vector<bool>* outputs) {
    if (kept_.empty()) throw NoSuchProgram();
    copy_header();
    copy_used_inputs(outputs);
    for (const Node* node : kept_) copy_node(*node);
    copy_outputs(outputs);
    if (out_.graph.outputs.empty()) add_sinks();
    if (out_.graph.outputs.empty()) throw NoSuchProgram();
    out_.sample_inputs.insert(out_.sample_inputs.end(), new_samples_.begin(), new_samples_.end());
    tidy(out_, recorded_.symbols());
    return std::move(out_);
  }

  // No node is kept: the outputs are inputs.
  Program hand_through() {
    copy_header();
    for (const Argument& output : from_.graph.outputs) {
      if (!output.is_value() || output.as_value()->kind != ValueKind::tensor) throw NoSuchProgram();
      if (!map_.contains(output.as_value())) new_input(*output.as_value());
      add_output(map_.at(output.as_value()), {});
    }
    out_.sample_inputs = new_samples_;
    tidy(out_, recorded_.symbols());
    return std::move(out_);
  }

 private:
  void copy_header() {
    out_.name = from_.name;
    out_.graph.name = from_.graph.name;
    out_.symbols = from_.symbols;
    out_.guards = from_.guards;
    out_.torch_version = from_.torch_version;
    out_.schema_major = from_.schema_major;
    out_.schema_minor = from_.schema_minor;
    out_.opset_version = from_.opset_version;
    out_.keep_alive = from_.keep_alive;
  }

  void copy_used_inputs(const std::vector<bool>* outputs) {
    std::unordered_set<const Value*> used;
    const auto use = [&](const Argument& arg) { for_each_value(arg, [&](Value* value) { used.insert(value); }); };
    for (const Node* node : kept_)
      for (const auto& named : node->args) use(named.arg);
    if (outputs)
      for (size_t i = 0; i < outputs->size(); ++i)
        if ((*outputs)[i]) use(from_.graph.outputs[i]);
    size_t sample = 0;
    for (size_t i = 0; i < from_.graph.inputs.size(); ++i) {
      const InputSpec& spec = from_.input_specs[i];
      const bool has_sample = takes_sample(spec) && sample < from_.sample_inputs.size();
      const size_t at = sample;
      if (takes_sample(spec)) ++sample;
      const Value* input = from_.graph.inputs[i];
      if (!used.contains(input)) continue;
      Value* copy = out_.graph.add_input(input->name, input->kind);
      copy->type = input->type;
      copy->expr = input->expr;
      map_[input] = copy;
      out_.input_specs.push_back(spec);
      if (has_sample) out_.sample_inputs.push_back(from_.sample_inputs[at]);
      const auto constant = from_.constants.find(spec.target);
      if (constant != from_.constants.end()) out_.constants.insert(*constant);
    }
  }

  // A tensor that a dropped node computed.
  Value* new_input(const Value& value) {
    Tensor sample = recorded_.tensor_for(from_.graph.name, value);
    Value* input = out_.graph.add_input(value.name, ValueKind::tensor);
    input->type = value.type;
    input->type.offset = Expr(0);
    bool same = true;
    for (size_t d = 0; d < sample.sizes.size(); ++d) {
      if (value.type.strides[d].is_constant() && value.type.strides[d].value() != sample.strides[d]) same = false;
      if (!value.type.strides[d].is_constant())
        same &= value.type.strides[d] == contiguous_strides(value.type.sizes)[d];
    }
    if (!same) {
      const bool fixed = std::all_of(value.type.sizes.begin(), value.type.sizes.end(),
                                     [](const Expr& size) { return size.is_constant(); });
      if (!fixed) sample = sample.as_contiguous();
      input->type.strides = contiguous_strides(value.type.sizes);
      if (fixed) input->type.strides.assign(sample.strides.begin(), sample.strides.end());
    }
    out_.input_specs.push_back({});
    new_samples_.push_back(Datum{std::move(sample)});
    map_[&value] = input;
    return input;
  }

  Argument translate(const Argument& arg) {
    if (arg.is_value()) return translate(*arg.as_value());
    if (arg.is_list()) {
      Argument::List list;
      for (const Argument& element : arg.as_list()) list.push_back(translate(element));
      return Argument(std::move(list));
    }
    if (arg.is_graph() && arg.as_graph()) return Argument(std::shared_ptr<Graph>(arg.as_graph()->clone()));
    return arg;
  }

  Argument translate(const Value& value) {
    if (const auto found = map_.find(&value); found != map_.end()) return Argument(found->second);
    if (value.kind == ValueKind::tensor) return Argument(new_input(value));
    if (is_number(value.kind)) return number(value);
    if (value.kind == ValueKind::none) return Argument();
    if (value.kind != ValueKind::tensor_list) throw NoSuchProgram();
    Argument::List list;
    for (const Value* item : value.items) list.push_back(item ? translate(*item) : Argument());
    return Argument(std::move(list));
  }

  // A number that a dropped node computed stands as its expression; tidy gives it a value if nothing else does.
  Argument number(const Value& value) const {
    if (value.expr.is_constant())
      return Argument(value.kind == ValueKind::sym_bool ? Scalar(value.expr.value() != 0) : Scalar(value.expr.value()));
    if (value.expr.op() == ExprOp::float_constant) return Argument(Scalar(value.expr.float_value()));
    if (value.kind == ValueKind::sym_int) return Argument(value.expr);
    const Datum* recorded = recorded_.find(from_.graph.name, value.name);
    if (recorded && recorded->is_scalar()) return Argument(recorded->scalar());
    throw NoSuchProgram();
  }

  void copy_node(const Node& node) {
    std::vector<Node::NamedArgument> args;
    for (const auto& named : node.args) args.push_back({named.name, translate(named.arg)});
    Node* copy = out_.graph.add_node(node.target, node.name);
    copy->op = node.op;
    copy->origins = node.origins;
    copy->args = std::move(args);
    for (const Value* result : node.results) {
      Value* made = out_.graph.add_result(copy, result->name, result->kind);
      made->type = result->type;
      made->expr = result->expr;
      map_[result] = made;
      for (const Value* item : result->items) {
        if (!item) {
          made->items.push_back(nullptr);
        } else if (item->producer == &node) {
          Value* twin = out_.graph.add_item(made, item->name);
          twin->type = item->type;
          map_[item] = twin;
        } else {
          throw NoSuchProgram();
        }
      }
    }
  }

  void add_output(Value* value, OutputSpec spec) {
    out_.graph.outputs.emplace_back(value);
    out_.output_specs.push_back(std::move(spec));
    given_.insert(value);
  }

  bool has_target(const OutputSpec& spec) const {
    for (size_t i = 0; i < out_.graph.inputs.size(); ++i)
      if (out_.graph.inputs[i]->name == spec.target || out_.input_specs[i].target == spec.target) return true;
    return false;
  }

  void copy_outputs(const std::vector<bool>* wanted) {
    for (size_t i = 0; i < from_.graph.outputs.size(); ++i) {
      if (wanted && !(*wanted)[i]) continue;
      const Argument& output = from_.graph.outputs[i];
      if (!output.is_value()) continue;
      const auto found = map_.find(output.as_value());
      if (found == map_.end() || !(found->second->producer || wanted)) continue;
      OutputSpec spec = from_.output_specs[i];
      if (spec.kind != OutputKind::user && !has_target(spec)) spec = {};
      add_output(found->second, spec);
    }
    // What dropped nodes used is what the kept part gives to the rest.
    for (const Node* node : dropped_)
      for (const auto& named : node->args) for_each_value(named.arg, [&](Value* value) { add_boundary(value); });
  }

  void add_boundary(const Value* value) {
    for (const Value* item : value->items)
      if (item) add_boundary(item);
    const auto found = map_.find(value);
    if (found == map_.end() || value->kind != ValueKind::tensor) return;
    if (found->second->producer && !given_.contains(found->second)) add_output(found->second, {});
  }

  void add_sinks() {
    for (const Node* node : kept_)
      for (const Value* result : node->results) add_boundary(result);
  }

  const Program& from_;
  const RecordedValues& recorded_;
  std::vector<const Node*> kept_, dropped_;
  Program out_;
  std::map<const Value*, Value*> map_;
  std::set<const Value*> given_;
  std::vector<Datum> new_samples_;
};

bool has_effect(const Node& node) {
  const OpRecord* record = Registry::instance().find(node.target);
  if (node.results.empty()) return true;
  return !record || record->kind == OpKind::assertion || record->schema.mutates();
}

}  // namespace

std::optional<Program> cut(const Program& program, const std::vector<bool>& keep, const RecordedValues& recorded) {
  try {
    return Cutter(program, keep, recorded).run(nullptr);
  } catch (const NoSuchProgram&) {
    return std::nullopt;
  }
}

std::optional<Program> without_node(const Program& program, size_t position, const RecordedValues& recorded) {
  std::vector<bool> keep(program.graph.nodes.size(), true);
  keep.at(position) = false;
  try {
    Cutter cutter(program, keep, recorded);
    return keep.size() == 1 ? cutter.hand_through() : cutter.run(nullptr);
  } catch (const NoSuchProgram&) {
    return std::nullopt;
  }
}

std::vector<bool> needed_nodes(const Program& program, const std::vector<bool>& outputs) {
  std::unordered_set<const Value*> used;
  const auto use = [&](const Argument& arg) {
    for_each_value(arg, [&](Value* value) {
      used.insert(value);
      for (const Value* item : value->items) used.insert(item);
    });
  };
  for (size_t i = 0; i < program.graph.outputs.size(); ++i)
    if (outputs[i]) use(program.graph.outputs[i]);
  std::vector<bool> needed(program.graph.nodes.size());
  size_t position = needed.size();
  for (auto it = program.graph.nodes.rbegin(); it != program.graph.nodes.rend(); ++it) {
    const Node& node = **it;
    bool wanted = has_effect(node);
    for (const Value* result : node.results) {
      wanted |= used.contains(result);
      for (const Value* item : result->items) wanted |= item && used.contains(item);
    }
    needed[--position] = wanted;
    if (!wanted) continue;
    for (const auto& named : node.args) use(named.arg);
  }
  return needed;
}

std::optional<Program> keep_outputs(const Program& program, const std::vector<bool>& keep,
                                    const RecordedValues& recorded) {
  // What the others need is no boundary: they are not computed at all.
  Program fewer = program.clone();
  const std::vector<bool> needed = needed_nodes(program, keep);
  std::vector<Node*> dead;
  size_t position = 0;
  for (auto& node : fewer.graph.nodes)
    if (!needed[position++]) dead.push_back(node.get());
  std::vector<Argument> outputs;
  std::vector<OutputSpec> specs;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) continue;
    outputs.push_back(fewer.graph.outputs[i]);
    specs.push_back(fewer.output_specs[i]);
  }
  fewer.graph.outputs = std::move(outputs);
  fewer.output_specs = std::move(specs);
  for (auto it = dead.rbegin(); it != dead.rend(); ++it) fewer.graph.erase(*it);
  if (fewer.graph.outputs.empty() || fewer.graph.nodes.empty()) return std::nullopt;
  tidy(fewer, recorded.symbols());
  return fewer;
}

Program make_static(const Program& program, const SymbolValues& values) {
  Program out = program.clone();
  SymbolValues sizes;
  for (const auto& [name, value] : values) {
    const auto info = program.symbols.find(name);
    if (info != program.symbols.end() && !info->second.unbacked) sizes[name] = value;
  }
  specialise(out, sizes);
  tidy(out, values);
  return out;
}

void tidy(Program& program, const SymbolValues& values) {
  SymbolValues missing;
  for (const std::string& name : unbound_symbols(program))
    if (const auto found = values.find(name); found != values.end()) missing.insert(*found);
  if (!missing.empty()) specialise(program, missing);

  std::unordered_set<const Value*> used;
  std::set<std::string> targets;
  const auto use = [&](const Argument& arg) { for_each_value(arg, [&](Value* value) { used.insert(value); }); };
  for (const auto& node : program.graph.nodes)
    for (const auto& named : node->args) use(named.arg);
  for (const Argument& output : program.graph.outputs) use(output);
  for (const OutputSpec& spec : program.output_specs) targets.insert(spec.target);
  Program& p = program;
  std::vector<Value*> inputs;
  std::vector<InputSpec> specs;
  std::vector<Datum> samples;
  std::map<std::string, Tensor> constants;
  size_t sample = 0;
  for (size_t i = 0; i < p.graph.inputs.size(); ++i) {
    const InputSpec& spec = p.input_specs[i];
    const size_t at = sample;
    if (takes_sample(spec)) ++sample;
    Value* input = p.graph.inputs[i];
    if (!used.contains(input) && !targets.contains(input->name) &&
        (spec.target.empty() || !targets.contains(spec.target)))
      continue;
    inputs.push_back(input);
    specs.push_back(spec);
    if (takes_sample(spec) && at < p.sample_inputs.size()) samples.push_back(p.sample_inputs[at]);
    if (const auto constant = p.constants.find(spec.target); constant != p.constants.end()) constants.insert(*constant);
  }
  p.graph.inputs = std::move(inputs);
  p.input_specs = std::move(specs);
  p.sample_inputs = std::move(samples);
  p.constants = std::move(constants);
  p.constant_hashes.clear();
  p.in_spec.clear();
  p.out_spec.clear();
  p.forward_arg_names.clear();

  const std::set<std::string> symbols = used_symbols(p);
  std::erase_if(p.symbols, [&](const auto& entry) { return !symbols.contains(entry.first); });
  std::erase_if(p.guards, [&](const Guard& guard) {
    std::set<std::string> mentioned;
    collect_symbols(guard.condition, mentioned);
    return std::any_of(mentioned.begin(), mentioned.end(), [&](const std::string& s) { return !symbols.contains(s); });
  });
}

int count_calls(const Graph& graph) {
  int count = 0;
  for_each_node(graph, [&](const Node&) { ++count; });
  return count;
}

int count_nodes(const Program& program) {
  return static_cast<int>(program.graph.inputs.size()) + count_calls(program.graph) + 1;
}

}  // namespace kiln::minify
