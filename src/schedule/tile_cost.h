// The tiles that a block of a GPU can have of a product by matrix instructions, and about how long each takes.
#pragma once
#include <cstdint>
#include <vector>

#include "schedule/target.h"

namespace kiln::loops {

struct BlockTile {
  int rows, columns, part_rows, part_columns;  // of a block, of a warp
  int terms;
  double rate = 1;          // products of a multiprocessor, of the most that a warp's own instructions reach
  bool warpgroups = false;  // the part is that of four warps together
};

// A product's size; what is not known is estimated.
struct ProductSize {
  double batch = 1, rows = 1, columns = 1, terms = 1;
};

// Tiles of each warp's own instructions, and of those of four warps together.
std::vector<BlockTile> warp_tiles();
std::vector<BlockTile> warpgroup_tiles();

// About how long the product takes with such tiles, in ns, where so many blocks (parts) have one together.
double tile_cost(const BlockTile& tile, const ProductSize& size, double parts, const Target& target);

// Of terms that are at hand or on their way: as many as there is memory for, and terms.
int tile_stages(const BlockTile& tile, const ProductSize& size, double parts, int64_t element_bytes,
                const Target& target);

// Whether so many blocks of a cluster find place at once, each with parts of a tile.
bool clusters_fit(const BlockTile& tile, const ProductSize& size, double parts, const Target& target);

}  // namespace kiln::loops
