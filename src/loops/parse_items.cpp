// Items of the text form: kernels, calls, bound symbols, asserts, conds, whiles.
#include "loops/text_names.h"
#include "loops/text_parser.h"

namespace kiln::loops::text {

Block Parser::block() {
  Block out;
  for (;;) {
    Cursor line = next();
    if (line.peek() == '}') {
      closing_ = line;
      return out;
    }
    out.push_back(item(line));
  }
}

Item Parser::item(Cursor& line) {
  Deeper deeper(*this, line);
  if (line.accept("kernel")) return {kernel(line)};
  if (line.accept("call")) return {call(line)};
  if (line.accept("cond")) return {cond(line)};
  if (line.accept("while")) return {while_loop(line)};
  if (line.accept("bind")) {
    BindSymbol bind;
    bind.symbol = line.name();
    line.expect("=");
    bind.buffer = buffer_name(line);
    bind.origins = origins(line);
    line.expect_end();
    return {std::move(bind)};
  }
  if (line.accept("assert")) {
    AssertThat that;
    that.condition = line.expr();
    that.message = line.quoted();
    that.origins = origins(line);
    line.expect_end();
    return {std::move(that)};
  }
  line.fail("expected kernel, call, bind, assert, cond or while");
}

Kernel Parser::kernel(Cursor& line) {
  Kernel made;
  made.name = line.name();
  if (line.accept("ops")) line.list([&] { made.op_names.push_back(line.name()); });
  made.origins = origins(line);
  open(line);
  kernel_ = &made;
  ParsedBody parsed = body();
  if (!parsed.yields.empty()) closing_.fail("yield outside of a reduction");
  for (const NamedValue& named : made.named)
    for (ValueId v : {named.value, named.mask})
      if (v != no_value && static_cast<size_t>(v) >= made.value_types.size())
        closing_.fail(str("%", v, " has a name but no statement"));
  made.body = std::move(parsed.statements);
  kernel_ = nullptr;
  close(closing_);
  return made;
}

Call Parser::call(Cursor& line) {
  Call made;
  made.name = line.name();
  line.expect("=");
  made.target = line.quoted();
  made.custom = line.accept("custom");
  if (line.accept("library")) made.library = line.quoted();
  made.proves_sizes = line.accept("proves_sizes");
  made.origins = origins(line);
  open(line);
  for (;;) {
    Cursor inner = next();
    if (inner.peek() == '}') {
      close(inner);
      return made;
    }
    call_line(inner, made);
    inner.expect_end();
  }
}

void Parser::call_line(Cursor& line, Call& call) {
  auto buffer_list = [&](bool may_be_none) {
    std::vector<BufferId> ids;
    line.list([&] { ids.push_back(buffer_name(line, may_be_none)); });
    return ids;
  };
  if (line.accept("outputs")) {
    call.outputs = buffer_list(false);
  } else if (line.accept("mutates")) {
    call.mutates = buffer_list(false);
  } else if (line.accept("defines")) {
    line.list([&] { call.defines.push_back(line.name()); });
  } else {
    line.expect("arg");
    Call::Arg arg;
    arg.name = line.name();
    line.expect("=");
    if (line.accept("buffer")) {
      arg.value = buffer_name(line, true);
    } else if (line.accept("buffers")) {
      arg.value = buffer_list(true);
    } else if (line.accept("expr")) {
      arg.value = line.expr();
    } else if (line.accept("exprs")) {
      arg.value = line.exprs();
    } else if (line.accept("scalar")) {
      arg.value = line.scalar();
    } else if (line.accept("string")) {
      arg.value = line.quoted();
    } else if (line.accept("dtype")) {
      arg.value = line.dtype();
    } else {
      line.expect("none");
    }
    call.args.push_back(std::move(arg));
  }
}

std::variant<BufferId, Expr> Parser::predicate(Cursor& line) {
  line.expect("on");
  if (line.accept("buffer")) return buffer_name(line);
  line.expect("expr");
  return line.expr();
}

Cond Parser::cond(Cursor& line) {
  Cond made;
  made.name = line.name();
  made.predicate = predicate(line);
  made.origins = origins(line);
  open(line);
  made.then_block = std::make_unique<Block>(block());
  closing_.expect("}");
  closing_.expect("else");
  open(closing_);
  made.else_block = std::make_unique<Block>(block());
  close(closing_);
  return made;
}

While Parser::while_loop(Cursor& line) {
  While made;
  made.name = line.name();
  line.expect("counting");
  made.iteration_symbol = line.name();
  made.origins = origins(line);
  open(line);
  made.condition_block = std::make_unique<Block>(block());
  Cursor middle = closing_;
  middle.expect("}");
  made.predicate = predicate(middle);
  middle.expect("do");
  open(middle);
  made.body_block = std::make_unique<Block>(block());
  close(closing_);
  return made;
}

}  // namespace kiln::loops::text
