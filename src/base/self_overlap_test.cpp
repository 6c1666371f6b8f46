#include "base/self_overlap.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace kiln {
namespace {

using Dims = std::vector<int64_t>;

bool by_counting(const Dims& sizes, const Dims& strides) {
  std::vector<int64_t> places = {0};
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t at : places)
      for (int64_t i = 0; i < sizes[d]; ++i) next.push_back(at + i * strides[d]);
    places = next;
  }
  return std::set<int64_t>(places.begin(), places.end()).size() != places.size();
}

TEST(SelfOverlap, KnowsUsualLayouts) {
  EXPECT_FALSE(overlaps_itself(Dims{}, Dims{}));
  EXPECT_FALSE(overlaps_itself(Dims{3, 4}, Dims{4, 1}));
  EXPECT_FALSE(overlaps_itself(Dims{3, 4}, Dims{1, 3}));
  EXPECT_FALSE(overlaps_itself(Dims{3, 4}, Dims{-4, 1}));
  EXPECT_FALSE(overlaps_itself(Dims{3, 1}, Dims{1, 0}));
  EXPECT_FALSE(overlaps_itself(Dims{0, 4}, Dims{0, 0}));
  EXPECT_TRUE(overlaps_itself(Dims{3, 4}, Dims{0, 1}));
  EXPECT_TRUE(overlaps_itself(Dims{2, 2}, Dims{1, 1}));
  EXPECT_TRUE(overlaps_itself(Dims{5, 3}, Dims{1, 1}));
  EXPECT_TRUE(overlaps_itself(Dims{4, 3}, Dims{2, 1}));
}

// Strides that do not nest need not overlap: 3 i + 2 j for i < 2, j < 3.
TEST(SelfOverlap, AgreesWithCountingPlaces) {
  EXPECT_FALSE(overlaps_itself(Dims{2, 3}, Dims{3, 2}));
  int overlapping = 0, apart = 0;
  for (int64_t a = 1; a <= 4; ++a)
    for (int64_t b = 1; b <= 4; ++b)
      for (int64_t c = 1; c <= 3; ++c)
        for (int64_t s = 0; s <= 7; ++s)
          for (int64_t t = -7; t <= 7; ++t)
            for (int64_t u = 0; u <= 7; ++u) {
              const Dims sizes = {a, b, c}, strides = {s, t, u};
              const bool expected = by_counting(sizes, strides);
              ASSERT_EQ(overlaps_itself(sizes, strides), expected)
                  << a << "," << b << "," << c << " / " << s << "," << t << "," << u;
              ++(expected ? overlapping : apart);
            }
  EXPECT_GT(overlapping, 1000);
  EXPECT_GT(apart, 1000);
}

TEST(SelfOverlap, NeverSaysThatAHardOneIsFine) {
  Dims sizes(20, 40), strides;
  for (int64_t i = 0; i < 20; ++i) strides.push_back(100003 + 7 * i);
  EXPECT_TRUE(overlaps_itself(sizes, strides));
  EXPECT_TRUE(overlaps_itself(Dims{INT64_MAX, INT64_MAX}, Dims{INT64_MAX, INT64_MAX}));
  EXPECT_TRUE(overlaps_itself(Dims{2}, Dims{INT64_MIN}));
}

}  // namespace
}  // namespace kiln
