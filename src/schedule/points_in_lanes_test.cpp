// Windows that give few channels: text in, text out, and the same results.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"

namespace kiln::loops {
namespace {

struct FewChannels {
  int64_t group = 3, groups = 2, step = 1;
  const char* strides = "[108, 18, 1]";  // of the picture's channels, lines and points
};

// A window of 3 by 3 with padding of 1, over lines of 18 points.
std::string few_channels_window(const FewChannels& c) {
  const int64_t all = c.group * c.groups, lines = (6 + c.step - 1) / c.step, points = (18 + c.step - 1) / c.step;
  std::string text = R"(loops window
buffer x f32[CHANNELS, 6, 18] strides STRIDES input position 0
buffer w f32[CHANNELS, GROUP, 3, 3] strides [9*GROUP, 9, 3, 1] constant named "w"
buffer y f32[CHANNELS, LINES, POINTS] strides [LINES*POINTS, POINTS, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel window ops [convolution] {
    for i0 in [CHANNELS] parallel {
      for i1 in [LINES] parallel {
        for i2 in [POINTS] parallel {
          %0 = for r0 in [GROUP] reduce sum.f32 {
            %1 = for r1 in [3] reduce sum.f32 {
              %2 = for r2 in [3] reduce sum.f32 {
                %3 = index.i64 [STEP*i1 + r1 - 1]
                %4 = index.i64 [0]
                %5 = ge.bool %3, %4
                %6 = index.i64 [6]
                %7 = lt.bool %3, %6
                %8 = logical_and.bool %5, %7
                %9 = index.i64 [STEP*i2 + r2 - 1]
                %10 = ge.bool %9, %4
                %11 = logical_and.bool %8, %10
                %12 = index.i64 [18]
                %13 = lt.bool %9, %12
                %14 = logical_and.bool %11, %13
                %15 = load.f32 x[PLACE, STEP*i1 + r1 - 1, STEP*i2 + r2 - 1] mask %14
                %16 = load.f32 w[i0, r0, r1, r2]
                %17 = mul.f32 %15, %16
                yield %17
              }
              yield %2
            }
            yield %1
          }
          store y[i0, i1, i2] = %0
        }
      }
    }
  }
}
)";
  const std::map<std::string, std::string> words = {
      {"STRIDES", c.strides},
      {"PLACE", c.groups == 1 ? "r0" : str("(i0 // ", c.group, ") * ", c.group, " + r0")},
      {"LINES*POINTS", str(lines * points)},
      {"9*GROUP", str(9 * c.group)},
      {"CHANNELS", str(all)},
      {"GROUP", str(c.group)},
      {"LINES", str(lines)},
      {"POINTS", str(points)},
      {"STEP*", c.step == 1 ? "" : str(c.step, "*")}};
  for (const char* word :
       {"STRIDES", "PLACE", "LINES*POINTS", "9*GROUP", "CHANNELS", "GROUP", "LINES", "POINTS", "STEP*"})
    text = replace_all(text, word, words.at(word));
  return text;
}

struct PointsRun {
  bool changed;
  std::string text;
};
PointsRun few_channels_run(const FewChannels& c, const Target& target = {}) {
  LoopProgram program = parsed(few_channels_window(c));
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  const bool changed = points_in_lanes(program, target, log);
  verify(program);
  const std::string text = print(program);
  EXPECT_EQ(print(parse_loops(text)), text);
  EXPECT_EQ(changed, text != print(parsed(few_channels_window(c))));
  expect_near(run_on_samples(program), before, 0);
  EXPECT_FALSE(points_in_lanes(program, target, log)) << "once is enough";
  if (!changed) return {changed, text};
  // The channels are the rows of a product, the points its columns.
  hoist_invariants(program, log);
  EXPECT_TRUE(find_contractions(program, log));
  EXPECT_TRUE(use_templates(program, target, log));
  verify(program);
  expect_near(run_on_samples(program), before, 1e-4);
  EXPECT_TEXT(print(program), str("tile ", c.group, " rows"));
  return {changed, text};
}

TEST(PointsInLanes, GroupsOfThree) {
  expect_all(few_channels_run({}).text,
             {"buffer x_filled f32[8, 6, 20] strides [120, 20, 1] temp", "for g0 in [2] parallel",
              "x_filled[i1 + r1, g0*3 + r0, i2 + r2]", "w[g0*3 + i0, r0, r1, r2]",
              "for i0 in [3] parallel {\n          for i2 in [18] parallel"});
}

TEST(PointsInLanes, AWindowThatMovesByTwoPoints) {
  FewChannels colours;
  colours.groups = 1, colours.step = 2;
  EXPECT_FALSE(few_channels_run(colours).changed) << "lines of 9 points fill no vector";
  Target narrow = of_eight_lanes();
  expect_all(few_channels_run(colours, narrow).text,
             {"buffer x_filled f32[7, 3, 2, 10] strides", "x_filled[i1*2 + r1, r0, r2 % 2, i2 + r2 // 2]"});
}

// As many pictures as there are.
TEST(PointsInLanes, OfPictures) {
  std::string text = replace_all(few_channels_window({}), "buffer x f32[6, 6, 18] strides [108, 18, 1]",
                                 "symbol s0 in [1, 64] hint 2\nbuffer x f32[s0, 6, 6, 18] strides [648, 108, 18, 1]");
  text = replace_all(text, "buffer y f32[6, 6, 18] strides [108, 18, 1]",
                     "buffer y f32[s0, 6, 6, 18] strides [648, 108, 18, 1]");
  text = replace_all(replace_all(text, "x[(i0", "x[n0, (i0"), "y[i0", "y[n0, i0");
  text = replace_all(text, "    for i0 in [6]", "    for n0 in [s0] parallel {\n    for i0 in [6]");
  text.replace(text.rfind("  }\n}\n"), 0, "  }\n");
  LoopProgram program = parsed(text);
  Log log;
  EXPECT_TRUE(points_in_lanes(program, {}, log));
  verify(program);
  expect_all(print(program), {"buffer x_filled f32[s0, 8, 6, 20] strides [960, 120, 20, 1] temp",
                              "x_filled[n0, i1 + r1, g0*3 + r0, i2 + r2]"});
}

// A sum that one picture is: its product has one row.
TEST(PointsInLanes, OneChannel) {
  FewChannels one;
  one.group = one.groups = 1;
  expect_all(few_channels_run(one).text, {"for i0 in [1] parallel", "x_filled[i1 + r1, r0, i2 + r2]"});
}

TEST(PointsInLanes, LeavesWhatHasOtherWays) {
  FewChannels many, last;
  many.group = 8;
  EXPECT_FALSE(few_channels_run(many).changed) << "channels enough for lanes";
  last.strides = "[1, 108, 6]";
  EXPECT_FALSE(few_channels_run(last).changed) << "points that are no neighbours";
  Target gpu;
  gpu.device = DeviceType::cuda;
  EXPECT_FALSE(few_channels_run({}, gpu).changed);
}

}  // namespace
}  // namespace kiln::loops
