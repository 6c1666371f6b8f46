// Attention on a GPU (Grid::keys): where a block has more warps than rows for them, each has a slice of the keys that
// are at hand.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

inline int64_t key_slices(const Grid& grid) {
  return grid.keys == 0 ? 1 : std::max<int64_t>(1, grid.threads / 32 / (grid.tile_rows / grid.thread_rows));
}

}  // namespace kiln::loops
