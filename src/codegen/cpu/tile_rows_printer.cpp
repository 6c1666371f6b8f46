// How a tile reads its rows: narrow ones are widened in front of the products, masked ones are zeros.
#include "codegen/cpu/tile_printer.h"
#include "loops/byte_quads.h"
#include "loops/narrow_rows.h"

namespace kiln::codegen {
using namespace loops;
namespace {
// Of a row: vectors of products, with fewer it takes as long to find out that they are zeros.
constexpr int64_t least_terms_to_skip = 16;
}  // namespace

// ---- Narrow rows
// -------------------------------------------------------------------------------------------------------

int64_t TilePrinter::wide_terms() const {
  return p_.program_.buffers[static_cast<size_t>(tile_.rows_wide)].sizes[1].value();
}

// Of the innermost sum, from one look at the blocks to the next.
int64_t TilePrinter::terms_at_a_time(const Loop& sum) const {
  const int64_t all = sum.extent.is_constant() ? sum.extent.value() : INT64_MAX;
  return sum.order.block > 1 ? std::min(all, sum.order.block) : all;
}

// The terms from `from` to `to` of all rows, to the beginning of their lines in scratch.
void TilePrinter::print_widened_rows(const std::string& from, const std::string& to, const Copies& copies) {
  const std::string wide = p_.buffer_name(tile_.rows_wide, Access::write), &term = sum_.var,
                    suffix = storage_suffix(narrow_->dtype), lanes = str(p_.lane_count_);
  const auto widen = [&](const std::string& rest) {
    for (int64_t r = 0; r < tile_.rows; ++r) {
      const auto pointer = pointers_.find({narrow_, r});
      const Stmt row = of_row(*narrow_, r, copies.rows[static_cast<size_t>(r)]);
      const std::string place = pointer != pointers_.end()
                                    ? pointer->second
                                    : str(p_.buffer_name(row.buffer, Access::read), " + ", p_.expr(p_.address(row)));
      const std::string value = rest.empty() ? str("k_load_", suffix, "(", place, ")")
                                             : str("k_load_", suffix, "_n(", place, ", ", rest, ")");
      p_.line(str("k_store_f32(", wide, " + (", r * wide_terms(), " + ", term, " - ", from, "), ", value, ");"));
    }
  };
  wide_from_ = from;
  const int64_t block = sum_.order.block > 1 ? sum_.order.block : 0;
  const bool exact =
      sum_.extent.is_constant() && sum_.extent.value() % p_.lane_count_ == 0 && block % p_.lane_count_ == 0;
  p_.open("");
  p_.line(str("i64 ", term, " = ", from, ";"));
  p_.open(str("for (; ", term, " + ", lanes, " <= ", to, "; ", term, " += ", lanes, ")"));
  widen("");
  p_.close();
  if (!exact) {
    p_.open(str("if (", term, " < ", to, ")"));
    widen(str("(int)(", to, " - ", term, ")"));
    p_.close();
  }
  p_.close();
}

void TilePrinter::print_widened_element(int64_t r, Values& values) {
  p_.value_types_.push_back(p_.type(narrow_->results[0]));
  const auto made = static_cast<ValueId>(p_.value_types_.size()) - 1;
  values[narrow_->results[0]] = made;
  p_.define(made,
            str("k_get_f32(", p_.buffer_name(tile_.rows_wide, Access::read), " + (", r * wide_terms(), " + ", sum_.var,
                " - ", wide_from_, "))"),
            false);
}

// ---- Masked rows
// -------------------------------------------------------------------------------------------------------

bool TilePrinter::by_pointer(const Stmt& stmt) const {
  if (stmt.kind != StmtKind::load || stmt.mask == no_value || !sum_.extent.is_constant()) return false;
  for (const Stmt& inner : sum_.body)
    if (inner.results.size() == 1 && inner.results[0] == stmt.mask) return false;
  const auto along = affine_in(p_.address(stmt), sum_.var);
  return along && along->coefficient.is_constant() && along->coefficient.value() > 0 &&
         !mentions(along->rest, sum_.var);
}

Stmt TilePrinter::of_row(const Stmt& load, int64_t r, const Values& values) const {
  Stmt access = load.clone();
  Substitution map = row_variables(r);
  for (const auto& [var, value] : checked_indices_)
    if (const auto copy = values.find(value); copy != values.end())
      map[var] = Expr::symbol(str(var, "_", copy->second));
  for (Expr& e : access.index) e = substitute(e, map);
  return access;
}

// A mask that the innermost sum does not change (padding) chooses between the row and zeros, once. The pointers' names
// say which buffer they belong to and where their zeros are: checked_access.cpp reads them.
void TilePrinter::print_pointers(const Stmt& load, const Copies& copies) {
  const DType dtype = p_.program_.buffers[static_cast<size_t>(load.buffer)].dtype;
  const char* type = storage_type(dtype);
  const std::string buffer = p_.buffer_name(load.buffer, Access::read);
  const int64_t distance = affine_in(p_.address(load), sum_.var)->coefficient.value();
  // Zeros as long as the row where its elements are neighbours; else one zero that is read again and again.
  const int64_t length = std::max<int64_t>(1, sum_.extent.value());
  const bool whole = distance == 1 && length <= longest_zeros;
  const std::string group = str("q", buffer.substr(1), "_", pointer_count_++);
  const int64_t zeros = whole ? length : tile_.pairs || tile_.quads ? terms_together() : 1;
  if (tile_.quads && padding() != 0)  // of bytes padding is their zero point
    p_.line(str("static constexpr k_filled<", type, ", ", zeros, "> ", group, "_line(", padding(),
                "); static constexpr auto& ", group, "_zeros = ", group, "_line.all;"));
  else
    p_.line(str("static const ", type, " ", group, "_zeros[", zeros, "] = {};"));
  for (int64_t r = 0; r < tile_.rows; ++r) {
    const Values& values = copies.rows[static_cast<size_t>(r)];
    const Stmt access = of_row(load, r, values);
    const auto along = affine_in(p_.address(access), sum_.var);
    KILN_CHECK(along, "an address that is not affine any more");
    p_.place_ = &load;
    p_.sizes_of_place_ = 0;
    const std::string name = str(group, "_", r), mask = p_.name(renamed(load.mask, values));
    p_.line(str("const ", type, "* const ", name, " = ", mask, " ? ", buffer, " + ", p_.expr(along->rest), " : ", group,
                "_zeros;"));
    p_.place_ = nullptr;
    if (!whole) p_.line(str("const i64 ", name, "_step = ", mask, " ? ", distance, "l : 0l;"));
    pointers_[{&load, r}] = whole ? str(name, " + ", sum_.var) : str(name, " + ", sum_.var, " * ", name, "_step");
  }
}

int64_t TilePrinter::padding() const {
  std::string why;
  const auto factors = quad_factors(p_.kernel_, p_.program_, why);
  KILN_CHECK(factors, str(p_.kernel_.name, " is no product of bytes: ", why));
  return factors->padding;
}

// Where all rows of a tile lie in the padding (under the far places of a dilated window most do), nothing is added.
void TilePrinter::print_skip(int64_t vectors, const Copies& copies) {
  const Stmt* rows = nullptr;
  for (const Stmt* stmt : nest_.sums.back().left) {
    const bool widens = stmt->kind == StmtKind::op && stmt->op == ScalarOp::cast;
    if (!widens && (rows || !by_pointer(*stmt))) return;
    if (!widens) rows = stmt;
  }
  if (!rows || sum_.extent.value() * vectors < least_terms_to_skip) return;
  std::string any;
  for (const Values& values : copies.rows) any += str(any.empty() ? "" : " | ", p_.name(renamed(rows->mask, values)));
  p_.line(str("if (!(", any, ")) continue;"));
}

}  // namespace kiln::codegen
