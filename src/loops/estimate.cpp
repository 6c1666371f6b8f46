#include "loops/estimate.h"

#include "loops/loops.h"

namespace kiln::loops {

double estimate(const Expr& expr, const LoopProgram& program) {
  SymbolValues values;
  std::set<std::string> symbols;
  collect_symbols(expr, symbols);
  for (const std::string& name : symbols) {
    auto found = program.symbols.find(name);
    int64_t guess = 16;
    if (found != program.symbols.end())
      guess = found->second.hint.value_or(std::clamp<int64_t>(
          16, found->second.range.low, std::max(found->second.range.low, found->second.range.high)));
    values[name] = guess;
  }
  try {
    return static_cast<double>(evaluate(expr, values));
  } catch (const Error&) {
    return 16;
  }
}

}  // namespace kiln::loops
