#include "ops/sample_program.h"

#include <cmath>

namespace kiln {

namespace {

// splitmix64, so that values do not depend on the standard library.
class SampleNumbers {
 public:
  explicit SampleNumbers(uint64_t seed) : state_(seed) {}
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

class SampleBuilder {
 public:
  SampleBuilder(const OpRecord& record, bool symbolic_sizes, uint64_t seed)
      : record_(record), symbolic_(symbolic_sizes), seed_(seed) {}

  Program build(const Sample& sample) {
    program_.name = record_.name();
    Graph& graph = program_.graph;
    std::vector<Node::NamedArgument> args;
    if (sample.args.size() > record_.schema.args.size())
      fail_bug(str("a sample of ", record_.name(), " has more arguments than the schema"));
    for (size_t i = 0; i < sample.args.size(); ++i) {
      const std::string& name = record_.schema.args[i].name;
      args.push_back({name, argument(name, sample.args[i])});
    }
    Node* node = graph.add_node(record_.name(), graph.unique_name(op_short_name(record_.name())));
    node->op = &record_;
    node->args = std::move(args);
    infer_types(*node, graph, program_.ranges());
    for (Value* result : node->results) {
      if (result->kind == ValueKind::tensor_list) {
        for (Value* item : result->items) add_output(item);
      } else {
        add_output(result);
      }
    }
    note_unbacked(*node);
    return std::move(program_);
  }

 private:
  void add_output(Value* value) {
    program_.graph.outputs.push_back(Argument(value));
    program_.output_specs.push_back({});
  }

  // Sizes that the operator's rule made up: they depend on data.
  void note_unbacked(const Node& node) {
    std::set<std::string> names;
    auto note = [&](const Value& value) {
      for (const Expr& size : value.type.sizes) collect_symbols(size, names);
    };
    for (const Value* result : node.results) {
      note(*result);
      for (const Value* item : result->items)
        if (item) note(*item);
    }
    for (const std::string& name : names) {
      if (program_.symbols.contains(name)) continue;
      SymbolInfo info;
      info.name = name;
      info.range = {0, INT64_MAX};
      info.unbacked = true;
      program_.symbols[name] = info;
    }
  }

  Argument argument(const std::string& name, const Sample::SampleArg& arg) {
    if (const auto* spec = std::get_if<Sample::TensorSpec>(&arg)) return Argument(tensor(name, *spec));
    if (const auto* specs = std::get_if<std::vector<Sample::TensorSpec>>(&arg)) {
      Argument::List list;
      for (size_t i = 0; i < specs->size(); ++i) list.push_back(Argument(tensor(str(name, "_", i), (*specs)[i])));
      return Argument(std::move(list));
    }
    if (const auto* scalar = std::get_if<Scalar>(&arg)) return Argument(*scalar);
    if (const auto* integers = std::get_if<std::vector<int64_t>>(&arg)) {
      Argument::List list;
      for (int64_t value : *integers) list.push_back(Argument(Scalar(value)));
      return Argument(std::move(list));
    }
    if (const auto* text = std::get_if<std::string>(&arg)) return Argument(*text);
    if (const auto* dtype = std::get_if<DType>(&arg)) return Argument(*dtype);
    return {};
  }

  Value* tensor(const std::string& name, const Sample::TensorSpec& spec) {
    Value* value = program_.graph.add_input(name, ValueKind::tensor);
    std::vector<Expr> sizes;
    for (int64_t size : spec.sizes) sizes.push_back(symbolic_ && size >= 2 ? symbol(size) : Expr(size));
    value->type = contiguous_type(spec.dtype, std::move(sizes));
    program_.input_specs.push_back({});
    program_.sample_inputs.push_back(Datum{sample_tensor(spec, seed_ + program_.sample_inputs.size())});
    return value;
  }

  Expr symbol(int64_t size) {
    std::string name = str("s", size);
    SymbolInfo info;
    info.name = name;
    info.range = {2, 4096};
    info.hint = size;
    program_.symbols[name] = info;
    return Expr::symbol(name);
  }

  const OpRecord& record_;
  bool symbolic_;
  uint64_t seed_;
  Program program_;
};

}  // namespace

Tensor sample_tensor(const Sample::TensorSpec& spec, uint64_t seed) {
  Tensor tensor = Tensor::empty(spec.dtype, spec.sizes);
  SampleNumbers numbers(seed);
  int64_t count = tensor.numel();
  for (int64_t i = 0; i < count; ++i) {
    double value = spec.low + (spec.high - spec.low) * numbers.unit();
    if (spec.dtype == DType::boolean) {
      // A range without 1 is false everywhere, one without 0 true.
      tensor.set_item(i, Scalar(numbers.unit() < (spec.high < 1 ? 0.0 : spec.low > 0 ? 1.0 : 0.5)));
    } else if (is_integer(spec.dtype)) {
      // Whole numbers from low to high, both included.
      double whole = std::floor(spec.low + (std::floor(spec.high) - std::ceil(spec.low) + 1) * numbers.unit());
      tensor.set_item(i, Scalar(static_cast<int64_t>(std::min(whole, std::floor(spec.high)))));
    } else if (is_complex(spec.dtype)) {
      tensor.set_item(i, Scalar(std::complex<double>(value, spec.low + (spec.high - spec.low) * numbers.unit())));
    } else {
      tensor.set_item(i, Scalar(value));
    }
  }
  return tensor;
}

Program program_from_sample(const OpRecord& record, const Sample& sample, bool symbolic_sizes, uint64_t seed) {
  return SampleBuilder(record, symbolic_sizes, seed).build(sample);
}

}  // namespace kiln
