// What a program of loops says of its inputs.
#include "graph/input_binder.h"
#include "loops/interpreter.h"

namespace kiln::loops {

SymbolValues bind_symbols(const LoopProgram& program, const std::vector<Datum>& inputs) {
  InputRules rules;
  std::vector<std::vector<Expr>> sizes;
  sizes.reserve(program.inputs.size());
  for (const LoopProgram::Input& input : program.inputs) {
    InputRule rule;
    rule.name = input.name;
    if (const auto* id = std::get_if<BufferId>(&input.what)) {
      const Buffer& buffer = program.buffers[static_cast<size_t>(*id)];
      rule.kind = InputRule::Kind::tensor;
      sizes.push_back(buffer.tensor_sizes());
      rule.dtype = buffer.tensor_dtype(), rule.sizes = &sizes.back();  // loops run on the CPU
    } else if (const auto* symbol = std::get_if<std::string>(&input.what)) {
      rule.kind = InputRule::Kind::integer;
      rule.number = Expr::symbol(*symbol);
    } else {
      rule.kind = InputRule::Kind::constant;
      rule.constant = std::get<Argument>(input.what);
    }
    rules.inputs.push_back(std::move(rule));
  }
  rules.symbols = &program.symbols, rules.guards = &program.guards;
  return bind_inputs(rules, inputs);
}

}  // namespace kiln::loops
