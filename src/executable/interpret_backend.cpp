#include "custom/custom_operators.h"
#include "executable/backends.h"
#include "interp/interp.h"
#include "ops/declared_types.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

using ArgumentValues = std::map<std::string, Datum, std::less<>>;

// Without the new values of what it writes to.
std::vector<CustomResult> declared_results(const Node& node, const CustomUpdates& updates) {
  size_t own = node.results.size();
  for (const std::string& name : updates.names) own -= argument_tensors(*node.find(name)).size();
  std::vector<CustomResult> results;
  for (size_t i = 0; i < own; ++i) {
    const Value* value = node.results[i];
    if (value->kind == ValueKind::sym_int || value->kind == ValueKind::sym_float || value->kind == ValueKind::sym_bool)
      fail_unsupported("K0303", str("the custom operator ", node.target, " gives a number; it can only give tensors"),
                       node.where());
    CustomResult result;
    result.list = value->kind == ValueKind::tensor_list;
    if (value->kind == ValueKind::tensor) result.items.push_back(value->type);
    for (const Value* item : value->items)
      if (item) result.items.push_back(item->type);
    if (result.list || !result.items.empty()) results.push_back(std::move(result));
  }
  return results;
}

// The strides of torch.clone(): dense, with the dimensions in the order that the tensor's own strides give them
// (at::infer_dense_strides).
std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  const size_t rank = sizes.size();
  std::vector<size_t> order(rank);  // innermost first
  for (size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  // Above zero: a belongs outside of b. Zero strides decide nothing, as in PyTorch.
  const auto compare = [&](size_t a, size_t b) {
    if (strides[a] == 0 || strides[b] == 0) return 0;
    if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
    return sizes[a] > sizes[b] ? 1 : 0;
  };
  for (size_t i = 1; i < rank; ++i) {
    size_t moving = i;
    for (size_t j = i; j-- > 0;) {
      const int comparison = compare(order[j], order[moving]);
      if (comparison < 0) break;
      if (comparison == 0) continue;
      std::swap(order[j], order[moving]);
      moving = j;
    }
  }
  std::vector<int64_t> out(rank);
  int64_t next = 1;
  for (const size_t dim : order) {
    out[dim] = next;
    next *= std::max<int64_t>(sizes[dim], 1);
  }
  return out;
}

// What a caller gets is his own: no output shares memory with an input, a buffer or another output. Where eager returns
// a view with gaps, the copy is dense, as torch.clone() makes it.
Datum owned_output(const Datum& output) {
  if (output.is_list()) {
    std::vector<Datum> items;
    for (const Datum& item : output.list()) items.push_back(owned_output(item));
    return Datum{std::move(items)};
  }
  if (!output.is_tensor()) return output;
  const Tensor& tensor = output.tensor();
  const bool dense = dense_and_not_overlapping(tensor.sizes, tensor.strides);
  const Tensor copy = Tensor::empty_strided(tensor.dtype, tensor.sizes,
                                            dense ? tensor.strides : dense_strides(tensor.sizes, tensor.strides));
  copy_into(tensor, copy);
  return Datum{copy};
}

class InterpretExecutable : public Executable {
 public:
  InterpretExecutable(const Program& program, const ExecutableOptions& options)
      : program_(program.clone()), custom_(options.custom_op_libs) {
    resolve_with_custom(program_.graph, custom_.declared());
    check_declared_types(program_);
    interpret_options_.fp64 = options.fp64, interpret_options_.seed = options.seed;
    interpret_options_.after_node = options.after_node;
    interpret_options_.before_graph = options.before_graph;
    interpret_options_.custom = [this](const Node& node, const ArgumentValues& values) {
      return call_custom(node, values);
    };
    reset();
  }

  CallResult call(const std::vector<Datum>& inputs) override {
    InterpretResult result = interpreter_->run(inputs);
    for (Datum& output : result.outputs) output = owned_output(output);
    return {std::move(result.outputs), std::move(result.inputs), std::move(result.state)};
  }

  void reset() override { interpreter_ = std::make_unique<Interpreter>(program_, interpret_options_); }

 private:
  std::vector<Datum> call_custom(const Node& node, const ArgumentValues& values) const {
    CustomOperators::Args args;
    for (size_t i = 0; i < node.args.size(); ++i) {
      const std::string& name = node.args[i].name;
      if (is_custom_note(name)) continue;
      const auto value = values.find(name.empty() ? str(i) : name);
      KILN_CHECK(value != values.end(), str("no value for argument ", i, " ", name, " of ", node.target));
      args.emplace_back(name, value->second);
    }
    const CustomUpdates updates = custom_updates(node);
    std::vector<std::string> writes = custom_writes(node);
    writes.insert(writes.end(), updates.names.begin(), updates.names.end());
    std::vector<CustomResult> results = declared_results(node, updates);
    return custom_.call(node.target, args, results, writes);
  }

  Program program_;  // a copy, with its operators resolved
  CustomOperators custom_;
  InterpretOptions interpret_options_;
  std::unique_ptr<Interpreter> interpreter_;
};

}  // namespace

std::unique_ptr<Executable> make_interpret_executable(const Program& program, const ExecutableOptions& options) {
  return std::make_unique<InterpretExecutable>(program, options);
}

}  // namespace kiln
