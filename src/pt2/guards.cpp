#include "pt2/guards.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "pt2/sympy_text.h"

namespace kiln {
namespace {

// How the reason of a guard reads that is a range of the export.
constexpr std::string_view range_before = "range of ", range_after = " in the export";

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

Interval read_range(const Json& constraint) {
  return {read_bound(constraint, "min_val", INT64_MIN), read_bound(constraint, "max_val", INT64_MAX)};
}

Expr in_range(const Expr& expr, const Interval& range) {
  const Expr low = compare_le(Expr(range.low), expr), high = compare_le(expr, Expr(range.high));
  if (range.low == INT64_MIN) return range.high == INT64_MAX ? Expr(1) : high;
  return range.high == INT64_MAX ? low : Expr::make(ExprOp::logical_and, {low, high});
}

// What the paths in guards (L['x'].size()[0]) stand for.
class GuardInputs {
 public:
  GuardInputs(const std::map<std::string, size_t>& places, const Program& program)
      : places_(places), inputs_(user_inputs(program)) {}

  Expr read(const std::string& text) const {
    return parse_python_expr(text, [this](const InputPath& path) { return resolve(path); });
  }

  // nullopt: it asks for what an example was a view of, which is nothing that a caller's tensor has.
  std::optional<Expr> read_of_callers(const std::string& text) const {
    bool of_example = false;
    Expr guard = parse_python_expr(text, [&](const InputPath& path) {
      if (find_input(path) || std::find(path.steps.begin(), path.steps.end(), "_base") == path.steps.end())
        return resolve(path);
      of_example = true;
      return Expr::symbol("base");
    });
    return of_example ? std::nullopt : std::optional(std::move(guard));
  }

  // "L['x'].size()[0]" for an input that is an argument by itself and has the symbol as a size, or as its value.
  std::optional<std::string> source_of(const std::string& symbol) const {
    for (const auto& [place, position] : places_) {
      if (position >= inputs_.size() || place.find('/') != std::string::npos) continue;
      const Value& value = *inputs_[position].value;
      if (value.kind == ValueKind::sym_int && value.expr == Expr::symbol(symbol)) return str("L['", place, "']");
      if (value.kind != ValueKind::tensor) continue;
      for (size_t d = 0; d < value.type.sizes.size(); ++d)
        if (value.type.sizes[d] == Expr::symbol(symbol)) return str("L['", place, "'].size()[", d, "]");
    }
    return std::nullopt;
  }

 private:
  static std::string place_of(const InputPath& path) {
    std::string place = path.base;
    for (const std::string& step : path.steps) place += "/" + step;
    return place;
  }

  const UserInput* find_input(const InputPath& path) const {
    auto at = [this](const std::string& place) -> const UserInput* {
      const auto found = places_.find(place);
      return found != places_.end() && found->second < inputs_.size() ? &inputs_[found->second] : nullptr;
    };
    if (const UserInput* input = at(place_of(path))) return input;
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
      fail_unsupported("K0177", str("a guard names the input ", quote(place_of(path)), ", which is not known"));
    const Value* value = input->value;
    if (path.asks == InputPath::Asks::value) {
      const Argument& constant = input->spec->constant;
      if (constant.is_scalar() && !constant.as_scalar().is_complex())
        return constant.as_scalar().is_float() ? Expr::float_constant(constant.as_scalar().as_double())
                                               : Expr(constant.as_scalar().as_int());
      if (value->kind != ValueKind::sym_int && value->kind != ValueKind::sym_float &&
          value->kind != ValueKind::sym_bool)
        fail_unsupported("K0177", str("a guard asks for the value of the input ", quote(value->name)));
      return value->expr;
    }
    if (value->kind != ValueKind::tensor)
      fail_user("K0177", str("a guard asks for a size of ", quote(value->name), ", which is no tensor"));
    if (path.asks == InputPath::Asks::offset) return value->type.offset;
    const std::vector<Expr>& list = path.asks == InputPath::Asks::size ? value->type.sizes : value->type.strides;
    if (!path.dim || *path.dim < 0 || static_cast<size_t>(*path.dim) >= list.size())
      fail_user("K0177", str("a guard asks for a dimension that ", quote(value->name), " does not have"));
    return list[static_cast<size_t>(*path.dim)];
  }

  const std::map<std::string, size_t>& places_;
  std::vector<UserInput> inputs_;
};

class Conditions {
 public:
  Conditions(const std::map<std::string, size_t>& places, SymbolTable& symbols, Program& program)
      : inputs_(places, program), symbols_(symbols), program_(program) {}

  void read(const Json& exported) {
    struct Constraint {
      std::string text;
      Expr expr;
      Interval range;
    };
    std::vector<Constraint> constraints;
    if (const Json* ranges = exported.find_value("range_constraints")) {
      for (const JsonMember& member : ranges->members()) {
        Expr expr = inputs_.read(member.key);
        symbols_.note(expr);
        const Interval range = read_range(member.value);
        if (range.low > range.high) fail_user("K0160", str("the range of ", member.key, " is empty"));
        constraints.push_back({member.key, std::move(expr), range});
      }
    }
    make_symbols();
    for (const Constraint& constraint : constraints) {
      if (constraint.expr.is_symbol()) program_.symbols[constraint.expr.name()].range = constraint.range;
      add_guard(in_range(constraint.expr, constraint.range), str(range_before, constraint.text, range_after));
    }
    if (const Json* guards = exported.find_value("guards_code"))
      for (const Json& guard : guards->items())
        if (const auto condition = inputs_.read_of_callers(guard.as_string())) add_guard(*condition, guard.as_string());
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

  GuardInputs inputs_;
  SymbolTable& symbols_;
  Program& program_;
  std::set<std::string> backed_;
  RangeEnv natural_;  // sizes are never negative
};

bool is_name(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

}  // namespace

RangeEnv exported_ranges(const Json& exported) {
  RangeEnv out;
  if (const Json* ranges = exported.find_value("range_constraints"))
    for (const JsonMember& member : ranges->members())
      if (const Interval range = read_range(member.value); is_name(member.key) && range.low < range.high)
        out.ranges[member.key] = range;
  return out;
}

void read_conditions(const Json& exported, const std::map<std::string, size_t>& places, SymbolTable& symbols,
                     Program& program) {
  Conditions(places, symbols, program).read(exported);
}

std::optional<Expr> read_guard(const std::string& text, const std::map<std::string, size_t>& places,
                               const Program& program) {
  try {
    return GuardInputs(places, program).read(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<std::string> range_guard_text(const Guard& guard) {
  const std::string& reason = guard.reason;
  if (!starts_with(reason, range_before) || !ends_with(reason, range_after)) return std::nullopt;
  return reason.substr(range_before.size(), reason.size() - range_before.size() - range_after.size());
}

std::optional<std::string> guard_text(const Guard& guard, const std::map<std::string, size_t>& places,
                                      const Program& program) {
  if (range_guard_text(guard)) return std::nullopt;
  if (const auto same = read_guard(guard.reason, places, program); same && *same == guard.condition)
    return guard.reason;
  const GuardInputs inputs(places, program);
  std::set<std::string> names;
  collect_symbols(guard.condition, names);
  // Kiln's own text is Python, symbols aside; these stand for them until the sources are put in.
  Substitution stand_ins;
  std::vector<std::pair<std::string, std::string>> sources;
  for (const std::string& name : names) {
    const auto source = inputs.source_of(name);
    if (!source) return std::nullopt;
    const std::string stand_in = str("source_", sources.size(), "_of_guard");
    sources.emplace_back(stand_in, *source);
    stand_ins.emplace(name, Expr::symbol(stand_in));
  }
  std::string text = substitute(guard.condition, stand_ins).text();
  for (const auto& [stand_in, source] : sources)
    for (size_t at = text.find(stand_in); at != std::string::npos; at = text.find(stand_in, at + source.size()))
      text.replace(at, stand_in.size(), source);
  const auto again = read_guard(text, places, program);
  return again && *again == guard.condition ? std::optional(text) : std::nullopt;
}

}  // namespace kiln
