// Prints a contraction as a block of threads runs it (loops::Grid): both factors come into shared memory, some terms at
// a time; each thread adds up its part of the tile in registers and does with each result what the loops say.
#pragma once
#include "codegen/cpu/kernel_printer.h"
#include "loops/loops.h"

namespace kiln::codegen {

class CudaTilePrinter {
 public:
  explicit CudaTilePrinter(KernelPrinter& printer);
  void print();

 private:
  using Loops = std::vector<const loops::Loop*>;
  using Stmts = std::vector<const loops::Stmt*>;
  void decode(const Loops& loops, const std::string& flat, const char* rest);
  Stmts around(const std::set<loops::ValueId>& wanted) const;
  void print_all(const Stmts& stmts);
  void print_factor(bool left);
  void print_products();
  void print_results();

  // matrix_tile_printer.cpp: the same by matrix instructions
  void print_matrix();
  void print_stage(bool left);
  void print_chunks(bool left);
  void print_elements(bool left);
  void print_matrix_results();
  const loops::Stmt* chunk_load(bool left) const;
  Stmts inside(bool left, std::set<loops::ValueId>& wanted) const;
  Stmts after_sum(std::set<loops::ValueId>& wanted) const;
  DType matrix_type(bool left) const;

  KernelPrinter& p_;
  const loops::ContractionNest nest_;
  const loops::Grid grid_;
  const std::string type_, rows_, columns_, terms_;
};

}  // namespace kiln::codegen
