// Prints a parallel loop that takes several iterations at a time, as its directive says (@unroll of a parallel loop):
// neighbouring points of a picture under a window's sum. The statements inside stand once for each of them, the loops
// inside once for all, so that what the points share (the window's weights, the parts of the picture under two of them)
// is loaded once, and their sums are so many accumulators in registers.
//
// The first and the last points are printed with their numbers where the directive says so (peel): what padding masks
// off is then known, and is left out. Maxima (pools) share more: a place under the windows of several points is
// compared once. What is done with the sums is one loop over the points where it is long (a sigmoid): written out for
// each, it would be most of the C++ compiler's time.
#pragma once
#include "codegen/c_family/kernel_printer.h"

namespace kiln::codegen {

class PointsPrinter {
 public:
  PointsPrinter(KernelPrinter& printer, const loops::Loop& loop);
  // Whether the loop is of the form that it prints: a loop of lanes around one nest of sums; statements that have
  // copies.
  static bool takes(const loops::Loop& loop);
  void print();

 private:
  void find_mask_values();
  bool edges_differ() const;
  bool has_looped_edges() const;
  void print_any_length();
  // From which point on, and up to which one (absent: the last), a condition is true in all places of the sums.
  struct Bounds {
    Expr from;
    std::optional<Expr> to;
    std::set<const loops::Stmt*> comparisons;
  };
  std::optional<Bounds> bounds_of(const loops::Stmt& comparison, const std::vector<const loops::Loop*>& sums) const;
  void find_ends();
  bool may_repeat_points() const;
  void print_group(const Expr& first, int64_t count);
  void print_body(const loops::Body& body);
  // Where what follows the sum begins, if it is long enough to stand in a loop over the points; else the body's end.
  size_t tail_of(const loops::Body& body) const;
  void print_tail(const loops::Body& body, size_t begin);
  void print_lanes(const loops::Loop& loop);
  bool may_repeat(const loops::Loop& lanes) const;  // some lanes twice, so that the last vector is whole
  void print_sum(const loops::Stmt& stmt, bool outermost);
  void print_looped_terms(const loops::Loop& loop);
  void print_edge_terms(const loops::Loop& loop);
  // From which term of a sum on, and up to which one, conditions are true for all points of the group.
  std::optional<Bounds> terms_inside(const loops::Loop& loop) const;
  void print_terms(const loops::Loop& loop);
  void print_product(const loops::Loop& loop);
  void print_extremes(const loops::Stmt& stmt);
  void find_columns(const loops::Loop& along);
  bool comes_with_point(loops::ValueId v, const loops::Loop& along) const;
  void print_columns(const loops::Loop& along);
  std::string extreme_of(const loops::Loop& loop, const std::string& a, const std::string& b) const;
  bool is_choice(const loops::Stmt& stmt) const;
  bool print_choice(const loops::Stmt& stmt, size_t point);
  void print_stmt(const loops::Stmt& stmt);
  void print_copy(const loops::Stmt& stmt, size_t point);
  void print_rest(const Expr& first, int64_t count);

  // What is known of a condition, with the numbers that variables have by now.
  std::optional<bool> known(loops::ValueId v, size_t point) const;
  std::string condition(loops::ValueId v, size_t point);  // as C++
  std::optional<Expr> number(loops::ValueId v) const;
  std::optional<Expr> number(loops::ValueId v, size_t point) const;
  const loops::Stmt* definition(loops::ValueId v) const;
  bool depends(const loops::Stmt& stmt) const;  // differs between the points
  bool depends(loops::ValueId v) const { return dependent_.contains(v); }
  loops::ValueId copy_of(loops::ValueId v, size_t point);
  Substitution variables(size_t point) const;

  KernelPrinter& p_;
  const loops::Loop& loop_;
  std::map<loops::ValueId, const loops::Stmt*> definitions_;  // of the whole kernel
  std::set<loops::ValueId> mask_values_;  // that only conditions are made of: printed where one is not known
  std::set<loops::ValueId> dependent_, true_;
  std::map<std::pair<loops::ValueId, size_t>, loops::ValueId> copies_;
  static constexpr size_t any_point = SIZE_MAX;  // the one that the tail's loop is at
  std::string any_point_name() const { return loop_.var + "_p"; }
  Interval line_;  // numbers that points have
  // Of a line whose length is not known: conditions that only its ends have, and between which points all are true.
  std::set<const loops::Stmt*> ends_;
  std::set<std::string> inner_variables_;
  std::set<const loops::Stmt*> true_terms_;  // comparisons that are true of the terms that are printed
  Expr inside_from_, inside_to_;
  bool inside_ = false;  // the group that is printed lies between them
  Expr first_;
  size_t count_ = 0;
  std::vector<bool> alive_;           // points that the current terms count for
  Substitution unrolled_;             // variables of sums that are numbers now
  std::vector<loops::ValueId> sums_;  // accumulators, by point
  // A place along the points that lies under windows, seen from one of the points, and its accumulator.
  struct Column {
    size_t point = 0;
    int64_t place = 0;
    std::string name;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<size_t>> under_;  // by point: the columns under its window
  std::set<const loops::Stmt*> choices_;    // between what lies under a window and what padding counts as
};

}  // namespace kiln::codegen
