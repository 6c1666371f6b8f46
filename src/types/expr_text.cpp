// Text of expressions: Python's infix with its precedences. print -> parse -> print gives the same text, because the
// parser hands whole sums and products to the normalising constructors.
#include <cctype>
#include <charconv>

#include "types/checked.h"
#include "types/expr_node.h"

namespace kiln {

// ---- Printing ------------------------------------------------------------------------------------------------------

namespace {

enum Level {
  level_or = 1,
  level_and,
  level_not,
  level_compare,
  level_add,
  level_mul,
  level_unary,
  level_pow,
  level_atom
};

constexpr std::string_view words[] = {
    "and", "or",  "not", "min",      "max",      "ite",  "float", "trunc", "floor", "ceil", "sqrt",  "inf",      "nan",
    "Max", "Min", "Mod", "FloorDiv", "CleanDiv", "True", "False", "true",  "Eq",    "Ne",   "false", "PythonMod"};

bool is_word(std::string_view name) { return std::find(std::begin(words), std::end(words), name) != std::end(words); }
bool name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string name_text(const std::string& name) {
  bool plain = !name.empty() && name_start(name[0]) && std::all_of(name.begin(), name.end(), name_part);
  return plain && !is_word(name) ? name : quote(name);
}

std::string print_at(const Expr& e, int level);

Level level_of(const Expr& e) {
  switch (e.op()) {
    case ExprOp::constant:
      return e.value() < 0 ? level_unary : level_atom;
    case ExprOp::float_constant:
      return std::signbit(e.float_value()) ? level_unary : level_atom;
    case ExprOp::add:
      return level_add;
    case ExprOp::mul:
    case ExprOp::floordiv:
    case ExprOp::mod:
    case ExprOp::truediv:
      return level_mul;
    case ExprOp::pow:
      return level_pow;
    case ExprOp::eq:
    case ExprOp::ne:
    case ExprOp::lt:
    case ExprOp::le:
      return level_compare;
    case ExprOp::logical_and:
      return level_and;
    case ExprOp::logical_or:
      return level_or;
    case ExprOp::logical_not:
      return level_not;
    default:
      return level_atom;
  }
}

// Whether the text of an integer term begins with a minus that a sum may take as its operator.
bool negative(const Expr& e) {
  if (e.is_float()) return false;
  const Expr& number = e.op() == ExprOp::mul ? e.args().back() : e;
  return number.is_constant() && number.value() < 0 && number.value() != INT64_MIN;
}

std::string product_text(const Expr& e, bool drop_sign) {
  if (e.op() != ExprOp::mul) return drop_sign ? Expr(-e.value()).text() : print_at(e, level_mul);
  if (e.is_float()) return print_at(e.args()[0], level_atom) + "*" + print_at(e.args()[1], level_unary);
  std::string out = negative(e) && !drop_sign ? "-" : "";
  bool first = true;
  for (const Expr& factor : e.args()) {
    std::string text = factor.is_constant() && factor.value() != INT64_MIN ? str(std::abs(factor.value()))
                                                                           : print_at(factor, level_pow);
    if (factor.is_constant(INT64_MIN)) text = str(factor.value());
    if (factor.is_constant(-1)) continue;
    out += (first ? "" : "*") + text;
    first = false;
  }
  return out;
}

std::string sum_text(const Expr& e) {
  if (e.is_float()) return print_at(e.args()[0], level_atom) + " + " + print_at(e.args()[1], level_unary);
  std::string out;
  for (const Expr& term : e.args()) {
    bool minus = negative(term) && !out.empty();
    if (!out.empty()) out += minus ? " - " : " + ";
    out += product_text(term, minus);
  }
  return out;
}

std::string call_text(const char* name, const Expr& e) {
  return str(name, "(", join_map(e.args(), ", ", [](const Expr& a) { return a.text(); }), ")");
}

std::string binary_text(const Expr& e, const char* op, int level) {
  return print_at(e.args()[0], level) + op + print_at(e.args()[1], level);
}

std::string plain_text(const Expr& e) {
  switch (e.op()) {
    case ExprOp::constant:
      return str(e.value());
    case ExprOp::float_constant:
      return float_text(e.float_value());
    case ExprOp::symbol:
      return name_text(e.name());
    case ExprOp::add:
      return sum_text(e);
    case ExprOp::mul:
      return product_text(e, false);
    case ExprOp::floordiv:
      return binary_text(e, " // ", level_atom);
    case ExprOp::mod:
      return binary_text(e, " % ", level_atom);
    case ExprOp::truediv:
      return binary_text(e, " / ", level_atom);
    case ExprOp::pow:
      return binary_text(e, "**", level_atom);
    case ExprOp::eq:
      return binary_text(e, " == ", level_add);
    case ExprOp::ne:
      return binary_text(e, " != ", level_add);
    case ExprOp::lt:
      return binary_text(e, " < ", level_add);
    case ExprOp::le:
      return binary_text(e, " <= ", level_add);
    case ExprOp::logical_and:
      return join_map(e.args(), " and ", [](const Expr& a) { return print_at(a, level_not); });
    case ExprOp::logical_or:
      return join_map(e.args(), " or ", [](const Expr& a) { return print_at(a, level_and); });
    case ExprOp::logical_not:
      return "not " + print_at(e.args()[0], level_atom);
    case ExprOp::min:
      return call_text("min", e);
    case ExprOp::max:
      return call_text("max", e);
    case ExprOp::ite:
      return call_text("ite", e);
    case ExprOp::to_float:
      return call_text("float", e);
    case ExprOp::to_int:
      return call_text("trunc", e);
    case ExprOp::floor_to_int:
      return call_text("floor", e);
    case ExprOp::ceil_to_int:
      return call_text("ceil", e);
    case ExprOp::sqrt:
      return call_text("sqrt", e);
  }
  fail_bug("Expr::text: unknown operator");
}

std::string print_at(const Expr& e, int level) {
  std::string text = plain_text(e);
  return level_of(e) < level ? "(" + text + ")" : text;
}

// ---- Parsing -------------------------------------------------------------------------------------------------------

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  Expr whole() {
    Expr e = disjunction();
    skip_space();
    if (at_ != text_.size()) fail("unexpected text");
    return e;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    fail_user("K0210", str("bad expression: ", what, " at column ", at_ + 1, " of \"", text_.substr(0, 200), "\""));
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    if (name_start(token[0]) && at_ + token.size() < text_.size() && name_part(text_[at_ + token.size()])) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(str("expected \"", token, "\""));
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  struct Deeper {  // every level of nesting, so that hostile text cannot exhaust the stack
    explicit Deeper(Parser& p) : parser(p) {
      if (++parser.depth_ > 200) parser.fail("nested too deeply");
    }
    ~Deeper() { --parser.depth_; }
    Parser& parser;
  };

  Expr disjunction() {
    Deeper deeper(*this);
    std::vector<Expr> args{conjunction()};
    while (accept("or")) args.push_back(conjunction());
    return args.size() == 1 ? args[0] : Expr::make(ExprOp::logical_or, std::move(args));
  }
  Expr conjunction() {
    std::vector<Expr> args{negation()};
    while (accept("and")) args.push_back(negation());
    return args.size() == 1 ? args[0] : Expr::make(ExprOp::logical_and, std::move(args));
  }
  Expr negation() {
    Deeper deeper(*this);
    if (accept("not")) return Expr::make(ExprOp::logical_not, {negation()});
    return comparison();
  }
  Expr comparison() {
    Expr left = sum();
    std::vector<Expr> all;
    for (;;) {
      ExprOp op = ExprOp::lt;
      bool swap = false;
      if (accept("==")) {
        op = ExprOp::eq;
      } else if (accept("!=")) {
        op = ExprOp::ne;
      } else if (accept("<=")) {
        op = ExprOp::le;
      } else if (accept(">=")) {
        op = ExprOp::le, swap = true;
      } else if (accept(">")) {
        swap = true;
      } else if (!accept("<")) {
        break;
      }
      Expr right = sum();
      all.push_back(swap ? Expr::make(op, {right, left}) : Expr::make(op, {left, right}));
      left = right;
    }
    if (all.empty()) return left;
    return all.size() == 1 ? all[0] : Expr::make(ExprOp::logical_and, std::move(all));
  }
  Expr sum() {
    std::vector<Expr> args{product()};
    for (;;) {
      if (accept("+"))
        args.push_back(product());
      else if (accept("-"))
        args.push_back(-product());
      else
        break;
    }
    return args.size() == 1 ? args[0] : Expr::make(ExprOp::add, std::move(args));
  }
  Expr product() {
    std::vector<Expr> factors{unary()};
    auto gather = [&] { return factors.size() == 1 ? factors[0] : Expr::make(ExprOp::mul, factors); };
    for (;;) {
      if (accept("//"))
        factors = {Expr::make(ExprOp::floordiv, {gather(), unary()})};
      else if (accept("/"))
        factors = {Expr::make(ExprOp::truediv, {gather(), unary()})};
      else if (accept("%"))
        factors = {Expr::make(ExprOp::mod, {gather(), unary()})};
      else if (accept("*"))
        factors.push_back(unary());
      else
        return gather();
    }
  }
  Expr unary() {
    Deeper deeper(*this);
    if (peek() != '-') return power();
    ++at_;
    char c = peek();
    if (std::isdigit(static_cast<unsigned char>(c))) {
      Expr literal = number(true);
      return accept("**") ? -Expr::make(ExprOp::pow, {-literal, unary()}) : literal;
    }
    return -unary();
  }
  Expr power() {
    Expr base = atom();
    // "**" but never the "*" of a product.
    return accept("**") ? Expr::make(ExprOp::pow, {base, unary()}) : base;
  }
  Expr number(bool minus) {
    size_t start = at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
    bool is_float = at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E');
    if (!is_float) {
      uint64_t value = 0;
      auto [end, error] = std::from_chars(text_.data() + start, text_.data() + at_, value);
      uint64_t limit = uint64_t{INT64_MAX} + (minus ? 1 : 0);
      if (error != std::errc() || end != text_.data() + at_ || value > limit) fail("number out of range");
      return static_cast<int64_t>(minus ? 0 - value : value);
    }
    double value = 0;
    auto [end, error] = std::from_chars(text_.data() + start, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("bad number");
    at_ = static_cast<size_t>(end - text_.data());
    return Expr::float_constant(minus ? -value : value);
  }
  Expr atom() {
    char c = peek();
    if (std::isdigit(static_cast<unsigned char>(c))) return number(false);
    if (c == '(') {
      ++at_;
      Expr inside = disjunction();
      expect(")");
      return inside;
    }
    if (c == '"') return quoted();
    if (!name_start(c)) fail("expected a number, a name or \"(\"");
    size_t start = at_;
    while (at_ < text_.size() && name_part(text_[at_])) ++at_;
    std::string_view name = text_.substr(start, at_ - start);
    if (name == "inf") return Expr::float_constant(std::numeric_limits<double>::infinity());
    if (name == "nan") return Expr::float_constant(std::numeric_limits<double>::quiet_NaN());
    if (name == "True" || name == "true") return 1;
    if (name == "False" || name == "false") return 0;
    return is_word(name) ? call(name) : Expr::symbol(std::string(name));
  }
  Expr quoted() {
    size_t start = at_++;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) fail("a quoted name does not end");
    ++at_;
    std::string name;
    if (!unquote(text_.substr(start, at_ - start), name)) fail("bad quoted name");
    return Expr::symbol(std::move(name));
  }
  Expr call(std::string_view name) {
    struct Function {
      std::string_view name;
      ExprOp op;
      size_t low, high;
    };
    // The capitalised ones are sympy's spellings, which appear in files' range constraints.
    static constexpr size_t many = 1u << 16;
    static constexpr Function functions[] = {{"min", ExprOp::min, 1, many},
                                             {"max", ExprOp::max, 1, many},
                                             {"ite", ExprOp::ite, 3, 3},
                                             {"float", ExprOp::to_float, 1, 1},
                                             {"trunc", ExprOp::to_int, 1, 1},
                                             {"floor", ExprOp::floor_to_int, 1, 1},
                                             {"ceil", ExprOp::ceil_to_int, 1, 1},
                                             {"sqrt", ExprOp::sqrt, 1, 1},
                                             {"Min", ExprOp::min, 1, many},
                                             {"Max", ExprOp::max, 1, many},
                                             {"Mod", ExprOp::mod, 2, 2},
                                             {"PythonMod", ExprOp::mod, 2, 2},
                                             {"FloorDiv", ExprOp::floordiv, 2, 2},
                                             {"CleanDiv", ExprOp::floordiv, 2, 2},
                                             {"Eq", ExprOp::eq, 2, 2},
                                             {"Ne", ExprOp::ne, 2, 2}};
    for (const Function& f : functions) {
      if (f.name != name) continue;
      expect("(");
      std::vector<Expr> args{disjunction()};
      while (accept(",")) args.push_back(disjunction());
      expect(")");
      if (args.size() < f.low || args.size() > f.high) fail(str(name, " takes another number of arguments"));
      return Expr::make(f.op, std::move(args));
    }
    fail(str("\"", name, "\" is not a name"));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string Expr::text() const { return plain_text(*this); }

Expr parse_expr(std::string_view text) { return Parser(text).whole(); }

}  // namespace kiln
