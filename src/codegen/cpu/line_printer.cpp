#include "codegen/cpu/line_printer.h"

namespace kiln::codegen {
using namespace loops;
namespace {

LineWindow window_of(const Kernel& kernel, const LoopProgram& program) {
  const auto window = line_window(kernel, program);
  KILN_CHECK(window, str(kernel.name, " has no window that slides along a line"));
  return *window;
}

}  // namespace

LinePrinter::LinePrinter(KernelPrinter& printer)
    : TilePrinter(printer),
      window_(window_of(printer.kernel_, printer.program_)),
      points_(nest_.innermost_row()),
      places_(*nest_.sums[nest_.sums.size() - 2].stmt->loop),
      joined_(places_are_neighbours()) {
  for (const ContractionNest::Sum& sum : nest_.sums)
    for (const Stmt* stmt : sum.left) {
      const bool differs =
          mentions(stmt->expr, points_.var) || mentions(stmt->expr, places_.var) ||
          std::any_of(stmt->args.begin(), stmt->args.end(), [&](ValueId v) { return of_points_.contains(v); });
      if (differs) of_points_.insert(stmt->results.begin(), stmt->results.end());
    }
}

// ---- Rows
// --------------------------------------------------------------------------------------------------------------

// The first row's variables; those of the others follow from where they are in the line.
void LinePrinter::print_row_count() {
  const std::vector<const Loop*>& rows = nest_.rows;
  const std::string tiles = p_.divisor(window_.tiles(tile_.rows));
  p_.line(str("i64 rest_0 = m0 / ", tile_.rows, ";"));
  p_.line(str("const i64 ", row(points_, 0), " = (rest_0 % ", tiles, ") * ", tile_.rows, "; rest_0 /= ", tiles, ";"));
  for (size_t i = rows.size() - 1; i-- > 0;) {
    const std::string extent = p_.divisor(rows[i]->extent);
    p_.line(i == 0 ? str("const i64 ", row(*rows[i], 0), " = rest_0;")
                   : str("const i64 ", row(*rows[i], 0), " = rest_0 % ", extent, "; rest_0 /= ", extent, ";"));
  }
  p_.line(str("const int rows = (int)k_min((i64)", tile_.rows, ", (i64)(", p_.expr(window_.points), " - ",
              row(points_, 0), "));"));
}

void LinePrinter::print_rows_of_tile() {
  for (const Loop* loop : nest_.rows) p_.env_.ranges[row(*loop, 0)] = p_.env_.ranges[loop->var];
  Values& values = row_values_[0];
  values.clear();
  for (const Loop* loop : nest_.rows) print_copy(needed_by_factors(loop->body), row_variables(0), values);
  for (Values& other : row_values_) other = row_values_[0];
}

void LinePrinter::decode_row_of_tile() {
  for (const Loop* loop : nest_.rows)
    p_.line(str("const i64 ", loop->var, " = ", row(*loop, 0), loop == &points_ ? " + r" : "", ";"));
}

// ---- Sums
// --------------------------------------------------------------------------------------------------------------

// Whether the window's places follow one another in both factors as the terms do, and nothing happens between them.
bool LinePrinter::places_are_neighbours() const {
  const ContractionNest::Sum &inner = nest_.sums.back(), &outer = nest_.sums[nest_.sums.size() - 2];
  if (window_.apart * window_.distance != window_.terms || sum_.order.block > 0 || places_.order.block > 0 ||
      !outer.right.empty() || !outer.shared.empty() || !inner.shared.empty() || tile_.ahead > 0)
    return false;
  for (const Stmt* stmt : inner.right) {
    if (stmt->kind != StmtKind::load || stmt->mask != no_value) return false;
    const Expr address = p_.address(*stmt);
    const auto by_place = affine_in(address, places_.var), by_term = affine_in(address, sum_.var);
    if (!by_place || !by_term || !by_place->coefficient.is_constant() || !by_term->coefficient.is_constant() ||
        by_place->coefficient.value() != window_.terms * by_term->coefficient.value() ||
        mentions(by_term->rest, sum_.var) || mentions(by_place->rest, places_.var))
      return false;
  }
  return true;
}

int64_t LinePrinter::trips(size_t level) const {
  if (!joined_ || level + 2 < nest_.sums.size()) return 0;
  return level + 1 == nest_.sums.size() ? window_.places * window_.terms : 1;
}

void LinePrinter::print_before_sums(Copies& copies) {
  if (nest_.sums.size() == 2) print_line(copies);
}

void LinePrinter::print_left_factors(size_t level, Copies& copies) {
  copies.rows[0].insert(copies.shared.begin(), copies.shared.end());
  if (level + 1 < nest_.sums.size()) {
    for (const Stmt* stmt : nest_.sums[level].left)
      if (!of_points_.contains(stmt->results[0])) print_copy({stmt}, row_variables(0), copies.rows[0]);
    if (level + 3 == nest_.sums.size()) print_line(copies);
    return;
  }
  for (int64_t r = 0; r < tile_.rows; ++r) {
    p_.value_types_.push_back(DType::f32);
    const auto made = static_cast<ValueId>(p_.value_types_.size()) - 1;
    copies.rows[static_cast<size_t>(r)][p_.kernel_.contraction->left] = made;
    p_.define(made,
              str("k_get_f32(", line_, " + (", r * window_.step * window_.distance, " + ", places_.var, " * ",
                  window_.apart * window_.distance, " + ", sum_.var, "))"),
              false);
  }
}

void LinePrinter::print_after_sums(size_t level) {
  if (level + 3 == nest_.sums.size() && !window_.lines.empty()) p_.close();
}

// Where the line of the window is not in the picture it adds nothing. The pointer's name says which buffer it belongs
// to and which scratch: checked_access.cpp reads it.
void LinePrinter::print_line(const Copies& copies) {
  if (!window_.lines.empty())
    p_.open(str("if (", join_map(window_.lines, " & ", [&](ValueId v) { return p_.name(renamed(v, copies.rows[0])); }),
                ")"));
  Stmt first = window_.load->clone();
  Substitution start = row_variables(0);
  start[places_.var] = Expr(0), start[sum_.var] = Expr(0);
  for (Expr& e : first.index) e = substitute(e, start);
  const std::string from = p_.buffer_name(first.buffer, Access::read),
                    to = p_.buffer_name(tile_.rows_copy, Access::write);
  p_.line(str("const i64 at = ", row(points_, 0), " * ", window_.step, " - ", window_.before,
              ", from = ", p_.expr(p_.address(first)), ";"));
  if (window_.widens) {
    print_copied_line(from, to);
    line_ = to;
    return;
  }
  p_.line(str("const bool inside = at >= 0 && at + ", window_.span(tile_.rows), " <= ", p_.expr(window_.width), ";"));
  p_.open("if (!inside)");
  print_copied_line(from, to);
  p_.close();
  line_ = str("q", from.substr(1), "_line", to.substr(to.find_first_of("0123456789")), "_", pointer_count_++);
  p_.line(str("const f32* const ", line_, " = inside ? ", from, " + from : ", to, ";"));
}

void LinePrinter::print_copied_line(const std::string& from, const std::string& to) {
  const int64_t lanes = p_.lane_count_, whole = window_.terms / lanes * lanes, left = window_.terms - whole;
  const std::string load = str("k_load_", storage_suffix(window_.load->dtype));
  auto terms = [&](const std::string& value, const std::string& rest) {
    if (whole > 0) {
      p_.open(str("for (i64 c = 0; c < ", whole, "; c += ", lanes, ")"));
      p_.line(str("k_store_f32(", to, " + (place + c), ", value, ");"));
      p_.close();
    }
    if (left > 0) p_.line(str("k_store_f32_n(", to, " + (place + ", whole, "), ", rest, ", ", left, ");"));
  };
  p_.open(str("for (i64 p = 0; p < ", window_.span(tile_.rows), "; ++p)"));
  p_.line(str("const i64 place = p * ", window_.distance, ";"));
  p_.open(str("if (at + p >= 0 && at + p < ", p_.expr(window_.width), ")"));
  terms(str(load, "(", from, " + (from + place + c))"),
        str(load, "_n(", from, " + (from + place + ", whole, "), ", left, ")"));
  p_.close();
  p_.open("else");
  terms("k_splat_f32(0.0f)", "k_splat_f32(0.0f)");
  p_.close();
  p_.close();
}

}  // namespace kiln::codegen
