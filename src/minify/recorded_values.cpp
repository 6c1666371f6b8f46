#include "minify/recorded_values.h"

#include <chrono>
#include <unordered_map>

#include "base/error.h"
#include "executable/executable.h"
#include "interp/interp.h"
#include "ops/op_record.h"

namespace kiln::minify {
namespace {

int64_t known_size(const Expr& size, const SymbolValues& symbols, int64_t otherwise) {
  try {
    return evaluate(size, symbols);
  } catch (const Error&) {
    return otherwise;
  }
}

std::vector<int64_t> known_sizes(const std::vector<Expr>& sizes, const SymbolValues& symbols) {
  std::vector<int64_t> out;
  for (const Expr& size : sizes) out.push_back(std::max<int64_t>(known_size(size, symbols, 2), 0));
  return out;
}

// splitmix64
uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

uint64_t seed_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace

Tensor random_tensor(DType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                     uint64_t seed) {
  const bool dense = strides.size() == sizes.size() && dense_and_not_overlapping(sizes, strides);
  Tensor out = dense ? Tensor::empty_strided(dtype, sizes, strides) : Tensor::empty(dtype, sizes);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const uint64_t bits = next_random(seed);
    const double unit = static_cast<double>(bits >> 11) * 0x1p-53;
    out.set_item(i, is_integral(dtype) ? Scalar(static_cast<int64_t>(bits >> 63)) : Scalar(2 * unit - 1));
  }
  return out;
}

Tensor own_dense(const Tensor& tensor) {
  const bool dense = dense_and_not_overlapping(tensor.sizes, tensor.strides);
  Tensor out = Tensor::empty_strided(tensor.dtype, tensor.sizes,
                                     dense ? tensor.strides : dense_strides_like(tensor.sizes, tensor.strides));
  copy_into(tensor, out);
  out.device = tensor.device;
  return out;
}

RecordedValues::RecordedValues(const Program& program, const std::vector<std::string>& custom_op_libs,
                               int64_t memory_bytes, double seconds, const std::function<void()>& between) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  const auto check_time = [&] {
    if (between) between();
    if (std::chrono::steady_clock::now() > until) fail_user("K0681", "the reference takes too long");
  };
  for (const auto& [name, info] : program.symbols)
    if (info.hint) symbols_[name] = *info.hint;
  std::unordered_map<const Node*, std::string> graph_names;
  int64_t left = memory_bytes;
  const auto keep = [&](const std::string& graph, const Value& value, const Datum& datum, const auto& self) -> void {
    if (datum.is_list()) {
      for (size_t i = 0; i < datum.list().size() && i < value.items.size(); ++i)
        if (value.items[i]) self(graph, *value.items[i], datum.list()[i], self);
      return;
    }
    if (datum.is_tensor()) {
      for (size_t d = 0; d < value.type.sizes.size() && d < datum.tensor().sizes.size(); ++d)
        if (value.type.sizes[d].is_symbol()) symbols_.emplace(value.type.sizes[d].name(), datum.tensor().sizes[d]);
      left -= datum.tensor().numel() * dtype_bytes(datum.tensor().dtype);
      if (left < 0) return;
      values_.emplace(std::pair(graph, value.name), Datum{own_dense(datum.tensor())});
    } else if (datum.is_scalar()) {
      if (value.expr.is_symbol() && !datum.scalar().is_float())
        symbols_.emplace(value.expr.name(), datum.scalar().as_int());
      values_.emplace(std::pair(graph, value.name), datum);
    }
  };
  ExecutableOptions options;
  options.backend = Backend::interpret;
  options.custom_op_libs = custom_op_libs;
  options.before_graph = [&](const Graph& graph, const std::vector<Datum>& inputs) {
    check_time();
    for (const auto& node : graph.nodes) graph_names.emplace(node.get(), graph.name);
    // Weights are not copied: a cut takes them from the program.
    const bool whole = graph.name == program.graph.name;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!whole || i >= program.input_specs.size() || !program.constants.contains(program.input_specs[i].target))
        keep(graph.name, *graph.inputs[i], inputs[i], keep);
  };
  options.after_node = [&](const Node& node, const std::vector<Datum>& results) {
    check_time();
    const auto found = graph_names.find(&node);
    const std::string& graph = found == graph_names.end() ? program.graph.name : found->second;
    for (size_t i = 0; i < results.size() && i < node.results.size(); ++i)
      keep(graph, *node.results[i], results[i], keep);
  };
  try {
    for (const auto& [name, value] : bind_symbols(program, program.sample_inputs)) symbols_[name] = value;
    result_ = std::make_shared<const CallResult>(make_executable(program, options)->call(program.sample_inputs));
  } catch (const Error&) {
    // The failure may be just that. Everything before it is recorded.
  }
}

const Datum* RecordedValues::find(const std::string& graph, const std::string& value) const {
  const auto found = values_.find({graph, value});
  return found == values_.end() ? nullptr : &found->second;
}

Tensor RecordedValues::tensor_for(const std::string& graph, const Value& value) const {
  const std::vector<int64_t> sizes = known_sizes(value.type.sizes, symbols_);
  const Datum* recorded = find(graph, value.name);
  if (recorded && recorded->is_tensor() && recorded->tensor().sizes == sizes &&
      recorded->tensor().dtype == value.type.dtype)
    return recorded->tensor();
  Tensor made = random_tensor(value.type.dtype, sizes, known_sizes(value.type.strides, symbols_), seed_of(value.name));
  made.device = value.type.device;
  return made;
}

std::vector<Datum> made_up_inputs(const Program& program) {
  SymbolValues hints;
  for (const auto& [name, info] : program.symbols)
    hints[name] = info.hint ? *info.hint : std::max<int64_t>(info.range.low, 2);
  std::vector<Datum> out;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    const Value& value = *program.graph.inputs[i];
    const InputSpec& spec = program.input_specs[i];
    if (spec.kind == InputKind::constant_value) {
      out.push_back(spec.constant.is_value() ? Datum{} : constant_datum(spec.constant));
    } else if (spec.kind == InputKind::user) {
      if (value.kind == ValueKind::tensor)
        out.push_back(Datum{random_tensor(value.type.dtype, known_sizes(value.type.sizes, hints),
                                          known_sizes(value.type.strides, hints), seed_of(value.name))});
      else if (value.kind == ValueKind::sym_int)
        out.push_back(Datum{Scalar(known_size(value.expr, hints, 2))});
      else if (value.kind == ValueKind::sym_float)
        out.push_back(Datum{Scalar(1.0)});
      else
        out.push_back({});
    }
  }
  return out;
}

}  // namespace kiln::minify
