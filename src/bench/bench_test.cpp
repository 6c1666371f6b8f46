#include "bench/bench.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Bench, PercentilesAreNearestRanks) {
  BenchResult result;
  EXPECT_EQ(result.percentile(0.5), 0);
  for (int i = 1; i <= 100; ++i) result.latencies.push_back(i);
  EXPECT_EQ(result.percentile(0.5), 50);
  EXPECT_EQ(result.percentile(0.9), 90);
  EXPECT_EQ(result.percentile(0.99), 99);
  EXPECT_EQ(result.percentile(1), 100);
  EXPECT_EQ(result.percentile(0), 1);
  result.latencies = {1, 2, 3};
  EXPECT_EQ(result.percentile(0.5), 2);
  EXPECT_EQ(result.percentile(0.99), 3);
}

}  // namespace
}  // namespace kiln
