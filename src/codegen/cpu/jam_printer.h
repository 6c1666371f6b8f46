// Prints loops of which several iterations run side by side, as their directives say: `@unroll(6)` on rows around
// `@lane(64)` on columns of 16 lanes is a tile of six rows by four vectors, whose values all stand in registers while
// the loops inside run once. A statement that does not vary along the rows, or along the columns, is printed once for
// all of them. What is done with the sums once they are there (scales, masks, stores) stands in a loop over the rows:
// written out for each of them it would be most of the text, and of the time that the C++ compiler takes. The
// statements themselves are printed by KernelPrinter.
#pragma once
#include "codegen/c_family/kernel_printer.h"

namespace kiln::codegen {

class JamPrinter {
 public:
  // Of a loop that is unrolled around one of lanes, or of one of lanes that takes several vectors at a time.
  JamPrinter(KernelPrinter& printer, const loops::Loop& loop);
  void print();

 private:
  // Along which of the two axes a value differs.
  struct Varies {
    bool rows = false, columns = false;
    Varies operator|(const Varies& o) const { return {rows || o.rows, columns || o.columns}; }
  };
  // The copies that run side by side; `left`: lanes in use of the last vector, "" where it is whole.
  struct Group {
    int64_t rows = 1, vectors = 1;
    std::string left;
  };

  void find_varying(const loops::Body& body);
  Varies of(const Expr& e) const;
  Varies of(loops::ValueId v) const;
  Varies of(const loops::Stmt& stmt) const;

  void print_rows();
  void print_columns(int64_t rows);
  void print_group(const Group& group);
  // What follows the last loop of the columns' body: where that part of it begins.
  size_t tail_of(const loops::Body& body) const;
  void print_tail(const loops::Body& body, size_t begin);
  void print_body(const loops::Body& body, size_t end, const loops::Stmt* without = nullptr);
  void print_copies(const loops::Stmt& stmt);
  // Two stores that fill every other element each, as the printer knows them; false: they are not.
  bool print_interleaved(const loops::Stmt& first, const loops::Stmt& second);
  // The copy of a statement, with what it reads and makes renamed.
  loops::Stmt copy_of(const loops::Stmt& stmt, int64_t row, int64_t vector);
  // Whether the copies of a store are as many rows as lanes, whose neighbours lie along the rows: they are then turned
  // round in registers and stored as whole vectors.
  bool turns(const loops::Stmt& stmt) const;
  void print_turned(const loops::Stmt& stmt);
  void print_loop(const loops::Stmt& stmt);
  void print_pairs(const loops::Loop& loop, loops::ValueId result, const std::string& suffix);
  void print_update(const loops::Loop& loop, loops::ValueId result, const std::string& suffix);
  // Does something for every copy of what varies so, with the printer's lanes set where it is a vector.
  void each(const Varies& varies, const std::function<void(int64_t row, int64_t vector)>& f);
  loops::ValueId renamed(loops::ValueId v, int64_t row, int64_t vector) const;
  loops::ValueId make(loops::ValueId v, int64_t row, int64_t vector);
  std::string row(int64_t r) const { return str(rows_->var, "_", row_in_loop_ ? str(row_counter) : str(r)); }
  std::string column(int64_t v) const { return str(columns_->var, "_", v); }
  std::string operand(loops::ValueId v, int64_t row, int64_t vector);

  KernelPrinter& p_;
  const loops::Loop *rows_ = nullptr, *columns_ = nullptr;
  std::map<loops::ValueId, Varies> varying_;
  Group group_;
  static constexpr const char* row_counter = "r";
  int turned_ = 0;            // tiles so far that were turned round
  bool row_in_loop_ = false;  // the rows pass one after the other, and row_counter counts them
  std::map<std::pair<loops::ValueId, int64_t>, loops::ValueId> copies_;  // by value and number of the copy
};

}  // namespace kiln::codegen
