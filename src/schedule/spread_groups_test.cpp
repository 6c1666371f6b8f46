// What is found for groups of channels and read for each channel: text in, text out.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"

namespace kiln::loops {
namespace {

// Four groups of six channels: their means, which the channels of each point of a picture are less.
std::string less_means(int points, const std::string& group = "i1 // 6") {
  return str("loops less\nbuffer m f32[2, 4] strides [4, 1] input position 0\nbuffer x f32[2, ", points,
             ", 24] strides [", points * 24, ", 24, 1] input position 1\n", R"(buffer mean f32[2, 4] strides [4, 1] temp
buffer y f32[2, )",
             points, ", 24] strides [", points * 24, R"(, 24, 1] output position 0
input m = buffer m
input x = buffer x
output buffer y
init {
}
main {
  kernel mean ops [mul] {
    for i0 in [2] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 m[i0, i1]
        %1 = mul.f32 %0, %0
        store mean[i0, i1] = %1
      }
    }
  }
  kernel less ops [sub] {
    for i0 in [2] parallel {
      for i2 in [)",
             points, R"(] parallel {
        for i1 in [24] parallel {
          %0 = load.f32 x[i0, i2, i1]
          %1 = load.f32 mean[i0, )",
             group, R"(]
          %2 = sub.f32 %0, %1
          store y[i0, i2, i1] = %2
        }
      }
    }
  }
}
)");
}

std::string spread(const std::string& text, const Target& target = of_eight_lanes()) {
  LoopProgram program = parsed(text);
  Log log;
  const bool changed = spread_groups(program, target, log);
  verify(program);
  EXPECT_EQ(changed, print(program) != print(parsed(text)));
  return print(program);
}

TEST(SpreadGroups, StoresForEachChannel) {
  const std::string text = less_means(100), made = spread(text);
  EXPECT_TEXT(made, "buffer mean_spread f32[2, 24] strides [24, 1] temp");
  EXPECT_TEXT(made, R"(        for i2 in [6] parallel {
          store mean_spread[i0, i1*6 + i2] = %1
        })");
  EXPECT_TEXT(made, "%1 = load.f32 mean_spread[i0, i1]");
  expect_near(run_on_samples(parsed(made)), run_on_samples(parsed(text)), 0);
}

TEST(SpreadGroups, LeavesWhatIsReadSeldom) {
  const std::string text = less_means(8);
  EXPECT_EQ(spread(text), print(parsed(text)));
}

TEST(SpreadGroups, LeavesGroupsOfAnotherLoop) {
  const std::string text = less_means(100, "i2 // 25");
  EXPECT_EQ(spread(text), print(parsed(text)));
}

TEST(SpreadGroups, LeavesGpus) {
  const std::string text = less_means(100);
  EXPECT_EQ(spread(text, an_h200()), print(parsed(text)));
}

}  // namespace
}  // namespace kiln::loops
