#include "graph/input_binder.h"

#include <algorithm>

#include "base/input_messages.h"
#include "types/torch_dtype.h"

namespace kiln {
namespace {

using Kind = InputRule::Kind;

GivenValue given(const Scalar& scalar, std::string& text) {
  using Given = GivenValue::Kind;
  if (scalar.is_bool()) return {Given::boolean, scalar.as_int(), 0, {}};
  if (scalar.is_int()) return {Given::integer, scalar.as_int(), 0, {}};
  if (scalar.is_float()) return {Given::floating, 0, scalar.as_double(), {}};
  text = scalar.text();  // complex
  return {Given::other, 0, 0, text};
}

// `text` holds what the value refers to.
GivenValue given(const Datum& datum, std::string& text) {
  using Given = GivenValue::Kind;
  if (datum.is_tensor()) return {Given::tensor, 0, 0, {}};
  if (datum.is_list()) return {Given::list, 0, 0, {}};
  if (datum.is_scalar()) return given(datum.scalar(), text);
  if (const auto* string = std::get_if<std::string>(&datum.value)) return {Given::string, 0, 0, *string};
  return {};
}

std::string text_of(const Datum& datum) {
  std::string text;
  return given_text(given(datum, text));
}

std::string numbered_device(DeviceType type) { return str(static_cast<int>(type), "(", device_type_name(type), ")"); }

class InputBinder {
 public:
  InputBinder(const InputRules& rules, const std::vector<Datum>& inputs) : rules_(rules), inputs_(inputs) {}

  // In the runtime's order: what an input is by itself, symbols and their ranges, relations, sizes.
  SymbolValues bind() {
    if (inputs_.size() != rules_.inputs.size())
      refuse_input_count(rules_.inputs.size(),
                         join_map(rules_.inputs, ", ", [](const InputRule& rule) { return rule.name; }),
                         inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) check_input(i);
    solve();
    check_ranges();
    check_guards();
    check_equations(true);
    check_equations(false);
    return std::move(values_);
  }

 private:
  // One equation between an expression over symbols and a number that the caller gave.
  struct Equation {
    Expr expr;
    int64_t actual = 0;
    InputPlace place;
  };
  struct Source {
    std::string symbol;
    const Equation* equation;
  };

  InputPlace place(size_t input, int64_t dim = -1) const { return {input, rules_.inputs[input].name, dim}; }

  void check_input(size_t i) {
    const InputRule& rule = rules_.inputs[i];
    const Datum& datum = inputs_[i];
    switch (rule.kind) {
      case Kind::tensor:
        if (!datum.is_tensor()) refuse_input_kind(place(i), "a tensor", text_of(datum));
        return check_tensor(i, datum.tensor());
      case Kind::integer:
        if (!datum.is_scalar() || !(datum.scalar().is_int() || datum.scalar().is_bool()))
          refuse_input_kind(place(i), "an integer", text_of(datum));
        equations_.push_back({rule.number, datum.scalar().as_int(), place(i)});
        return;
      case Kind::number:
        if (!datum.is_scalar() || !(datum.scalar().is_int() || datum.scalar().is_float()))
          refuse_input_kind(place(i), "a number", text_of(datum));
        return;
      case Kind::list:
        if (!datum.is_list()) refuse_input_kind(place(i), "a list of tensors", text_of(datum));
        return;
      case Kind::constant:
        return check_constant(i);
      case Kind::anything:
        return;
    }
  }

  void check_constant(size_t i) const {
    const Argument& constant = rules_.inputs[i].constant;
    std::string wanted_text, got_text;
    GivenValue wanted;
    if (constant.is_scalar())
      wanted = given(constant.as_scalar(), wanted_text);
    else if (const auto* string = std::get_if<std::string>(&constant.value))
      wanted = {GivenValue::Kind::string, 0, 0, *string};
    else if (!constant.is_none())
      return;  // dtypes, devices and layouts do not travel as data
    const GivenValue got = given(inputs_[i], got_text);
    if (!same_constant(wanted, got)) refuse_input_constant(place(i), wanted, got);
  }

  void check_tensor(size_t i, const Tensor& tensor) {
    const InputRule& rule = rules_.inputs[i];
    if (tensor.device.type != rule.device)
      refuse_input_device(place(i), numbered_device(rule.device), numbered_device(tensor.device.type));
    if (tensor.dtype != rule.dtype)
      refuse_input_dtype(place(i), numbered_dtype(rule.dtype), numbered_dtype(tensor.dtype));
    if (tensor.sizes.size() != rule.sizes->size())
      refuse_input_rank(place(i), rule.sizes->size(), static_cast<int64_t>(tensor.sizes.size()));
    for (size_t d = 0; d < tensor.sizes.size(); ++d)
      equations_.push_back({(*rule.sizes)[d], tensor.sizes[d], place(i, static_cast<int64_t>(d))});
  }

  // Sizes that are a symbol, then numbers, then sizes that are affine in one symbol still unknown, until nothing new is
  // found: as a plan is made (package/symbol_sources.h).
  void solve() {
    for (const bool of_size : {true, false})
      for (const Equation& equation : equations_)
        if ((equation.place.dim >= 0) == of_size && equation.expr.is_symbol()) set(equation.expr.name(), equation);
    while (std::any_of(equations_.begin(), equations_.end(), [&](const Equation& e) { return solve_affine(e); })) {
    }
  }

  void set(const std::string& symbol, const Equation& equation, int64_t scale = 1, int64_t rest = 0) {
    if (values_.contains(symbol)) return;
    const auto value = solve_symbol(equation.actual, scale, rest);
    if (!value) refuse_unsolved(equation.place, equation.expr.text(), symbol, equation.actual);
    values_[symbol] = *value;
    sources_.push_back({symbol, &equation});
  }

  bool solve_affine(const Equation& equation) {
    std::set<std::string> unknown;
    collect_symbols(equation.expr, unknown);
    std::erase_if(unknown, [&](const std::string& name) { return values_.contains(name); });
    if (unknown.size() != 1) return false;
    const auto affine = affine_in(equation.expr, *unknown.begin());
    if (!affine) return false;
    const int64_t scale = evaluate(affine->coefficient, values_);
    if (scale == 0) return false;
    set(*unknown.begin(), equation, scale, evaluate(affine->rest, values_));
    return true;
  }

  void check_ranges() const {
    for (const Source& source : sources_) {
      const auto found = rules_.symbols->find(source.symbol);
      const int64_t value = values_.at(source.symbol);
      if (found == rules_.symbols->end() || found->second.range.contains(value)) continue;
      const Equation& equation = *source.equation;
      refuse_input_range(equation.place, source.symbol, value, found->second.range.low, found->second.range.high,
                         equation.expr.is_symbol() ? "" : equation.expr.text(), equation.actual);
    }
  }

  // Where the symbols of an expression come from.
  std::string origins(const Expr& expr) const {
    std::set<std::string> names;
    collect_symbols(expr, names);
    std::vector<std::string> texts;
    for (const Source& source : sources_)
      if (names.contains(source.symbol))
        texts.push_back(symbol_text(source.symbol, std::to_string(values_.at(source.symbol)), &source.equation->place));
    return join(texts, ", ");
  }

  bool known(const Expr& expr) const {
    std::set<std::string> names;
    collect_symbols(expr, names);
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return values_.contains(name); });
  }

  void check_guards() const {
    for (const Guard& guard : *rules_.guards) {
      if (!known(guard.condition)) continue;
      std::string why;
      try {
        if (evaluate(guard.condition, values_) != 0) continue;
      } catch (const Error& error) {
        why = error.message();
      }
      refuse_relation(guard.condition.text(), guard.reason, origins(guard.condition), why);
    }
  }

  void check_equations(bool of_sizes) const {
    for (const Equation& equation : equations_) {
      if ((equation.place.dim >= 0) != of_sizes || !known(equation.expr)) continue;
      const int64_t expected = evaluate(equation.expr, values_);
      if (expected == equation.actual) continue;
      refuse_input_size(equation.place, expected, equation.actual,
                        equation.expr.is_constant() ? "" : equation.expr.text(), origins(equation.expr));
    }
  }

  const InputRules& rules_;
  const std::vector<Datum>& inputs_;
  std::vector<Equation> equations_;
  SymbolValues values_;
  std::vector<Source> sources_;  // in the order in which they were found
};

}  // namespace

SymbolValues bind_inputs(const InputRules& rules, const std::vector<Datum>& inputs) {
  return InputBinder(rules, inputs).bind();
}

}  // namespace kiln
