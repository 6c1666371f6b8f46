// split_groups on a grouped sum in text: when channels become two loops, and that indices lose their quotients.
#include <gtest/gtest.h>

#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// 1 × 1 windows over 6 × 5 points; `each` channels of the result, and of the picture, in a group.
std::string grouped(int64_t channels, int64_t each, int64_t terms, const char* after = "") {
  return str(
      "loops grouped\nbuffer x f32[6, 5, ", channels / each * terms, "] strides [", 5 * channels / each * terms, ", ",
      channels / each * terms, ", 1] input position 0\nbuffer w f32[", channels, ", ", terms, "] strides [", terms,
      ", 1] constant named \"w\"\nbuffer y f32[6, 5, ", channels, "] strides [", 5 * channels, ", ", channels,
      ", 1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n",
      "  kernel grouped ops [convolution] {\n    for i2 in [6] parallel {\n      for i3 in [5] parallel {\n",
      "        for i1 in [", channels, "] parallel {\n          %0 = for r0 in [", terms,
      "] reduce sum.f32 {\n            %1 = load.f32 x[i2, i3, r0 + (i1 // ", each, ")*", terms,
      "]\n            %2 = load.f32 w[i1, r0]\n            %3 = mul.f32 %1, %2\n            yield %3\n          }\n",
      "          store y[i2, i3, i1] = %0\n        }\n", after, "      }\n    }\n  }\n}\n");
}

std::string split(const std::string& text) {
  LoopProgram program = parse_loops(text);
  verify(program);
  Log log;
  split_groups(program, Target(), log);
  verify(program);
  return print(program);
}

TEST(SplitGroups, AGroupIsALoopAround) {
  const std::string text = split(grouped(64, 32, 24));
  for (const char* part :
       {"for g0 in [2] parallel {\n      for i2 in [6]", "for i1 in [32] parallel {", "load.f32 x[i2, i3, g0*24 + r0]",
        "load.f32 w[g0*32 + i1, r0]", "store y[i2, i3, g0*32 + i1] = %0"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(SplitGroups, SmallGroupsFillAVectorTogether) {
  for (int64_t each : {4, 8}) {
    const std::string before = grouped(64, each, 6);
    EXPECT_EQ(split(before), print(parse_loops(before))) << each;
  }
}

TEST(SplitGroups, SmallGroupsWithManyTermsAreProducts) {
  const std::string text = split(grouped(64, 8, 300));
  EXPECT_NE(text.find("for g0 in [8] parallel"), std::string::npos) << text;
}

TEST(SplitGroups, WhatFollowsWantsAllChannels) {
  const std::string before = grouped(64, 32, 24, "        for j0 in [64] parallel {\n        }\n");
  EXPECT_EQ(split(before), print(parse_loops(before)));
}

}  // namespace
}  // namespace kiln::loops
