#include "schedule/attention_tile.h"

#include <algorithm>
#include <cmath>

#include "schedule/least_code.h"

namespace kiln::loops {
namespace {

constexpr double element = 4;       // bytes
constexpr double least_items = 16;  // blocks of more rows than a tile leave so many for the threads
constexpr int64_t most_vectors_of_block = 16;

// Cycles for one term of a tile: two multiply-adds and two loads a cycle, every accumulator once in four.
double tile_step(double rows, double vectors) { return std::max({rows * vectors * 0.5, (rows + vectors) * 0.5, 4.0}); }

// What all blocks cost on one thread and on several together, where each has enough to do: those that have an item
// less than others wait for them, and all for a part of the last one, since none is as fast as another.
double on_threads(double cost, double outer, double blocks) {
  constexpr double worth_a_thread_cycles = 50000, waited_for = 0.25;
  const double items = outer * blocks;
  double sum = 1, numbers = 1;
  for (double threads = 2; threads <= 16 && cost * outer / threads >= worth_a_thread_cycles; threads *= 2, ++numbers)
    sum += threads * (std::ceil(items / threads) + waited_for) / items;
  return cost * sum / numbers;
}

// Terms of a step.
double at_a_time(const AttentionShape& shape) { return shape.pairs ? 2 : 1; }

// Of tiles with 32 registers: with fewer, what goes on beside the multiply-adds shows.
double fewest_accumulators(const Target& target) { return target.vector_registers >= 32 ? 16 : least_accumulators; }

int64_t rows_that_fit(const Target& target, int64_t vectors) {
  return std::clamp<int64_t>((target.vector_registers - vectors - 1) / vectors, 1, 14);
}

// Keys are taken so many at a time that their values stay in the first cache while the rows of a block pass over them,
// and their scores in a near part of the second. All parts are alike if the keys can be divided so.
int64_t choose_chunk(const AttentionShape& shape, const Target& target, int64_t block) {
  const auto keys = static_cast<int64_t>(shape.keys);
  const double of_key = std::max(shape.width, shape.out_width) * element / at_a_time(shape);
  const double at_hand = shape.keys * (std::min(of_key, 256.0) + static_cast<double>(block) * element);
  const auto most = std::clamp<int64_t>(static_cast<int64_t>(target.near_cache / of_key), 48, 256);
  if (shape.at_once || at_hand <= 2 * target.near_cache || keys <= most) return 0;
  const int64_t parts = (keys + most - 1) / most;
  for (int64_t more = parts; more <= parts * 3 / 2; ++more)
    if (keys % more == 0) return keys / more;
  return (keys + parts - 1) / parts;
}

// How many keys a block looks at, on average.
double keys_seen(const AttentionShape& shape, double block) {
  if (!shape.ahead) return shape.keys;
  const double blocks = std::ceil(shape.rows / block);
  double sum = 0;
  for (double i = 1; i <= blocks; ++i) sum += std::min(shape.keys, i * block + *shape.ahead);
  return sum / blocks;
}

// The second product's tile: what it costs for all blocks, of which the last may be smaller.
struct OutputTile {
  int64_t rows, vectors;
  double cost, code;
};

OutputTile choose_output_tile(const AttentionShape& shape, const Target& target, const AttentionTile& tile) {
  const double keys = keys_seen(shape, static_cast<double>(tile.block));
  const double vectors = std::ceil(shape.out_width / target.lanes);
  const auto block = static_cast<double>(tile.block), chunk = static_cast<double>(tile.chunk);
  const double blocks = std::floor(shape.rows / block), last = shape.rows - blocks * block;
  // Else how many rows a block has is known while running only, and what is left of any is then one by one.
  const bool even = last == 0 || blocks == 0;
  const double sums = tile.chunk > 0 ? 2.5 * std::ceil(keys / chunk) : 0;  // of an accumulator, through memory
  std::vector<OutputTile> all;
  for (int64_t wide = 1; wide <= std::min<int64_t>(6, static_cast<int64_t>(vectors)); ++wide)
    for (int64_t rows = rows_that_fit(target, wide); rows >= 1; --rows) {
      if (rows > tile.block) continue;
      const auto r = static_cast<double>(rows), w = static_cast<double>(wide);
      const double groups = std::floor(vectors / w), rest = vectors - groups * w;
      auto part = [&](double high, double broad) {
        return keys * tile_step(high, broad) / (shape.weight_pairs ? 2 : 1) + 20 + (3 + sums) * high * broad;
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
                     tile_code(r, w, code(r) + (left > 0 ? code(left) : 0), fewest_accumulators(target))});
    }
  return cheapest_with_least_code(all);
}

}  // namespace

std::vector<AttentionTile> attention_candidates(const AttentionShape& shape, const Target& target) {
  std::vector<AttentionTile> out;
  for (int64_t block_vectors = 1; block_vectors <= most_vectors_of_block; ++block_vectors) {
    AttentionTile tile;
    tile.block = block_vectors * target.lanes;
    const auto block = static_cast<double>(tile.block);
    const double blocks = std::ceil(shape.rows / block), near = target.near_cache;
    tile.chunk = choose_chunk(shape, target, tile.block);
    const double keys_of_part = tile.chunk > 0 ? static_cast<double>(tile.chunk) : shape.keys,
                 seen = keys_seen(shape, block),
                 parts = shape.ahead ? seen / keys_of_part : std::ceil(shape.keys / keys_of_part);
    const double scores = keys_of_part * block * element;
    if (block_vectors > 4 && (block - target.lanes >= shape.rows || scores > target.second_cache * 0.6 ||
                              shape.outer * blocks < least_items))
      continue;
    const OutputTile second = choose_output_tile(shape, target, tile);
    tile.rows = second.rows;
    tile.out_vectors = second.vectors;
    // Keys and values come from the second cache once for each block; the scores pass through it where they are many.
    const double fetched = seen * (shape.width + shape.out_width) * element / target.second_rate,
                 stored = scores > near ? 3 * parts * scores / target.second_rate : 0;
    // Parts of different numbers of keys: what a tile leaves over is then done one by one.
    const bool alike = !shape.ahead && parts * keys_of_part == shape.keys;
    for (int64_t vectors = 1; vectors <= std::min<int64_t>(4, block_vectors); ++vectors)
      for (int64_t keys = rows_that_fit(target, vectors); keys >= 1; --keys) {
        if (static_cast<double>(keys) > keys_of_part) continue;
        const auto k = static_cast<double>(keys), v = static_cast<double>(vectors);
        const double groups = std::floor(static_cast<double>(block_vectors) / v),
                     rest = static_cast<double>(block_vectors) - groups * v;
        const double whole = std::floor(keys_of_part / k), left = keys_of_part - whole * k;
        auto part = [&](double high, double broad) {
          return high < 1 || broad < 1
                     ? 0
                     : shape.width * tile_step(high, broad) / at_a_time(shape) + 20 + 3 * high * broad;
        };
        auto pass = [&](double broad) {
          return whole * part(k, broad) + (alike ? part(left, broad) : left * part(1, broad));
        };
        const double first = parts * (groups * pass(v) + pass(rest));
        const double softmax = static_cast<double>(block_vectors) * (12 * seen + (tile.chunk > 0 ? 80 * parts : 0));
        // What is put into pairs: rows and weights once, values for each block.
        const double pairing =
            shape.pairs
                ? (block * shape.width + (shape.weight_pairs ? block * seen + 1.5 * seen * shape.out_width : 0)) /
                      target.lanes * 2.5
                : 0;
        tile.vectors = vectors;
        tile.keys = keys;
        // Rows of the last block that do not exist are computed by the first product and the softmax only.
        const double all =
            blocks * (first + softmax + pairing + block * shape.width * 0.4 + fetched + stored + 200) + second.cost;
        tile.cost = on_threads(all, shape.outer, blocks);
        auto code = [&](double high) { return copy_code(high, v) + (rest > 0 ? copy_code(high, rest) : 0); };
        tile.code = second.code +
                    tile_code(k, v, code(k) + (left > 0 ? code(alike ? left : 1) : 0), fewest_accumulators(target));
        out.push_back(tile);
      }
  }
  return out;
}

}  // namespace kiln::loops
