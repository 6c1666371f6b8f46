// Prints a tile whose rows are points of one line under a window that slides along it (loops/line_windows.h): all of
// them are found by one address. What a tile at the end of a line has under it is copied to scratch first.
#pragma once
#include "codegen/cpu/tile_printer.h"
#include "loops/line_windows.h"

namespace kiln::codegen {

class LinePrinter : public TilePrinter {
 public:
  explicit LinePrinter(KernelPrinter& printer);

 private:
  void print_row_count() override;
  void print_rows_of_tile() override;
  void decode_row_of_tile() override;
  void print_before_sums(Copies& copies) override;
  void print_after_sums(size_t level) override;
  void print_left_factors(size_t level, Copies& copies) override;
  int64_t trips(size_t level) const override;
  bool by_pointer(const loops::Stmt&) const override { return false; }
  bool places_are_neighbours() const;
  void print_line(const Copies& copies);
  void print_copied_line(const std::string& from, const std::string& to);

  const loops::LineWindow window_;
  const loops::Loop &points_, &places_;
  std::set<loops::ValueId> of_points_;  // that differ between the rows of a tile
  const bool joined_;                   // the window's places and the terms at each of them are one loop
  std::string line_;                    // what the first row has under it, as a pointer
};

}  // namespace kiln::codegen
