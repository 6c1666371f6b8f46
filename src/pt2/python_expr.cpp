#include <charconv>

#include "base/error.h"
#include "pt2/sympy_functions.h"
#include "pt2/sympy_text.h"

namespace kiln {
namespace {

constexpr int deepest = 200;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Python's precedence: or, and, not, comparisons (chains included), + -, * // / %, unary -, **, calls and subscripts.
class PythonReader {
 public:
  PythonReader(std::string_view text, const ResolveInput& resolve) : text_(text), resolve_(resolve) {}

  Expr whole() {
    Expr out = disjunction();
    skip();
    if (at_ != text_.size()) fail("more text after its end");
    return out;
  }

 private:
  struct Deeper {
    explicit Deeper(PythonReader& reader) : depth(reader.depth_) {
      if (++depth > deepest) reader.fail("nested too deep");
    }
    ~Deeper() { --depth; }
    int& depth;
  };

  [[noreturn]] void fail(const std::string& what) const {
    fail_user("K0175", str("cannot read the condition ", quote(text_), " at byte ", at_, ": ", what));
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  bool take_word(std::string_view word) {
    skip();
    if (text_.substr(at_, word.size()) != word) return false;
    const size_t end = at_ + word.size();
    if (end < text_.size() && (is_name_start(text_[end]) || is_digit(text_[end]))) return false;
    at_ = end;
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(str("expected ", quote(token)));
  }

  Expr disjunction() {
    Deeper deeper(*this);
    Expr out = conjunction();
    while (take_word("or")) out = Expr::make(ExprOp::logical_or, {out, conjunction()});
    return out;
  }
  Expr conjunction() {
    Expr out = negation();
    while (take_word("and")) out = Expr::make(ExprOp::logical_and, {out, negation()});
    return out;
  }
  Expr negation() {
    if (!take_word("not")) return comparison();
    Deeper deeper(*this);
    return Expr::make(ExprOp::logical_not, {negation()});
  }

  // a < b <= c means a < b and b <= c.
  Expr comparison() {
    Expr left = sum();
    Expr out = left;
    bool first = true;
    while (true) {
      Expr (*relate)(const Expr&, const Expr&) = nullptr;
      bool swapped = false;
      if (take("=="))
        relate = compare_eq;
      else if (take("!="))
        relate = compare_ne;
      else if (take("<="))
        relate = compare_le;
      else if (take(">="))
        relate = compare_le, swapped = true;
      else if (take("<"))
        relate = compare_lt;
      else if (take(">"))
        relate = compare_lt, swapped = true;
      else
        return out;
      Expr right = sum();
      Expr relation = swapped ? relate(right, left) : relate(left, right);
      out = first ? relation : Expr::make(ExprOp::logical_and, {out, relation});
      first = false;
      left = right;
    }
  }

  Expr sum() {
    Expr out = term();
    while (true) {
      if (take("+"))
        out = out + term();
      else if (take("-"))
        out = out - term();
      else
        return out;
    }
  }

  Expr term() {
    Expr out = unary();
    while (true) {
      skip();
      if (text_.substr(at_, 2) == "**") fail("a power where none can stand");
      if (take("*"))
        out = out * unary();
      else if (take("//"))
        out = floordiv(out, unary());
      else if (take("/"))
        out = true_division(out, unary());
      else if (take("%"))
        out = mod(out, unary());
      else
        return out;
    }
  }

  Expr unary() {
    Deeper deeper(*this);
    if (take("-")) return -unary();
    if (take("+")) return unary();
    Expr base = primary();
    return take("**") ? power(base, unary()) : base;
  }

  Expr primary() {
    skip();
    if (take("(")) {
      Expr out = disjunction();
      expect(")");
      return out;
    }
    if (at_ >= text_.size()) fail("it ends where a value should stand");
    if (is_digit(text_[at_]) || text_[at_] == '.') return number();
    if (!is_name_start(text_[at_])) fail("expected a value");
    if (text_.substr(at_, 2) == "L[") return input();
    if (take_word("True")) return Expr(1);
    if (take_word("False")) return Expr(0);
    return named();
  }

  Expr number() {
    const char *begin = text_.data() + at_, *end = text_.data() + text_.size();
    size_t length = 0;
    while (at_ + length < text_.size() && is_digit(text_[at_ + length])) ++length;
    const bool real = at_ + length < text_.size() && (begin[length] == '.' || begin[length] == 'e');
    if (real) {
      double value = 0;
      const auto result = std::from_chars(begin, end, value);
      if (result.ec != std::errc()) fail("a number is damaged");
      at_ += static_cast<size_t>(result.ptr - begin);
      return Expr::float_constant(value);
    }
    int64_t value = 0;
    const auto result = std::from_chars(begin, end, value);
    at_ += static_cast<size_t>(result.ptr - begin);
    // PyTorch compares sizes with the end of its integers. There a number is as good as the nearest float, and what is
    // added to it does not overflow.
    if (result.ec != std::errc() || value > INT64_MAX / 2) {
      double large = 0;
      if (std::from_chars(begin, end, large).ec != std::errc() || large > 0x1p64) fail("a number beyond 64 bits");
      return Expr::float_constant(large);
    }
    return Expr(value);
  }

  // A symbol, or a function with its arguments.
  Expr named() {
    const size_t begin = at_;
    while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '.')) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (!take("(")) return Expr::symbol(std::string(name));
    std::vector<Expr> args;
    if (!take(")")) {
      do args.push_back(disjunction());
      while (take(","));
      expect(")");
    }
    return apply_sympy_function(name, std::move(args));
  }

  std::string subscript() {
    std::string out;
    skip();
    if (at_ < text_.size() && (text_[at_] == '\'' || text_[at_] == '"')) {
      const size_t end = text_.find(text_[at_], at_ + 1);
      if (end == std::string_view::npos) fail("quoted text is not closed");
      out = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
    } else {
      const size_t begin = at_;
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
      out = text_.substr(begin, at_ - begin);
      if (out.empty()) fail("expected an index or a key");
    }
    expect("]");
    return out;
  }

  int64_t dimension() {
    expect("[");
    const std::string digits = subscript();
    int64_t value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) fail("expected a dimension");
    return value;
  }

  Expr input() {
    at_ += 2;
    InputPath path;
    path.base = subscript();
    while (true) {
      if (take("[")) {
        path.steps.push_back(subscript());
        continue;
      }
      if (take(".size()")) {
        path.asks = InputPath::Asks::size;
        path.dim = dimension();
      } else if (take(".stride()")) {
        path.asks = InputPath::Asks::stride;
        path.dim = dimension();
      } else if (take(".storage_offset()")) {
        path.asks = InputPath::Asks::offset;
      } else if (take(".")) {
        const size_t begin = at_;
        while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
        path.steps.emplace_back(text_.substr(begin, at_ - begin));
        continue;
      }
      return resolve_(path);
    }
  }

  std::string_view text_;
  const ResolveInput& resolve_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr parse_python_expr(std::string_view text, const ResolveInput& resolve) {
  return PythonReader(text, resolve).whole();
}

}  // namespace kiln
