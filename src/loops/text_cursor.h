// Reads one line of the text form, word by word. Every expression of the text stands in brackets, so that its end is
// found without parsing it. Throws K0320 with the line.
#pragma once
#include "loops/loops.h"

namespace kiln::loops::text {

class Cursor {
 public:
  Cursor(std::string_view line, size_t number) : line_(line), number_(number) {}

  [[noreturn]] void fail(std::string_view what) const;
  size_t number() const { return number_; }
  bool at_end();
  void expect_end();
  char peek();                          // the next character that is no space; 0 at the end
  bool accept(std::string_view token);  // a whole word, or punctuation
  void expect(std::string_view token);

  std::string name();  // a word or a quoted text
  std::string quoted();
  int64_t integer(int64_t low, int64_t high);
  int64_t bound();  // integer, inf or -inf
  Scalar scalar();
  DType dtype();
  ValueId value();                // %3
  std::vector<ValueId> values();  // %3, %4
  Expr expr();                    // [s0*2]
  std::vector<Expr> exprs();      // [s0, 2]
  // [a, b]: calls f at the start of each element
  void list(const std::function<void()>& f);

 private:
  void skip_space();
  std::string_view bracketed();  // what stands between the brackets
  Expr parse_part(std::string_view text) const;
  std::string_view line_;
  size_t number_ = 0, at_ = 0;
};

}  // namespace kiln::loops::text
