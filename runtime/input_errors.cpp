#include "runtime/input_errors.h"

#include "base/error.h"

namespace kiln::runtime {
namespace {

bool is_float_symbol(const Program& program, const format::Symbol& symbol) {
  return symbol.source == format::SymbolSource::input_value &&
         program.plan.inputs[static_cast<size_t>(symbol.input)].what == format::InputWhat::sym_float;
}

}  // namespace

void refuse_input(const Program& program, const char* code, size_t input, const std::string& text) {
  fail_user(code, str("Error: input_handles[", input, "]: ", text, " (input '", program.plan.inputs[input].name, "')"));
}

void refuse_output(const Program& program, size_t output, const std::string& text) {
  fail_user("K0621", str("Error: output_handles[", output, "]: ", text, " (output '",
                         program.plan.outputs[output].shown_name(), "')"));
}

std::string symbols_text(const Program& program, const std::vector<int32_t>& slots,
                         const std::vector<int64_t>& values) {
  return join_map(slots, ", ", [&](int32_t slot) {
    const format::Symbol& symbol = program.plan.symbols[static_cast<size_t>(slot)];
    int64_t value = values[static_cast<size_t>(slot)];
    std::string text = is_float_symbol(program, symbol) ? str(symbol.name, " = ", std::bit_cast<double>(value))
                                                        : str(symbol.name, " = ", value);
    if (symbol.input == format::none) return text;
    text += str(" from input_handles[", symbol.input, "] '",
                program.plan.inputs[static_cast<size_t>(symbol.input)].name, "'");
    return symbol.dim == format::none ? text : str(text, " dim ", symbol.dim);
  });
}

void check_symbol_ranges(const Program& program, const std::vector<int64_t>& symbols) {
  for (int32_t slot : program.early) {
    const format::Symbol& symbol = program.plan.symbols[static_cast<size_t>(slot)];
    int64_t value = symbols[static_cast<size_t>(slot)];
    if ((symbol.low <= value && value <= symbol.high) || is_float_symbol(program, symbol)) continue;
    bool small = value < symbol.low, of_size = symbol.source == format::SymbolSource::input_size;
    bool plain = symbol.scale == 1 && symbol.rest == format::none;
    refuse_input(program, "K0617", static_cast<size_t>(symbol.input),
                 str(of_size ? "dim value is too " : "value is too ", small ? "small" : "large",
                     of_size ? str(" at ", symbol.dim) : std::string(), ", expected ",
                     plain ? "it" : symbol.name.c_str(), " to be ", small ? ">= " : "<= ",
                     small ? symbol.low : symbol.high, ", but got: ", value, " (", symbol.name, ")"));
  }
}

void check_guard(const Program& program, const format::Guard& guard, const Layout& layout,
                 const std::vector<int64_t>& symbols) {
  int64_t holds = 0;
  std::string why;
  bool known = layout.value(program, guard.condition, holds, why);
  if (known && holds != 0) return;
  std::string text = guard.text.empty() ? program.plan.exprs[static_cast<size_t>(guard.condition)].text : guard.text;
  std::string detail = symbols_text(program, program.symbols_of(guard.condition), symbols);
  if (!guard.reason.empty()) detail = str(guard.reason, "; ", detail);
  if (!known) detail += str("; ", why);
  fail_user("K0619", str("Error: the inputs do not satisfy ", text, " (", detail, ")"));
}

void refuse_size(const Program& program, size_t input, size_t dim, int64_t expected, int64_t got,
                 const std::vector<int64_t>& symbols) {
  const format::Buffer& buffer = program.buffer(program.plan.inputs[input].buffer);
  format::ExprIndex expr = buffer.sizes[dim];
  std::vector<int32_t> slots = program.symbols_of(expr);
  if (slots.empty())
    refuse_input(program, "K0616", input,
                 str("unmatched dim value at ", dim, ", expected: ", expected, ", but got: ", got));
  refuse_input(program, "K0618", input,
               str("unmatched dim value at ", dim, ", expected: ", expected, " (",
                   program.plan.exprs[static_cast<size_t>(expr)].text, "; ", symbols_text(program, slots, symbols),
                   "), but got: ", got));
}

}  // namespace kiln::runtime
