// Checks a call's inputs against the program and finds the values of its symbols from their sizes.
#include "interp/interp.h"
#include "types/torch_dtype.h"

namespace kiln {

namespace {

// One equation between an expression over symbols and a number that the caller gave.
struct Equation {
  Expr expr;
  int64_t actual = 0;
  size_t input = 0;
  int dim = -1;  // -1: the input is the number itself
};

class InputBinder {
 public:
  InputBinder(const Program& program, const std::vector<Datum>& inputs) : program_(program), inputs_(inputs) {}

  SymbolValues bind() {
    collect_user_inputs();
    if (inputs_.size() != users_.size()) {
      fail_user("K0610", str("Error: expected ", users_.size(), " inputs (",
                             join_map(users_, ", ", [](const User& user) { return user.value->name; }), "), but got ",
                             inputs_.size()));
    }
    for (size_t i = 0; i < users_.size(); ++i) check_input(i);
    solve();
    check_ranges();
    check_equations();
    check_guards();
    return values_;
  }

 private:
  struct User {
    const Value* value;
    const InputSpec* spec;
  };

  void collect_user_inputs() {
    static const InputSpec plain;
    for (size_t i = 0; i < program_.graph.inputs.size(); ++i) {
      const InputSpec* spec = i < program_.input_specs.size() ? &program_.input_specs[i] : &plain;
      if (spec->kind == InputKind::user || spec->kind == InputKind::constant_value)
        users_.push_back({program_.graph.inputs[i], spec});
    }
  }

  std::string handle(size_t i) const { return str("Error: input_handles[", i, "]: "); }
  std::string named(size_t i) const { return str(" (input '", users_[i].value->name, "')"); }
  [[noreturn]] void refuse(const char* code, size_t i, const std::string& text) const {
    fail_user(code, str(handle(i), text, named(i)));
  }

  static std::string kind_text(const Datum& datum) {
    if (datum.is_none()) return "None";
    if (datum.is_tensor()) return "a tensor";
    if (datum.is_list()) return "a list";
    if (datum.is_scalar()) return str("the number ", datum.scalar().text());
    return "a string";
  }

  void check_input(size_t i) {
    const User& user = users_[i];
    const Datum& datum = inputs_[i];
    if (user.spec->kind == InputKind::constant_value) return check_constant(i);
    switch (user.value->kind) {
      case ValueKind::tensor:
        if (!datum.is_tensor()) refuse("K0611", i, str("expected: a tensor, but got: ", kind_text(datum)));
        return check_tensor(i, datum.tensor());
      case ValueKind::sym_int:
      case ValueKind::sym_bool:
        if (!datum.is_scalar() || !(datum.scalar().is_int() || datum.scalar().is_bool()))
          refuse("K0611", i, str("expected: an integer, but got: ", kind_text(datum)));
        equations_.push_back({user.value->expr, datum.scalar().as_int(), i, -1});
        return;
      case ValueKind::sym_float:
        if (!datum.is_scalar()) refuse("K0611", i, str("expected: a number, but got: ", kind_text(datum)));
        return;
      case ValueKind::tensor_list:
        if (!datum.is_list()) refuse("K0611", i, str("expected: a list of tensors, but got: ", kind_text(datum)));
        return;
      case ValueKind::none:
      case ValueKind::object:
        return;
    }
  }

  // A constant input has the value of the export; another value would need another program.
  void check_constant(size_t i) {
    const Argument& wanted = users_[i].spec->constant;
    const Datum& datum = inputs_[i];
    auto expect = [&](bool same, const std::string& text) {
      if (!same) refuse("K0612", i, str("unmatched value, expected: ", text, ", but got: ", kind_text(datum)));
    };
    if (wanted.is_none()) return expect(datum.is_none(), "None");
    if (wanted.is_scalar()) {
      const Scalar& scalar = wanted.as_scalar();
      bool same = datum.is_scalar() && datum.scalar().as_complex() == scalar.as_complex();
      if (datum.is_scalar() && scalar.is_float() && datum.scalar().is_float()) same = scalar == datum.scalar();
      return expect(same, scalar.text());
    }
    if (const auto* text = std::get_if<std::string>(&wanted.value)) {
      const auto* got = std::get_if<std::string>(&datum.value);
      return expect(got && *got == *text, quote(*text));
    }
  }

  void check_tensor(size_t i, const Tensor& tensor) {
    const TensorType& type = users_[i].value->type;
    if (tensor.device.type != type.device.type) {
      refuse("K0613", i,
             str("unmatched device type, expected: ", static_cast<int>(type.device.type), "(",
                 device_type_name(type.device.type), "), but got: ", static_cast<int>(tensor.device.type), "(",
                 device_type_name(tensor.device.type), ")"));
    }
    if (tensor.dtype != type.dtype) {
      refuse(
          "K0614", i,
          str("unmatched dtype, expected: ", numbered_dtype(type.dtype), ", but got: ", numbered_dtype(tensor.dtype)));
    }
    if (tensor.sizes.size() != type.sizes.size()) {
      refuse("K0615", i,
             str("unmatched number of dimensions, expected: ", type.sizes.size(), ", but got: ", tensor.sizes.size()));
    }
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      if (!type.sizes[d].is_constant()) {
        equations_.push_back({type.sizes[d], tensor.sizes[d], i, static_cast<int>(d)});
      } else if (type.sizes[d].value() != tensor.sizes[d]) {
        refuse(
            "K0616", i,
            str("unmatched dim value at ", d, ", expected: ", type.sizes[d].value(), ", but got: ", tensor.sizes[d]));
      }
    }
  }

  // Plain symbols first, then expressions that are affine in one symbol still unknown, until nothing new is found.
  void solve() {
    for (bool progress = true; progress;) {
      progress = false;
      for (const Equation& equation : equations_) progress |= solve_one(equation);
    }
  }

  bool solve_one(const Equation& equation) {
    std::set<std::string> unknown;
    collect_symbols(equation.expr, unknown);
    std::erase_if(unknown, [&](const std::string& name) { return values_.contains(name); });
    if (unknown.size() != 1) return false;
    const std::string& name = *unknown.begin();
    auto affine = affine_in(equation.expr, name);
    if (!affine) return false;
    int64_t coefficient = evaluate(affine->coefficient, values_);
    if (coefficient == 0) return false;
    int64_t rest = 0;
    if (__builtin_sub_overflow(equation.actual, evaluate(affine->rest, values_), &rest) ||
        (coefficient == -1 && rest == INT64_MIN) || rest % coefficient != 0) {
      refuse("K0616", equation.input,
             str(place(equation), ", expected: ", equation.expr.text(), " with a whole number for ", name,
                 ", but got: ", equation.actual));
    }
    values_[name] = rest / coefficient;
    sources_[name] = &equation;
    return true;
  }

  static std::string place(const Equation& equation) {
    return equation.dim < 0 ? std::string("unmatched value") : str("unmatched dim value at ", equation.dim);
  }

  void check_ranges() const {
    for (const auto& [name, value] : values_) {
      auto found = program_.symbols.find(name);
      if (found == program_.symbols.end()) continue;
      const Interval& range = found->second.range;
      if (range.contains(value)) continue;
      const Equation& source = *sources_.at(name);
      std::string what = source.dim < 0 ? std::string("value is too ") : std::string("dim value is too ");
      bool small = value < range.low;
      std::string at = source.dim < 0 ? std::string() : str(" at ", source.dim);
      std::string symbol = source.expr.is_symbol() ? str(" (", name, ")")
                                                   : str(" (", name, " = ", value, " in ", source.expr.text(), ")");
      refuse(
          "K0617", source.input,
          str(what, small ? "small" : "large", at, ", expected ", source.expr.is_symbol() ? "it" : name.c_str(),
              " to be ", small ? ">= " : "<= ", small ? range.low : range.high, ", but got: ", source.actual, symbol));
    }
  }

  std::string origin_of(const Expr& expr) const {
    std::set<std::string> names;
    collect_symbols(expr, names);
    return join_map(names, ", ", [&](const std::string& name) {
      auto source = sources_.find(name);
      if (source == sources_.end()) return name;
      const Equation& equation = *source->second;
      std::string dim = equation.dim < 0 ? std::string() : str(" dim ", equation.dim);
      return str(name, " = ", values_.at(name), " from input_handles[", equation.input, "] '",
                 users_[equation.input].value->name, "'", dim);
    });
  }

  bool known(const Expr& expr) const {
    std::set<std::string> names;
    collect_symbols(expr, names);
    for (const std::string& name : names)
      if (!values_.contains(name)) return false;
    return true;
  }

  void check_equations() const {
    for (const Equation& equation : equations_) {
      if (!known(equation.expr)) continue;
      int64_t expected = evaluate(equation.expr, values_);
      if (expected == equation.actual) continue;
      refuse("K0618", equation.input,
             str(place(equation), ", expected: ", expected, " (", equation.expr.text(), "; ", origin_of(equation.expr),
                 "), but got: ", equation.actual));
    }
  }

  void check_guards() const {
    for (const Guard& guard : program_.guards) {
      if (!known(guard.condition) || evaluate(guard.condition, values_) != 0) continue;
      fail_user("K0619", str("Error: the inputs do not satisfy ", guard.condition.text(), " (", guard.reason, "; ",
                             origin_of(guard.condition), ")"));
    }
  }

  const Program& program_;
  const std::vector<Datum>& inputs_;
  std::vector<User> users_;
  std::vector<Equation> equations_;
  SymbolValues values_;
  std::map<std::string, const Equation*> sources_;
};

}  // namespace

SymbolValues bind_symbols(const Program& program, const std::vector<Datum>& inputs) {
  return InputBinder(program, inputs).bind();
}

}  // namespace kiln
