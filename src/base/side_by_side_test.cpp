#include "base/side_by_side.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kiln {
namespace {

TEST(SideBySide, EveryPartRunsOnce) {
  std::vector<int> runs(1000);
  side_by_side(runs.size(), [&](size_t i) { ++runs[i]; });
  for (const int times : runs) EXPECT_EQ(times, 1);
  side_by_side(0, [](size_t) { FAIL(); });
}

TEST(SideBySide, ThrowsWhatTheFirstPartThrows) {
  for (int again = 0; again < 20; ++again) try {
      side_by_side(100, [](size_t i) {
        if (i % 10 == 7) throw std::to_string(i);
      });
      FAIL() << "nothing was thrown";
    } catch (const std::string& text) {
      EXPECT_EQ(text, "7");
    }
}

}  // namespace
}  // namespace kiln
