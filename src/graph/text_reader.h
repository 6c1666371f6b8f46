// Reads the tokens of the Graph text from a string: words, names, quoted strings, numbers, expressions in braces.
// Every failure is Error K0220 with the line and what was expected there.
#pragma once
#include <string>
#include <string_view>

#include "types/expr.h"
#include "types/scalar.h"

namespace kiln::graph_text {

class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(std::string_view expected) const;
  bool at_end();
  char peek();  // the next character that is not space or comment; 0 at the end
  bool take(char c);
  void expect(char c);
  bool take_word(std::string_view word);  // a whole word, not a prefix of a longer one
  void expect_word(std::string_view word);
  std::string word();
  std::string name(bool dots = false);  // plain or quoted
  std::string quoted();
  int64_t integer();
  size_t count(size_t below);     // a number from 0 to below - 1
  Scalar number();                // integer, float or complex
  Expr braced_expr();             // {s0 + 1}
  std::vector<Expr> expr_list();  // [s0, 16]
  uint64_t hex();

 private:
  void skip();
  std::string_view number_text();
  Expr expr_of(std::string_view text);
  std::string_view until(char a, char b);
  int line() const;
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace kiln::graph_text
