#include "codegen/cpu/mm_printer.h"

#include "schedule/schedule.h"

namespace kiln::codegen {
using namespace loops;

MmPrinter::MmPrinter(KernelPrinter& printer) : p_(printer) {
  // The nest is found again rather than carried along: the body is the only truth.
  MmAnswer answer = match_mm(const_cast<Kernel&>(p_.kernel_), p_.program_, p_.env_);
  KILN_CHECK(answer.accepted, str(p_.kernel_.name, " is no matrix product any more: ", answer.reason));
  nest_ = answer.nest;
  mr_ = std::clamp<int64_t>(p_.kernel_.use.parameters.at("mr"), 1, 16);
  nr_ = std::clamp<int64_t>(p_.kernel_.use.parameters.at("nr"), 1, 4);
}

void MmPrinter::print_copy(const std::vector<const Stmt*>& stmts, const Substitution& variables, Values& values) {
  for (const Stmt* source : stmts) {
    Stmt stmt = source->clone();
    Substitution map = variables;
    for (const auto& [var, value] : checked_indices_)
      if (const auto copy = values.find(value); copy != values.end())
        map[var] = Expr::symbol(str(var, "_", copy->second));
    for (Expr& e : stmt.index) e = substitute(e, map);
    stmt.expr = substitute(stmt.expr, map);
    for (ValueId& v : stmt.args) v = renamed(v, values);
    stmt.mask = renamed(stmt.mask, values);
    // Each copy has an index variable of its own: those of several rows stand side by side.
    if (stmt.kind == StmtKind::check_index) checked_indices_[stmt.index_var] = stmt.results[0];
    for (ValueId& v : stmt.results) {
      p_.value_types_.push_back(p_.type(v));
      ValueId made = static_cast<ValueId>(p_.value_types_.size()) - 1;
      values[v] = made;
      v = made;
    }
    if (stmt.kind == StmtKind::check_index) {
      const std::string made = str(stmt.index_var, "_", stmt.results[0]);
      if (const auto range = p_.env_.ranges.find(stmt.index_var); range != p_.env_.ranges.end())
        p_.env_.ranges[made] = range->second;
      stmt.index_var = made;
    }
    p_.print_stmt(stmt);
  }
}

ValueId MmPrinter::renamed(ValueId v, const Values& values) const {
  auto found = values.find(v);
  return found == values.end() ? v : found->second;
}

std::vector<const Stmt*> MmPrinter::needed_by_factors(const Body& body, const Stmt* until) const {
  std::vector<const Stmt*> out;
  for (const Stmt& stmt : body) {
    if (&stmt == until) break;
    if (stmt.kind == StmtKind::loop) continue;
    out.push_back(&stmt);
  }
  // Backwards: keep what is used by what is kept.
  std::set<ValueId> wanted;
  for (const Stmt& stmt : nest_.k->loop->body) {
    wanted.insert(stmt.args.begin(), stmt.args.end());
    wanted.insert(stmt.mask);
  }
  std::vector<const Stmt*> kept;
  for (size_t i = out.size(); i-- > 0;) {
    bool needed = out[i]->kind == StmtKind::check_index;
    for (ValueId v : out[i]->results) needed |= wanted.count(v) > 0;
    if (!needed || out[i]->kind == StmtKind::store) continue;
    wanted.insert(out[i]->args.begin(), out[i]->args.end());
    wanted.insert(out[i]->mask);
    kept.insert(kept.begin(), out[i]);
  }
  return kept;
}

void MmPrinter::print() {
  std::string rows = p_.expr(nest_.m->extent);
  p_.result_.items = ceildiv(nest_.m->extent, mr_);
  for (const Loop* loop : nest_.batch) p_.result_.items = loop->extent * p_.result_.items;
  p_.result_.grain = 1;
  // One tile of rows costs about 2 * mr * n * k operations.
  if (nest_.n->extent.is_constant() && nest_.k->loop->extent.is_constant()) {
    double work = static_cast<double>(mr_) * static_cast<double>(std::max<int64_t>(1, nest_.n->extent.value())) *
                  static_cast<double>(std::max<int64_t>(1, nest_.k->loop->extent.value()));
    p_.result_.grain = std::max<int64_t>(1, static_cast<int64_t>(600000.0 / work));
  }
  p_.open("for (i64 item = item_begin; item < item_end; ++item)");
  p_.line("i64 rest = item;");
  p_.line(str("const i64 tiles = (", rows, " + ", mr_ - 1, ") / ", mr_, ";"));
  p_.line(str("const i64 m0 = (rest % tiles) * ", mr_, "; rest /= tiles;"));
  for (size_t i = nest_.batch.size(); i-- > 0;) {
    std::string extent = p_.expr(nest_.batch[i]->extent);
    p_.line(str("const i64 ", nest_.batch[i]->var, " = rest % ", extent, "; rest /= ", extent, ";"));
  }
  for (const Loop* loop : nest_.batch)
    for (const Stmt& stmt : loop->body)
      if (stmt.kind != StmtKind::loop) p_.print_stmt(stmt);
  p_.line(str("const int rows = (int)k_min((i64)", mr_, ", (i64)(", rows, " - m0));"));
  // Rows beyond the last are computed again as the last one and not stored.
  for (int r = 0; r < mr_; ++r) {
    p_.line(str("const i64 ", row(r), " = m0 + (", r, " < rows ? ", r, " : rows - 1);"));
    p_.env_.ranges[row(r)] = p_.env_.ranges[nest_.m->var];
    row_values_[r].clear();
    print_copy(needed_by_factors(nest_.m->body, nullptr), {{nest_.m->var, Expr::symbol(row(r))}}, row_values_[r]);
  }
  p_.line(str("const i64 columns = ", p_.expr(nest_.n->extent), ";"));
  p_.line("i64 column = 0;");
  int64_t step = nr_ * p_.lane_count_;
  p_.open(str("for (; column + ", step, " <= columns; column += ", step, ")"));
  print_tile(static_cast<int>(nr_), "");
  p_.close();
  bool exact = nest_.n->extent.is_constant() && nest_.n->extent.value() % step == 0;
  if (!exact) {
    p_.open(str("for (; column < columns; column += ", p_.lane_count_, ")"));
    p_.line(str("const int left = (int)k_min((i64)", p_.lane_count_, ", columns - column);"));
    print_tile(1, "left");
    p_.close();
  }
  print_rows();
  p_.close();
}

void MmPrinter::print_tile(int vectors, const std::string& left) {
  ValueId result = nest_.k->results[0];
  std::string type = vector_type(p_.type(result));
  p_.line(str(type, " tile[", mr_ * vectors, "];"));
  p_.open("");
  print_products(vectors, left);
  p_.close();
  print_epilogue(vectors, left);
}

void MmPrinter::print_products(int vectors, const std::string& left) {
  const Loop& k = *nest_.k->loop;
  ValueId result = nest_.k->results[0];
  std::string type = vector_type(p_.type(result)), scalar = c_type(p_.type(result));
  // What stands in the loop over rows and is used by the columns' factor is the same for every row: any row's will do.
  std::vector<Values> columns(static_cast<size_t>(vectors), row_values_[0]);
  for (int v = 0; v < vectors; ++v) {
    p_.line(str("const i64 ", column(v), " = column + ", v * p_.lane_count_, ";"));
    p_.env_.ranges[column(v)] = p_.env_.ranges[nest_.n->var];
    p_.lanes_ = KernelPrinter::Lanes{column(v), left};
    print_copy(needed_by_factors(nest_.n->body, nest_.k), {{nest_.n->var, Expr::symbol(column(v))}},
               columns[static_cast<size_t>(v)]);
    p_.lanes_.reset();
  }
  // A long sum is added up in blocks, each from 0: the tile holds the sum of the blocks before.
  bool in_blocks = blocked(k);
  std::string zero = str("k_splat_", scalar, "((", scalar, ")0)"), from = "0", to = p_.expr(k.extent);
  if (in_blocks) {
    std::string block = k.var + "_block", step = str(sum_block(k));
    for (int i = 0; i < mr_ * vectors; ++i) p_.line(str("tile[", i, "] = ", zero, ";"));
    p_.open(str("for (i64 ", block, " = 0; ", block, " < ", to, "; ", block, " += ", step, ")"));
    p_.line(str("const i64 ", block, "_end = k_min((i64)(", block, " + ", step, "), (i64)", to, ");"));
    from = block;
    to = block + "_end";
  }
  for (int r = 0; r < mr_; ++r)
    for (int v = 0; v < vectors; ++v) p_.line(str(type, " acc_", r, "_", v, " = ", zero, ";"));
  p_.open(str("for (i64 ", k.var, " = ", from, "; ", k.var, " < ", to, "; ++", k.var, ")"));
  Values shared = row_values_[0];
  print_copy({nest_.shared.begin(), nest_.shared.end()}, {}, shared);
  for (int v = 0; v < vectors; ++v) {
    p_.lanes_ = KernelPrinter::Lanes{column(v), left};
    Values values = columns[static_cast<size_t>(v)];
    values.insert(shared.begin(), shared.end());
    print_copy({nest_.load_b.begin(), nest_.load_b.end()}, {{nest_.n->var, Expr::symbol(column(v))}}, values);
    p_.line(str("const ", type, " b_", v, " = ", p_.vector(renamed(nest_.b, values)), ";"));
    p_.lanes_.reset();
  }
  for (int r = 0; r < mr_; ++r) {
    Values values = row_values_[r];
    values.insert(shared.begin(), shared.end());
    print_copy({nest_.load_a.begin(), nest_.load_a.end()}, {{nest_.m->var, Expr::symbol(row(r))}}, values);
    p_.line(str("const ", type, " a_", r, " = k_splat_", scalar, "(", p_.name(renamed(nest_.a, values)), ");"));
    for (int v = 0; v < vectors; ++v)
      p_.line(str("acc_", r, "_", v, " = k_madd(a_", r, ", b_", v, ", acc_", r, "_", v, ");"));
  }
  p_.close();
  for (int r = 0; r < mr_; ++r)
    for (int v = 0; v < vectors; ++v) {
      std::string tile = str("tile[", r * vectors + v, "]"), sum = str("acc_", r, "_", v);
      p_.line(str(tile, " = ", in_blocks ? str("k_add(", tile, ", ", sum, ")") : sum, ";"));
    }
  if (in_blocks) p_.close();
}

void MmPrinter::print_row_start() {
  p_.open("for (int r = 0; r < rows; ++r)");
  p_.line(str("const i64 ", nest_.m->var, " = m0 + r;"));
  for (const Stmt& stmt : nest_.m->body) {
    if (stmt.kind == StmtKind::loop && stmt.loop.get() == nest_.n) break;
    p_.print_stmt(stmt);
  }
}

void MmPrinter::print_epilogue(int vectors, const std::string& left) {
  print_row_start();
  p_.open(str("for (int c = 0; c < ", vectors, "; ++c)"));
  p_.line(str("const i64 ", nest_.n->var, " = column + c * ", p_.lane_count_, ";"));
  p_.lanes_ = KernelPrinter::Lanes{nest_.n->var, left};
  std::set<std::string> outer_index = p_.varying_index_;
  for (const Stmt& stmt : nest_.n->body) {
    if (&stmt == nest_.k)
      p_.define(stmt.results[0], str("tile[r * ", vectors, " + c]"), true);
    else
      p_.print_stmt(stmt);
  }
  p_.varying_index_ = outer_index;
  p_.lanes_.reset();
  p_.close();
  p_.close();
}

// What follows the columns of a row: statistics over the row, and what uses them.
void MmPrinter::print_rows() {
  bool after = false, any = false;
  for (const Stmt& stmt : nest_.m->body) {
    any |= after;
    after |= stmt.kind == StmtKind::loop && stmt.loop.get() == nest_.n;
  }
  if (!any) return;
  print_row_start();
  after = false;
  for (const Stmt& stmt : nest_.m->body) {
    if (after) p_.print_stmt(stmt);
    after |= stmt.kind == StmtKind::loop && stmt.loop.get() == nest_.n;
  }
  p_.close();
}

}  // namespace kiln::codegen
