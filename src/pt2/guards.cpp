#include "pt2/guards.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "pt2/sympy_text.h"

namespace kiln {
namespace {

struct UserInput {
  const Value* value;
  const InputSpec* spec;
};

std::vector<UserInput> user_inputs(const Program& program) {
  std::vector<UserInput> out;
  for (size_t i = 0; i < program.input_specs.size(); ++i) {
    const InputSpec& spec = program.input_specs[i];
    if (spec.kind == InputKind::user || spec.kind == InputKind::constant_value)
      out.push_back({program.graph.inputs[i], &spec});
  }
  return out;
}

// Symbols whose values the inputs give.
std::set<std::string> backed_symbols(const Program& program) {
  std::set<std::string> out;
  for (const auto& [value, spec] : user_inputs(program)) {
    if (value->kind == ValueKind::tensor)
      for (const Expr& size : value->type.sizes) collect_symbols(size, out);
    else if (value->kind == ValueKind::sym_int || value->kind == ValueKind::sym_float ||
             value->kind == ValueKind::sym_bool)
      collect_symbols(value->expr, out);
  }
  return out;
}

std::set<std::string> size_symbols(const Program& program) {
  std::set<std::string> out;
  for (const auto& [value, spec] : user_inputs(program))
    if (value->kind == ValueKind::tensor)
      for (const Expr& size : value->type.sizes) collect_symbols(size, out);
  return out;
}

// Null and what lies beyond 64 bits (or at its very end, where torch puts "no bound") is no bound.
int64_t read_bound(const Json& constraint, const char* key, int64_t none) {
  const Json* json = constraint.find_value(key);
  if (json == nullptr || json->is_big_int()) return none;
  const int64_t value = json->as_int();
  if (value >= INT64_MAX - 1) return INT64_MAX;
  if (value <= INT64_MIN + 2) return INT64_MIN;
  return value;
}

Expr in_range(const Expr& expr, const Interval& range) {
  const Expr low = compare_le(Expr(range.low), expr), high = compare_le(expr, Expr(range.high));
  if (range.low == INT64_MIN) return range.high == INT64_MAX ? Expr(1) : high;
  return range.high == INT64_MAX ? low : Expr::make(ExprOp::logical_and, {low, high});
}

class Conditions {
 public:
  Conditions(const std::map<std::string, size_t>& places, SymbolTable& symbols, Program& program)
      : places_(places), symbols_(symbols), program_(program), inputs_(user_inputs(program)) {}

  void read(const Json& exported) {
    struct Constraint {
      std::string text;
      Expr expr;
      Interval range;
    };
    std::vector<Constraint> constraints;
    if (const Json* ranges = exported.find_value("range_constraints")) {
      for (const JsonMember& member : ranges->members()) {
        Expr expr = parse_python_expr(member.key, [&](const InputPath& path) { return resolve(path); });
        symbols_.note(expr);
        const Interval range{read_bound(member.value, "min_val", INT64_MIN),
                             read_bound(member.value, "max_val", INT64_MAX)};
        if (range.low > range.high) fail_user("K0160", str("the range of ", member.key, " is empty"));
        constraints.push_back({member.key, std::move(expr), range});
      }
    }
    make_symbols();
    for (const Constraint& constraint : constraints) {
      if (constraint.expr.is_symbol()) program_.symbols[constraint.expr.name()].range = constraint.range;
      add_guard(in_range(constraint.expr, constraint.range), str("range of ", constraint.text, " in the export"));
    }
    if (const Json* guards = exported.find_value("guards_code"))
      for (const Json& guard : guards->items())
        add_guard(parse_python_expr(guard.as_string(), [&](const InputPath& path) { return resolve(path); }),
                  guard.as_string());
  }

 private:
  void make_symbols() {
    backed_ = backed_symbols(program_);
    const std::set<std::string> sizes = size_symbols(program_);
    for (const auto& [name, hint] : symbols_.hints()) {
      SymbolInfo info;
      info.name = name;
      info.hint = hint;
      info.unbacked = !backed_.contains(name);
      if (sizes.contains(name)) {
        info.range.low = 0;
        natural_.ranges[name] = info.range;
      }
      program_.symbols.emplace(name, std::move(info));
    }
  }

  // What a run computes is asserted by nodes of the graph; guards are what can be said of the inputs.
  void add_guard(const Expr& condition, const std::string& reason) {
    if (condition.is_constant() ? condition.value() != 0 : prove(condition, natural_) == Proof::yes) return;
    std::set<std::string> names;
    collect_symbols(condition, names);
    if (!std::includes(backed_.begin(), backed_.end(), names.begin(), names.end())) return;
    program_.guards.push_back({condition, reason});
  }

  const UserInput* find_input(const InputPath& path) const {
    auto at = [this](const std::string& place) -> const UserInput* {
      const auto found = places_.find(place);
      return found != places_.end() && found->second < inputs_.size() ? &inputs_[found->second] : nullptr;
    };
    std::string place = path.base;
    for (const std::string& step : path.steps) place += "/" + step;
    if (const UserInput* input = at(place)) return input;
    if (path.steps.empty()) return nullptr;
    // *ts: the argument names are ts_0, ts_1, …; **kwargs: the keys themselves; strict exports: flat_args[i].
    std::string rest;
    for (size_t i = 1; i < path.steps.size(); ++i) rest += "/" + path.steps[i];
    if (const UserInput* input = at(str(path.base, "_", path.steps[0], rest))) return input;
    if (const UserInput* input = at(path.steps[0] + rest)) return input;
    if (path.base != "flat_args" || path.steps.size() != 1) return nullptr;
    size_t index = 0;
    const std::string& digits = path.steps[0];
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (result.ptr != digits.data() + digits.size() || index >= inputs_.size()) return nullptr;
    return &inputs_[index];
  }

  Expr resolve(const InputPath& path) const {
    const UserInput* input = find_input(path);
    if (input == nullptr)
      fail_unsupported("K0214", str("a guard names the input ", quote(path.base), ", which is not known"));
    const Value* value = input->value;
    if (path.asks == InputPath::Asks::value) {
      const Argument& constant = input->spec->constant;
      if (constant.is_scalar() && !constant.as_scalar().is_complex())
        return constant.as_scalar().is_float() ? Expr::float_constant(constant.as_scalar().as_double())
                                               : Expr(constant.as_scalar().as_int());
      if (value->kind != ValueKind::sym_int && value->kind != ValueKind::sym_float &&
          value->kind != ValueKind::sym_bool)
        fail_unsupported("K0214", str("a guard asks for the value of the input ", quote(value->name)));
      return value->expr;
    }
    if (value->kind != ValueKind::tensor)
      fail_user("K0214", str("a guard asks for a size of ", quote(value->name), ", which is no tensor"));
    if (path.asks == InputPath::Asks::offset) return value->type.offset;
    const std::vector<Expr>& list = path.asks == InputPath::Asks::size ? value->type.sizes : value->type.strides;
    if (!path.dim || *path.dim < 0 || static_cast<size_t>(*path.dim) >= list.size())
      fail_user("K0214", str("a guard asks for a dimension that ", quote(value->name), " does not have"));
    return list[static_cast<size_t>(*path.dim)];
  }

  const std::map<std::string, size_t>& places_;
  SymbolTable& symbols_;
  Program& program_;
  std::vector<UserInput> inputs_;
  std::set<std::string> backed_;
  RangeEnv natural_;  // sizes are never negative
};

}  // namespace

void read_conditions(const Json& exported, const std::map<std::string, size_t>& places, SymbolTable& symbols,
                     Program& program) {
  Conditions(places, symbols, program).read(exported);
}

}  // namespace kiln
