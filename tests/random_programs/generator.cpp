#include "generator.h"

#include <cmath>

#include "../campaign/dice.h"
#include "fit.h"
#include "interp/interp.h"

namespace kiln::random_programs {

namespace {

// Results that are not defined by their arguments alone: random numbers, memory that nobody has written, bases and
// signs that a factorisation is free to choose, inverses of matrices that have none (what was drawn before often has
// not), and results that share memory without saying so. matrix_exp magnifies rounding beyond what can be judged.
bool is_open(const OpRecord& record) {
  std::string short_name = op_short_name(record.name());
  for (const char* part : {"empty", "linalg", "inverse", "pinv", "cholesky", "triangular_solve", "svd", "qr",
                           "lu_solve", "logdet", "slogdet", "matrix_exp", "unsafe_split", "unsafe_chunk"})
    if (short_name.find(part) != std::string::npos) return true;
  return record.random;
}

}  // namespace

std::vector<const OpRecord*> drawable_operators() {
  std::vector<const OpRecord*> out;
  for (const OpRecord* record : Registry::instance().all()) {
    if (record->kind != OpKind::plain || record->name_space != "aten") continue;
    bool usable = false;
    for (const Sample& sample : record->samples) usable |= !sample.refused;
    usable &= !is_open(*record);
    bool tensors = !record->schema.returns.empty();
    for (const SchemaArg& result : record->schema.returns)
      tensors &= result.type == SchemaType::tensor || result.type == SchemaType::tensor_list;
    if (usable && tensors) out.push_back(record);
  }
  return out;
}

namespace {

class Drawing {
 public:
  explicit Drawing(const DrawOptions& options) : dice_(options.seed * 0x2545F4914F6CDD1Dull + 77) {
    state_.program.symbolic = options.symbolic;
    state_.program.program.name = str("random_", options.seed);
  }

  bool add(const OpRecord& record) {
    std::vector<const Sample*> samples;
    for (const Sample& sample : record.samples)
      if (!sample.refused) samples.push_back(&sample);
    for (int attempt = 0; attempt < 8; ++attempt) {
      FitState saved = state_.clone();
      try {
        call(record, *dice_.pick(samples));
        observe();
        state_.program.operators.push_back(record.name());
        return true;
      } catch (const Error&) {
        // A size that the rule cannot decide, a write that PyTorch refuses, …: as if it had not been tried.
        state_ = std::move(saved);
      }
    }
    return false;
  }

  RandomProgram finish() {
    Program& program = state_.program.program;
    std::set<const Value*> used;
    std::vector<Value*> tensors;
    for (const auto& node : program.graph.nodes) {
      for (const auto& named : node->args) for_each_value(named.arg, [&](Value* value) { used.insert(value); });
      for (Value* result : node->results) {
        if (result->kind == ValueKind::tensor) tensors.push_back(result);
        for (Value* item : result->items) tensors.push_back(item);
      }
    }
    for (Value* value : tensors) {
      if (used.contains(value) && !dice_.chance(0.15)) continue;
      program.graph.outputs.push_back(Argument(value));
      program.output_specs.push_back({});
    }
    return std::move(state_.program);
  }

 private:
  void call(const OpRecord& record, const Sample& sample) {
    Fit fit(state_, dice_);
    std::vector<Node::NamedArgument> args;
    for (size_t i = 0; i < sample.args.size(); ++i) {
      const SchemaArg& declared = record.schema.args[i];
      args.push_back({declared.name, fit.argument(declared, sample.args[i])});
    }
    Graph& graph = state_.program.program.graph;
    Node* node = graph.add_node(record.name(), graph.unique_name(op_short_name(record.name())));
    node->op = &record;
    node->args = std::move(args);
    infer_types(*node, graph, state_.program.program.ranges());
    refuse_overlap(*node);
    note_unbacked(*node);
  }

  // PyTorch does not write to a tensor two of whose elements are one place in memory.
  static void refuse_overlap(const Node& node) {
    OpCall call(node, node.op->schema);
    for (const SchemaArg& arg : node.op->schema.args) {
      if (!arg.writes || !call.given(arg.name)) continue;
      const TensorType& type = call.tensor(arg.name)->type;
      for (size_t d = 0; d < type.sizes.size(); ++d)
        if (type.strides[d].is_constant(0) && !type.sizes[d].is_constant(1)) fail_user("K0206", "overlaps itself");
    }
  }

  void note_unbacked(const Node& node) {
    std::set<std::string> names;
    auto collect = [&](const Value& value) {
      for (const Expr& size : value.type.sizes) collect_symbols(size, names);
    };
    for (const Value* result : node.results) {
      collect(*result);
      for (const Value* item : result->items) collect(*item);
    }
    for (const std::string& name : names) {
      if (state_.program.program.symbols.contains(name)) continue;
      SymbolInfo info;
      info.name = name;
      info.range = {0, INT64_MAX};
      info.unbacked = true;
      state_.program.program.symbols[name] = info;
    }
  }

  // Runs what there is and notes which values later steps can build on, and their range.
  void observe() {
    Program& program = state_.program.program;
    fill_values(state_.program);
    std::map<std::string, Tensor> seen;
    InterpretOptions options;
    options.after_node = [&](const Node& node, const std::vector<Datum>& results) {
      for (size_t i = 0; i < node.results.size(); ++i) {
        const Value& value = *node.results[i];
        if (results[i].is_tensor() && value.kind == ValueKind::tensor) seen[value.name] = results[i].tensor();
        if (!results[i].is_list()) continue;
        for (size_t k = 0; k < value.items.size() && k < results[i].list().size(); ++k)
          seen[value.items[k]->name] = results[i].list()[k].tensor();
      }
    };
    Interpreter interpreter(program, options);
    InterpretResult after = interpreter.run(program.sample_inputs);
    size_t user = 0;
    for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
      const InputSpec& spec = program.input_specs[i];
      const Datum* value = spec.kind == InputKind::user ? &after.inputs[user++] : nullptr;
      auto kept = after.state.find(spec.target);
      seen[program.graph.inputs[i]->name] = value                       ? value->tensor()
                                            : kept != after.state.end() ? kept->second
                                                                        : program.constants.at(spec.target);
    }
    state_.pool.clear();
    for (const auto& [name, tensor] : seen)
      if (auto known = describe(program, name, tensor)) state_.pool.push_back(*known);
  }

  // A value whose range is known and whose sizes do not depend on data.
  static std::optional<PoolValue> describe(const Program& program, const std::string& name, const Tensor& tensor) {
    const Value* value = program.graph.find_value(name);
    int64_t count = tensor.numel();
    if (!value || count == 0 || count > 4096) return {};
    // unsafe_split and the like share memory without saying so: what a write to their results does is open.
    if (value->producer && value->producer->target.find("unsafe") != std::string::npos) return {};
    std::set<std::string> symbols;
    for (const Expr& size : value->type.sizes) collect_symbols(size, symbols);
    for (const std::string& symbol : symbols)
      if (program.symbols.at(symbol).unbacked) return {};
    PoolValue out{name, INFINITY, -INFINITY};
    for (int64_t i = 0; i < count; ++i) {
      std::complex<double> v = tensor.item(i).as_complex();
      double size = is_complex(tensor.dtype) ? std::abs(v) : v.real();
      if (!std::isfinite(size)) return {};
      out.low = std::min(out.low, size);
      out.high = std::max(out.high, size);
    }
    return out;
  }

  Dice dice_;
  FitState state_;
};

}  // namespace

namespace {

RandomProgram with_layouts(RandomProgram random, const DrawOptions& options) {
  Dice dice(options.seed ^ 0x5bd1e995);
  for (size_t i = 0; i < random.program.graph.inputs.size(); ++i) {
    bool moved = dice.chance(options.strided);
    uint64_t layout = dice.next() | 1;
    if (moved && random.program.input_specs[i].kind == InputKind::user)
      random.sources.at(random.program.graph.inputs[i]->name).layout = layout;
  }
  fill_values(random);
  return random;
}

}  // namespace

RandomProgram draw_program(const std::vector<const OpRecord*>& operators, const DrawOptions& options) {
  Drawing drawing(options);
  Dice dice(options.seed + 12345);
  for (const OpRecord* record : options.required) drawing.add(*record);
  for (int i = 0; i < options.more; ++i) drawing.add(*dice.pick(operators));
  return with_layouts(drawing.finish(), options);
}

}  // namespace kiln::random_programs
