#include "codegen/cpu/tile_printer.h"

namespace kiln::codegen {
using namespace loops;

TilePrinter::TilePrinter(KernelPrinter& printer)
    : p_(printer),
      nest_(contraction_nest(printer.kernel_)),
      rows_(nest_.innermost_row()),
      columns_(nest_.innermost_column()),
      sum_(nest_.innermost_sum()),
      mr_(printer.kernel_.schedule->tile.rows),
      nr_(printer.kernel_.schedule->tile.vectors),
      row_values_(static_cast<size_t>(mr_)) {}

void TilePrinter::print_copy(const std::vector<const Stmt*>& stmts, const Substitution& variables, Values& values) {
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

ValueId TilePrinter::renamed(ValueId v, const Values& values) const {
  auto found = values.find(v);
  return found == values.end() ? v : found->second;
}

std::vector<const Stmt*> TilePrinter::needed_by_factors(const Body& body, const Stmt* until) const {
  std::vector<const Stmt*> out;
  for (const Stmt& stmt : body) {
    if (&stmt == until) break;
    if (stmt.kind == StmtKind::loop) continue;
    out.push_back(&stmt);
  }
  // Backwards: keep what is used by what is kept.
  std::set<ValueId> wanted;
  for (const Stmt& stmt : sum_.body) {
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

void TilePrinter::print() {
  std::string rows = p_.expr(rows_.extent);
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
  for (int64_t r = 0; r < mr_; ++r) {
    p_.line(str("const i64 ", row(r), " = m0 + (", r, " < rows ? ", r, " : rows - 1);"));
    p_.env_.ranges[row(r)] = p_.env_.ranges[rows_.var];
    print_copy(needed_by_factors(rows_.body, nullptr), {{rows_.var, Expr::symbol(row(r))}},
               row_values_[static_cast<size_t>(r)]);
  }
  p_.line(str("const i64 columns = ", p_.expr(columns_.extent), ";"));
  p_.line("i64 column = 0;");
  int64_t step = nr_ * p_.lane_count_;
  p_.open(str("for (; column + ", step, " <= columns; column += ", step, ")"));
  print_tile(nr_, "");
  p_.close();
  bool exact = columns_.extent.is_constant() && columns_.extent.value() % step == 0;
  if (!exact) {
    p_.open(str("for (; column < columns; column += ", p_.lane_count_, ")"));
    p_.line(str("const int left = (int)k_min((i64)", p_.lane_count_, ", columns - column);"));
    print_tile(1, "left");
    p_.close();
  }
  print_rows();
  p_.close();
}

void TilePrinter::print_tile(int64_t vectors, const std::string& left) {
  ValueId result = nest_.sums.back()->results[0];
  std::string type = vector_type(p_.type(result));
  p_.line(str(type, " tile[", mr_ * vectors, "];"));
  p_.open("");
  print_products(vectors, left);
  p_.close();
  print_epilogue(vectors, left);
}

void TilePrinter::print_products(int64_t vectors, const std::string& left) {
  ValueId result = nest_.sums.back()->results[0];
  std::string type = vector_type(p_.type(result)), scalar = c_type(p_.type(result));
  // What stands in the loop over rows and is used by the columns' factor is the same for every row: any row's will do.
  std::vector<Values> columns(static_cast<size_t>(vectors), row_values_[0]);
  for (int64_t v = 0; v < vectors; ++v) {
    p_.line(str("const i64 ", column(v), " = column + ", v * p_.lane_count_, ";"));
    p_.env_.ranges[column(v)] = p_.env_.ranges[columns_.var];
    p_.lanes_ = KernelPrinter::Lanes{column(v), left};
    print_copy(needed_by_factors(columns_.body, nest_.sums.back()), {{columns_.var, Expr::symbol(column(v))}},
               columns[static_cast<size_t>(v)]);
    p_.lanes_.reset();
  }
  // A long sum is added up in blocks, each from 0: the tile holds the sum of the blocks before.
  const bool in_blocks = sum_.order.block > 0;
  std::string zero = str("k_splat_", scalar, "((", scalar, ")0)"), from = "0", to = p_.expr(sum_.extent);
  if (in_blocks) {
    std::string block = sum_.var + "_block", step = str(sum_.order.block);
    for (int64_t i = 0; i < mr_ * vectors; ++i) p_.line(str("tile[", i, "] = ", zero, ";"));
    p_.open(str("for (i64 ", block, " = 0; ", block, " < ", to, "; ", block, " += ", step, ")"));
    p_.line(str("const i64 ", block, "_end = k_min((i64)(", block, " + ", step, "), (i64)", to, ");"));
    from = block;
    to = block + "_end";
  }
  for (int64_t r = 0; r < mr_; ++r)
    for (int64_t v = 0; v < vectors; ++v) p_.line(str(type, " acc_", r, "_", v, " = ", zero, ";"));
  p_.open(str("for (i64 ", sum_.var, " = ", from, "; ", sum_.var, " < ", to, "; ++", sum_.var, ")"));
  Values shared = row_values_[0];
  print_copy(nest_.shared, {}, shared);
  for (int64_t v = 0; v < vectors; ++v) {
    p_.lanes_ = KernelPrinter::Lanes{column(v), left};
    Values values = columns[static_cast<size_t>(v)];
    values.insert(shared.begin(), shared.end());
    print_copy(nest_.right, {{columns_.var, Expr::symbol(column(v))}}, values);
    p_.line(str("const ", type, " b_", v, " = ", p_.vector(renamed(p_.kernel_.contraction->right, values)), ";"));
    p_.lanes_.reset();
  }
  for (int64_t r = 0; r < mr_; ++r) {
    Values values = row_values_[static_cast<size_t>(r)];
    values.insert(shared.begin(), shared.end());
    print_copy(nest_.left, {{rows_.var, Expr::symbol(row(r))}}, values);
    p_.line(str("const ", type, " a_", r, " = k_splat_", scalar, "(",
                p_.name(renamed(p_.kernel_.contraction->left, values)), ");"));
    for (int64_t v = 0; v < vectors; ++v)
      p_.line(str("acc_", r, "_", v, " = k_madd(a_", r, ", b_", v, ", acc_", r, "_", v, ");"));
  }
  p_.close();
  for (int64_t r = 0; r < mr_; ++r)
    for (int64_t v = 0; v < vectors; ++v) {
      std::string tile = str("tile[", r * vectors + v, "]"), sum = str("acc_", r, "_", v);
      p_.line(str(tile, " = ", in_blocks ? str("k_add(", tile, ", ", sum, ")") : sum, ";"));
    }
  if (in_blocks) p_.close();
}

void TilePrinter::print_row_start() {
  p_.open("for (int r = 0; r < rows; ++r)");
  p_.line(str("const i64 ", rows_.var, " = m0 + r;"));
  for (const Stmt& stmt : rows_.body) {
    if (stmt.kind == StmtKind::loop && stmt.loop.get() == &columns_) break;
    p_.print_stmt(stmt);
  }
}

void TilePrinter::print_epilogue(int64_t vectors, const std::string& left) {
  print_row_start();
  p_.open(str("for (int c = 0; c < ", vectors, "; ++c)"));
  p_.line(str("const i64 ", columns_.var, " = column + c * ", p_.lane_count_, ";"));
  p_.lanes_ = KernelPrinter::Lanes{columns_.var, left};
  std::set<std::string> outer_index = p_.varying_index_;
  for (const Stmt& stmt : columns_.body) {
    if (&stmt == nest_.sums.back())
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
void TilePrinter::print_rows() {
  bool after = false, any = false;
  for (const Stmt& stmt : rows_.body) {
    any |= after;
    after |= stmt.kind == StmtKind::loop && stmt.loop.get() == &columns_;
  }
  if (!any) return;
  print_row_start();
  after = false;
  for (const Stmt& stmt : rows_.body) {
    if (after) p_.print_stmt(stmt);
    after |= stmt.kind == StmtKind::loop && stmt.loop.get() == &columns_;
  }
  p_.close();
}

}  // namespace kiln::codegen
