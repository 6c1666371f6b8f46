#include "schedule/attention_tile.h"

#include <algorithm>
#include <cmath>

namespace kiln::loops {
namespace {

// Cycles for one term of a tile: two multiply-adds and two loads a cycle, every accumulator once in four.
double tile_step(double rows, double vectors) { return std::max({rows * vectors * 0.5, (rows + vectors) * 0.5, 4.0}); }

int64_t rows_that_fit(const Target& target, int64_t vectors) {
  return std::clamp<int64_t>((target.vector_registers - vectors - 1) / vectors, 1, 14);
}

// The second product's tile, for so many rows in a block.
void choose_output_tile(const AttentionShape& shape, const Target& target, AttentionTile& tile, double& cost) {
  const double vectors = std::ceil(shape.out_width / target.lanes);
  cost = INFINITY;
  for (int64_t wide = 1; wide <= std::min<int64_t>(6, static_cast<int64_t>(vectors)); ++wide)
    for (int64_t rows = rows_that_fit(target, wide); rows >= 1; --rows) {
      if (rows > tile.block) continue;
      const auto r = static_cast<double>(rows), w = static_cast<double>(wide), block = static_cast<double>(tile.block);
      const double groups = std::floor(vectors / w), rest = vectors - groups * w;
      const double whole = std::floor(block / r), left = block - whole * r;
      auto pass = [&](double high) {
        return high < 1 ? 0
                        : groups * (shape.keys * tile_step(high, w) + 20 + 3 * high * w) +
                              (rest > 0 ? shape.keys * tile_step(high, rest) + 20 + 3 * high * rest : 0);
      };
      const double all = whole * pass(r) + pass(left);
      if (all < cost) cost = all, tile.rows = rows, tile.out_vectors = wide;
    }
}

}  // namespace

std::vector<AttentionTile> attention_candidates(const AttentionShape& shape, const Target& target) {
  std::vector<AttentionTile> out;
  for (int64_t vectors = 1; vectors <= 4; ++vectors)
    for (int64_t times = 1; times <= 8; ++times) {
      AttentionTile tile;
      tile.vectors = vectors;
      tile.block = vectors * target.lanes * times;
      const double block = static_cast<double>(tile.block), blocks = std::ceil(shape.rows / block);
      if (times > 1 &&
          (block - target.lanes >= shape.rows || shape.keys * block * 4 > 128 << 10 || shape.outer * blocks < 16))
        continue;
      double second = 0;
      choose_output_tile(shape, target, tile, second);
      for (int64_t keys = rows_that_fit(target, vectors); keys >= 1; --keys) {
        if (static_cast<double>(keys) > shape.keys) continue;
        const auto k = static_cast<double>(keys), v = static_cast<double>(vectors);
        const double whole = std::floor(shape.keys / k), left = shape.keys - whole * k;
        const double first =
            static_cast<double>(times) * (whole * (shape.width * tile_step(k, v) + 20 + 3 * k * v) +
                                          (left > 0 ? shape.width * tile_step(left, v) + 20 + 3 * left * v : 0));
        const double softmax = shape.keys * block / target.lanes * 16, packing = block * shape.width * 1.2;
        tile.keys = keys;
        // Rows of the last block that do not exist are computed by the first product and the softmax only.
        const double share = shape.rows / (blocks * block);
        tile.cost = blocks * (first + softmax + packing + second * share + 200);
        out.push_back(tile);
      }
    }
  return out;
}

}  // namespace kiln::loops
