#include "loops/text_cursor.h"

#include <charconv>

#include "loops/text_names.h"

namespace kiln::loops::text {

void Cursor::fail(std::string_view what) const {
  fail_user("K0320", str("line ", number_, " of the Loops text: ", what, " at column ", at_ + 1, " of \"",
                         line_.substr(0, 160), "\""));
}

void Cursor::skip_space() {
  while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
}
bool Cursor::at_end() {
  skip_space();
  return at_ == line_.size();
}
void Cursor::expect_end() {
  if (!at_end()) fail("unexpected text");
}
char Cursor::peek() { return at_end() ? '\0' : line_[at_]; }

bool Cursor::accept(std::string_view token) {
  skip_space();
  if (line_.substr(at_, token.size()) != token) return false;
  size_t end = at_ + token.size();
  if (name_char(token.back(), false) && end < line_.size() && name_char(line_[end], false)) return false;
  at_ = end;
  return true;
}
void Cursor::expect(std::string_view token) {
  if (!accept(token)) fail(str("expected \"", token, "\""));
}

std::string Cursor::name() {
  if (peek() == '"') return quoted();
  size_t start = at_;
  while (at_ < line_.size() && name_char(line_[at_], at_ == start)) ++at_;
  if (at_ == start) fail("expected a name");
  return std::string(line_.substr(start, at_ - start));
}

std::string Cursor::quoted() {
  if (peek() != '"') fail("expected a quoted text");
  size_t start = at_++;
  while (at_ < line_.size() && line_[at_] != '"') at_ += line_[at_] == '\\' ? 2 : 1;
  if (at_ >= line_.size()) {
    at_ = start;
    fail("a quoted text does not end");
  }
  ++at_;
  std::string out;
  if (!unquote(line_.substr(start, at_ - start), out)) fail("bad quoted text");
  return out;
}

int64_t Cursor::integer(int64_t low, int64_t high) {
  skip_space();
  int64_t value = 0;
  auto [end, error] = std::from_chars(line_.data() + at_, line_.data() + line_.size(), value);
  if (error != std::errc()) fail("expected an integer");
  if (value < low || value > high) fail(str("expected an integer between ", low, " and ", high));
  at_ = static_cast<size_t>(end - line_.data());
  return value;
}

int64_t Cursor::bound() {
  if (accept("-inf")) return INT64_MIN;
  if (accept("inf")) return INT64_MAX;
  return integer(INT64_MIN, INT64_MAX);
}

Scalar Cursor::scalar() {
  skip_space();
  size_t start = at_;
  bool complex = peek() == '(';
  while (at_ < line_.size() && (complex || (line_[at_] != ',' && line_[at_] != ']' && line_[at_] != ' '))) {
    if (line_[at_++] == ')') break;
  }
  std::string_view text = line_.substr(start, at_ - start);
  auto number = [&](std::string_view part, auto& out) {
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), out);
    return error == std::errc() && end == part.data() + part.size();
  };
  if (text == "true") return Scalar(true);
  if (text == "false") return Scalar(false);
  int64_t integer = 0;
  double real = 0, imaginary = 0;
  if (number(text, integer)) return Scalar(integer);
  if (number(text, real)) return Scalar(real);
  if (complex && text.size() > 2) {
    std::vector<std::string> parts = split(text.substr(1, text.size() - 2), ',');
    if (parts.size() == 2 && number(trim(parts[0]), real) && number(trim(parts[1]), imaginary))
      return Scalar(std::complex<double>(real, imaginary));
  }
  at_ = start;
  fail("expected a number");
}

DType Cursor::dtype() {
  std::string word = name();
  auto found = dtype_from_name(word);
  if (!found) fail(str("\"", word, "\" is no element type"));
  return *found;
}

ValueId Cursor::value() {
  expect("%");
  // A bound on the numbers, so that a short hostile text cannot ask for a huge table.
  return static_cast<ValueId>(integer(0, (1 << 22) - 1));
}
std::vector<ValueId> Cursor::values() {
  std::vector<ValueId> out{value()};
  while (accept(",")) out.push_back(value());
  return out;
}

std::string_view Cursor::bracketed() {
  expect("[");
  size_t start = at_;
  for (int depth = 1; at_ < line_.size(); ++at_) {
    char c = line_[at_];
    if (c == '"') {
      quoted();
      --at_;
    } else if (c == '[') {
      ++depth;
    } else if (c == ']' && --depth == 0) {
      return line_.substr(start, at_++ - start);
    }
  }
  fail("a bracket does not end");
}

Expr Cursor::parse_part(std::string_view text) const {
  try {
    return parse_expr(text);
  } catch (const Error& error) {
    fail(error.message());
  }
}

Expr Cursor::expr() { return parse_part(bracketed()); }

std::vector<Expr> Cursor::exprs() {
  std::string_view text = bracketed();
  std::vector<Expr> out;
  if (trim(text).empty()) return out;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      out.push_back(parse_part(text.substr(start, i - start)));
      start = i + 1;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')') {
      --depth;
    } else if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
    }
  }
  return out;
}

void Cursor::list(const std::function<void()>& f) {
  expect("[");
  if (accept("]")) return;
  do {
    f();
  } while (accept(","));
  expect("]");
}

}  // namespace kiln::loops::text
