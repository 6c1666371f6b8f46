#include "codegen/cpu/tile_printer.h"

#include "loops/line_windows.h"
#include "loops/narrow_rows.h"
#include "loops/sum_parts.h"

namespace kiln::codegen {
using namespace loops;
namespace {
constexpr int64_t short_sum = 32;  // terms
constexpr int little = 12;         // of what follows a sum, in additions
constexpr size_t few_statements = 16;
}  // namespace

TilePrinter::TilePrinter(KernelPrinter& printer)
    : p_(printer),
      nest_(contraction_nest(printer.kernel_)),
      columns_(nest_.innermost_column()),
      sum_(nest_.innermost_sum()),
      tile_(printer.kernel_.schedule->tile),
      rows_(printer.expr(rows_in_tiles(nest_, tile_))),
      width_(str(tile_.vectors * printer.lane_count_)),
      from_whole_(tile_.rows_copy == no_buffer && !tile_.matrix && nest_.row_count().is_constant() &&
                  nest_.row_count().value() >= tile_.rows),
      row_values_(static_cast<size_t>(tile_.rows)),
      parts_(is_in_parts(nest_) ? nest_.sums.front().stmt->loop.get() : nullptr),
      narrow_(tile_.rows_wide != no_buffer ? narrow_rows(printer.kernel_, printer.program_) : nullptr) {}

void TilePrinter::print_copy(const Stmts& stmts, const Substitution& variables, Values& values) {
  for (const Stmt* source : stmts) {
    p_.place_ = source;
    p_.sizes_of_place_ = 0;
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
    p_.place_ = nullptr;
  }
}

ValueId TilePrinter::renamed(ValueId v, const Values& values) const {
  auto found = values.find(v);
  return found == values.end() ? v : found->second;
}

TilePrinter::Stmts TilePrinter::needed_by_factors(const Body& body) const {
  Stmts out;
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::loop) break;
    out.push_back(&stmt);
  }
  // Backwards: keep what is used by what is kept. A checked index is used by its name.
  std::set<ValueId> wanted;
  std::set<std::string> mentioned;
  const auto use = [&](const Stmt& stmt) {
    wanted.insert(stmt.args.begin(), stmt.args.end());
    wanted.insert(stmt.mask);
    for (const Expr& e : stmt.index) collect_symbols(e, mentioned);
    collect_symbols(stmt.expr, mentioned);
  };
  for (const ContractionNest::Sum& sum : nest_.sums)
    for (const Stmt& stmt : sum.stmt->loop->body) use(stmt);
  // What stands further in, between the loops.
  for (const auto* loops : {&nest_.rows, &nest_.columns})
    for (const Loop* loop : *loops)
      if (&loop->body != &body)
        for (const Stmt& stmt : loop->body) {
          if (stmt.kind == StmtKind::loop) break;
          use(stmt);
        }
  Stmts kept;
  for (size_t i = out.size(); i-- > 0;) {
    bool needed = out[i]->kind == StmtKind::check_index && mentioned.contains(out[i]->index_var);
    for (ValueId v : out[i]->results) needed |= wanted.count(v) > 0;
    if (!needed || out[i]->kind == StmtKind::store) continue;
    use(*out[i]);
    kept.insert(kept.begin(), out[i]);
  }
  return kept;
}

Substitution TilePrinter::row_variables(int64_t r) const {
  Substitution out;
  for (const Loop* loop : nest_.rows) out[loop->var] = Expr::symbol(row(*loop, r));
  return out;
}

// The rows' variables from their common number.
void TilePrinter::decode_rows(const std::string& flat, const std::string& suffix) {
  const std::vector<const Loop*>& rows = nest_.rows;
  if (rows.size() == 1) return p_.line(str("const i64 ", rows[0]->var, suffix, " = ", flat, ";"));
  std::string rest = str("rest", suffix);
  p_.line(str("i64 ", rest, " = ", flat, ";"));
  for (size_t i = rows.size(); i-- > 1;) {
    const std::string extent = p_.divisor(rows[i]->extent);
    p_.line(str("const i64 ", rows[i]->var, suffix, " = ", rest, " % ", extent, "; ", rest, " /= ", extent, ";"));
  }
  p_.line(str("const i64 ", rows[0]->var, suffix, " = ", rest, ";"));
}

void TilePrinter::decode_row_of_tile() { decode_rows("m0 + r", ""); }

std::string TilePrinter::vector_type_of_sum() const { return vector_type(sum_.reduce_dtype); }
std::string TilePrinter::zero() const {
  const std::string scalar = c_type(sum_.reduce_dtype);
  return str("k_splat_", scalar, "((", scalar, ")0)");
}

// ---- Items
// -------------------------------------------------------------------------------------------------------------

void TilePrinter::print() {
  if (parts_)
    p_.open(
        str("for (i64 ", parts_->var, " = 0; ", parts_->var, " < ", p_.expr(parts_->extent), "; ++", parts_->var, ")"));
  const bool together = tile_.together > 1;
  p_.open(together ? "for (i64 item = item_begin, taken; item < item_end; item += taken)"
                   : "for (i64 item = item_begin; item < item_end; ++item)");
  p_.line("i64 rest = item;");
  auto batches = [&] {
    for (size_t i = nest_.batch.size(); i-- > 0;) {
      const std::string extent = p_.divisor(nest_.batch[i]->extent);
      p_.line(str("const i64 ", nest_.batch[i]->var, " = rest % ", extent, "; rest /= ", extent, ";"));
    }
  };
  if (tile_.interleaved) batches();
  const std::string height = p_.size(tile_.rows * tile_.high, 0);
  p_.line(str("const i64 blocks = (", rows_, " + ", height, " - 1) / ", height, ";"));
  if (together)
    p_.line(
        str("taken = k_min(k_min((i64)", p_.size(tile_.together, 0), ", item_end - item), blocks - rest % blocks);"));
  p_.line(str("const i64 m_begin = (rest % blocks) * ", height, "; rest /= blocks;"));
  p_.line(str("const i64 m_end = k_min((i64)(m_begin + ", height, together ? " * taken" : "", "), (i64)", rows_, ");"));
  const std::string columns = p_.expr(columns_.extent);
  if (tile_.beside) {
    p_.line(str("const i64 panels = (", columns, " + ", width_, " - 1) / ", width_, ";"));
    p_.line(str("const i64 n_begin = (rest % panels) * ", width_, "; rest /= panels;"));
    p_.line(str("const i64 n_end = k_min((i64)(n_begin + ", width_, "), (i64)", columns, ");"));
  } else {
    p_.line(str("const i64 n_begin = 0, n_end = ", columns, ";"));
  }
  if (!tile_.interleaved) batches();
  for (const Loop* loop : nest_.batch)
    for (const Stmt& stmt : loop->body)
      if (stmt.kind != StmtKind::loop) p_.print_stmt(stmt);
  print_item();
  p_.close();
  if (parts_) p_.close();
}

// A panel of columns stays in the cache while the rows of the item pass; what needs whole rows follows when all panels
// are done.
void TilePrinter::print_item() {
  const std::string next = str("for (i64 m0 = m_begin; m0 < m_end; m0 += ", tile_.rows, ")");
  print_columns([&](int64_t vectors, const std::string& left) {
    p_.open(next);
    print_row_count();
    print_tile(vectors, left);
    p_.close();
  });
  if (!nest_.whole_rows()) return;
  p_.open(next);
  print_row_count();
  print_row_part();
  p_.close();
}

void TilePrinter::print_columns(const std::function<void(int64_t, const std::string&)>& tile) {
  const Expr& columns = columns_.extent;
  const int64_t lanes = p_.lane_count_, width = tile_.vectors * lanes,
                edge = edge_vectors(columns, tile_.vectors, lanes);
  p_.line("i64 column = n_begin;");
  if (!columns.is_constant() || columns.value() >= width) {
    p_.open(str("for (; column + ", width_, " <= n_end; column += ", width_, ")"));
    tile(tile_.vectors, "");
    p_.close();
  }
  if (edge == 0) return;
  if (columns.is_constant()) {
    const int64_t left = columns.value() % lanes;
    p_.open("if (column < n_end)");
    if (left > 0) p_.line(str("const int left = ", left, ";"));
    tile(edge, left > 0 ? "left" : "");
  } else {
    p_.open(str("for (; column < n_end; column += ", lanes, ")"));
    p_.line(str("const int left = (int)k_min((i64)", lanes, ", n_end - column);"));
    tile(1, "left");
  }
  p_.close();
}

// The last tile begins so early that all of its rows are there, if there are so many, and stores those from `first` on:
// where rows are a number of bytes apart the compiler then needs the address of one of them only.
void TilePrinter::print_row_count() {
  p_.line(str("const int rows = (int)k_min((i64)", tile_.rows, ", m_end - m0);"));
  if (from_whole_)
    p_.line(str("const i64 m_from = k_min(m0, (i64)", rows_, " - ", tile_.rows, "), first = m0 - m_from;"));
}

// Of fewer rows those beyond the last are computed again as the last one and not stored.
void TilePrinter::print_rows_of_tile() {
  for (int64_t r = 0; r < tile_.rows; ++r) {
    decode_rows(from_whole_ ? str("m_from + ", r)
                : r == 0    ? "m0"
                            : str("m0 + (", r, " < rows ? ", r, " : rows - 1)"),
                str("_", r));
    Values& values = row_values_[static_cast<size_t>(r)];
    values.clear();
    for (const Loop* loop : nest_.rows) p_.env_.ranges[row(*loop, r)] = p_.env_.ranges[loop->var];
    for (const Loop* loop : nest_.rows) print_copy(needed_by_factors(loop->body), row_variables(r), values);
  }
}

// ---- Tiles
// -------------------------------------------------------------------------------------------------------------

void TilePrinter::print_tile(int64_t vectors, const std::string& left) {
  p_.line(str(vector_type_of_sum(), " tile[", tile_.rows * vectors, "];"));
  // A block, with all that the sums need: kernels that differ in their epilogue have it in common (common_parts.h).
  p_.open("");
  print_rows_of_tile();
  print_products(vectors, left);
  p_.close();
  if (!parts_) return print_epilogue(vectors, left);
  p_.open(str("if (", parts_->var, " + 1 < ", p_.expr(parts_->extent), ")"));
  print_waiting(vectors, false);
  p_.close();
  p_.open("else");
  print_epilogue(vectors, left);
  p_.close();
}

// In the loop over the rows that are stored.
std::string TilePrinter::sum_of_row(int64_t vectors, const std::string& vector) const {
  return str("tile[", from_whole_ ? "(r + first)" : "r", " * ", vectors, " + ", vector, "]");
}

// Between the parts of a sum: what a tile has so far, from where its results will be and back there.
void TilePrinter::print_waiting(int64_t vectors, bool load) {
  const Stmt* place = place_of_sums(p_.kernel_, p_.program_);
  KILN_CHECK(place, str("the sums of ", p_.kernel_.name, " have no place to wait in"));
  p_.open("for (int r = 0; r < rows; ++r)");
  decode_row_of_tile();
  p_.open(str("for (int c = 0; c < ", vectors, "; ++c)"));
  p_.line(str("const i64 ", columns_.var, " = column + c * ", p_.lane_count_, ";"));
  const std::string memory = str(p_.buffer_name(place->buffer, Access::write), " + ", p_.expr(p_.address(*place))),
                    sum = sum_of_row(vectors, "c");
  p_.line(load ? str(sum, " = k_load_f32(", memory, ");") : str("k_store_f32(", memory, ", ", sum, ");"));
  p_.close();
  p_.close();
}

void TilePrinter::print_products(int64_t vectors, const std::string& left) {
  // The accumulators': an epilogue's constants, kept from tile to tile, would push factors out of the sum's registers.
  p_.line("k_free_registers();");
  Copies copies;
  copies.rows = row_values_;
  // What stands in the loop over rows and is used by the columns' factor is the same for every row: any row's will do.
  copies.shared = row_values_[0];
  copies.columns.assign(static_cast<size_t>(vectors), row_values_[0]);
  for (int64_t v = 0; v < vectors; ++v) {
    p_.line(str("const i64 ", column(v), " = column + ", v * p_.lane_count_, ";"));
    p_.env_.ranges[column(v)] = p_.env_.ranges[columns_.var];
    p_.lanes_ = KernelPrinter::Lanes{column(v), left_of(v, vectors, left), true};
    print_copy(needed_by_factors(columns_.body), {{columns_.var, Expr::symbol(column(v))}},
               copies.columns[static_cast<size_t>(v)]);
    p_.lanes_.reset();
  }
  auto each = [&](const std::function<void(int64_t, int64_t)>& f) {
    for (int64_t r = 0; r < tile_.rows; ++r)
      for (int64_t v = 0; v < vectors; ++v) f(r, v);
  };
  bool in_blocks = false;
  for (const ContractionNest::Sum& sum : nest_.sums) in_blocks |= sum.stmt->loop->order.block > 0;
  auto accumulators = [&] {
    each([&](int64_t r, int64_t v) { p_.line(str(vector_type_of_sum(), " acc_", r, "_", v, " = ", zero(), ";")); });
  };
  if (in_blocks || parts_)
    for (int64_t i = 0; i < tile_.rows * vectors; ++i) p_.line(str("tile[", i, "] = ", zero(), ";"));
  if (!in_blocks) accumulators();
  if (parts_) {
    p_.open(str("if (", parts_->var, " > 0)"));
    print_waiting(vectors, true);
    p_.close();
  }
  print_start_ahead(vectors, left);
  print_before_sums(copies);
  print_sum(0, vectors, left, std::move(copies));
  if (!in_blocks)
    each([&](int64_t r, int64_t v) {
      const std::string sum = str("tile[", r * vectors + v, "]"), acc = str("acc_", r, "_", v);
      p_.line(parts_ ? str(sum, " = k_add(", sum, ", ", acc, ");") : str(sum, " = ", acc, ";"));
    });
}

// One of the nested sums. Those that have no blocks go on adding to the accumulators of the one around them; one in
// blocks adds up each of them from 0, and the tile holds the sum of those before.
void TilePrinter::print_sum(size_t level, int64_t vectors, const std::string& left, Copies copies) {
  const Loop& loop = *nest_.sums[level].stmt->loop;
  if (&loop == parts_) {  // stands around the items
    print_factors(level, vectors, left, copies);
    print_sum(level + 1, vectors, left, std::move(copies));
    return print_after_sums(level);
  }
  const std::string& var = loop.var;
  std::string from = "0", to = trips(level) > 0 ? str(trips(level)) : p_.expr(loop.extent);
  const bool in_blocks = loop.order.block > 0, single = loop.order.block == 1;
  auto accumulate = [&](bool store) {
    for (int64_t r = 0; r < tile_.rows; ++r)
      for (int64_t v = 0; v < vectors; ++v) {
        const std::string tile = str("tile[", r * vectors + v, "]"), sum = str("acc_", r, "_", v);
        p_.line(store ? str(tile, " = k_add(", tile, ", ", sum, ");")
                      : str(vector_type_of_sum(), " ", sum, " = ", zero(), ";"));
      }
    // Registers are the accumulators'.
    if (store) p_.line("k_in_memory(tile);");
  };
  if (in_blocks && !single) {
    const std::string block = var + "_block", step = str(loop.order.block);
    p_.open(str("for (i64 ", block, " = 0; ", block, " < ", to, "; ", block, " += ", step, ")"));
    p_.line(str("const i64 ", block, "_end = k_min((i64)(", block, " + ", step, "), (i64)", to, ");"));
    from = block;
    to = block + "_end";
    accumulate(false);
  }
  const bool innermost = level + 1 == nest_.sums.size();
  if (innermost)
    for (const Stmt* load : nest_.sums[level].left)
      if (by_pointer(*load)) print_pointers(*load, copies);
  const bool in_a_sum = (in_blocks && !single) || (level > 0 && nest_.sums[level - 1].stmt->loop.get() != parts_);
  if (innermost && in_a_sum) print_skip(vectors, copies);
  // Where the scratch has no room for all terms, they are widened in pieces.
  const bool in_pieces = innermost && narrow_ && !(terms_at_a_time(loop) <= wide_terms());
  if (in_pieces) {
    const std::string piece = var + "_piece", end = piece + "_end";
    p_.open(str("for (i64 ", piece, " = ", from, "; ", piece, " < ", to, "; ", piece, " += ", wide_terms(), ")"));
    p_.line(str("const i64 ", end, " = k_min((i64)(", piece, " + ", wide_terms(), "), (i64)", to, ");"));
    from = piece, to = end;
  }
  if (innermost && narrow_) print_widened_rows(from, to, copies);
  const bool fetches = innermost && !ahead_.empty();
  if (fetches) {
    const std::string next = var + "_next", stop = var + "_stop";
    const std::string terms = p_.size(tile_.ahead, 0);
    p_.open(str("for (i64 ", next, " = ", from, "; ", next, " < ", to, "; ", next, " += ", terms, ")"));
    p_.line(str("__builtin_prefetch(", ahead_, " + ahead, 0, 2); ahead += ahead_step;"));
    p_.line(str("const i64 ", stop, " = k_min((i64)(", next, " + ", terms, "), (i64)", to, ");"));
    from = next, to = stop;
  }
  const bool pairs = innermost && (tile_.pairs || tile_.quads);
  p_.open(str("for (i64 ", var, " = ", from, "; ", var, " < ", to, "; ",
              pairs ? str(var, " += ", terms_together()) : str("++", var), ")"));
  if (single) accumulate(false);
  if (!pairs) print_factors(level, vectors, left, copies);
  if (pairs)
    print_pairs(vectors, copies);
  else if (innermost)
    print_product(vectors, copies);
  else
    print_sum(level + 1, vectors, left, copies);
  print_after_sums(level);
  if (single) accumulate(true);
  p_.close();
  if (fetches) p_.close();
  if (in_pieces) p_.close();
  if (in_blocks && !single) {
    accumulate(true);
    p_.close();
  }
}

// ---- Ahead
// -------------------------------------------------------------------------------------------------------------

const Stmt* TilePrinter::packed_load() const {
  for (const ContractionNest::Sum& sum : nest_.sums) {
    if (!sum.stmt->loop->extent.is_constant()) return nullptr;
    for (const Stmt* stmt : sum.right)
      if (stmt->kind == StmtKind::load &&
          p_.program_.buffers[static_cast<size_t>(stmt->buffer)].role == BufferRole::derived &&
          mentions(p_.address(*stmt), columns_.var))
        return stmt;
  }
  return nullptr;
}

// Every tile of rows fetches a part of the next panel, as many lines as it has steps.
void TilePrinter::print_start_ahead(int64_t vectors, const std::string& left) {
  ahead_.clear();
  const Stmt* load = tile_.ahead > 0 && vectors == tile_.vectors && left.empty() ? packed_load() : nullptr;
  if (!load) return;
  constexpr int64_t line_bytes = 64;
  const int64_t step = line_bytes / dtype_bytes(p_.program_.buffers[static_cast<size_t>(load->buffer)].dtype);
  int64_t lines = 1;
  Substitution start{{columns_.var, Expr::symbol("ahead_column")}};
  for (const ContractionNest::Sum& sum : nest_.sums) {
    const Loop& loop = *sum.stmt->loop;
    if (&loop == parts_) continue;  // of the next panel the same part
    start[loop.var] = Expr(0);
    const int64_t terms = loop.extent.value(), most = narrow_ && &loop == &sum_ ? wide_terms() : terms,
                  block = std::min(most, loop.order.block > 1 ? loop.order.block : std::max<int64_t>(1, terms));
    auto steps = [&](int64_t n) { return (n + tile_.ahead - 1) / tile_.ahead; };
    lines *= &loop == &sum_ ? terms / block * steps(block) + steps(terms % block) : terms;
  }
  p_.env_.ranges["ahead_column"] = p_.env_.ranges[columns_.var];
  p_.line(str("const i64 ahead_column = column + ", width_, " < ", p_.expr(columns_.extent), " ? column + ", width_,
              " : column, ahead_step = ", step, ";"));
  Stmt first = load->clone();
  for (Expr& e : first.index) e = substitute(e, start);
  p_.line(
      str("i64 ahead = ", p_.expr(p_.address(first)), " + m0 / ", tile_.rows, " * ", p_.expr(Expr(lines * step)), ";"));
  ahead_ = p_.buffer_name(load->buffer, Access::read);
}

// Panels have zeros beside the last column, so all lanes may read them.
bool TilePrinter::in_panels(const Stmts& right) const {
  return std::all_of(right.begin(), right.end(), [&](const Stmt* stmt) {
    if (stmt->kind != StmtKind::load) return stmt->kind == StmtKind::op || stmt->kind == StmtKind::constant;
    const Buffer& from = p_.program_.buffers[static_cast<size_t>(stmt->buffer)];
    return from.role == BufferRole::derived && stmt->mask == no_value && mentions(stmt->index.back(), columns_.var) &&
           from.sizes.back().is_constant(tile_.vectors * p_.lane_count_);
  });
}

void TilePrinter::print_factors(size_t level, int64_t vectors, const std::string& left, Copies& copies) {
  const ContractionNest::Sum& sum = nest_.sums[level];
  const bool whole = in_panels(sum.right);
  print_copy(sum.shared, {}, copies.shared);
  for (int64_t v = 0; v < vectors; ++v) {
    Values& values = copies.columns[static_cast<size_t>(v)];
    values.insert(copies.shared.begin(), copies.shared.end());
    p_.lanes_ = KernelPrinter::Lanes{column(v), whole ? "" : left_of(v, vectors, left), true};
    print_copy(sum.right, {{columns_.var, Expr::symbol(column(v))}}, values);
    p_.lanes_.reset();
  }
  print_left_factors(level, copies);
}

void TilePrinter::print_left_factors(size_t level, Copies& copies) {
  for (int64_t r = 0; r < tile_.rows; ++r) {
    Values& values = copies.rows[static_cast<size_t>(r)];
    values.insert(copies.shared.begin(), copies.shared.end());
    for (const Stmt* stmt : nest_.sums[level].left) {
      if (stmt == narrow_) {
        print_widened_element(r, values);
        continue;
      }
      const auto pointer = pointers_.find({stmt, r});
      if (level + 1 < nest_.sums.size() || pointer == pointers_.end()) {
        print_copy({stmt}, row_variables(r), values);
        continue;
      }
      p_.value_types_.push_back(p_.type(stmt->results[0]));
      const auto made = static_cast<ValueId>(p_.value_types_.size()) - 1;
      values[stmt->results[0]] = made;
      const DType dtype = p_.program_.buffers[static_cast<size_t>(stmt->buffer)].dtype;
      p_.define(made, str("k_get_", storage_suffix(dtype), "(", pointer->second, ")"), false);
    }
  }
}

void TilePrinter::print_product(int64_t vectors, const Copies& copies) {
  const Contraction& names = *p_.kernel_.contraction;
  const std::string type = vector_type_of_sum(), scalar = c_type(sum_.reduce_dtype);
  for (int64_t v = 0; v < vectors; ++v) {
    p_.lanes_ = KernelPrinter::Lanes{column(v), "", true};
    p_.line(str("const ", type, " b_", v, " = ",
                p_.vector(renamed(names.right, copies.columns[static_cast<size_t>(v)])), ";"));
    p_.lanes_.reset();
  }
  for (int64_t r = 0; r < tile_.rows; ++r) {
    p_.line(str("const ", type, " a_", r, " = k_splat_", scalar, "(",
                p_.name(renamed(names.left, copies.rows[static_cast<size_t>(r)])), ");"));
    for (int64_t v = 0; v < vectors; ++v)
      p_.line(str("acc_", r, "_", v, " = k_madd(a_", r, ", b_", v, ", acc_", r, "_", v, ");"));
  }
}

// Pairs of terms (fours of bytes), the columns of a panel side by side: what instructions for pairs, for fours and for
// matrices take.
void TilePrinter::check_pairs(const Stmt& right) const {
  const Expr address = p_.address(right);
  auto at = [&](int64_t column, int64_t term) {
    SymbolValues values;
    std::set<std::string> symbols;
    collect_symbols(address, symbols);
    for (const std::string& s : symbols) values[s] = 0;
    values[columns_.var] = column, values[sum_.var] = term;
    return evaluate(address, values);
  };
  const int64_t together = terms_together();
  const int64_t width = tile_.vectors * p_.lane_count_, panel = at(width, 0) - at(0, 0);
  // Beyond its loops an address, which they made simpler, says nothing.
  const auto below = [](const Expr& extent, int64_t most) {
    return extent.is_constant() ? std::min(most, extent.value()) : most;
  };
  const int64_t terms = below(sum_.extent, 32), columns = below(columns_.extent, 2 * width);
  bool fits = true;
  for (const int64_t first : {int64_t{0}, width})
    for (int64_t column = 0; first + column < std::min(first + width, columns); ++column)
      for (int64_t term = 0; term < terms; ++term)
        fits &= at(first + column, term) == at(0, 0) + (first > 0 ? panel : 0) + term / together * together * width +
                                                column * together + term % together;
  KILN_CHECK(fits, str(p_.kernel_.name, " has a right factor that does not lie in pairs"));
}

// Two terms at a time, or four of bytes, as they lie beside one another in both factors.
void TilePrinter::print_pairs(int64_t vectors, const Copies& copies) {
  const ContractionNest::Sum& sum = nest_.sums.back();
  check_pairs(*sum.right.front());
  const char *side = tile_.quads ? "k_quads_i8" : "k_pairs_bf16", *one = tile_.quads ? "k_quad_u8" : "k_pair_bf16",
             *dot = tile_.quads ? "k_dot_bytes" : "k_dot_bf16";
  for (int64_t v = 0; v < vectors; ++v) {
    Stmt load = sum.right.front()->clone();
    for (Expr& e : load.index) e = substitute(e, {{columns_.var, Expr::symbol(column(v))}});
    p_.line(str("const vi32 b_", v, " = ", side, "(", p_.buffer_name(load.buffer, Access::read), " + ",
                p_.expr(p_.address(load)), ");"));
  }
  for (int64_t r = 0; r < tile_.rows; ++r) {
    const Stmt* left = sum.left.front();
    const auto pointer = pointers_.find({left, r});
    std::string place;
    if (pointer != pointers_.end()) {
      place = pointer->second;
    } else {
      const Stmt load = of_row(*left, r, copies.rows[static_cast<size_t>(r)]);
      place = str(p_.buffer_name(load.buffer, Access::read), " + ", p_.expr(p_.address(load)));
    }
    p_.line(str("const vi32 a_", r, " = k_splat_i32(", one, "(", place, "));"));
    for (int64_t v = 0; v < vectors; ++v)
      p_.line(str("acc_", r, "_", v, " = ", dot, "(acc_", r, "_", v, ", a_", r, ", b_", v, ");"));
  }
}

// ---- Epilogue and row part
// ---------------------------------------------------------------------------------------------

void TilePrinter::print_row_start() {
  p_.open("for (int r = 0; r < rows; ++r)");
  print_row_statements();
}

void TilePrinter::print_row_statements() {
  decode_row_of_tile();
  for (const Loop* loop : nest_.rows)
    for (const Stmt& stmt : loop->body) {
      if (stmt.kind == StmtKind::loop) break;
      p_.print_stmt(stmt);
    }
}

// Beside a short sum the way through memory, and a loop over rows, would show: a little that follows it is printed for
// each row and vector, and takes sums from their registers.
bool TilePrinter::follows_in_registers() const {
  const Expr terms = nest_.term_count();
  if (!terms.is_constant() || terms.value() > short_sum || parts_) return false;
  int cost = 0;
  for (const Stmt& stmt : columns_.body)
    if (stmt.kind == StmtKind::op) cost += scalar_op_info(stmt.op).cost;
  return cost <= little && columns_.body.size() <= few_statements;
}

void TilePrinter::print_epilogue_of_each(int64_t vectors, const std::string& left) {
  for (int64_t r = 0; r < tile_.rows; ++r) {
    if (from_whole_)
      p_.open(r + 1 == tile_.rows ? "" : str("if (first <= ", r, ")"));
    else
      p_.open(r == 0 ? "" : str("if (", r, " < rows)"));
    p_.line(str("const i64 r = ", r, from_whole_ ? " - first;" : ";"));
    print_row_statements();
    for (int64_t v = 0; v < vectors; ++v) {
      p_.open("");
      p_.line(str("const i64 ", columns_.var, " = column + ", v * p_.lane_count_, ";"));
      print_epilogue_body(str("tile[", r * vectors + v, "]"), left_of(v, vectors, left));
      p_.close();
    }
    p_.close();
  }
}

void TilePrinter::print_epilogue(int64_t vectors, const std::string& left) {
  if (follows_in_registers()) return print_epilogue_of_each(vectors, left);
  print_row_start();
  const int64_t whole = left.empty() ? vectors : vectors - 1;
  if (whole > 0) {
    p_.open(str("for (int c = 0; c < ", whole, "; ++c)"));
    p_.line(str("const i64 ", columns_.var, " = column + c * ", p_.lane_count_, ";"));
    print_epilogue_body(sum_of_row(vectors, "c"), "");
    p_.close();
  }
  if (whole < vectors) {
    p_.open("");
    p_.line(str("const i64 ", columns_.var, " = column + ", whole * p_.lane_count_, ";"));
    print_epilogue_body(sum_of_row(vectors, str(whole)), left);
    p_.close();
  }
  p_.close();
}

void TilePrinter::print_epilogue_body(const std::string& sum, const std::string& left) {
  p_.lanes_ = KernelPrinter::Lanes{columns_.var, left, true};
  std::set<std::string> outer_index = p_.varying_index_;
  for (const Stmt& stmt : columns_.body) {
    if (&stmt == nest_.sums.front().stmt)
      p_.define(stmt.results[0], sum, true);
    else
      p_.print_stmt(stmt);
  }
  p_.varying_index_ = outer_index;
  p_.lanes_.reset();
}

// What follows the columns of a row: statistics over the row, and what uses them.
void TilePrinter::print_row_part() {
  print_row_start();
  bool after = false;
  for (const Stmt& stmt : nest_.innermost_row().body) {
    if (after) p_.print_stmt(stmt);
    after |= stmt.kind == StmtKind::loop && stmt.loop.get() == &columns_;
  }
  p_.close();
}

}  // namespace kiln::codegen
