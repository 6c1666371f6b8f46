// Prints a kernel whose contraction runs in tiles, as its schedule says: so many rows by so many vectors of columns are
// accumulated in registers while the sum runs once. The statements in the holes (loads of both factors, the epilogue,
// the row part) are printed by KernelPrinter itself.
#pragma once
#include "codegen/cpu/kernel_printer.h"

namespace kiln::codegen {

class TilePrinter {
 public:
  explicit TilePrinter(KernelPrinter& printer);
  void print();

 private:
  // Prints a copy of the statements with variables replaced; gives the new number of each value.
  using Values = std::map<loops::ValueId, loops::ValueId>;
  void print_copy(const std::vector<const loops::Stmt*>& stmts, const Substitution& variables, Values& values);
  loops::ValueId renamed(loops::ValueId v, const Values& values) const;
  // Of the statements in front of the reduction: those that the factors use, in order.
  std::vector<const loops::Stmt*> needed_by_factors(const loops::Body& body, const loops::Stmt* until) const;
  void print_tile(int64_t vectors, const std::string& left);
  void print_products(int64_t vectors, const std::string& left);
  void print_epilogue(int64_t vectors, const std::string& left);
  void print_rows();
  void print_row_start();
  std::string row(int64_t r) const { return str(rows_.var, "_", r); }
  std::string column(int64_t v) const { return str(columns_.var, "_", v); }

  KernelPrinter& p_;
  const loops::ContractionNest nest_;
  const loops::Loop &rows_, &columns_, &sum_;
  const int64_t mr_, nr_;
  std::vector<Values> row_values_;
  std::map<std::string, loops::ValueId> checked_indices_;  // variables of check_index statements -> their results
};

}  // namespace kiln::codegen
