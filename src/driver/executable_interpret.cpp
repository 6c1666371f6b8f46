#include "driver/executable_backends.h"
#include "driver/executable_custom.h"
#include "interp/interp.h"

namespace kiln {
namespace {

class InterpretExecutable : public Executable {
 public:
  InterpretExecutable(const Program& program, const ExecutableOptions& options)
      : program_(program), custom_(options.custom_op_libs) {
    interpret_options_.fp64 = options.fp64;
    interpret_options_.custom = [this](const Node& node, const std::map<std::string, Datum, std::less<>>& values) {
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
  std::vector<Datum> call_custom(const Node& node, const std::map<std::string, Datum, std::less<>>& values) const {
    CustomOperators::Args args;
    for (const Node::NamedArgument& given : node.args) {
      const auto value = values.find(given.name);
      KILN_CHECK(value != values.end(), str("no value for argument ", given.name, " of ", node.target));
      args.emplace_back(given.name, value->second);
    }
    return custom_.call(node.target, args);
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
