#include "runtime/input_errors.h"

#include "base/error.h"
#include "runtime/expression.h"

namespace kiln::runtime {
namespace {

bool is_float_symbol(const Program& program, const format::Symbol& symbol) {
  return symbol.source == format::SymbolSource::input_value &&
         program.plan.inputs[static_cast<size_t>(symbol.input)].what == format::InputWhat::sym_float;
}

using Kind = GivenValue::Kind;

GivenValue given(const kiln_value& value) {
  switch (value.kind) {
    case KILN_NONE:
      return {};
    case KILN_TENSOR:
      return {value.as.tensor ? Kind::tensor : Kind::other, 0, 0, "NULL"};
    case KILN_INT:
      return {Kind::integer, value.as.integer, 0, {}};
    case KILN_FLOAT:
      return {Kind::floating, 0, value.as.floating, {}};
    case KILN_BOOL:
      return {Kind::boolean, value.as.boolean != 0, 0, {}};
    case KILN_STRING:
      if (value.as.string) return {Kind::string, 0, 0, value.as.string};
      return {Kind::other, 0, 0, "a NULL string"};
    default:
      return {Kind::other, 0, 0, "an unknown kind of value"};
  }
}

GivenValue wanted(const format::Input& input) {
  constexpr Kind kinds[] = {Kind::none, Kind::integer, Kind::floating, Kind::boolean, Kind::string};
  return {kinds[static_cast<size_t>(input.constant_kind)], input.constant_int, input.constant_float,
          input.constant_string};
}

}  // namespace

void refuse_count(const Program& program, size_t got) {
  const auto& inputs = program.plan.inputs;
  refuse_input_count(inputs.size(), join_map(inputs, ", ", [](const format::Input& in) { return in.name; }), got);
}

void refuse_kind(const Program& program, size_t input, const char* expected, const kiln_value& got) {
  refuse_input_kind(input_place(program, input), expected, given_text(given(got)));
}

void check_constant(const Program& program, size_t input, const kiln_value& got) {
  const GivenValue expected = wanted(program.plan.inputs[input]);
  if (!same_constant(expected, given(got))) refuse_input_constant(input_place(program, input), expected, given(got));
}

InputPlace input_place(const Program& program, size_t input, int64_t dim) {
  return {input, program.plan.inputs[input].name, dim};
}

void refuse_input(const Program& program, const char* code, size_t input, const std::string& text) {
  kiln::refuse_input(code, input_place(program, input), text);
}

void refuse_output(const Program& program, size_t output, const std::string& text) {
  fail_user("K0621", str("Error: output_handles[", output, "]: ", text, " (output '",
                         program.plan.outputs[output].shown_name(), "')"));
}

std::string symbols_text(const Program& program, const std::vector<int32_t>& slots,
                         const std::vector<int64_t>& values) {
  return join_map(slots, ", ", [&](int32_t slot) {
    const format::Symbol& symbol = program.plan.symbols[static_cast<size_t>(slot)];
    const int64_t value = values[static_cast<size_t>(slot)];
    const std::string number =
        is_float_symbol(program, symbol) ? float_text(std::bit_cast<double>(value)) : std::to_string(value);
    if (symbol.input == format::none) return symbol_text(symbol.name, number, nullptr);
    const InputPlace place =
        input_place(program, static_cast<size_t>(symbol.input), symbol.dim == format::none ? -1 : symbol.dim);
    return symbol_text(symbol.name, number, &place);
  });
}

const format::ExprProgram* size_expression(const Program& program, const format::Symbol& symbol) {
  const format::Buffer& buffer = program.buffer(program.plan.inputs[static_cast<size_t>(symbol.input)].buffer);
  return &program.plan.exprs[static_cast<size_t>(buffer.sizes[static_cast<size_t>(symbol.dim)])];
}

void check_symbol_ranges(const Program& program, const std::vector<int64_t>& symbols) {
  for (int32_t slot : program.early) {
    const format::Symbol& symbol = program.plan.symbols[static_cast<size_t>(slot)];
    int64_t value = symbols[static_cast<size_t>(slot)];
    if ((symbol.low <= value && value <= symbol.high) || is_float_symbol(program, symbol)) continue;
    const bool of_size = symbol.source == format::SymbolSource::input_size;
    const bool plain = symbol.scale == 1 && symbol.rest == format::none;
    const auto input = static_cast<size_t>(symbol.input);
    int64_t got = value;
    if (!plain) evaluate(*size_expression(program, symbol), symbols, got);  // as it was solved
    kiln::refuse_input_range(input_place(program, input, of_size ? symbol.dim : -1), symbol.name, value, symbol.low,
                             symbol.high, plain ? "" : size_expression(program, symbol)->text, got);
  }
}

void check_guard(const Program& program, const format::Guard& guard, const Layout& layout,
                 const std::vector<int64_t>& symbols) {
  int64_t holds = 0;
  std::string why;
  bool known = layout.value(program, guard.condition, holds, why);
  if (known && holds != 0) return;
  refuse_relation(guard.text.empty() ? program.plan.exprs[static_cast<size_t>(guard.condition)].text : guard.text,
                  guard.reason, symbols_text(program, program.symbols_of(guard.condition), symbols), known ? "" : why);
}

void refuse_size(const Program& program, size_t input, size_t dim, int64_t expected, int64_t got,
                 const std::vector<int64_t>& symbols) {
  const format::Buffer& buffer = program.buffer(program.plan.inputs[input].buffer);
  format::ExprIndex expr = buffer.sizes[dim];
  const std::vector<int32_t> slots = program.symbols_of(expr);
  refuse_input_size(input_place(program, input, static_cast<int64_t>(dim)), expected, got,
                    slots.empty() ? "" : program.plan.exprs[static_cast<size_t>(expr)].text,
                    symbols_text(program, slots, symbols));
}

}  // namespace kiln::runtime
