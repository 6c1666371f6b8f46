#include "schedule/tile_cost.h"

#include <algorithm>
#include <cmath>

namespace kiln::loops {
namespace {

// Of an H200, measured (docs/gpu.md).
constexpr BlockTile of_warps[] = {
    {128, 128, 64, 32, 32, 1.0}, {128, 64, 32, 32, 64, 0.75}, {64, 128, 32, 32, 64, 0.75}, {64, 64, 32, 32, 64, 0.6},
    {32, 64, 16, 32, 64, 0.4},   {32, 32, 16, 16, 128, 0.3},  {32, 32, 16, 16, 64, 0.28},  {16, 64, 16, 16, 64, 0.25},
};
constexpr double products_per_ns = 1300;            // of a multiprocessor
constexpr double start_ns = 2600, parts_ns = 1300;  // of a kernel, of the one that joins parts
constexpr double bytes_per_ns = 46, step_ns = 100;  // that a multiprocessor fetches; of a stage, where a block is alone
constexpr double alone = 0.75;    // of its products, where a large tile has a multiprocessor for itself
constexpr double meet_ns = 1100;  // of blocks that have a tile together
constexpr double joined_bytes_per_ns = 60, joined_large_per_ns = 15;
constexpr int most_stages = 6;

double stage_bytes(const BlockTile& tile) { return 2.0 * tile.terms * (tile.rows + tile.columns); }
double area(const BlockTile& tile) { return static_cast<double>(tile.rows) * tile.columns; }
double blocks_of(const BlockTile& tile, const ProductSize& size, double parts) {
  return size.batch * parts * std::ceil(size.rows / tile.rows) * std::ceil(size.columns / tile.columns);
}
double steps_of(const BlockTile& tile, const ProductSize& size, double parts) {
  return std::ceil(std::ceil(size.terms / tile.terms) / parts);
}

// ---- Of each warp's own instructions
// Blocks that run on a multiprocessor at once, of so many that it gets.
double resident(const BlockTile& tile, double blocks) {
  return std::clamp(std::ceil(blocks), 1.0, area(tile) >= 128 * 64 ? 2.0 : 4.0);
}

double warp_cost(const BlockTile& tile, const ProductSize& size, double parts, const Target& target) {
  // Several small blocks run on a multiprocessor at once and share what it fetches.
  const double all = blocks_of(tile, size, parts) / target.multiprocessors;
  const double waves = area(tile) < 128 * 128 ? std::max(1.0, all) : std::ceil(all);
  const double steps = steps_of(tile, size, parts), large = area(tile);
  const double rate = products_per_ns * tile.rate * (large >= 128 * 128 && all <= 1 ? alone : 1);
  const double products = steps * tile.terms * large / rate;
  const double fetched = steps * stage_bytes(tile) / bytes_per_ns + steps * step_ns / (waves * std::ceil(waves));
  double joined = 0;
  if (parts > 1 && target.most_parts > 1)
    joined = meet_ns + large * 4 / (large > 128 * 64 ? joined_large_per_ns : joined_bytes_per_ns);
  if (parts > 1 && target.most_parts == 1) joined = parts_ns + size.batch * size.rows * size.columns * parts * 8 / 3000;
  return start_ns + waves * std::max(products, fetched) + joined;
}

// ---- Of four warps together
// Fitted by hand to tiles and products that were measured one by one. A stage costs what it fetches and what it
// multiplies, one after the other; but none is there earlier than it takes to come.
constexpr BlockTile of_warpgroups[] = {
    {128, 256, 64, 256, 64, 1, true}, {256, 128, 64, 128, 64, 1, true}, {128, 192, 64, 192, 64, 1, true},
    {128, 160, 64, 160, 64, 1, true}, {128, 128, 64, 128, 64, 1, true}, {128, 96, 64, 96, 64, 1, true},
    {128, 64, 64, 64, 64, 1, true},   {64, 256, 64, 128, 64, 1, true},  {64, 128, 64, 128, 64, 1, true},
    {64, 96, 64, 96, 64, 1, true},    {64, 64, 64, 64, 64, 1, true},    {64, 32, 64, 32, 64, 1, true},
};
constexpr double group_start_ns = 2000;
constexpr double group_bytes_per_ns = 136, group_products_per_ns = 5240, arrives_after_ns = 1000;
constexpr double tile_ns = 900, result_ns = 0.03, group_meet_ns = 800, group_part_ns = 150;
constexpr double least_stages = 3, most_group_stages = 8;  // one of them is that of the products under way

// Two blocks of a multiprocessor hide each other's beginning and end, where there are that many, registers for their
// sums and memory for stages enough.
double group_resident(const BlockTile& tile, double blocks, const Target& target) {
  const double memory = static_cast<double>(target.shared_memory) / 2 - 1024, sums = tile.part_rows * tile.part_columns;
  return blocks > target.multiprocessors && sums <= 64 * 128 && 4 * stage_bytes(tile) <= memory ? 2 : 1;
}
double group_stages(const BlockTile& tile, double blocks, double steps, const Target& target) {
  const double memory = static_cast<double>(target.shared_memory) / group_resident(tile, blocks, target) - 1024;
  return std::max(least_stages, std::min({std::floor(memory / stage_bytes(tile)), most_group_stages, steps + 2}));
}

double group_cost(const BlockTile& tile, const ProductSize& size, double parts, const Target& target) {
  const double blocks = blocks_of(tile, size, parts), steps = steps_of(tile, size, parts);
  const double each = std::ceil(blocks / target.multiprocessors);
  const double waves = std::ceil(each / group_resident(tile, blocks, target));
  const double stage = stage_bytes(tile) / group_bytes_per_ns + area(tile) * tile.terms / group_products_per_ns;
  const double ahead = group_stages(tile, blocks, steps, target) - 2;
  const double stages = std::max(each * steps * stage, waves * steps * arrives_after_ns / ahead);
  // What has such instructions has clusters.
  const double joined = parts > 1 ? group_meet_ns + parts * group_part_ns + area(tile) * result_ns : 0;
  return group_start_ns + stages + waves * (tile_ns + area(tile) * result_ns) + joined;
}

}  // namespace

std::vector<BlockTile> warp_tiles() { return {std::begin(of_warps), std::end(of_warps)}; }
std::vector<BlockTile> warpgroup_tiles() { return {std::begin(of_warpgroups), std::end(of_warpgroups)}; }

double tile_cost(const BlockTile& tile, const ProductSize& size, double parts, const Target& target) {
  return tile.warpgroups ? group_cost(tile, size, parts, target) : warp_cost(tile, size, parts, target);
}

int tile_stages(const BlockTile& tile, const ProductSize& size, double parts, int64_t element_bytes,
                const Target& target) {
  const double blocks = blocks_of(tile, size, parts), steps = steps_of(tile, size, parts);
  if (tile.warpgroups) return static_cast<int>(group_stages(tile, blocks, steps, target));
  const double fit = static_cast<double>(target.shared_memory) * 0.9 / resident(tile, blocks / target.multiprocessors) /
                     (stage_bytes(tile) / 2 * static_cast<double>(element_bytes));
  const double most = std::min({steps + 1, static_cast<double>(most_stages), std::max(fit, 2.0)});
  return static_cast<int>(std::max(2.0, std::floor(most)));
}

// A cluster is one of the GPU's parts of about 16 multiprocessors, some of which have fewer: of large clusters not all
// multiprocessors have a part.
bool clusters_fit(const BlockTile& tile, const ProductSize& size, double parts, const Target& target) {
  const double share = !tile.warpgroups || parts <= 2 ? 1 : parts <= 4 ? 0.9 : 0.75;
  return blocks_of(tile, size, parts) <= target.multiprocessors * share;
}

}  // namespace kiln::loops
