#include "schedule/winograd_tile.h"

#include <algorithm>
#include <cmath>

#include "schedule/least_code.h"

namespace kiln::loops {
namespace {

constexpr int64_t element_bytes = 4, line_elements = 64 / element_bytes;
constexpr int64_t least_squares = 24, most_squares = 128;
constexpr int64_t fewest_terms = 64;  // of a part of them
constexpr double own_cache = 0.65;    // of the second cache: what scratch may take

// Cycles of a square's 16 places of one vector, from the picture to scratch, or from scratch to the results.
constexpr double square_transform = 40;
constexpr double item_start = 500;  // cycles
// Of what comes from behind the second cache, and of what comes from memory, the part that is waited for.
constexpr double shared_cache = 24 << 20;
constexpr double late_share = 0.3, memory_share = 0.5;
constexpr double worth_a_thread_cycles = 50000;

// Cycles for one term of a tile: two multiply-adds and two loads a cycle, every accumulator once in four; meanwhile the
// weights come at this rate (0: they are at hand). Now and then a load comes late.
double winograd_step(double rows, double vectors, double rate, const Target& target) {
  const double moved = rate > 0 ? vectors * target.lanes * element_bytes / rate : 0;
  return std::max({rows * vectors * 0.5, (rows + vectors) * 0.5, 4.0, moved}) + (rows + vectors) * 0.05;
}

// Of an item: how long the others wait for the thread that is the last, since none is as fast as another.
constexpr double waited_for = 0.25;

// Of so many items in order, of which so many follow one another in a group, each thread has a part: how many groups
// the one has that has most of them.
double most_groups(double items, double of_group, double threads) {
  double most = 1;
  for (double i = 0; i < threads; ++i) {
    const double begin = std::floor(items * i / threads), end = std::floor(items * (i + 1) / threads);
    most = std::max(most, std::floor((end - 1) / of_group) - std::floor(begin / of_group) + 1);
  }
  return most;
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

namespace {

class Weighing {
 public:
  Weighing(const WinogradShape& shape, const Target& target)
      : shape_(shape),
        target_(target),
        terms_(static_cast<double>(shape.terms())),
        columns_(static_cast<double>(shape.columns)),
        weights_(winograd_places * terms_ * columns_ * element_bytes) {}

  std::vector<WinogradTile> all() {
    WinogradTile tile;
    for (tile.vectors = 1; tile.vectors <= 6; ++tile.vectors) {
      if (shape_.columns % (tile.vectors * target_.lanes) != 0) continue;
      for (tile.groups = 1; tile.groups <= panels(tile); ++tile.groups)
        if (panels(tile) % tile.groups == 0) with_parts(tile);
    }
    return std::move(out_);
  }

 private:
  // Terms of which too few squares have place are taken in parts: of one slice of the window, and of some channels.
  void with_parts(WinogradTile tile) {
    with_squares(tile);
    tile.squares = least_squares_of_all();
    if (fits(tile)) return;
    for (int64_t of_slice = 1; shape_.channels / of_slice >= fewest_terms; of_slice *= 2) {
      tile.parts = shape_.depth * of_slice;
      if (tile.parts > 1 && shape_.channels % (of_slice * target_.lanes) == 0) with_squares(tile);
    }
  }
  // Fewer squares than that read all weights too often: only where no more have place.
  void with_squares(WinogradTile tile) {
    bool any = false;
    const int64_t least = least_squares_of_all();
    for (tile.squares = std::min(shape_.squares, most_squares); tile.squares >= (any ? least : 12); --tile.squares) {
      if (!fits(tile)) continue;
      any = true;
      // As many blocks of fewer squares waste less.
      if (tile.squares > least && blocks(tile.squares - 1) == blocks(tile.squares)) continue;
      with_rows(tile);
    }
  }
  void with_rows(WinogradTile tile) {
    const double beside = to_results(tile) + waiting(tile) + fetched(tile) +
                          weights_ / target_.memory_rate * memory_share + items(tile) * item_start;
    const int64_t fit = (target_.vector_registers - tile.vectors - 1) / tile.vectors;
    for (tile.rows = std::min<int64_t>({fit, tile.squares, 14}); tile.rows >= 1; --tile.rows) {
      const double rest = products(tile) + beside;
      tile.work = rest + busiest_transforms(tile, 1) * from_picture(tile);
      tile.cost = cost(tile, rest);
      tile.code = code(tile);
      out_.push_back(tile);
    }
  }

  int64_t least_squares_of_all() const { return std::min(shape_.squares, least_squares); }
  int64_t panels(const WinogradTile& tile) const { return shape_.columns / (tile.vectors * target_.lanes); }
  double blocks(int64_t squares) const { return static_cast<double>((shape_.squares + squares - 1) / squares); }
  double items(const WinogradTile& tile) const { return blocks(tile.squares) * static_cast<double>(tile.groups); }
  double scratch(const WinogradTile& tile) const {
    const int64_t waiting = tile.parts > 1 ? shape_.columns / tile.groups : tile.vectors * target_.lanes;
    return static_cast<double>(winograd_places * element_bytes * tile.squares *
                               (terms_apart(shape_.terms() / tile.parts) + waiting));
  }
  bool fits(const WinogradTile& tile) const { return scratch(tile) <= own_cache * target_.second_cache; }

  // On one thread and on several together, where each has enough to do.
  double cost(const WinogradTile& tile, double rest) const {
    const double least = winograd_places * static_cast<double>(shape_.squares) * terms_ * columns_ / target_.lanes / 2;
    double sum = 0, numbers = 0;
    for (double threads = 1; threads == 1 || (threads <= 16 && least / threads >= worth_a_thread_cycles);
         threads *= 2, ++numbers)
      sum += threads * (rest * (busiest_items(tile, threads) + (threads > 1 ? waited_for : 0)) / items(tile) +
                        busiest_transforms(tile, threads) * from_picture(tile));
    return sum / numbers;
  }
  // Of the thread that has most of them, where there are so many.
  double busiest_items(const WinogradTile& tile, double threads) const { return std::ceil(items(tile) / threads); }
  // How often that one transforms the picture's points under a block: once for those of its items that follow one
  // another, where all terms have place.
  double busiest_transforms(const WinogradTile& tile, double threads) const {
    if (tile.parts > 1) return busiest_items(tile, threads);
    return most_groups(items(tile), static_cast<double>(tile.groups), threads);
  }
  // From the picture to scratch, for a block; from scratch to the results, for all of them. The more of the second
  // cache is scratch, the more of it comes from behind.
  double vector_transform(const WinogradTile& tile) const {
    return square_transform * (1 + scratch(tile) / target_.second_cache) * static_cast<double>(tile.squares);
  }
  double from_picture(const WinogradTile& tile) const {
    return vector_transform(tile) *
           static_cast<double>((shape_.channels + target_.lanes - 1) / target_.lanes * shape_.depth);
  }
  double to_results(const WinogradTile& tile) const {
    return vector_transform(tile) * blocks(tile.squares) * columns_ / target_.lanes;
  }
  // What the parts so far have come to is read and written with each.
  double waiting(const WinogradTile& tile) const {
    const double squares = blocks(tile.squares) * static_cast<double>(tile.squares);
    return tile.parts == 1 ? 0
                           : static_cast<double>(tile.parts) * 2 * winograd_places * squares * columns_ *
                                 element_bytes / target_.second_rate;
  }
  // For each block all weights come from the second cache, or from behind it where they do not stay there: those of all
  // groups, which follow one another, or in parts those of one, whose blocks do.
  double fetched(const WinogradTile& tile) const {
    const double own = tile.parts == 1 ? weights_ : weights_ / static_cast<double>(tile.groups);
    if (own + scratch(tile) <= 0.75 * target_.second_cache) return 0;
    return blocks(tile.squares) * weights_ / (own > shared_cache ? target_.memory_rate : target_.far_rate) * late_share;
  }
  // Weights come with the first tile of rows, and for the others too where a panel does not stay in the first cache.
  double products(const WinogradTile& tile) const {
    const auto rows = static_cast<double>(tile.rows), vectors = static_cast<double>(tile.vectors),
               parts = static_cast<double>(tile.parts);
    const double panel = terms_ / parts * vectors * target_.lanes * element_bytes;
    const double then = panel > target_.near_cache / 2 ? target_.second_rate : 0;
    const auto one = [&](double high, double rate) {
      return high < 1 ? 0 : terms_ / parts * winograd_step(high, vectors, rate, target_) + 20 + 3 * high * vectors;
    };
    const double whole = std::floor(static_cast<double>(tile.squares) / rows);
    return winograd_places * blocks(tile.squares) * static_cast<double>(panels(tile)) * parts *
           (one(rows, target_.second_rate) + (whole - 1) * one(rows, then) + one(left_over(tile), then));
  }
  double code(const WinogradTile& tile) const {
    const auto rows = static_cast<double>(tile.rows), vectors = static_cast<double>(tile.vectors);
    const double left = left_over(tile);
    return tile_code(rows, vectors, copy_code(rows, vectors) + (left > 0 ? copy_code(left, vectors) : 0),
                     target_.vector_registers >= 32 ? 14 : least_accumulators);
  }
  static double left_over(const WinogradTile& tile) { return static_cast<double>(tile.squares % tile.rows); }

  const WinogradShape& shape_;
  const Target& target_;
  const double terms_, columns_, weights_;
  std::vector<WinogradTile> out_;
};

}  // namespace

std::vector<WinogradTile> winograd_candidates(const WinogradShape& shape, const Target& target) {
  return Weighing(shape, target).all();
}

}  // namespace kiln::loops
