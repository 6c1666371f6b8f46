// Which of several schedules to take, by what each costs and how much text it becomes.
#pragma once
#include <algorithm>

namespace kiln::loops {

// The text of a tile is written out for each of its rows and vectors, once more for what is left over at an edge, and
// the C++ compiler's time goes with it. Costs are estimates: of those that are as good as the cheapest, the one that is
// the least text. Candidates have `cost` and `code`.
constexpr double as_good = 1.02;

template <class Candidates>
const typename Candidates::value_type& cheapest_with_least_code(const Candidates& all) {
  using Candidate = typename Candidates::value_type;
  const double most = as_good * std::min_element(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
                                  return a.cost < b.cost;
                                })->cost;
  return *std::min_element(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
    if ((a.cost <= most) != (b.cost <= most)) return a.cost <= most;
    return a.code != b.code ? a.code < b.code : a.cost < b.cost;
  });
}

// Of one copy of a tile: its accumulators, and what is loaded for its rows and vectors.
constexpr double copy_code(double rows, double vectors) { return rows * vectors + rows + vectors; }

// Of a tile with all its copies. Tiles of few accumulators are little text and all the same no choice: what goes on
// beside their multiply-adds would show.
constexpr double least_accumulators = 12, too_much = 1e9;
constexpr double tile_code(double rows, double vectors, double of_copies, double least = least_accumulators) {
  return rows * vectors < least ? too_much : of_copies;
}

}  // namespace kiln::loops
