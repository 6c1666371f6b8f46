// A tile whose rows are points of one line. Under a window that slides along lines of a picture (a convolution's) the
// rows of a tile are then equally far apart, and one address says where all of them are. At the ends of a line, where
// the window reaches into the padding or the tile beyond the last point, the tile copies what lies under it to scratch
// (`rows_in`) and zeros beside it. Of a picture of bf16 or f16 every tile does, and widens it. Lines of the window that
// lie in the padding as a whole are left out.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

struct LineWindow {
  const Stmt* load = nullptr;   // of the left factor, in the innermost sum: neighbouring terms
  Expr points, width;           // of a line of results, and of the picture
  int64_t about = 0;            // how many points there are, for weighing
  int64_t step = 1, apart = 1;  // of the picture's points: from one row to the next, from one place of the window
  int64_t before = 0;           // points of padding in front of the line
  int64_t places = 1;           // of the window along the line: the sum around the innermost one
  int64_t distance = 0;         // of neighbouring points, in elements
  int64_t terms = 0;            // at each of them
  bool widens = false;          // the picture is bf16 or f16
  std::vector<ValueId> lines;   // conditions under which a line of the window is in the picture

  // Points of the picture under so many rows.
  int64_t span(int64_t rows) const { return (rows - 1) * step + (places - 1) * apart + 1; }
  Expr tiles(int64_t rows) const { return ceildiv(points, rows); }  // of a line
};
// Empty: the contraction is something else.
std::optional<LineWindow> line_window(const Kernel& kernel, const LoopProgram& program);

inline bool takes_lines(const Tile& tile) { return tile.rows_copy != no_buffer && !tile.matrix; }
// Rows with those that tiles have beyond the end of a line.
Expr rows_in_tiles(const ContractionNest& nest, const Tile& tile);

}  // namespace kiln::loops
