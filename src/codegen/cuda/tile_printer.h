// Prints a contraction as a block of threads runs it (loops::Grid): both factors come into shared memory, some terms at
// a time; each thread adds up its part of the tile in registers and does with each result what the loops say.
#pragma once
#include "codegen/c_family/kernel_printer.h"
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
  Stmts inside(bool left, std::set<loops::ValueId>& wanted) const;
  Stmts after_sum(std::set<loops::ValueId>& wanted) const;
  void print_products();
  void print_results();
  void print_spread_results();
  void print_after(const std::string& result, int vector);

  // tile_stages.cpp
  DType tile_type(bool left) const;
  int64_t lines(bool left) const;
  int64_t line_length(bool left) const;
  std::string place(bool left, const std::string& line, const std::string& chunk, int64_t per_chunk,
                    const std::string& within) const;
  const loops::Stmt* plain_load(bool left) const;
  void print_whereabouts(bool left, const loops::Stmt& load);
  std::string in_range(bool left, const std::string& across, const std::string& term) const;
  std::optional<Affine> along_terms(const loops::Stmt& load) const;
  void print_words(bool left, const std::function<void()>& each);
  void print_word_origins(bool left);
  void print_chunks(bool left);
  void print_elements(bool left);

  KernelPrinter& p_;
  const loops::ContractionNest nest_;
  const loops::Grid grid_;
  const std::string type_, rows_, columns_, terms_;
};

}  // namespace kiln::codegen
