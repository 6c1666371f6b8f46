#include "base/pattern_test.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Pattern, FindsGroupsAndPlaces) {
  const Pattern pair(R"((\w+)=([0-9]+|("[^"]*")))");
  const auto match = pair.find("  a_b=12, c=\"x\"");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->position, 2u);
  EXPECT_EQ(match->groups, (std::vector<std::string>{"a_b=12", "a_b", "12", ""}));
  const auto all = pair.find_all("  a_b=12, c=\"x\"");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].position, 10u);
  EXPECT_EQ(all[1].groups[3], "\"x\"");
  EXPECT_FALSE(pair.matches("a=b"));
  EXPECT_EQ(Pattern("^a").find_all("aab").size(), 1u);  // a later match does not begin the text
  EXPECT_THROW(Pattern("("), std::invalid_argument);
  EXPECT_THROW(Pattern("x*").find_all("y"), std::invalid_argument);
}

}  // namespace
}  // namespace kiln
