// Inside of parse*.cpp: the parser of the text form. One line is one statement; a line that ends in "{" opens a block.
#pragma once
#include <map>

#include "loops/text_cursor.h"

namespace kiln::loops::text {

class Parser {
 public:
  explicit Parser(std::string_view text);
  LoopProgram whole();

 private:
  // Lines (parse.cpp)
  Cursor next();             // the next line that is neither empty nor a comment
  void close(Cursor& line);  // the line must be "}"
  void open(Cursor& line);   // "{" and nothing more
  struct Deeper;

  // The head (parse.cpp)
  void read_origins();
  void head_line(Cursor& line);
  void symbol(Cursor& line);
  void buffer(Cursor& line);
  void input(Cursor& line);
  void output(Cursor& line);
  Argument argument(Cursor& line);
  BufferId buffer_name(Cursor& line, bool may_be_none = false);
  Origin origin(Cursor& line);
  std::vector<Origin> origins(Cursor& line);

  // Items (parse_items.cpp)
  Block block();  // up to and including the line that starts with "}"; it is left in `closing_`
  Item item(Cursor& line);
  Kernel kernel(Cursor& line);
  Call call(Cursor& line);
  void call_line(Cursor& line, Call& call);
  Cond cond(Cursor& line);
  While while_loop(Cursor& line);
  std::variant<BufferId, Expr> predicate(Cursor& line);

  // Statements (parse_statements.cpp)
  struct ParsedBody {
    Body statements;
    std::vector<ValueId> yields;
  };
  ParsedBody body();  // like block()
  Stmt statement(Cursor& line, std::vector<ValueId> results);
  Stmt loop(Cursor& line, std::vector<ValueId> results);
  Stmt store(Cursor& line, const std::string& mode);
  Stmt check_index(Cursor& line, std::vector<ValueId> results);
  AxisDirectives directives(Cursor& line);
  SumOrder order(Cursor& line);
  void contraction(Cursor& line);
  void schedule(Cursor& line);
  ValueId mask(Cursor& line);
  void named_value(Cursor& line);
  void define(const std::vector<ValueId>& values, DType dtype);

  std::string_view text_;
  size_t at_ = 0, line_number_ = 0;
  int depth_ = 0;
  Cursor closing_;
  LoopProgram program_;
  std::map<std::string, BufferId, std::less<>> buffers_;
  std::map<int64_t, Origin> origins_;
  Kernel* kernel_ = nullptr;
};

// Every level of nesting counts, so that hostile text cannot exhaust the stack.
struct Parser::Deeper {
  Deeper(Parser& p, const Cursor& line) : parser(p) {
    if (++parser.depth_ > 100) {
      --parser.depth_;
      line.fail("nested too deeply");
    }
  }
  ~Deeper() { --parser.depth_; }
  Parser& parser;
};

}  // namespace kiln::loops::text
