#include "schedule/least_code.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln::loops {
namespace {

struct Choice {
  char name;
  double cost, code;
};

char chosen(const std::vector<Choice>& all) { return cheapest_with_least_code(all).name; }

TEST(LeastCode, DecidesBetweenEqualCosts) {
  EXPECT_EQ(chosen({{'a', 100, 70}, {'b', 101, 30}, {'c', 103, 10}}), 'b');
  EXPECT_EQ(chosen({{'a', 100, 70}, {'b', 101, 70}}), 'a');
  EXPECT_EQ(chosen({{'a', 103, 10}, {'b', 100, 90}}), 'b');
}

TEST(LeastCode, SmallTilesAreNoChoice) {
  const double small = tile_code(2, 4, copy_code(2, 4)), other = tile_code(1, 8, copy_code(1, 8)),
               large = tile_code(6, 2, copy_code(6, 2));
  EXPECT_EQ(chosen({{'s', 100, small}, {'l', 101, large}}), 'l');
  // Where there are no others, cost alone decides.
  EXPECT_EQ(chosen({{'s', 101, small}, {'o', 100, other}}), 'o');
}

}  // namespace
}  // namespace kiln::loops
