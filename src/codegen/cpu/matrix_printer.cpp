#include "codegen/cpu/matrix_printer.h"

namespace kiln::codegen {
using namespace loops;
namespace {

MatrixFactors factors_of(const Kernel& kernel, const LoopProgram& program) {
  std::string why;
  const auto factors = matrix_factors(kernel, program, why);
  KILN_CHECK(factors, str(kernel.name, " has no matrix instructions: ", why));
  return *factors;
}

}  // namespace

MatrixPrinter::MatrixPrinter(KernelPrinter& printer)
    : TilePrinter(printer),
      factors_(factors_of(printer.kernel_, printer.program_)),
      copied_(tile_.rows_copy != no_buffer),
      row_tiles_(tile_.rows / matrix_rows),
      terms_(copied_terms(nest_)),
      call_suffix_(str(row_tiles_, tile_.vectors)) {
  KILN_CHECK(copied_ || factors_.row_distance, str(p_.kernel_.name, " has rows that cannot be read as they lie"));
  check_right();
}

// Pairs of terms, columns side by side: what the instructions take.
void MatrixPrinter::check_right() const {
  const Expr address = p_.address(*factors_.right);
  auto at = [&](int64_t column, int64_t term) {
    SymbolValues values;
    std::set<std::string> symbols;
    collect_symbols(address, symbols);
    for (const std::string& s : symbols) values[s] = 0;
    values[columns_.var] = column, values[sum_.var] = term;
    return evaluate(address, values);
  };
  const int64_t width = tile_.vectors * matrix_columns, panel = at(width, 0) - at(0, 0);
  bool fits = true;
  for (const int64_t first : {int64_t{0}, width})
    for (int64_t column = 0; column < width; ++column)
      for (int64_t term = 0; term < matrix_terms; ++term)
        fits &= at(first + column, term) ==
                at(0, 0) + (first > 0 ? panel : 0) + term / 2 * 2 * width + column * 2 + term % 2;
  KILN_CHECK(fits, str(p_.kernel_.name, " has a right factor that does not lie in pairs"));
}

// Rows of the instructions: fewer where the kernel has fewer. Copied rows have room for all.
void MatrixPrinter::print_kernel() {
  const std::string most = str(matrix_rows);
  if (copied_)
    p_.line(str("const int upper = ", most, ", lower = ", most, ";"));
  else
    p_.line(str("const int upper = (int)k_min((i64)", most, ", k_max((i64)1, (i64)", rows_,
                ")), lower = (int)k_min((i64)", most, ", k_max((i64)1, (i64)", rows_, " - ", most, "));"));
  p_.line("k_matrix_configure(upper, lower);");
  print();
  p_.line("k_matrix_release();");
}

void MatrixPrinter::print_item() {
  if (copied_) print_copied_rows();
  const std::string next = str("for (i64 m0 = m_begin; m0 < m_end; m0 += ", tile_.rows, ")");
  auto tile = [&](bool whole) {
    p_.open(next);
    p_.line(str("const int rows = (int)k_min((i64)", tile_.rows, ", m_end - m0);"));
    print_matrix_tile(whole);
    p_.close();
  };
  p_.line("i64 column = n_begin;");
  p_.open(str("for (; column + ", width_, " <= n_end; column += ", width_, ")"));
  tile(true);
  p_.close();
  const bool exact = columns_.extent.is_constant() && columns_.extent.value() % (tile_.vectors * matrix_columns) == 0;
  if (!exact) {
    p_.open("if (column < n_end)");
    tile(false);
    p_.close();
  }
  if (!nest_.whole_rows()) return;
  p_.open(next);
  p_.line(str("const int rows = (int)k_min((i64)", tile_.rows, ", m_end - m0);"));
  print_row_part();
  p_.close();
}

// ---- Rows
// --------------------------------------------------------------------------------------------------------------

void MatrixPrinter::print_copied_rows() {
  p_.open("for (i64 m0 = m_begin; m0 < m_end; ++m0)");
  decode_rows("m0", "");
  for (const Loop* loop : nest_.rows)
    for (const Stmt* stmt : needed_by_factors(loop->body)) p_.print_stmt(*stmt);
  print_copied_sums(0, str("(m0 - m_begin) * ", terms_));
  p_.close();
}

// `place`: in scratch, of the first term.
void MatrixPrinter::print_copied_sums(size_t level, const std::string& place) {
  const Loop& loop = *nest_.sums[level].stmt->loop;
  const int64_t extent = loop.extent.value();
  if (level + 1 < nest_.sums.size()) {
    int64_t each = terms_;
    for (size_t i = 0; i <= level; ++i) each /= std::max<int64_t>(1, nest_.sums[i].stmt->loop->extent.value());
    const std::string to = str("to_", level);
    p_.open(str("for (i64 ", loop.var, " = 0; ", loop.var, " < ", extent, "; ++", loop.var, ")"));
    p_.line(str("const i64 ", to, " = ", place, " + ", loop.var, " * ", each, ";"));
    for (const Stmt& stmt : loop.body)
      if (stmt.kind != StmtKind::loop) p_.print_stmt(stmt);
    print_copied_sums(level + 1, to);
    return p_.close();
  }
  const int64_t lanes = p_.lane_count_, whole = extent / lanes * lanes,
                padded = (extent + matrix_terms - 1) / matrix_terms * matrix_terms;
  const std::string from = p_.buffer_name(factors_.left->buffer, Access::read),
                    to = p_.buffer_name(tile_.rows_copy, Access::write), &var = loop.var;
  Stmt access = factors_.left->clone();
  for (Expr& e : access.index) e = substitute(e, {{var, Expr(0)}});
  auto zeros = [&](int64_t begin) {
    p_.open(str("for (i64 ", var, " = ", begin, "; ", var, " < ", padded, "; ", var, " += ", lanes, ")"));
    p_.line(str("k_store_u16(", to, " + ", place, " + ", var, ", k_splat_u16(0));"));
    p_.close();
  };
  if (access.mask != no_value) p_.open(str("if (", p_.name(access.mask), ")"));
  p_.line(str("const i64 from = ", p_.expr(p_.address(access)), ";"));
  if (whole > 0) {
    p_.open(str("for (i64 ", var, " = 0; ", var, " < ", whole, "; ", var, " += ", lanes, ")"));
    p_.line(str("k_store_u16(", to, " + ", place, " + ", var, ", k_load_u16(", from, " + from + ", var, "));"));
    p_.close();
  }
  if (whole < extent)
    p_.line(str("k_store_u16(", to, " + ", place, " + ", whole, ", k_load_u16_n(", from, " + from + ", whole, ", ",
                extent - whole, "));"));
  if (const int64_t done = (extent + lanes - 1) / lanes * lanes; done < padded) zeros(done);
  if (access.mask == no_value) return;
  p_.close();
  p_.open("else");
  zeros(0);
  p_.close();
}

// ---- Tiles
// -------------------------------------------------------------------------------------------------------------

// Where rows are read as they lie, the last tile begins so early that all of its rows are there.
void MatrixPrinter::print_matrix_tile(bool whole) {
  p_.line(copied_ ? str("const i64 first = 0;")
                  : str("const i64 m_from = k_max((i64)0, k_min(m0, (i64)", rows_, " - ", tile_.rows,
                        ")), first = m0 - m_from;"));
  p_.line(str(vector_type_of_sum(), " tile[", tile_.rows * tile_.vectors, "];"));
  p_.line(str("k_matrix_zero_", call_suffix_, "();"));
  print_instructions(0, "0");
  p_.line(str("k_matrix_store_", call_suffix_, "(tile);"));
  print_matrix_epilogue(whole);
}

// `place`: of the sums around, in copied rows.
void MatrixPrinter::print_instructions(size_t level, const std::string& place) {
  const Loop& loop = *nest_.sums[level].stmt->loop;
  const std::string& var = loop.var;
  const int64_t extent = loop.extent.value();
  if (level + 1 < nest_.sums.size()) {
    int64_t each = terms_;
    for (size_t i = 0; i <= level; ++i) each /= std::max<int64_t>(1, nest_.sums[i].stmt->loop->extent.value());
    p_.open(str("for (i64 ", var, " = 0; ", var, " < ", extent, "; ++", var, ")"));
    std::string inner = place;
    if (copied_) p_.line(str("const i64 ", inner = str("at_", level), " = ", place, " + ", var, " * ", each, ";"));
    print_instructions(level + 1, inner);
    return p_.close();
  }
  p_.open(str("for (i64 ", var, " = 0; ", var, " < ", extent, "; ", var, " += ", matrix_terms, ")"));
  Stmt right = factors_.right->clone();
  p_.env_.ranges["column"] = p_.env_.ranges[columns_.var];
  for (Expr& e : right.index) e = substitute(e, {{columns_.var, Expr::symbol("column")}});
  const std::string matrix = p_.buffer_name(right.buffer, Access::read),
                    pairs = str(2 * tile_.vectors * matrix_columns);
  p_.line(str("const i64 right = ", p_.expr(p_.address(right)), ";"));
  for (int64_t v = 0; v < tile_.vectors; ++v)
    p_.line(str("k_matrix_right_", v, "(", matrix, " + right + ", 2 * matrix_columns * v, ", ", pairs, ", ",
                matrix_terms / 2, ");"));
  std::string rows, start, distance;
  if (copied_) {
    rows = p_.buffer_name(tile_.rows_copy, Access::read);
    start = str(place, " + ", var), distance = str(terms_);
  } else {
    rows = p_.buffer_name(factors_.left->buffer, Access::read);
    Stmt left = factors_.left->clone();
    Substitution first;  // the row 0 of all
    for (const Loop* row : nest_.rows) first[row->var] = Expr(0);
    for (Expr& e : left.index) e = substitute(e, first);
    distance = p_.expr(*factors_.row_distance);
    start = str(p_.expr(p_.address(left)), " + m_from * ", distance);
  }
  p_.line(str("const i64 left = ", start, ";"));
  for (int64_t r = 0; r < row_tiles_; ++r) {
    // Of a kernel with fewer rows than an instruction's, the lower ones are the last row once more.
    const std::string down = r == 0    ? ""
                             : copied_ ? str(" + ", matrix_rows * r, " * ", distance)
                                       : str(" + k_min((i64)", matrix_rows * r, ", (i64)", rows_, " - 1) * ", distance);
    p_.line(
        str("k_matrix_left_", r, "(", rows, " + left", down, ", ", distance, ", ", r == 0 ? "upper" : "lower", ");"));
  }
  p_.line(str("k_matrix_multiply_", call_suffix_, "();"));
  p_.close();
}

void MatrixPrinter::print_matrix_epilogue(bool whole) {
  print_row_start();
  p_.open(str("for (int c = 0; c < ", tile_.vectors, "; ++c)"));
  p_.line(str("const i64 ", columns_.var, " = column + c * ", p_.lane_count_, ";"));
  if (!whole) {
    p_.line(str("const int left = (int)k_min((i64)", p_.lane_count_, ", n_end - ", columns_.var, ");"));
    p_.line("if (left <= 0) break;");
  }
  print_epilogue_body(str("tile[(r + first) * ", tile_.vectors, " + c]"), whole ? "" : "left");
  p_.close();
  p_.close();
}

}  // namespace kiln::codegen
