#include "driver/executable_backends.h"
#include "driver/executable_custom.h"
#include "interp/interp.h"

namespace kiln {
namespace {

using ArgumentValues = std::map<std::string, Datum, std::less<>>;

// Custom operators know only the dtypes of the program: in fp64 mode they are given and give those.
Datum with_dtype(const Datum& datum, const Argument& argument) {
  if (datum.is_tensor() && argument.is_value()) {
    const DType dtype = argument.as_value()->type.dtype;
    return datum.tensor().dtype == dtype ? datum : Datum{convert(datum.tensor(), dtype)};
  }
  if (!datum.is_list()) return datum;
  std::vector<Datum> items;
  for (size_t i = 0; i < datum.list().size(); ++i) {
    if (argument.is_list() && i < argument.as_list().size())
      items.push_back(with_dtype(datum.list()[i], argument.as_list()[i]));
    else if (argument.is_value() && i < argument.as_value()->items.size() && argument.as_value()->items[i])
      items.push_back(with_dtype(datum.list()[i], Argument(argument.as_value()->items[i])));
    else
      items.push_back(datum.list()[i]);
  }
  return Datum{std::move(items)};
}

Datum widened(const Datum& datum) {
  if (datum.is_tensor() && is_float(datum.tensor().dtype)) return Datum{convert(datum.tensor(), DType::f64)};
  if (!datum.is_list()) return datum;
  std::vector<Datum> items;
  for (const Datum& item : datum.list()) items.push_back(widened(item));
  return Datum{std::move(items)};
}

std::vector<CustomResult> declared_results(const Node& node) {
  std::vector<CustomResult> results;
  for (const Value* value : node.results) {
    CustomResult result;
    result.list = value->kind == ValueKind::tensor_list;
    if (value->kind == ValueKind::tensor) result.items.push_back(value->type);
    for (const Value* item : value->items)
      if (item) result.items.push_back(item->type);
    if (result.list || !result.items.empty()) results.push_back(std::move(result));
  }
  return results;
}

class InterpretExecutable : public Executable {
 public:
  InterpretExecutable(const Program& program, const ExecutableOptions& options)
      : program_(program), custom_(options.custom_op_libs) {
    interpret_options_.fp64 = options.fp64;
    interpret_options_.custom = [this](const Node& node, const ArgumentValues& values) {
      return call_custom(node, values);
    };
    reset();
  }

  CallResult call(const std::vector<Datum>& inputs) override {
    InterpretResult result = interpreter_->run(inputs);
    return {std::move(result.outputs), std::move(result.inputs), std::move(result.state)};
  }

  void reset() override { interpreter_ = std::make_unique<Interpreter>(program_, interpret_options_); }

 private:
  std::vector<Datum> call_custom(const Node& node, const ArgumentValues& values) const {
    CustomOperators::Args args;
    for (const Node::NamedArgument& given : node.args) {
      const auto value = values.find(given.name);
      KILN_CHECK(value != values.end(), str("no value for argument ", given.name, " of ", node.target));
      args.emplace_back(given.name, interpret_options_.fp64 ? with_dtype(value->second, given.arg) : value->second);
    }
    std::vector<Datum> results = custom_.call(node.target, args, declared_results(node));
    if (interpret_options_.fp64) {
      for (Datum& result : results) result = widened(result);
      copy_back(args, values);
    }
    return results;
  }
  // What the operator wrote into a converted argument belongs into the tensor it was converted from.
  static void copy_back(const CustomOperators::Args& args, const ArgumentValues& values) {
    for (const auto& [name, datum] : args) {
      const Datum& original = values.find(name)->second;
      if (datum.is_tensor() && datum.tensor().storage != original.tensor().storage &&
          original.tensor().storage->writable)
        copy_into(datum.tensor(), original.tensor());
    }
  }

  const Program& program_;
  CustomOperators custom_;
  InterpretOptions interpret_options_;
  std::unique_ptr<Interpreter> interpreter_;
};

}  // namespace

std::unique_ptr<Executable> make_interpret_executable(const Program& program, const ExecutableOptions& options) {
  return std::make_unique<InterpretExecutable>(program, options);
}

}  // namespace kiln
