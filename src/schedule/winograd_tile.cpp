#include "schedule/winograd_tile.h"

#include <algorithm>
#include <cmath>

#include "schedule/least_code.h"

namespace kiln::loops {
namespace {

constexpr int64_t element_bytes = 4, line_elements = 64 / element_bytes;
constexpr int64_t least_squares = 24, most_squares = 128;
constexpr double own_cache = 0.65;  // of the second cache: what scratch may take

// Cycles of a square's 16 places of one vector, from the picture to scratch, or from scratch to the results.
constexpr double square_transform = 40;
constexpr double item_start = 500;  // cycles
// Of what comes from behind the second cache, and of what comes from memory, the part that is waited for.
constexpr double late_share = 0.3, memory_share = 0.5;

// Cycles for one term of a tile: two multiply-adds and two loads a cycle, every accumulator once in four; meanwhile the
// weights come at this rate (0: they are at hand). Now and then a load comes late.
double winograd_step(double rows, double vectors, double rate, const Target& target) {
  const double moved = rate > 0 ? vectors * target.lanes * element_bytes / rate : 0;
  return std::max({rows * vectors * 0.5, (rows + vectors) * 0.5, 4.0, moved}) + (rows + vectors) * 0.05;
}

// How long the busiest thread works against an equal share, for some numbers of threads.
double uneven_items(double items) {
  double sum = 0;
  for (const double threads : {1.0, 2.0, 4.0, 8.0}) sum += std::ceil(items / threads) * threads / items;
  return sum / 4;
}

}  // namespace

int64_t terms_apart(int64_t terms) {
  const int64_t lines = (terms + line_elements - 1) / line_elements;
  return (lines % 8 == 0 ? lines + 1 : lines) * line_elements;
}

int64_t places_apart(int64_t elements) {
  const int64_t lines = (elements + line_elements - 1) / line_elements;
  return (lines | 1) * line_elements;
}

std::vector<WinogradTile> winograd_candidates(const WinogradShape& shape, const Target& target) {
  std::vector<WinogradTile> out;
  const auto terms = static_cast<double>(shape.terms()), columns = static_cast<double>(shape.columns);
  const double vectors_of_terms = static_cast<double>((shape.channels + target.lanes - 1) / target.lanes * shape.depth);
  const double weights = winograd_places * terms * columns * element_bytes;
  for (int64_t vectors = 1; vectors <= 6; ++vectors) {
    const int64_t width = vectors * target.lanes;
    if (shape.columns % width != 0) continue;
    const int64_t panels = shape.columns / width, fit = (target.vector_registers - vectors - 1) / vectors;
    // Fewer squares than that read all weights too often: only where no more have place.
    const int64_t least = std::min(shape.squares, least_squares);
    bool fits = false;
    for (int64_t squares = std::min(shape.squares, most_squares); squares >= (fits ? least : 12); --squares) {
      const auto scratch =
          static_cast<double>(winograd_places * element_bytes * squares * (terms_apart(shape.terms()) + width));
      if (scratch > own_cache * target.second_cache) continue;
      fits = true;
      // As many blocks of fewer squares waste less.
      const auto count = [&](int64_t each) { return (shape.squares + each - 1) / each; };
      if (squares > least && count(squares - 1) == count(squares)) continue;
      const double blocks = std::ceil(static_cast<double>(shape.squares) / static_cast<double>(squares));
      for (int64_t groups = 1; groups <= panels; ++groups) {
        if (panels % groups != 0) continue;
        const double items = blocks * static_cast<double>(groups), own = weights / static_cast<double>(groups);
        // For each item all weights of the group come from the second cache, or from behind it where they do not stay
        // there: with the first tile of rows, and for the others too where a panel does not stay in the first cache.
        const double fetched =
            own + scratch <= 0.75 * target.second_cache ? 0 : items * own / target.far_rate * late_share;
        const double panel = terms * static_cast<double>(width) * element_bytes;
        const double then = panel > target.near_cache / 2 ? target.second_rate : 0;
        // The more of the second cache is scratch, the more of it comes from behind.
        const double around = square_transform * (1 + scratch / target.second_cache) * static_cast<double>(squares) *
                              (items * vectors_of_terms + blocks * columns / target.lanes);
        for (int64_t rows = std::min<int64_t>({fit, squares, 14}); rows >= 1; --rows) {
          const auto r = static_cast<double>(rows), v = static_cast<double>(vectors);
          const double whole = std::floor(static_cast<double>(squares) / r),
                       left = static_cast<double>(squares) - whole * r;
          const auto tile = [&](double high, double rate) {
            return high < 1 ? 0 : terms * winograd_step(high, v, rate, target) + 20 + 3 * high * v;
          };
          const double products = winograd_places * blocks * static_cast<double>(panels) *
                                  (tile(r, target.second_rate) + (whole - 1) * tile(r, then) + tile(left, then));
          WinogradTile one{squares, groups, rows, vectors};
          one.work = products + around + fetched + weights / target.memory_rate * memory_share + items * item_start;
          one.cost = one.work * uneven_items(items);
          one.code = tile_code(r, v, copy_code(r, v) + (left > 0 ? copy_code(left, v) : 0),
                               target.vector_registers >= 32 ? 14 : least_accumulators);
          out.push_back(one);
        }
      }
    }
  }
  return out;
}

}  // namespace kiln::loops
