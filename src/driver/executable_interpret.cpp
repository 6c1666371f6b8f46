#include "driver/executable_backends.h"
#include "driver/executable_custom.h"
#include "interp/interp.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

using ArgumentValues = std::map<std::string, Datum, std::less<>>;

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
      : program_(program.clone()), custom_(options.custom_op_libs) {
    resolve_operators(program_.graph, custom_.names());
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
    for (size_t i = 0; i < node.args.size(); ++i) {
      const std::string& name = node.args[i].name;
      const auto value = values.find(name.empty() ? str(i) : name);
      KILN_CHECK(value != values.end(), str("no value for argument ", i, " ", name, " of ", node.target));
      args.emplace_back(name, value->second);
    }
    return custom_.call(node.target, args, declared_results(node));
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
