// The head of the text form: symbols, guards, buffers, signature, sites, origins. Items and statements have own files.
#include "loops/text_names.h"
#include "loops/text_parser.h"
#include "types/device_names.h"

namespace kiln::loops::text {

Parser::Parser(std::string_view text) : text_(text), closing_("", 0) {}

// ---- Lines
// -----------------------------------------------------------------------------------------------------------

Cursor Parser::next() {
  while (at_ < text_.size()) {
    size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string_view line = trim(text_.substr(at_, end - at_));
    at_ = std::min(end + 1, text_.size());
    ++line_number_;
    if (!line.empty() && line[0] != '#') return Cursor(line, line_number_);
  }
  fail_user("K0320", str("line ", line_number_ + 1, " of the Loops text: the text ends too early"));
}

void Parser::open(Cursor& line) {
  line.expect("{");
  line.expect_end();
}
void Parser::close(Cursor& line) {
  line.expect("}");
  line.expect_end();
}

// ---- Origins: they stand at the end and are needed before
// ------------------------------------------------------------

void Parser::read_origins() {
  size_t number = 0;
  for (const std::string& text : split(text_, '\n')) {
    ++number;
    Cursor line(trim(text), number);
    if (!line.accept("origin")) continue;
    int64_t which = line.integer(0, INT32_MAX);
    Origin made;
    line.expect("node");
    made.node = line.quoted();
    line.expect("op");
    made.op = line.quoted();
    line.expect("module");
    made.module_path = line.quoted();
    while (line.accept("at")) {
      SourceLine source;
      source.file = line.quoted();
      source.line = static_cast<int>(line.integer(INT32_MIN, INT32_MAX));
      source.function = line.quoted();
      source.text = line.quoted();
      made.stack.push_back(std::move(source));
    }
    line.expect_end();
    if (!origins_.emplace(which, std::move(made)).second) line.fail("two origins have this number");
  }
}

Origin Parser::origin(Cursor& line) {
  auto found = origins_.find(line.integer(0, INT32_MAX));
  if (found == origins_.end()) line.fail("no origin has this number");
  return found->second;
}

std::vector<Origin> Parser::origins(Cursor& line) {
  std::vector<Origin> out;
  if (line.accept("from")) line.list([&] { out.push_back(origin(line)); });
  return out;
}

// ---- The head
// --------------------------------------------------------------------------------------------------------

void Parser::symbol(Cursor& line) {
  SymbolInfo info;
  info.name = line.name();
  line.expect("in");
  line.expect("[");
  info.range.low = line.bound();
  line.expect(",");
  info.range.high = line.bound();
  line.expect("]");
  if (line.accept("hint")) info.hint = line.integer(INT64_MIN, INT64_MAX);
  info.unbacked = line.accept("unbacked");
  if (!program_.symbols.emplace(info.name, info).second) line.fail("a symbol is declared twice");
}

void Parser::buffer(Cursor& line) {
  Buffer made;
  made.name = line.name();
  made.dtype = line.dtype();
  made.sizes = line.exprs();
  line.expect("strides");
  made.strides = line.exprs();
  if (line.accept("offset")) made.offset = line.expr();
  auto role = roles.find(line.name());
  if (!role) line.fail("expected a role: input, constant, derived, output, temp or scratch");
  made.role = *role;
  if (line.accept("position")) made.position = static_cast<int>(line.integer(0, INT32_MAX));
  if (line.accept("named")) made.constant = line.quoted();
  made.mutated = line.accept("mutated");
  made.complex = line.accept("complex");
  if (!buffers_.emplace(made.name, static_cast<BufferId>(program_.buffers.size())).second)
    line.fail("a buffer is declared twice");
  program_.buffers.push_back(std::move(made));
}

BufferId Parser::buffer_name(Cursor& line, bool may_be_none) {
  if (may_be_none && line.accept("none")) return no_buffer;
  std::string name = line.name();
  auto found = buffers_.find(name);
  if (found == buffers_.end()) line.fail(str("no buffer is named \"", name, "\""));
  return found->second;
}

Argument Parser::argument(Cursor& line) {
  if (line.accept("none")) return Argument();
  if (line.accept("scalar")) return Argument(line.scalar());
  if (line.accept("string")) return Argument(line.quoted());
  if (line.accept("expr")) return Argument(line.expr());
  if (line.accept("dtype")) return Argument(line.dtype());
  if (line.accept("layout")) {
    line.expect("strided");
    return Argument(Layout::strided);
  }
  if (line.accept("memory_format")) return Argument(static_cast<MemoryFormat>(line.integer(1, 4)));
  if (line.accept("device")) {
    const auto device = device_from_text(line.quoted());
    if (!device) line.fail("no such device");
    return Argument(*device);
  }
  line.expect("list");
  Argument::List items;
  Deeper deeper(*this, line);
  line.list([&] { items.push_back(argument(line)); });
  return Argument(std::move(items));
}

void Parser::input(Cursor& line) {
  LoopProgram::Input made;
  made.name = line.name();
  line.expect("=");
  if (line.accept("buffer"))
    made.what = buffer_name(line);
  else if (line.accept("symbol"))
    made.what = line.name();
  else
    made.what = argument(line);
  program_.inputs.push_back(std::move(made));
}

void Parser::output(Cursor& line) {
  LoopProgram::Output made;
  if (line.accept("buffer"))
    made.what = buffer_name(line);
  else if (line.accept("value"))
    made.what = line.expr();
  else
    made.what = argument(line);
  program_.outputs.push_back(std::move(made));
}

void Parser::head_line(Cursor& line) {
  if (line.accept("symbol")) {
    symbol(line);
  } else if (line.accept("guard")) {
    Guard guard;
    guard.condition = line.expr();
    line.expect("because");
    guard.reason = line.quoted();
    program_.guards.push_back(std::move(guard));
  } else if (line.accept("buffer")) {
    buffer(line);
  } else if (line.accept("input")) {
    input(line);
  } else if (line.accept("output")) {
    output(line);
  } else if (line.accept("site")) {
    Site site;
    site.message = line.quoted();
    line.expect("origin");
    site.origin = origin(line);
    program_.sites.push_back(std::move(site));
  } else {
    line.fail("expected symbol, guard, buffer, input, output, site, init or main");
  }
  line.expect_end();
}

LoopProgram Parser::whole() {
  read_origins();
  Cursor first = next();
  first.expect("loops");
  program_.name = first.name();
  first.expect_end();
  for (;;) {
    Cursor line = next();
    bool init = line.accept("init");
    if (!init && !line.accept("main")) {
      head_line(line);
      continue;
    }
    open(line);
    (init ? program_.init : program_.block) = block();
    close(closing_);
    if (!init) break;
  }
  while (!trim(text_.substr(at_)).empty()) {
    size_t before = at_;
    std::string_view rest = trim(text_.substr(before));
    if (rest[0] == '#' && rest.find('\n') == std::string_view::npos) break;
    Cursor line = next();
    if (!line.accept("origin")) line.fail("expected an origin or the end");
  }
  return std::move(program_);
}

}  // namespace kiln::loops::text

namespace kiln::loops {
LoopProgram parse_loops(std::string_view text) { return text::Parser(text).whole(); }
}  // namespace kiln::loops
