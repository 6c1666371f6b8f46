#include "graph/text_reader.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "graph/graph_text.h"

namespace kiln::graph_text {

int TextReader::line() const {
  return 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'));
}

void TextReader::fail(std::string_view expected) const {
  std::string_view rest = text_.substr(at_, 24);
  rest = rest.substr(0, rest.find('\n'));
  std::string found = rest.empty() ? std::string("the end of the line") : quote(rest);
  fail_user("K0220", str("graph text, line ", line(), ": expected ", expected, ", found ", found));
}

void TextReader::skip() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else {
      return;
    }
  }
}

bool TextReader::at_end() { return peek() == 0 && at_ >= text_.size(); }

char TextReader::peek() {
  skip();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool TextReader::take(char c) {
  if (peek() != c || at_ >= text_.size()) return false;
  ++at_;
  return true;
}

void TextReader::expect(char c) {
  if (!take(c)) fail(str("'", c, "'"));
}

bool TextReader::take_word(std::string_view wanted) {
  skip();
  if (text_.substr(at_, wanted.size()) != wanted) return false;
  size_t end = at_ + wanted.size();
  if (end < text_.size() && is_word_char(text_[end])) return false;
  at_ = end;
  return true;
}

void TextReader::expect_word(std::string_view wanted) {
  if (!take_word(wanted)) fail(str("'", wanted, "'"));
}

std::string TextReader::word() {
  skip();
  size_t begin = at_;
  while (at_ < text_.size() && is_word_char(text_[at_])) ++at_;
  if (begin == at_) fail("a word");
  return std::string(text_.substr(begin, at_ - begin));
}

std::string TextReader::name(bool dots) {
  if (peek() == '"') return quoted();
  size_t begin = at_;
  while (at_ < text_.size() && (is_word_char(text_[at_]) || (dots && text_[at_] == '.'))) ++at_;
  std::string_view found = text_.substr(begin, at_ - begin);
  if (!is_plain_name(found, dots)) {
    at_ = begin;
    fail("a name");
  }
  return std::string(found);
}

std::string TextReader::quoted() {
  if (peek() != '"') fail("a quoted string");
  size_t end = at_ + 1;
  while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
  std::string out;
  if (end >= text_.size() || !unquote(text_.substr(at_, end + 1 - at_), out)) fail("a closed string");
  at_ = end + 1;
  return out;
}

std::string_view TextReader::number_text() {
  skip();
  size_t begin = at_;
  while (at_ < text_.size() &&
         (is_word_char(text_[at_]) || text_[at_] == '.' || text_[at_] == '-' || text_[at_] == '+'))
    ++at_;
  return text_.substr(begin, at_ - begin);
}

int64_t TextReader::integer() {
  size_t begin = at_;
  std::string_view digits = number_text();
  int64_t value = 0;
  auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || result.ec != std::errc() || result.ptr != digits.data() + digits.size()) {
    at_ = begin;
    fail("an integer");
  }
  return value;
}

size_t TextReader::count(size_t below) {
  size_t begin = at_;
  int64_t value = integer();
  if (value < 0 || static_cast<uint64_t>(value) >= below) {
    at_ = begin;
    fail(str("a number below ", below));
  }
  return static_cast<size_t>(value);
}

Scalar TextReader::number() {
  if (take('(')) {
    double real = number().as_double();
    expect(',');
    double imaginary = number().as_double();
    expect(')');
    return Scalar(std::complex<double>(real, imaginary));
  }
  size_t begin = at_;
  std::string_view digits = number_text();
  const char* end = digits.data() + digits.size();
  int64_t integer = 0;
  auto whole = std::from_chars(digits.data(), end, integer);
  if (whole.ec == std::errc() && whole.ptr == end) return Scalar(integer);
  // Without a point, an exponent or a word it is an integer, and then one that does not fit.
  bool real = digits.find_first_of(".eni") != std::string_view::npos;
  double value = 0;
  auto fraction = std::from_chars(digits.data(), end, value);
  if (!real || digits.empty() || fraction.ec != std::errc() || fraction.ptr != end) {
    at_ = begin;
    fail("a number");
  }
  return Scalar(value);
}

// Up to one of two characters that stands outside brackets.
std::string_view TextReader::until(char a, char b) {
  skip();
  size_t begin = at_;
  int depth = 0;
  while (at_ < text_.size() && text_[at_] != '\n') {
    char c = text_[at_];
    if (depth == 0 && (c == a || c == b)) return text_.substr(begin, at_ - begin);
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    ++at_;
  }
  fail(str("'", a, "'"));
}

Expr TextReader::expr_of(std::string_view text) {
  try {
    return parse_expr(text);
  } catch (const Error& error) {
    fail_user("K0220", str("graph text, line ", line(), ": ", error.message()));
  }
}

Expr TextReader::braced_expr() {
  expect('{');
  Expr out = expr_of(until('}', '}'));
  expect('}');
  return out;
}

std::vector<Expr> TextReader::expr_list() {
  expect('[');
  std::vector<Expr> out;
  if (take(']')) return out;
  do out.push_back(expr_of(until(',', ']')));
  while (take(','));
  expect(']');
  return out;
}

uint64_t TextReader::hex() {
  std::string digits = word();
  uint64_t value = 0;
  auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) fail("a hexadecimal number");
  return value;
}

}  // namespace kiln::graph_text
