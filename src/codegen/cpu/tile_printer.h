// Prints a kernel whose contraction runs in tiles, as its schedule says: so many rows by so many vectors of columns are
// accumulated in registers while the sums run once. The statements in the holes (loads of both factors, the epilogue,
// the row part) are printed by KernelPrinter itself.
#pragma once
#include "codegen/c_family/kernel_printer.h"

namespace kiln::codegen {

class TilePrinter {
 public:
  explicit TilePrinter(KernelPrinter& printer);
  virtual ~TilePrinter() = default;
  void print();

 protected:
  using Values = std::map<loops::ValueId, loops::ValueId>;
  using Stmts = std::vector<const loops::Stmt*>;
  // What the copies of the rows and of the vectors of columns have computed so far.
  struct Copies {
    std::vector<Values> rows, columns;
    Values shared;
  };

  // Prints a copy of the statements with variables replaced; gives the new number of each value.
  void print_copy(const Stmts& stmts, const Substitution& variables, Values& values);
  loops::ValueId renamed(loops::ValueId v, const Values& values) const;
  // Of the statements in front of the loop `until`: those that the factors use, in order.
  Stmts needed_by_factors(const loops::Body& body) const;

  virtual void print_item();
  virtual void print_row_count();
  virtual void print_rows_of_tile();
  // `left`: how many columns the last vector of the tile has; "" for all.
  void print_columns(const std::function<void(int64_t vectors, const std::string& left)>& tile);
  void print_tile(int64_t vectors, const std::string& left);
  void print_products(int64_t vectors, const std::string& left);
  void print_sum(size_t level, int64_t vectors, const std::string& left, Copies copies);
  void print_factors(size_t level, int64_t vectors, const std::string& left, Copies& copies);
  virtual void print_left_factors(size_t level, Copies& copies);
  virtual void print_before_sums(Copies&) {}
  virtual void print_after_sums(size_t) {}           // that stand inside of this one
  virtual int64_t trips(size_t) const { return 0; }  // of a sum's loop, where they are not as many as its terms
  void print_product(int64_t vectors, const Copies& copies);
  void check_pairs(const loops::Stmt& right) const;
  void print_pairs(int64_t vectors, const Copies& copies);
  int64_t terms_together() const { return tile_.quads ? 4 : 2; }  // of one instruction
  loops::Stmt of_row(const loops::Stmt& load, int64_t r, const Values& values) const;
  void print_waiting(int64_t vectors, bool load);
  std::string sum_of_row(int64_t vectors, const std::string& vector) const;
  // Only the last vector of a tile may have fewer columns than there are lanes.
  static std::string left_of(int64_t v, int64_t vectors, const std::string& left) {
    return v + 1 == vectors ? left : "";
  }
  bool in_panels(const Stmts& right) const;
  bool follows_in_registers() const;
  void print_epilogue(int64_t vectors, const std::string& left);
  void print_epilogue_of_each(int64_t vectors, const std::string& left);
  // For a vector of columns, whose sum is this; `left`: how many of them there are, "" for all.
  void print_epilogue_body(const std::string& sum, const std::string& left);
  // Lines of the panel that comes next, fetched while this one is worked on: so memory streams beside the arithmetic.
  const loops::Stmt* packed_load() const;
  void print_start_ahead(int64_t vectors, const std::string& left);
  void print_row_part();
  void print_row_start();
  void print_row_statements();
  // Loads of the left factor that are masked outside of the innermost sum: a pointer, to zeros where it is off.
  virtual bool by_pointer(const loops::Stmt& stmt) const;
  void print_pointers(const loops::Stmt& load, const Copies& copies);
  int64_t padding() const;  // what a masked row of bytes has
  void print_skip(int64_t vectors, const Copies& copies);
  // Rows of bf16 or f16 that are widened in front of the products (loops/narrow_rows.h).
  int64_t wide_terms() const;
  int64_t terms_at_a_time(const loops::Loop& sum) const;
  void print_widened_rows(const std::string& from, const std::string& to, const Copies& copies);
  void print_widened_element(int64_t r, Values& values);

  std::string row(const loops::Loop& loop, int64_t r) const { return str(loop.var, "_", r); }
  std::string column(int64_t v) const { return str(columns_.var, "_", v); }
  Substitution row_variables(int64_t r) const;
  void decode_rows(const std::string& flat, const std::string& suffix);
  virtual void decode_row_of_tile();  // that the variable r numbers
  std::string vector_type_of_sum() const;
  std::string zero() const;

  KernelPrinter& p_;
  const loops::ContractionNest nest_;
  const loops::Loop &columns_, &sum_;
  const loops::Tile tile_;
  const std::string rows_, width_;  // as C++: how many rows there are, how wide a tile is
  const bool from_whole_;           // every tile has all of its rows, the last one some that others have too
  std::vector<Values> row_values_;
  const loops::Loop* const parts_;                         // the sum that stands around the items; nullptr: none
  const loops::Stmt* const narrow_;                        // the load of rows that are widened; nullptr: none
  std::string wide_from_;                                  // the first term that scratch has of them, as C++
  std::map<std::string, loops::ValueId> checked_indices_;  // variables of check_index statements -> their results
  std::map<std::pair<const loops::Stmt*, int64_t>, std::string> pointers_;  // load, row -> its pointer
  int pointer_count_ = 0;
  std::string ahead_;  // the buffer of which lines are fetched ahead; "": none
};

}  // namespace kiln::codegen
