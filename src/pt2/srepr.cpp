#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "pt2/sympy_functions.h"
#include "pt2/sympy_text.h"

namespace kiln {
namespace {

constexpr int deepest_call = 200;

class SreprReader {
 public:
  explicit SreprReader(std::string_view text) : text_(text) {}

  Expr whole() {
    Expr out = read(0);
    if (at_ != text_.size()) fail("more text after its end");
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    fail_user("K0175", str("the symbolic expression ", quote(text_), " is damaged at byte ", at_, ": ", what));
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(str("expected '", c, "'"));
  }
  std::string_view name() {
    skip();
    const size_t begin = at_;
    auto part = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    };
    while (at_ < text_.size() && part(text_[at_])) ++at_;
    if (at_ == begin) fail("expected a name");
    return text_.substr(begin, at_ - begin);
  }
  std::string_view quoted() {
    skip();
    const char mark = at_ < text_.size() ? text_[at_] : '\0';
    if (mark != '\'' && mark != '"') fail("expected quoted text");
    const size_t end = text_.find(mark, at_ + 1);
    if (end == std::string_view::npos) fail("quoted text is not closed");
    std::string_view out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return out;
  }
  // The keyword arguments that follow (positive=True, precision=53) say nothing that Kiln relies on.
  void skip_keywords() {
    while (take(',')) {
      name();
      expect('=');
      skip();
      if (at_ < text_.size() && text_[at_] == '-') ++at_;
      name();
    }
    expect(')');
  }

  Expr integer() {
    skip();
    int64_t value = 0;
    const auto result = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (result.ec != std::errc()) fail("expected an integer of 64 bits");
    at_ = static_cast<size_t>(result.ptr - text_.data());
    return Expr(value);
  }

  Expr read(int depth) {
    if (depth > deepest_call) fail("nested too deep");
    skip();
    if (at_ < text_.size() && (text_[at_] == '-' || (text_[at_] >= '0' && text_[at_] <= '9'))) return integer();
    const std::string_view full = name();
    const size_t dot = full.rfind('.');
    const std::string_view function = dot == std::string_view::npos ? full : full.substr(dot + 1);
    if (function == "true") return Expr(1);
    if (function == "false") return Expr(0);
    expect('(');
    if (function == "Symbol") {
      const std::string_view symbol = quoted();
      if (symbol.empty()) fail("a symbol without a name");
      skip_keywords();
      return Expr::symbol(std::string(symbol));
    }
    if (function == "Integer") {
      Expr value = integer();
      expect(')');
      return value;
    }
    if (function == "Float") {
      const std::string digits(quoted());
      char* end = nullptr;
      const double value = std::strtod(digits.c_str(), &end);
      if (end == digits.c_str() || *end != '\0') fail("expected a number");
      skip_keywords();
      return Expr::float_constant(value);
    }
    if (function == "Piecewise") return piecewise(depth);
    std::vector<Expr> args;
    if (!take(')')) {
      do args.push_back(read(depth + 1));
      while (take(','));
      expect(')');
    }
    return apply_sympy_function(full, std::move(args));
  }

  // Piecewise(ExprCondPair(a, c), ExprCondPair(b, true))
  Expr piecewise(int depth) {
    std::vector<std::pair<Expr, Expr>> cases;
    do {
      if (name() != "ExprCondPair") fail("expected ExprCondPair");
      expect('(');
      Expr value = read(depth + 1);
      expect(',');
      Expr condition = read(depth + 1);
      expect(')');
      cases.emplace_back(std::move(value), std::move(condition));
    } while (take(','));
    expect(')');
    if (!cases.back().second.is_constant(1)) fail("a Piecewise without a last case");
    Expr out = cases.back().first;
    for (size_t i = cases.size() - 1; i-- > 0;) out = Expr::make(ExprOp::ite, {cases[i].second, cases[i].first, out});
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Expr parse_srepr(std::string_view text) { return SreprReader(text).whole(); }

Expr parse_sympy(std::string_view text) {
  // In srepr every leaf is a call; true and false read alike both ways.
  for (const std::string_view leaf : {"Symbol(", "Integer(", "Float("})
    if (text.find(leaf) != std::string_view::npos) return parse_srepr(text);
  return parse_python_expr(text, [text](const InputPath& path) -> Expr {
    fail_user("K0175", str("the symbolic expression ", quote(text), " names the input ", quote(path.base)));
  });
}

}  // namespace kiln
