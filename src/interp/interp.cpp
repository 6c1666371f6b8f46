#include "interp/interp.h"

#include "base/self_overlap.h"
#include "graph_passes/effect_tokens.h"
#include "graph_passes/wrappers.h"
#include "graph_passes/written_inputs.h"
#include "interp/graph_run.h"
#include "interp/tensor_sharing.h"
#include "ops/declared_types.h"

namespace kiln {

namespace {

bool is_constant_input(InputKind kind) {
  return kind == InputKind::parameter || kind == InputKind::buffer || kind == InputKind::constant_tensor;
}

std::shared_ptr<const Program> without_wrappers(const Program& program) {
  if (!has_wrappers(program.graph)) return nullptr;
  auto copy = std::make_shared<Program>(program.clone());
  drop_effect_tokens(*copy);
  inline_wrapper_calls(copy->graph, copy->ranges());
  check_declared_types(*copy);  // of what stood inside
  return copy;
}

InputSpec spec_of(const Program& program, size_t i) {
  return i < program.input_specs.size() ? program.input_specs[i] : InputSpec{};
}

}  // namespace

Interpreter::Interpreter(const Program& program, InterpretOptions options)
    : inlined_(without_wrappers(program)), program_(inlined_ ? *inlined_ : program), options_(std::move(options)) {
  std::set<const Value*> written = written_inputs(program_.graph);
  std::set<std::string> mutated_targets;
  for (const OutputSpec& spec : program_.output_specs)
    if (spec.kind != OutputKind::user) mutated_targets.insert(spec.target);
  std::set<const std::byte*> written_storages;
  for (size_t i = 0; i < program_.graph.inputs.size(); ++i) {
    const Value* input = program_.graph.inputs[i];
    InputSpec spec = spec_of(program_, i);
    written_.push_back(written.contains(input) || mutated_targets.contains(input->name) ||
                       (!spec.target.empty() && mutated_targets.contains(spec.target)));
    auto constant = program_.constants.find(spec.target);
    if (written_.back() && constant != program_.constants.end() && constant->second.defined())
      written_storages.insert(constant->second.storage->data);
  }
  // A written constant is copied once per instance, with everything that shares its storage (tied weights).
  SharingCopier copier(options_.fp64);
  for (size_t i = 0; i < program_.graph.inputs.size(); ++i) {
    InputSpec spec = spec_of(program_, i);
    if (!is_constant_input(spec.kind)) continue;
    auto constant = program_.constants.find(spec.target);
    if (constant == program_.constants.end() || !constant->second.defined())
      fail_user("K0601", str("constant '", spec.target, "' has no value"));
    bool own = written_storages.contains(constant->second.storage->data);
    state_[spec.target] = own ? copier.copy(constant->second) : copier.widen(constant->second);
  }
}

namespace {

// Nothing: they depend on a number that is found while running.
std::optional<std::vector<int64_t>> strides_at(const TensorType& type, const SymbolValues& symbols) {
  std::vector<int64_t> out;
  for (const Expr& stride : type.strides) {
    std::set<std::string> names;
    collect_symbols(stride, names);
    for (const std::string& name : names)
      if (!symbols.contains(name)) return std::nullopt;
    out.push_back(evaluate(stride, symbols));
  }
  return out;
}

// An output has memory of its own and a layout of its own: the strides of a view with gaps or repeated elements
// describe its base, so such a view is returned as cloning it in PyTorch would lay it out.
Tensor as_output(Tensor tensor, const std::set<const std::byte*>& shared, const Argument& said,
                 const SymbolValues& symbols) {
  const bool is_shared = shared.contains(tensor.storage->data);
  // What shares memory with an input has the strides that the caller chose; those of the export are wanted.
  std::vector<int64_t> strides = tensor.strides;
  if (is_shared && said.is_value() && said.as_value()->kind == ValueKind::tensor)
    strides = strides_at(said.as_value()->type, symbols).value_or(strides);
  if (strides.size() != tensor.strides.size()) strides = tensor.strides;
  if (strides != tensor.strides || !dense_and_not_overlapping(tensor.sizes, strides)) {
    Tensor out = Tensor::empty_strided(tensor.dtype, tensor.sizes, dense_strides_like(tensor.sizes, strides));
    out.device = tensor.device;
    copy_into(tensor, out);
    return out;
  }
  return is_shared ? own_copy(tensor) : tensor;
}

// A functional program gives the new value of a whole tensor: more elements than such memory has places for.
void refuse_shared_places(const Tensor& target, const OutputSpec& spec) {
  if (!overlaps_itself(target.sizes, target.strides)) return;
  const bool input = spec.kind == OutputKind::user_input_mutation;
  fail_user(input ? "K0620" : "K0683", str("the program writes to the ", input ? "input '" : "buffer '", spec.target,
                                           "', and several of its elements share memory"));
}

}  // namespace

InterpretResult Interpreter::run(const std::vector<Datum>& inputs) {
  SymbolValues symbols = bind_symbols(program_, inputs);
  SharingCopier copier(options_.fp64);
  const Graph& graph = program_.graph;
  std::vector<Datum> all;
  InterpretResult result;
  std::map<std::string, Tensor> user_tensors;
  // Inputs that share a storage with a written one are written too.
  std::set<const std::byte*> written_storages;
  size_t next = 0;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (is_constant_input(spec_of(program_, i).kind) || next >= inputs.size()) continue;
    const Datum& datum = inputs[next++];
    if (written_[i] && datum.is_tensor() && datum.tensor().defined())
      written_storages.insert(datum.tensor().storage->data);
  }
  next = 0;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    InputSpec spec = spec_of(program_, i);
    if (is_constant_input(spec.kind)) {
      all.push_back(Datum{state_.at(spec.target)});
      continue;
    }
    if (spec.kind != InputKind::user && spec.kind != InputKind::constant_value) {
      all.emplace_back();
      continue;
    }
    Datum datum = inputs[next++];
    if (datum.is_tensor()) {
      const Tensor& tensor = datum.tensor();
      bool own = tensor.defined() && written_storages.contains(tensor.storage->data);
      datum = Datum{own ? copier.copy(tensor) : copier.widen(tensor)};
      user_tensors[graph.inputs[i]->name] = datum.tensor();
    }
    result.inputs.push_back(datum);
    all.push_back(std::move(datum));
  }
  GraphRun run(program_, options_, mix_seed(options_.seed, runs_++), symbols);
  std::vector<Datum> outputs = run.run(graph, all);

  // What an output shares with an input or with the instance would change under the caller's feet.
  std::set<const std::byte*> shared;
  for (const Datum& datum : all)
    if (datum.is_tensor() && datum.tensor().defined()) shared.insert(datum.tensor().storage->data);
  std::vector<std::pair<Tensor, Tensor>> writes;
  for (size_t i = 0; i < outputs.size(); ++i) {
    OutputSpec spec = i < program_.output_specs.size() ? program_.output_specs[i] : OutputSpec{};
    if (outputs[i].is_tensor()) outputs[i] = Datum{as_output(outputs[i].tensor(), shared, graph.outputs[i], symbols)};
    if (spec.kind == OutputKind::user || spec.kind == OutputKind::loss) {
      result.outputs.push_back(std::move(outputs[i]));
    } else if (outputs[i].is_tensor()) {
      auto& targets = spec.kind == OutputKind::buffer_mutation ? state_ : user_tensors;
      auto target = targets.find(spec.target);
      if (target == targets.end()) fail_bug(str("mutated '", spec.target, "' is not an input"));
      refuse_shared_places(target->second, spec);
      writes.emplace_back(outputs[i].tensor(), target->second);
    }
  }
  for (const auto& [from, to] : writes) copy_into(from, to);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    InputSpec spec = spec_of(program_, i);
    if (spec.kind == InputKind::buffer || (written_[i] && is_constant_input(spec.kind)))
      result.state[spec.target] = written_[i] ? own_copy(state_.at(spec.target)) : state_.at(spec.target);
  }
  return result;
}

}  // namespace kiln
