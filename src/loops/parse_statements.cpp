// Statements of kernels in the text form.
#include "loops/text_names.h"
#include "loops/text_parser.h"

namespace kiln::loops::text {

Parser::ParsedBody Parser::body() {
  ParsedBody out;
  bool yielded = false;
  for (;;) {
    Cursor line = next();
    if (line.peek() == '}') {
      closing_ = line;
      return out;
    }
    if (yielded) line.fail("yield must be the last line of its body");
    if (line.accept("name")) {
      named_value(line);
      continue;
    }
    if (line.accept("contraction")) {
      contraction(line);
      continue;
    }
    if (line.accept("schedule")) {
      schedule(line);
      continue;
    }
    if (line.accept("yield")) {
      out.yields = line.values();
      line.expect_end();
      yielded = true;
      continue;
    }
    std::vector<ValueId> results;
    if (line.peek() == '%') {
      results = line.values();
      line.expect("=");
    }
    out.statements.push_back(statement(line, std::move(results)));
  }
}

void Parser::define(const std::vector<ValueId>& values, DType dtype) {
  for (ValueId v : values) {
    auto slot = static_cast<size_t>(v);
    if (kernel_->value_types.size() <= slot) kernel_->value_types.resize(slot + 1, DType::f32);
    kernel_->value_types[slot] = dtype;
  }
}

void Parser::named_value(Cursor& line) {
  NamedValue made;
  made.value = line.value();
  line.expect("=");
  made.name = line.name();
  made.index = line.exprs();
  made.mask = mask(line);
  line.expect_end();
  kernel_->named.push_back(std::move(made));
}

void Parser::contraction(Cursor& line) {
  if (kernel_->contraction) line.fail("a kernel has one contraction");
  Contraction made;
  auto names = [&](const char* what, std::vector<std::string>& to) {
    line.expect(what);
    line.list([&] { to.push_back(line.name()); });
  };
  auto values = [&](const char* what, std::vector<ValueId>& to) {
    line.expect(what);
    line.list([&] { to.push_back(line.value()); });
  };
  names("batch", made.batch);
  names("rows", made.rows);
  names("columns", made.columns);
  names("sums", made.sums);
  line.expect("left");
  made.left = line.value();
  values("of", made.left_values);
  line.expect("right");
  made.right = line.value();
  values("of", made.right_values);
  values("shared", made.shared_values);
  line.expect_end();
  kernel_->contraction = std::move(made);
}

void Parser::schedule(Cursor& line) {
  if (kernel_->schedule) line.fail("a kernel has one schedule");
  Schedule made;
  line.expect("items");
  made.items = line.expr();
  line.expect("grain");
  made.grain = line.integer(1, INT64_MAX);
  line.expect("lanes");
  made.lanes = static_cast<int>(line.integer(1, 64));
  made.turns = line.accept("turns");
  if (line.accept("tile")) {
    made.tile.rows = line.integer(1, 64);
    line.expect("rows");
    made.tile.vectors = line.integer(1, 64);
    line.expect("vectors");
    if (line.accept("high")) made.tile.high = line.integer(1, INT64_MAX);
    if (line.accept("together")) made.tile.together = line.integer(1, INT64_MAX);
    made.tile.beside = line.accept("beside");
    if (line.accept("ahead")) made.tile.ahead = line.integer(1, INT64_MAX);
    made.tile.pairs = line.accept("pairs");
    made.tile.quads = line.accept("quads");
    made.tile.matrix = line.accept("matrix");
    if (line.accept("rows_in")) made.tile.rows_copy = buffer_name(line);
    if (line.accept("widened_in")) made.tile.rows_wide = buffer_name(line);
    made.tile.interleaved = line.accept("interleaved");
  }
  if (line.accept("threads")) {
    made.grid.threads = static_cast<int>(line.integer(1, 1024));
    line.expect("team");
    made.grid.team = static_cast<int>(line.integer(1, 1024));
    if (line.accept("vector")) made.grid.vector = static_cast<int>(line.integer(2, 16));
    if (line.accept("hold")) made.grid.hold = static_cast<int>(line.integer(1, 64));
  }
  if (line.accept("block")) {
    made.grid.tile_rows = line.integer(1, 1024);
    line.expect("rows");
    made.grid.tile_columns = line.integer(1, 1024);
    line.expect("columns");
    made.grid.tile_terms = line.integer(1, 1024);
    line.expect("terms");
    line.expect("each");
    made.grid.thread_rows = line.integer(1, 1024);
    line.expect("by");
    made.grid.thread_columns = line.integer(1, 1024);
    made.grid.tensor_cores = line.accept("tensor_cores");
    made.grid.warpgroups = line.accept("warpgroups");
    if (line.accept("stages")) made.grid.stages = static_cast<int>(line.integer(2, 16));
    made.grid.left_along_terms = line.accept("left_along_terms");
    if (line.accept("left_chunk")) made.grid.left_chunk = static_cast<int>(line.integer(2, 16));
    made.grid.right_along_terms = line.accept("right_along_terms");
    if (line.accept("right_chunk")) made.grid.right_chunk = static_cast<int>(line.integer(2, 16));
    if (line.accept("keys")) {
      made.grid.keys = line.integer(1, 1024);
      if (line.accept("value_chunk")) made.grid.value_chunk = static_cast<int>(line.integer(2, 16));
      line.expect("weight_parts");
      made.grid.weight_parts = static_cast<int>(line.integer(1, 3));
      made.grid.causal = line.accept("causal");
    }
    if (line.accept("parts")) made.grid.parts = static_cast<int>(line.integer(2, 8));
  }
  line.expect_end();
  kernel_->schedule = std::move(made);
}

SumOrder Parser::order(Cursor& line) {
  SumOrder out;
  out.fused = line.accept("fused");
  out.pairs = line.accept("pairs");
  if (!line.accept("blocks")) return out;
  line.expect("(");
  out.block = line.integer(1, INT64_MAX);
  line.expect(",");
  out.meet = line.dtype();
  line.expect(")");
  if (line.accept("chains")) {
    line.expect("(");
    out.chains = static_cast<int>(line.integer(2, 2));
    line.expect(")");
  }
  return out;
}

ValueId Parser::mask(Cursor& line) { return line.accept("mask") ? line.value() : no_value; }

Stmt Parser::statement(Cursor& line, std::vector<ValueId> results) {
  if (line.accept("for")) return loop(line, std::move(results));
  std::string word = line.name();
  size_t dot = word.find('.');
  std::string what = word.substr(0, dot), suffix = dot == std::string::npos ? "" : word.substr(dot + 1);
  Stmt made;
  if (what == "store") {
    if (!results.empty()) line.fail("store has no result");
    made = store(line, suffix);
  } else if (what == "raise_if") {
    if (!results.empty()) line.fail("raise_if has no result");
    made.kind = StmtKind::raise_if;
    made.dtype = DType::boolean;
    made.args = {line.value()};
    line.expect("site");
    made.site = static_cast<int>(line.integer(0, INT32_MAX));
    made.mask = mask(line);
  } else if (what == "check_index") {
    made = check_index(line, std::move(results));
  } else {
    auto dtype = dtype_from_name(suffix);
    if (!dtype || results.size() != 1) line.fail(str("\"", word, "\" needs an element type and one result"));
    made.dtype = *dtype;
    made.results = std::move(results);
    define(made.results, *dtype);
    if (what == "constant") {
      made.kind = StmtKind::constant;
      made.constant = line.scalar();
    } else if (what == "index" || what == "random") {
      made.kind = what == "index" ? StmtKind::index_value : StmtKind::random;
      made.expr = line.expr();
    } else if (what == "load") {
      made.kind = StmtKind::load;
      made.buffer = buffer_name(line);
      made.index = line.exprs();
      made.mask = mask(line);
    } else {
      auto op = scalar_op_from_name(what);
      if (!op) line.fail(str("\"", what, "\" is no scalar operator"));
      made.kind = StmtKind::op;
      made.op = *op;
      made.args = line.values();
    }
  }
  line.expect_end();
  return made;
}

Stmt Parser::store(Cursor& line, const std::string& mode) {
  Stmt made;
  made.kind = StmtKind::store;
  if (!mode.empty()) {
    auto found = store_modes.find(mode);
    if (!found || *found == StoreMode::plain) line.fail(str("\"", mode, "\" is no way to store"));
    made.mode = *found;
  }
  made.buffer = buffer_name(line);
  made.dtype = program_.buffers[static_cast<size_t>(made.buffer)].dtype;
  made.index = line.exprs();
  line.expect("=");
  made.args = {line.value()};
  made.mask = mask(line);
  return made;
}

Stmt Parser::check_index(Cursor& line, std::vector<ValueId> results) {
  if (results.size() != 1) line.fail("check_index has one result");
  Stmt made;
  made.kind = StmtKind::check_index;
  made.dtype = DType::i64;
  define(results, DType::i64);
  made.results = std::move(results);
  made.index_var = line.name();
  line.expect("=");
  made.args = {line.value()};
  line.expect("in");
  made.expr = line.expr();
  line.expect("site");
  made.site = static_cast<int>(line.integer(0, INT32_MAX));
  made.mask = mask(line);
  return made;
}

AxisDirectives Parser::directives(Cursor& line) {
  AxisDirectives out;
  if (!line.accept("@")) return out;
  auto binding = bindings.find(line.name());
  if (!binding) line.fail("expected @item, @lane, @unroll, @serial or @kept");
  out.binding = *binding;
  if (!line.accept("(")) return out;
  out.factor = line.integer(0, INT64_MAX);
  line.expect(",");
  auto tail = tails.find(line.name());
  if (!tail) line.fail("expected exact, mask or peel");
  out.tail = *tail;
  line.expect(")");
  return out;
}

Stmt Parser::loop(Cursor& line, std::vector<ValueId> results) {
  Deeper deeper(*this, line);
  Stmt made;
  made.kind = StmtKind::loop;
  made.loop = std::make_unique<Loop>();
  Loop& loop = *made.loop;
  loop.var = line.name();
  line.expect("in");
  loop.extent = line.expr();
  auto role = axis_roles.find(line.name());
  if (!role) line.fail("expected parallel, reduce or scan");
  loop.role = *role;
  if (loop.role != AxisRole::parallel) {
    std::string word = line.name();
    size_t dot = std::min(word.find('.'), word.size());
    auto op = reduce_op_from_name(word.substr(0, dot));
    auto dtype = dot < word.size() ? dtype_from_name(word.substr(dot + 1)) : std::nullopt;
    if (!op || !dtype) line.fail(str("\"", word, "\" is no reduction"));
    loop.reduce = *op;
    loop.reduce_dtype = made.dtype = *dtype;
    if (line.accept("only")) loop.only = line.value();
    loop.order = order(line);
  }
  loop.directives = directives(line);
  open(line);
  ParsedBody parsed = body();
  loop.body = std::move(parsed.statements);
  loop.yields = std::move(parsed.yields);
  if ((loop.role == AxisRole::parallel) != loop.yields.empty())
    closing_.fail("reductions and scans yield, others do not");
  if (loop.role == AxisRole::scan) {
    Cursor middle = closing_;
    middle.expect("}");
    middle.expect("after");
    loop.running = middle.values();
    open(middle);
    ParsedBody after = body();
    if (!after.yields.empty()) closing_.fail("yield in the part after a scan's update");
    loop.after = std::move(after.statements);
  }
  close(closing_);
  auto define_accumulators = [&](const std::vector<ValueId>& values) {
    for (size_t i = 0; i < values.size(); ++i) define({values[i]}, loop.accumulator_dtype(static_cast<int>(i)));
  };
  define_accumulators(results);
  define_accumulators(loop.running);
  made.results = std::move(results);
  return made;
}

}  // namespace kiln::loops::text
