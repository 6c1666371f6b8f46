#include "codegen/cpu/jam_printer.h"

#include "loops/lane_pairs.h"

namespace kiln::codegen {
using namespace loops;

JamPrinter::JamPrinter(KernelPrinter& printer, const Loop& loop) : p_(printer) {
  columns_ = &loop;
  if (loop.directives.binding == Binding::unroll) {
    rows_ = &loop;
    KILN_CHECK(!loop.body.empty() && loop.body.back().loop, str(loop.var, " is unrolled around no loop"));
    columns_ = loop.body.back().loop.get();
  }
  find_varying(loop.body);
}

// ---- What differs between the copies
// ------------------------------------------------------------------------------------

JamPrinter::Varies JamPrinter::of(const Expr& e) const {
  return {rows_ && mentions(e, rows_->var), mentions(e, columns_->var)};
}

JamPrinter::Varies JamPrinter::of(ValueId v) const {
  const auto found = varying_.find(v);
  return found == varying_.end() ? Varies() : found->second;
}

JamPrinter::Varies JamPrinter::of(const Stmt& stmt) const {
  Varies out = of(stmt.expr) | of(stmt.mask);
  for (const Expr& e : stmt.index) out = out | of(e);
  for (ValueId v : stmt.args) out = out | of(v);
  if (stmt.loop)
    for (ValueId v : stmt.loop->yields) out = out | of(v);
  return out;
}

void JamPrinter::find_varying(const Body& body) {
  for (const Stmt& stmt : body) {
    KILN_CHECK(stmt.kind != StmtKind::check_index && stmt.kind != StmtKind::raise_if && stmt.kind != StmtKind::random,
               str("a statement of ", p_.kernel_.name, " that does not run side by side"));
    if (stmt.loop) find_varying(stmt.loop->body);
    const Varies varies = of(stmt);
    for (ValueId v : stmt.results) varying_[v] = varies;
  }
}

// ---- Copies
// -------------------------------------------------------------------------------------------------------------

void JamPrinter::each(const Varies& varies, const std::function<void(int64_t, int64_t)>& f) {
  for (int64_t r = 0; r < (varies.rows ? group_.rows : 1); ++r)
    for (int64_t v = 0; v < (varies.columns ? group_.vectors : 1); ++v) {
      if (varies.columns) p_.lanes_ = KernelPrinter::Lanes{column(v), v + 1 == group_.vectors ? group_.left : "", true};
      f(r, v);
      p_.lanes_.reset();
    }
}

ValueId JamPrinter::renamed(ValueId v, int64_t row, int64_t vector) const {
  const Varies varies = of(v);
  const auto found = copies_.find({v, (varies.rows ? row : 0) * group_.vectors + (varies.columns ? vector : 0)});
  return found == copies_.end() ? v : found->second;
}

ValueId JamPrinter::make(ValueId v, int64_t row, int64_t vector) {
  p_.value_types_.push_back(p_.type(v));
  return copies_[{v, row * group_.vectors + vector}] = static_cast<ValueId>(p_.value_types_.size()) - 1;
}

std::string JamPrinter::operand(ValueId v, int64_t row, int64_t vector) {
  const ValueId copy = renamed(v, row, vector);
  return p_.lanes_ ? p_.vector(copy) : p_.name(copy);
}

bool JamPrinter::turns(const Stmt& stmt) const {
  if (stmt.kind != StmtKind::store || !rows_ || row_in_loop_ || group_.rows != p_.lane_count_ ||
      (!group_.left.empty() && !columns_->extent.is_constant()) || stmt.mask != no_value ||
      stmt.mode != StoreMode::plain || p_.program_.buffers[static_cast<size_t>(stmt.buffer)].dtype != DType::f32)
    return false;
  const Varies varies = of(stmt.args[0]);
  const Expr where = p_.address(stmt);
  const auto along = affine_in(where, rows_->var), across = affine_in(where, columns_->var);
  return varies.rows && varies.columns && along && along->coefficient.is_constant(1) && across &&
         across->coefficient.is_constant() && across->coefficient.value() >= group_.rows;
}

void JamPrinter::print_turned(const Stmt& stmt) {
  const Expr where = p_.address(stmt);
  const std::string buffer = p_.buffer_name(stmt.buffer, Access::write);
  for (int64_t v = 0; v < group_.vectors; ++v) {
    const std::string tile = str("turned", turned_++);
    p_.line(str(vector_type(DType::f32), " ", tile, "[", group_.rows, "];"));
    for (int64_t r = 0; r < group_.rows; ++r)
      p_.line(str(tile, "[", r, "] = ", p_.name(renamed(stmt.args[0], r, v)), ";"));
    p_.line(str("k_transpose_f32(", tile, ");"));
    const bool last = v + 1 == group_.vectors && !group_.left.empty();
    const int64_t lanes = last ? columns_->extent.value() % p_.lane_count_ : p_.lane_count_;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const Substitution map{{rows_->var, Expr::symbol(row(0))}, {columns_->var, Expr::symbol(column(v)) + lane}};
      p_.line(SimdDialect::store(DType::f32, str(buffer, " + ", p_.expr(substitute(where, map))),
                                 str(tile, "[", lane, "]"), {}));
    }
  }
}

Stmt JamPrinter::copy_of(const Stmt& stmt, int64_t r, int64_t v) {
  Stmt copy = stmt.clone();
  Substitution map{{columns_->var, Expr::symbol(column(v))}};
  if (rows_) map[rows_->var] = Expr::symbol(row(r));
  for (Expr& e : copy.index) e = substitute(e, map);
  copy.expr = substitute(copy.expr, map);
  for (ValueId& a : copy.args) a = renamed(a, r, v);
  if (copy.mask != no_value) copy.mask = renamed(copy.mask, r, v);
  for (ValueId& result : copy.results) result = make(result, r, v);
  return copy;
}

bool JamPrinter::print_interleaved(const Stmt& first, const Stmt& second) {
  if (first.kind != StmtKind::store || second.kind != StmtKind::store || first.buffer != second.buffer ||
      !group_.left.empty())
    return false;
  bool begun = false, refused = false;  // the first copy decides for all
  each(of(first) | of(second), [&](int64_t r, int64_t v) {
    if (refused) return;
    refused = !p_.print_interleaved(copy_of(first, r, v), copy_of(second, r, v));
    KILN_CHECK(!refused || !begun, "some copies of two stores are interleaved, and others not");
    begun = true;
  });
  return !refused;
}

void JamPrinter::print_copies(const Stmt& stmt) {
  if (turns(stmt)) return print_turned(stmt);
  each(of(stmt), [&](int64_t r, int64_t v) {
    const Stmt copy = copy_of(stmt, r, v);
    p_.place_ = &stmt, p_.sizes_of_place_ = 0;  // of all copies the same
    p_.print_stmt(copy);
    p_.place_ = nullptr;
  });
}

void JamPrinter::print_body(const Body& body, size_t end, const Stmt* without) {
  for (size_t i = 0; i < end; ++i) {
    if (&body[i] == without) continue;
    if (body[i].loop)
      print_loop(body[i]);
    else if (i + 1 < end && print_interleaved(body[i], body[i + 1]))
      ++i;
    else
      print_copies(body[i]);
  }
}

// ---- The tail
// -----------------------------------------------------------------------------------------------------------

size_t JamPrinter::tail_of(const Body& body) const {
  size_t begin = body.size();
  while (begin > 0 && !body[begin - 1].loop) --begin;
  int64_t by_row = 0;
  for (size_t i = begin; i < body.size(); ++i) by_row += of(body[i]).rows;
  // A store alone is no longer than a loop around it, and there is nothing to put off where no loop comes first.
  const bool worth = rows_ && begin > 0 && by_row > 1 && group_.rows > 2;
  return worth ? begin : body.size();
}

void JamPrinter::print_tail(const Body& body, size_t begin) {
  if (begin == body.size()) return;
  std::set<ValueId> made, wanted;  // in the tail; by it, of each row, from what came before
  for (size_t i = begin; i < body.size(); ++i) made.insert(body[i].results.begin(), body[i].results.end());
  for (size_t i = begin; i < body.size(); ++i) {
    std::vector<ValueId> used = body[i].args;
    used.push_back(body[i].mask);
    for (ValueId v : used)
      if (v != no_value && of(v).rows && !made.contains(v)) wanted.insert(v);
  }
  std::map<ValueId, std::string> arrays;
  for (ValueId v : wanted) {
    const Varies varies = of(v);
    const std::string array = arrays[v] = str("tile", arrays.size());
    const std::string type = varies.columns ? vector_type(p_.type(v)) : c_type(p_.type(v));
    p_.line(str(type, " ", array, "[", group_.rows * (varies.columns ? group_.vectors : 1), "];"));
    each(varies, [&](int64_t r, int64_t c) {
      const int64_t at = varies.columns ? r * group_.vectors + c : r;
      p_.line(str(array, "[", at, "] = ", operand(v, r, c), ";"));
    });
  }
  // The same for all rows: once.
  for (size_t i = begin; i < body.size(); ++i)
    if (!of(body[i]).rows) print_copies(body[i]);
  const int64_t rows = group_.rows;
  const std::string counter = row_counter;
  p_.open(str("for (int ", counter, " = 0; ", counter, " < ", rows, "; ++", counter, ")"));
  group_.rows = 1;
  row_in_loop_ = true;
  p_.line(str("const i64 ", row(0), " = ", rows_->var, " + ", counter, "; (void)", row(0), ";"));
  p_.env_.ranges[row(0)] = p_.env_.ranges[rows_->var];
  for (ValueId v : wanted) {
    const Varies varies = of(v);
    each(varies, [&](int64_t, int64_t c) {
      const ValueId copy = make(v, 0, c);
      p_.define(copy,
                varies.columns ? str(arrays[v], "[", counter, " * ", group_.vectors, " + ", c, "]")
                               : str(arrays[v], "[", counter, "]"),
                varies.columns);
    });
  }
  for (size_t i = begin; i < body.size(); ++i)
    if (of(body[i]).rows) print_copies(body[i]);
  row_in_loop_ = false;
  group_.rows = rows;
  p_.close();
}

// ---- Loops inside: their control is one for all copies
// ------------------------------------------------------------------

void JamPrinter::print_loop(const Stmt& stmt) {
  const Loop& loop = *stmt.loop;
  const std::string extent = p_.expr(loop.extent), &var = loop.var;
  if (loop.role == AxisRole::parallel) {
    p_.open(str("for (i64 ", var, " = 0; ", var, " < ", extent, "; ++", var, ")"));
    print_body(loop.body, loop.body.size());
    return p_.close();
  }
  KILN_CHECK(loop.role == AxisRole::reduce && stmt.results.size() == 1,
             str("a reduction of ", p_.kernel_.name, " that does not run side by side"));
  const ValueId result = stmt.results[0];
  const Varies varies = of(result);
  const DType own = loop.reduce_dtype, meet = loop.order.meet;
  const bool in_blocks = loop.order.block > 0, wide = in_blocks && meet != own;
  // With blocks the sum of those before waits in memory: one for each copy.
  auto declare = [&](const std::string& suffix, DType dtype, const std::string& start) {
    each(varies, [&](int64_t r, int64_t v) {
      const std::string name = p_.name(renamed(result, r, v)) + suffix;
      p_.line(p_.lanes_ ? str(vector_type(dtype), " ", name, " = k_splat_", c_type(dtype), "(", start, ");")
                        : str(c_type(dtype), " ", name, " = ", start, ";"));
    });
  };
  each(varies, [&](int64_t r, int64_t v) {
    const ValueId made = make(result, r, v);
    if (varies.columns)
      p_.varying_.insert(made);
    else
      p_.varying_.erase(made);
  });
  declare("", own, p_.identity(loop, 0));
  if (wide) declare("_wide", meet, "0");
  const std::string block = var + "_block", part = in_blocks ? "_part" : "";
  std::string from = "0", to = extent;
  if (in_blocks) {
    p_.open(str("for (i64 ", block, " = 0; ", block, " < ", extent, "; ", block, " += ", loop.order.block, ")"));
    p_.line(str("const i64 ", block, "_end = k_min((i64)(", block, " + ", loop.order.block, "), (i64)", extent, ");"));
    from = block;
    to = block + "_end";
    // A compiler that kept them in registers would have too few for the block.
    each(varies, [&](int64_t r, int64_t v) {
      if (p_.lanes_) p_.line(str("k_in_memory(", p_.name(renamed(result, r, v)), wide ? "_wide" : "", ");"));
    });
    declare(part, own, p_.identity(loop, 0));
  }
  p_.open(str("for (i64 ", var, " = ", from, "; ", var, " < ", to, "; ",
              loop.order.pairs ? str(var, " += 2") : str("++", var), ")"));
  const Stmt* product = loop.order.fused ? summed_product(loop) : nullptr;
  if (!loop.order.pairs) print_body(loop.body, loop.body.size(), product);
  loop.order.pairs ? print_pairs(loop, result, part) : print_update(loop, result, part);
  p_.close();
  if (!in_blocks) return;
  each(varies, [&](int64_t r, int64_t v) {
    const std::string name = p_.name(renamed(result, r, v)), total = wide ? name + "_wide" : name;
    const std::string added = wide ? str("k_cast_", c_type(meet), "(", name, part, ")") : name + part;
    p_.line(str(total, " = k_add(", total, ", ", added, ");"));
  });
  p_.close();
  if (wide)
    each(varies, [&](int64_t r, int64_t v) {
      const std::string name = p_.name(renamed(result, r, v));
      p_.line(str(name, " = k_cast_", c_type(own), "(", name, "_wide);"));
    });
}

// Two terms at a time: in lanes as many pairs, of the others one for all lanes.
void JamPrinter::print_pairs(const Loop& loop, ValueId result, const std::string& suffix) {
  const std::optional<PairFactors> factors = pair_factors(loop);
  KILN_CHECK(factors, str("a sum of ", p_.kernel_.name, " is not of pairs"));
  const auto name = [&](const Stmt& load, int64_t r, int64_t v) {
    const Varies varies = of(load);
    return str(&load == factors->left ? "a" : "b", "_", varies.rows ? r : 0, "_", varies.columns ? v : 0);
  };
  for (const Stmt* load : {factors->left, factors->right})
    each(of(*load), [&](int64_t r, int64_t v) {
      Substitution map{{columns_->var, Expr::symbol(column(v))}};
      if (rows_) map[rows_->var] = Expr::symbol(row(r));
      Stmt copy = load->clone();
      for (Expr& e : copy.index) e = substitute(e, map);
      p_.place_ = load, p_.sizes_of_place_ = 0;
      const std::string place = str(p_.buffer_name(load->buffer, Access::read), " + ", p_.expr(p_.address(copy)));
      p_.place_ = nullptr;
      p_.line(str("const vi32 ", name(*load, r, v), " = ",
                  of(*load).columns ? str("k_pairs_bf16(", place, ")") : str("k_splat_i32(k_pair_bf16(", place, "))"),
                  ";"));
    });
  each(of(result), [&](int64_t r, int64_t v) {
    const std::string acc = p_.name(renamed(result, r, v)) + suffix;
    p_.line(str(acc, " = k_dot_bf16(", acc, ", ", name(*factors->left, r, v), ", ", name(*factors->right, r, v), ");"));
  });
}

void JamPrinter::print_update(const Loop& loop, ValueId result, const std::string& suffix) {
  const Stmt* product = loop.order.fused ? summed_product(loop) : nullptr;
  each(of(result), [&](int64_t r, int64_t v) {
    const std::string acc = p_.name(renamed(result, r, v)) + suffix;
    auto given = [&](ValueId value) { return operand(value, r, v); };
    auto combined = [&](ScalarOp op) { return p_.dialect_.op(op, loop.reduce_dtype, {acc, given(loop.yields[0])}); };
    std::string next;
    switch (loop.reduce) {
      case ReduceOp::sum:
        next = product ? p_.dialect_.fused(given(product->args[0]), given(product->args[1]), acc)
                       : combined(ScalarOp::add);
        break;
      case ReduceOp::prod:
        next = combined(ScalarOp::mul);
        break;
      case ReduceOp::max:
        next = combined(ScalarOp::max);
        break;
      case ReduceOp::min:
        next = combined(ScalarOp::min);
        break;
      case ReduceOp::any:
        next = str(acc, " | ", given(loop.yields[0]));
        break;
      case ReduceOp::all:
        next = str(acc, " & ", given(loop.yields[0]));
        break;
      default:
        fail_bug("a reduction that does not run side by side");
    }
    p_.line(str(acc, " = ", next, ";"));
  });
}

// ---- The tile
// -----------------------------------------------------------------------------------------------------------

void JamPrinter::print() {
  p_.open("");
  if (rows_)
    print_rows();
  else
    print_columns(1);
  p_.close();
}

// Rows that are left over run as a smaller tile where their number is known, else one by one.
void JamPrinter::print_rows() {
  const int64_t together = rows_->directives.factor;
  const std::string &var = rows_->var, extent = str("e_", var);
  p_.line(str("const i64 ", extent, " = ", p_.expr(rows_->extent), ";"));
  p_.line(str("i64 ", var, " = 0;"));
  p_.open(str("for (; ", var, " + ", together, " <= ", extent, "; ", var, " += ", together, ")"));
  print_columns(together);
  p_.close();
  if (!rows_->extent.is_constant()) {
    p_.open(str("for (; ", var, " < ", extent, "; ++", var, ")"));
    print_columns(1);
    p_.close();
  } else if (const int64_t rest = rows_->extent.value() % together) {
    print_columns(rest);
  }
}

void JamPrinter::print_columns(int64_t rows) {
  const int64_t lanes = p_.lane_count_, width = columns_->directives.factor;
  const std::string &var = columns_->var, extent = str("e_", var);
  p_.open("");
  p_.line(str("const i64 ", extent, " = ", p_.expr(columns_->extent), ";"));
  p_.line(str("i64 ", var, " = 0;"));
  p_.open(str("for (; ", var, " + ", width, " <= ", extent, "; ", var, " += ", width, ")"));
  print_group({rows, width / lanes, ""});
  p_.close();
  if (!columns_->extent.is_constant()) {
    p_.open(str("for (; ", var, " < ", extent, "; ", var, " += ", lanes, ")"));
    p_.line(str("const int left = (int)k_min((i64)", lanes, ", ", extent, " - ", var, ");"));
    print_group({rows, 1, "left"});
    p_.close();
  } else if (const int64_t rest = columns_->extent.value() % width) {
    p_.open("");
    if (rest % lanes) p_.line(str("const int left = ", rest % lanes, ";"));
    print_group({rows, (rest + lanes - 1) / lanes, rest % lanes ? "left" : ""});
    p_.close();
  }
  p_.close();
}

void JamPrinter::print_group(const Group& group) {
  group_ = group;
  copies_.clear();
  auto variable = [&](const std::string& name, const std::string& var, int64_t ahead) {
    p_.line(str("const i64 ", name, " = ", var, " + ", ahead, "; (void)", name, ";"));
    p_.env_.ranges[name] = p_.env_.ranges[var];
  };
  if (rows_)
    for (int64_t r = 0; r < group.rows; ++r) variable(row(r), rows_->var, r);
  for (int64_t v = 0; v < group.vectors; ++v) variable(column(v), columns_->var, v * p_.lane_count_);
  if (rows_)
    for (const Stmt& stmt : rows_->body)
      if (!stmt.loop) print_copies(stmt);
  const size_t tail = tail_of(columns_->body);
  print_body(columns_->body, tail);
  print_tail(columns_->body, tail);
}

}  // namespace kiln::codegen
