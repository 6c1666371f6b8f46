// Rows of a product that stay in the second cache while all columns pass.
#pragma once
#include "loops/loops.h"
#include "schedule/target.h"

namespace kiln::loops {

// Where the rows are more than the second cache holds, each panel of columns would bring all of them anew from behind
// it. They are then taken in groups that fit.
struct RowGroups {
  bool needed = false;
  int64_t rows = 0;  // of a group, of the outermost loop of rows; 0: there are no equal groups of whole tiles
};
RowGroups row_groups(const Kernel& kernel, const LoopProgram& program, const Target& target, const Tile& tile);
// The groups become a loop around, the innermost of the contraction's batches.
void group_rows(Kernel& kernel, int64_t rows);

}  // namespace kiln::loops
