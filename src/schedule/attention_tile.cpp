#include "schedule/attention_tile.h"

#include <algorithm>
#include <cmath>

#include "schedule/least_code.h"

namespace kiln::loops {
namespace {

constexpr double element = 4;       // bytes
constexpr double least_items = 16;  // blocks of more rows than a tile leave so many for the threads

// Cycles for one term of a tile: two multiply-adds and two loads a cycle, every accumulator once in four.
double tile_step(double rows, double vectors) { return std::max({rows * vectors * 0.5, (rows + vectors) * 0.5, 4.0}); }

int64_t rows_that_fit(const Target& target, int64_t vectors) {
  return std::clamp<int64_t>((target.vector_registers - vectors - 1) / vectors, 1, 14);
}

// The second product's keys, so many at a time that what belongs to them stays in the first cache while the rows of a
// block pass over it. A divisor of their number, if there is a fitting one: then all chunks are alike.
constexpr int64_t most_keys_of_chunk = 96, least_keys_of_chunk = 40, usual_chunk = 64;

int64_t choose_chunk(const AttentionShape& shape, const Target& target, int64_t block) {
  const auto keys = static_cast<int64_t>(shape.keys);
  const double at_hand = shape.keys * (std::min(shape.out_width, 64.0) + static_cast<double>(block)) * element;
  if (at_hand <= 2 * target.near_cache || keys < 2 * usual_chunk) return 0;
  for (int64_t away = 0; away <= most_keys_of_chunk - least_keys_of_chunk; ++away)
    for (const int64_t chunk : {usual_chunk - away, usual_chunk + away})
      if (chunk >= least_keys_of_chunk && chunk <= most_keys_of_chunk && keys % chunk == 0) return chunk;
  return usual_chunk;
}

// The second product's tile: what it costs for all blocks, of which the last may be smaller.
struct OutputTile {
  int64_t rows, vectors;
  double cost, code;
};

OutputTile choose_output_tile(const AttentionShape& shape, const Target& target, const AttentionTile& tile) {
  const double vectors = std::ceil(shape.out_width / target.lanes);
  const auto block = static_cast<double>(tile.block), chunk = static_cast<double>(tile.chunk);
  const double blocks = std::floor(shape.rows / block), last = shape.rows - blocks * block;
  // Else how many rows a block has is known while running only, and what is left of any is then one by one.
  const bool even = last == 0 || blocks == 0;
  const double sums = tile.chunk > 0 ? 1.5 * std::ceil(shape.keys / chunk) : 0;  // of an accumulator, through memory
  std::vector<OutputTile> all;
  for (int64_t wide = 1; wide <= std::min<int64_t>(6, static_cast<int64_t>(vectors)); ++wide)
    for (int64_t rows = rows_that_fit(target, wide); rows >= 1; --rows) {
      if (rows > tile.block) continue;
      const auto r = static_cast<double>(rows), w = static_cast<double>(wide);
      const double groups = std::floor(vectors / w), rest = vectors - groups * w;
      auto part = [&](double high, double broad) {
        return shape.keys * tile_step(high, broad) + 20 + (3 + sums) * high * broad;
      };
      auto pass = [&](double high) {
        return high < 1 ? 0 : groups * part(high, w) + (rest > 0 ? part(high, rest) : 0);
      };
      auto all_rows = [&](double count) {
        const double whole = std::floor(count / r), left = count - whole * r;
        return whole * pass(r) + (even ? pass(left) : left * pass(1));
      };
      auto code = [&](double high) { return copy_code(high, w) + (rest > 0 ? copy_code(high, rest) : 0); };
      const double of_block = even && blocks == 0 ? last : block, left = even ? std::fmod(of_block, r) : 1;
      all.push_back({rows, wide, blocks * all_rows(block) + all_rows(last),
                     tile_code(r, w, code(r) + (left > 0 ? code(left) : 0))});
    }
  return cheapest_with_least_code(all);
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
      const double scores = shape.keys * block * element, near = target.near_cache;
      if (times > 1 && (block - target.lanes >= shape.rows || scores > target.second_cache * 0.6 ||
                        shape.outer * blocks < least_items))
        continue;
      tile.chunk = choose_chunk(shape, target, tile.block);
      const OutputTile second = choose_output_tile(shape, target, tile);
      tile.rows = second.rows;
      tile.out_vectors = second.vectors;
      // Keys and values come from the second cache once for each block; the scores pass through it where they are many.
      const double fetched = shape.keys * (shape.width + shape.out_width) * element / target.second_rate,
                   stored = scores > near ? 3 * scores / target.second_rate : 0;
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
        tile.cost = blocks * (first + softmax + packing + fetched + stored + 200) + second.cost;
        tile.code = second.code + tile_code(k, v, copy_code(k, v) + (left > 0 ? copy_code(left, v) : 0));
        out.push_back(tile);
      }
    }
  return out;
}

}  // namespace kiln::loops
