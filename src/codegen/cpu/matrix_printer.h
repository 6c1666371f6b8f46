// Prints a contraction that runs by matrix instructions (AMX), as its tile says: two by two of their tiles, or fewer,
// are accumulated while the sums run once, and go through memory to the epilogue, which is that of any tile.
#pragma once
#include "codegen/cpu/tile_printer.h"
#include "schedule/matrix_tiles.h"

namespace kiln::codegen {

class MatrixPrinter : private TilePrinter {
 public:
  explicit MatrixPrinter(KernelPrinter& printer);
  void print_kernel();

 private:
  void print_item() override;
  void print_copied_rows();
  void print_copied_sums(size_t level, const std::string& place);
  void print_matrix_tile(bool whole);
  void print_instructions(size_t level, const std::string& place);
  void print_matrix_epilogue(bool whole);
  void check_right() const;

  const loops::MatrixFactors factors_;
  const bool copied_;
  const int64_t row_tiles_, terms_;  // instructions below one another; terms of a copied row
  const std::string call_suffix_;    // of the functions for so many tiles: "22"
};

}  // namespace kiln::codegen
