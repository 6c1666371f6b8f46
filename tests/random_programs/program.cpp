#include "program.h"

#include <sstream>

#include "base/text.h"
#include "layouts.h"
#include "ops/op_record.h"
#include "ops/sample_program.h"

namespace kiln::random_programs {

SymbolValues hint_values(const Program& program) {
  SymbolValues values;
  for (const auto& [name, info] : program.symbols)
    if (!info.unbacked) values[name] = info.hint.value_or(std::max<int64_t>(info.range.low, 2));
  return values;
}

namespace {

// PyTorch does not write to a tensor with stride 0.
bool writes(const Program& program) {
  return std::any_of(program.graph.nodes.begin(), program.graph.nodes.end(),
                     [](const auto& node) { return node->op && node->op->schema.mutates(); });
}

}  // namespace

void fill_values(RandomProgram& random) {
  Program& program = random.program;
  SymbolValues symbols = hint_values(program);
  bool may_repeat = !writes(program);
  program.sample_inputs.clear();
  random.given_inputs.clear();
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    const Value& input = *program.graph.inputs[i];
    const ValueSource& source = random.sources.at(input.name);
    Sample::TensorSpec spec;
    spec.dtype = input.type.dtype;
    spec.low = source.low;
    spec.high = source.high;
    for (const Expr& size : input.type.sizes) spec.sizes.push_back(evaluate(size, symbols));
    Tensor values = sample_tensor(spec, source.seed);
    if (program.input_specs[i].kind != InputKind::user) {
      program.constants[program.input_specs[i].target] = values;
      continue;
    }
    bool moved = source.layout != 0;
    if (moved && may_repeat) values = repeated(values, source.layout);
    program.sample_inputs.push_back(Datum{values});
    random.given_inputs.push_back(Datum{moved ? laid_out(values, source.layout, may_repeat) : values});
  }
}

std::string save_text(const RandomProgram& random, const std::string& why) {
  std::ostringstream out;
  out.precision(17);
  std::istringstream lines(why);
  for (std::string line; std::getline(lines, line);) out << "# " << line << "\n";
  for (const Value* input : random.program.graph.inputs) {
    const ValueSource& source = random.sources.at(input->name);
    out << "#value " << input->name << " " << source.low << " " << source.high << " " << source.seed;
    if (source.layout != 0) out << " " << source.layout;
    out << "\n";
  }
  out << print(random.program);
  return out.str();
}

RandomProgram load_text(std::string_view text) {
  RandomProgram random;
  std::istringstream lines{std::string(text)};
  std::string rest;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("#value ", 0) == 0) {
      std::istringstream words(line.substr(7));
      std::string name;
      ValueSource source;
      if (!(words >> name >> source.low >> source.high >> source.seed)) fail_user("K0220", "bad line: " + line);
      if (!(words >> source.layout)) source.layout = 0;
      random.sources[name] = source;
    } else if (line.rfind("#", 0) != 0) {
      rest += line + "\n";
    }
  }
  random.program = parse_program(rest);
  random.program.constant_hashes.clear();
  for (const Value* input : random.program.graph.inputs)
    if (!random.sources.contains(input->name)) fail_user("K0220", "no #value line for input " + input->name);
  resolve_operators(random.program.graph, {});
  random.symbolic = !random.program.symbols.empty();
  fill_values(random);
  return random;
}

}  // namespace kiln::random_programs
