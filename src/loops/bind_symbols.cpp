// Checks a call's inputs against the program and finds the values of its symbols from their sizes. The messages are
// those of the contract and of the reference interpreter.
#include <set>

#include "loops/interpreter.h"
#include "types/torch_dtype.h"

namespace kiln::loops {
namespace {

// One equation between an expression over symbols and a number that the caller gave.
struct Equation {
  Expr expr;
  int64_t actual = 0;
  size_t input = 0;
  int dim = -1;  // -1: the input is the number itself
};

std::string kind_text(const Datum& datum) {
  if (datum.is_none()) return "None";
  if (datum.is_tensor()) return "a tensor";
  if (datum.is_list()) return "a list";
  if (datum.is_scalar()) return str("the number ", datum.scalar().text());
  return "a string";
}

bool same_constant(const Argument& wanted, const Datum& got) {
  if (wanted.is_none()) return got.is_none();
  if (wanted.is_scalar()) {
    if (!got.is_scalar()) return false;
    return wanted.as_scalar() == got.scalar() || wanted.as_scalar().as_complex() == got.scalar().as_complex();
  }
  if (auto* text = std::get_if<std::string>(&wanted.value)) {
    auto* other = std::get_if<std::string>(&got.value);
    return other && *other == *text;
  }
  return true;  // devices and the like do not travel as data
}

std::string constant_text(const Argument& wanted) {
  if (wanted.is_scalar()) return wanted.as_scalar().text();
  if (auto* text = std::get_if<std::string>(&wanted.value)) return quote(*text);
  return "None";
}

class Binder {
 public:
  Binder(const LoopProgram& program, const std::vector<Datum>& inputs) : program_(program), inputs_(inputs) {}

  SymbolValues bind() {
    if (inputs_.size() != program_.inputs.size())
      fail_user("K0610", str("Error: expected ", program_.inputs.size(), " inputs (",
                             join_map(program_.inputs, ", ", [](const auto& in) { return in.name; }), "), but got ",
                             inputs_.size()));
    for (size_t i = 0; i < inputs_.size(); ++i) check_input(i);
    for (bool progress = true; progress;) {
      progress = false;
      for (const Equation& equation : equations_) progress |= solve(equation);
    }
    check_ranges();
    check_equations();
    check_guards();
    return std::move(values_);
  }

 private:
  [[noreturn]] void refuse(const char* code, size_t i, const std::string& text) const {
    fail_user(code, str("Error: input_handles[", i, "]: ", text, " (input '", program_.inputs[i].name, "')"));
  }

  void check_input(size_t i) {
    const auto& what = program_.inputs[i].what;
    const Datum& datum = inputs_[i];
    if (auto* id = std::get_if<BufferId>(&what)) {
      if (!datum.is_tensor()) refuse("K0611", i, str("expected: a tensor, but got: ", kind_text(datum)));
      check_tensor(i, datum.tensor(), program_.buffers[static_cast<size_t>(*id)]);
    } else if (auto* symbol = std::get_if<std::string>(&what)) {
      if (!datum.is_scalar() || !(datum.scalar().is_int() || datum.scalar().is_bool()))
        refuse("K0611", i, str("expected: an integer, but got: ", kind_text(datum)));
      equations_.push_back({Expr::symbol(*symbol), datum.scalar().as_int(), i, -1});
    } else if (const Argument& wanted = std::get<Argument>(what); !same_constant(wanted, datum)) {
      refuse("K0612", i, str("unmatched value, expected: ", constant_text(wanted), ", but got: ", kind_text(datum)));
    }
  }

  void check_tensor(size_t i, const Tensor& tensor, const Buffer& buffer) {
    if (tensor.dtype != buffer.dtype)
      refuse("K0614", i,
             str("unmatched dtype, expected: ", numbered_dtype(buffer.dtype),
                 ", but got: ", numbered_dtype(tensor.dtype)));
    if (tensor.sizes.size() != buffer.sizes.size())
      refuse(
          "K0615", i,
          str("unmatched number of dimensions, expected: ", buffer.sizes.size(), ", but got: ", tensor.sizes.size()));
    for (size_t d = 0; d < buffer.sizes.size(); ++d) {
      if (!buffer.sizes[d].is_constant())
        equations_.push_back({buffer.sizes[d], tensor.sizes[d], i, static_cast<int>(d)});
      else if (buffer.sizes[d].value() != tensor.sizes[d])
        refuse(
            "K0616", i,
            str("unmatched dim value at ", d, ", expected: ", buffer.sizes[d].value(), ", but got: ", tensor.sizes[d]));
    }
  }

  std::set<std::string> unknown(const Expr& expr) const {
    std::set<std::string> names;
    collect_symbols(expr, names);
    std::erase_if(names, [&](const std::string& name) { return values_.count(name) > 0; });
    return names;
  }

  // Sizes that are affine in one symbol still unknown give that symbol.
  bool solve(const Equation& equation) {
    std::set<std::string> open = unknown(equation.expr);
    if (open.size() != 1) return false;
    const std::string& name = *open.begin();
    auto affine = affine_in(equation.expr, name);
    if (!affine) return false;
    int64_t coefficient = evaluate(affine->coefficient, values_), rest = 0;
    if (coefficient == 0) return false;
    if (__builtin_sub_overflow(equation.actual, evaluate(affine->rest, values_), &rest) ||
        (coefficient == -1 && rest == INT64_MIN) || rest % coefficient != 0)
      refuse("K0616", equation.input,
             str(place(equation), ", expected: ", equation.expr.text(), " with a whole number for ", name,
                 ", but got: ", equation.actual));
    values_[name] = rest / coefficient;
    sources_[name] = &equation;
    return true;
  }

  static std::string place(const Equation& e) {
    return e.dim < 0 ? std::string("unmatched value") : str("unmatched dim value at ", e.dim);
  }

  void check_ranges() const {
    for (const auto& [name, value] : values_) {
      auto found = program_.symbols.find(name);
      if (found == program_.symbols.end() || found->second.range.contains(value)) continue;
      const Interval& range = found->second.range;
      const Equation& source = *sources_.at(name);
      const bool small = value < range.low, plain = source.expr.is_symbol();
      refuse("K0617", source.input,
             str(source.dim < 0 ? "value is too " : "dim value is too ", small ? "small" : "large",
                 source.dim < 0 ? std::string() : str(" at ", source.dim), ", expected ", plain ? "it" : name.c_str(),
                 " to be ", small ? ">= " : "<= ", small ? range.low : range.high, ", but got: ", source.actual,
                 plain ? str(" (", name, ")") : str(" (", name, " = ", value, " in ", source.expr.text(), ")")));
    }
  }

  std::string origin_of(const Expr& expr) const {
    std::set<std::string> names;
    collect_symbols(expr, names);
    return join_map(names, ", ", [&](const std::string& name) {
      auto source = sources_.find(name);
      if (source == sources_.end()) return name;
      const Equation& equation = *source->second;
      return str(name, " = ", values_.at(name), " from input_handles[", equation.input, "] '",
                 program_.inputs[equation.input].name, "'",
                 equation.dim < 0 ? std::string() : str(" dim ", equation.dim));
    });
  }

  void check_equations() const {
    for (const Equation& equation : equations_) {
      if (!unknown(equation.expr).empty()) continue;
      int64_t expected = evaluate(equation.expr, values_);
      if (expected == equation.actual) continue;
      refuse("K0618", equation.input,
             str(place(equation), ", expected: ", expected, " (", equation.expr.text(), "; ", origin_of(equation.expr),
                 "), but got: ", equation.actual));
    }
  }

  void check_guards() const {
    for (const Guard& guard : program_.guards) {
      if (!unknown(guard.condition).empty() || evaluate(guard.condition, values_) != 0) continue;
      fail_user("K0619", str("Error: the inputs do not satisfy ", guard.condition.text(), " (", guard.reason, "; ",
                             origin_of(guard.condition), ")"));
    }
  }

  const LoopProgram& program_;
  const std::vector<Datum>& inputs_;
  std::vector<Equation> equations_;
  SymbolValues values_;
  std::map<std::string, const Equation*> sources_;
};

}  // namespace

SymbolValues bind_symbols(const LoopProgram& program, const std::vector<Datum>& inputs) {
  return Binder(program, inputs).bind();
}

}  // namespace kiln::loops
