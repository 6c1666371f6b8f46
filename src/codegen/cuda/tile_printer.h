// Prints a contraction as a block of threads runs it (loops::Grid): both factors come into shared memory, some terms at
// a time; each thread adds up its part of the tile in registers and does with each result what the loops say.
#pragma once
#include "codegen/cpu/kernel_printer.h"

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

  KernelPrinter& p_;
  const loops::ContractionNest nest_;
  const loops::Grid grid_;
  const std::string type_, rows_, columns_, terms_;
};

}  // namespace kiln::codegen
