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
  static void print_attention(KernelPrinter& printer);  // attention_printer.cpp

 private:
  // Of one product of several.
  struct Product {
    loops::ContractionNest nest;
    loops::Grid grid;
    loops::ValueId left = loops::no_value, right = loops::no_value;
    const char* right_side = "right";     // what its right tiles are called
    bool steps_are_terms = true;          // else a step moves on along the columns
    const loops::Stmt* result = nullptr;  // its results are this statement's; nullptr: the sum's
  };
  CudaTilePrinter(KernelPrinter& printer, Product product);

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
  void print_joined_results();
  // Numbers the stages that this block has; `step` numbers those of the tile.
  const char* turn() const { return grid_.parts > 1 ? "turn" : "step"; }
  // A warp's rows come in groups of 16.
  int64_t rows_apart() const { return grid_.warpgroups ? 64 : 16; }
  int64_t row_groups() const { return grid_.thread_rows / rows_apart(); }
  void print_rounds(const std::string& first, int64_t stride, int64_t count, const std::function<void()>& each_place,
                    const std::function<void()>& each_result);
  void print_after(const std::string& result, int vector);
  void print_score(const loops::AttentionNest& nest);
  void print_joined_attention(const std::string& empty_rows_are_zero);
  std::string side(bool left) const { return left ? "left" : right_side_; }

  // tile_stages.cpp
  DType tile_type(bool left) const;
  int64_t lines(bool left) const;
  int64_t line_length(bool left) const;
  std::string place(bool left, const std::string& line, const std::string& chunk, int64_t per_chunk,
                    const std::string& within) const;
  const loops::Stmt* plain_load(bool left) const;
  // The words that a factor comes in: along the terms or across them, of so many elements, so many in a line and in
  // all, and for each thread. Text: which row (column) and term a word begins at, and its place in the tile.
  struct Words {
    bool along = false;
    int64_t elements = 1, in_line = 1, count = 1, each = 1;
    std::string across, term, to;
  };
  // A number that is the sum of what rows or columns give and what the terms give. narrow: 32 bits hold it.
  struct Apart {
    Expr rest, way;
    bool narrow = false;
  };
  struct Windows {
    Apart place;
    std::vector<std::pair<const loops::Stmt*, Apart>> numbers;  // that the mask is made of
    Stmts mask;                                                 // what it makes of them
  };
  Words words_of(bool left) const;
  bool comes_in_words(bool left) const;
  Stmts mask_values(bool left, const loops::Stmt& load) const;
  std::string in_range(bool left, const std::string& across, const std::string& term) const;
  bool whole_stages() const;
  bool one_place_a_stage() const;
  std::optional<Affine> along_terms(const loops::Stmt& load) const;
  std::optional<Apart> taken_apart(const Expr& number) const;
  std::optional<Windows> windows(bool left, const loops::Stmt& load) const;
  void print_words(const Words& words, const std::function<void()>& each);
  std::string copied(const Words& words, const std::string& from, const std::string& there) const;
  void print_word_origins(bool left);
  void print_windows(bool left, const Windows& apart);
  void print_loads(bool left);
  void print_elements(bool left);
  void print_stage(bool left);

  const char* wide_ = "wide";  // whether words come as such, where that is known
  KernelPrinter& p_;
  const loops::ContractionNest nest_;
  const loops::Grid grid_;
  const loops::ValueId left_, right_;
  const std::string right_side_;
  const bool steps_are_terms_;
  const loops::Stmt* const result_;
  const std::string type_, rows_, columns_, terms_;
  bool from_origins_[2] = {false, false};  // left, right: print_word_origins has said where words come from
};

}  // namespace kiln::codegen
