// Prints a kernel that uses the matrix-product template (schedule/mm_template.h): a tile of MR rows by NR vectors of
// columns is accumulated in registers while k runs once. The statements in the holes (loads of both factors, the
// epilogue, the row part) are printed by KernelPrinter itself.
#pragma once
#include "codegen/cpu/kernel_printer.h"
#include "schedule/mm_template.h"

namespace kiln::codegen {

class MmPrinter {
 public:
  explicit MmPrinter(KernelPrinter& printer);
  void print();

 private:
  // Prints a copy of the statements with variables replaced; gives the new number of each value.
  using Values = std::map<loops::ValueId, loops::ValueId>;
  void print_copy(const std::vector<const loops::Stmt*>& stmts, const Substitution& variables, Values& values);
  loops::ValueId renamed(loops::ValueId v, const Values& values) const;
  // Of the statements in front of the reduction: those that the factors use, in order.
  std::vector<const loops::Stmt*> needed_by_factors(const loops::Body& body, const loops::Stmt* until) const;
  void print_tile(int vectors, const std::string& left);
  void print_products(int vectors, const std::string& left);
  void print_epilogue(int vectors, const std::string& left);
  void print_rows();
  void print_row_start();
  std::string row(int r) const { return str(nest_.m->var, "_", r); }
  std::string column(int v) const { return str(nest_.n->var, "_", v); }

  KernelPrinter& p_;
  loops::MmNest nest_;
  int64_t mr_, nr_;
  Values row_values_[16];
  std::map<std::string, loops::ValueId> checked_indices_;  // variables of check_index statements -> their results
};

}  // namespace kiln::codegen
