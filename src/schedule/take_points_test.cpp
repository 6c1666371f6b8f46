// take_points on windows in text: which points are taken together, what is left out, what is left alone.
#include <gtest/gtest.h>

#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// A window of 3 × 3 over 9 × `points` points, channels innermost; `channels` of the picture belong to one of the
// result.
struct Picture {
  int64_t points = 14, width = 32, channels = 1;
  std::string weights = "constant named \"w\"";
  std::string text() const {
    const std::string own = channels == 1 ? "i1" : "r0";
    const int64_t depth = channels == 1 ? width : channels;
    std::string out = str("loops window\nbuffer x f32[9, ", points, ", ", depth, "] strides [", points * depth, ", ",
                          depth, ", 1] input position 0\nbuffer w f32[", width, ", ", channels, ", 3, 3] strides [",
                          channels * 9, ", 9, 3, 1] ", weights, "\nbuffer y f32[9, ", points, ", ", width,
                          "] strides [", points * width, ", ", width, ", 1] output position 0\n");
    out += weights[0] == 'i' ? "input x = buffer x\ninput w = buffer w\n" : "input x = buffer x\n";
    out += str(R"(output buffer y
init {
}
main {
  kernel window ops [convolution] {
    for i2 in [9] parallel {
      %0 = index.i64 [0]
      %3 = index.i64 [9]
      %12 = index.i64 [)",
               points, R"(]
      for i3 in [)",
               points, R"(] parallel {
        for i1 in [)",
               width, R"(] parallel {
          %19 = for r1 in [3] reduce sum.f32 {
            %1 = index.i64 [i2 + r1 - 1]
            %2 = ge.bool %1, %0
            %5 = lt.bool %1, %3
            %6 = logical_and.bool %2, %5
            %18 = for r2 in [3] reduce sum.f32 {
              %8 = index.i64 [i3 + r2 - 1]
              %9 = ge.bool %8, %0
              %10 = logical_and.bool %6, %9
              %13 = lt.bool %8, %12
              %14 = logical_and.bool %10, %13
              %21 = for r0 in [)",
               channels, R"(] reduce sum.f32 {
                %15 = load.f32 x[i2 + r1 - 1, i3 + r2 - 1, )",
               own, R"(] mask %14
                %16 = load.f32 w[i1, r0, r1, r2]
                %17 = mul.f32 %15, %16
                yield %17
              }
              yield %21
            }
            yield %18
          }
          store y[i2, i3, i1] = %19
        }
      }
    }
  }
}
)");
    return out;
  }
};

std::string taken(const std::string& text, bool& changed) {
  LoopProgram program = parse_loops(text);
  verify(program);
  Log log;
  Target target;
  changed = take_points(program, target, log);
  verify(program);
  const std::string out = print(program);
  EXPECT_EQ(print(parse_loops(out)), out);
  return out;
}

#define EXPECT_PART(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(TakePoints, ADepthwiseWindow) {
  bool changed = false;
  const std::string text = taken(Picture().text(), changed);
  EXPECT_TRUE(changed);
  EXPECT_PART(text, "schedule items [1] grain 1 lanes 16");
  EXPECT_PART(text, "for i3 in [14] parallel @unroll(14, peel) {");
  EXPECT_PART(text, "parallel @lane(16, exact) {");
  // Lines of the window outside of the picture are left out, and so are the places beside a line.
  EXPECT_PART(text, "for r1 in [3] reduce sum.f32 only %6 {");
  EXPECT_PART(text, "for r2 in [3] reduce sum.f32 only %14 @unroll(3, exact) {");
  // Channels of a place of the window lie side by side.
  EXPECT_PART(text, "load.f32 w_packed[r1, r2, r0, ");
}

// A picture whose lines, points and channels are one dimension, a row of tokens: only the places along the points are
// written out, and there are registers for more points.
TEST(TakePoints, AWindowOverTokens) {
  std::string text = replace_all(Picture().text(), "buffer x f32[9, 14, 32] strides [448, 32, 1]",
                                 "buffer x f32[127, 32] strides [32, 1]");
  text = replace_all(text, "load.f32 x[i2 + r1 - 1, i3 + r2 - 1, i1]", "load.f32 x[i2*14 + i3 + r1*14 + r2 - 15, i1]");
  bool changed = false;
  text = taken(text, changed);
  EXPECT_PART(text, "for i3 in [14] parallel @unroll(14, peel) {");
  EXPECT_PART(text, "for r1 in [3] reduce sum.f32 only %6 {");
  EXPECT_PART(text, "for r2 in [3] reduce sum.f32 only %14 @unroll(3, exact) {");
}

// How many pictures there are need not be known.
TEST(TakePoints, AnyNumberOfPictures) {
  std::string text = replace_all(Picture().text(), "buffer x f32[9, 14, 32] strides [448, 32, 1]",
                                 "symbol s0 in [1, 64] hint 2\nbuffer x f32[s0, 9, 14, 32] strides [4032, 448, 32, 1]");
  text = replace_all(text, "buffer y f32[9, 14, 32] strides [448, 32, 1]",
                     "buffer y f32[s0, 9, 14, 32] strides [4032, 448, 32, 1]");
  text = replace_all(text, "load.f32 x[", "load.f32 x[i0, ");
  text = replace_all(text, "store y[", "store y[i0, ");
  text = replace_all(text, "    for i2 in [9] parallel {\n",
                     "    for i0 in [s0] parallel {\n    for i2 in [9] parallel {\n");
  text.insert(text.rfind("  }\n}\n"), "    }\n");
  bool changed = false;
  EXPECT_PART(taken(text, changed), "for i3 in [14] parallel @unroll(14, peel) {");
  EXPECT_TRUE(changed);
}

// Nor need the length of a line: groups are then no longer than they must be, so that shorter lines have some too.
TEST(TakePoints, LinesOfAnyLength) {
  for (const int64_t channels : {1, 3}) {
    Picture picture;
    picture.points = 56, picture.channels = channels;
    std::string text = replace_all(picture.text(), "loops window\n", "loops window\nsymbol s0 in [1, 1000] hint 56\n");
    text = replace_all(replace_all(text, "[9, 56, ", "[9, s0, "), "[56]", "[s0]");
    text = replace_all(replace_all(text, "strides [1792, ", "strides [s0*32, "), "strides [168, ", "strides [s0*3, ");
    bool changed = false;
    const std::string made = taken(text, changed);
    EXPECT_TRUE(changed);
    EXPECT_PART(made, str("for i3 in [s0] parallel @unroll(", channels == 1 ? 8 : 9, ", peel) {"));
    EXPECT_PART(made, "for r2 in [3] reduce sum.f32 only %14 @unroll(3, exact) {");
  }
}

// Loads widen as they are; the casts between them and the product are no reason to leave it alone.
std::string narrow(const Picture& picture, const std::string& dtype) {
  std::string text = replace_all(picture.text(), "load.f32", "load." + dtype);
  text = replace_all(replace_all(text, "buffer x f32", "buffer x " + dtype), "buffer w f32", "buffer w " + dtype);
  return replace_all(text, "%17 = mul.f32 %15, %16",
                     "%22 = cast.f32 %15\n                %23 = cast.f32 %16\n                %17 = mul.f32 %22, %23");
}

TEST(TakePoints, ADepthwiseWindowOfNarrowFloats) {
  for (const std::string dtype : {"bf16", "f16"}) {
    bool changed = false;
    const std::string text = taken(narrow(Picture(), dtype), changed);
    EXPECT_TRUE(changed);
    EXPECT_PART(text, "for i3 in [14] parallel @unroll(14, peel) {");
    EXPECT_PART(text, str("load.", dtype, " w_packed[r1, r2, r0, "));
  }
}

// An element of three colours meets all channels of its points: the picture is widened once, in front.
TEST(TakePoints, ColoursOfNarrowFloatsAreWidenedFirst) {
  for (const std::string dtype : {"bf16", "f16"}) {
    Picture picture;
    picture.channels = 3;
    bool changed = false;
    const std::string text = taken(narrow(picture, dtype), changed);
    EXPECT_TRUE(changed);
    EXPECT_PART(text, "buffer x_wide f32[");
    EXPECT_PART(text, "kernel widen_x ops [layout] {");
    EXPECT_PART(text, "= load.f32 x_wide[");
    EXPECT_PART(text, str("load.", dtype, " w_packed[r1, r2, r0, "));
  }
}

// Three colours of bf16 are left to instructions for matrices where there are some; depthwise windows are not.
TEST(TakePoints, MatrixInstructionsHaveTheColours) {
  for (const bool matrices : {true, false})
    for (const int64_t channels : {1, 3}) {
      Picture picture;
      picture.channels = channels;
      LoopProgram program = parse_loops(narrow(picture, "bf16"));
      Log log;
      Target target;
      target.matrix_tiles = matrices;
      EXPECT_EQ(take_points(program, target, log), !matrices || channels == 1);
    }
}

TEST(TakePoints, OddSizesHaveTails) {
  bool changed = false;
  Picture odd;
  odd.points = 29, odd.width = 24;
  const std::string text = taken(odd.text(), changed);
  EXPECT_TRUE(changed);
  EXPECT_PART(text, "for i1 in [24] parallel @lane(16, mask) {");
  EXPECT_PART(text, ", peel) {");
}

TEST(TakePoints, ThreeColours) {
  bool changed = false;
  Picture stem;
  stem.channels = 3;
  const std::string text = taken(stem.text(), changed);
  EXPECT_TRUE(changed);
  EXPECT_PART(text, "for i3 in [14] parallel @unroll(14, peel) {");
  EXPECT_PART(text, "for r0 in [3] reduce sum.f32 {");
}

TEST(TakePoints, ManyChannelsAreAProduct) {
  bool changed = false;
  Picture wide;
  wide.channels = 16;
  taken(wide.text(), changed);
  EXPECT_FALSE(changed);
}

// A group's number and the place in it make a channel: no line of the picture that the window moves along.
TEST(TakePoints, WideGroupsAreAProduct) {
  Picture grouped;
  grouped.channels = 16;
  std::string text = replace_all(grouped.text(), "r0] mask", "r0 + (i1 // 16)*16] mask");
  text = replace_all(text, "f32[9, 14, 16] strides [224, 16, 1]", "f32[9, 14, 32] strides [448, 32, 1]");
  LoopProgram program = parse_loops(text);
  Log log;
  ASSERT_TRUE(split_groups(program, Target(), log));
  EXPECT_FALSE(take_points(program, Target(), log)) << print(program);
}

// Channels that were shuffled before: lanes take them from two lines by turns.
TEST(TakePoints, ShuffledChannels) {
  bool changed = false;
  const std::string text = taken(replace_all(Picture().text(), "i1] mask", "i1 // 2 + (i1 % 2)*16] mask"), changed);
  EXPECT_TRUE(changed);
  EXPECT_PART(text, "for i3 in [14] parallel @unroll(14, peel) {");
}

TEST(TakePoints, WeightsThatAreNoneStayExact) {
  bool changed = false;
  Picture input;
  input.weights = "input position 1";
  taken(input.text(), changed);
  EXPECT_FALSE(changed);
}

TEST(TakePoints, FewLinesShareOutChannels) {
  bool changed = false;
  Picture wide;
  wide.width = 128;
  const std::string text = taken(wide.text(), changed);
  EXPECT_TRUE(changed);
  EXPECT_PART(text, "for o0 in [2] parallel {");
  EXPECT_PART(text, "for i1 in [64] parallel @lane(16, exact) {");
  EXPECT_PART(text, "store y[i2, i3, i1 + o0*64] = %19");
}

// A pool of 3 × 3 × 3 over 4 × 9 × `points` points, channels innermost.
std::string pool(int64_t points, int64_t width, const std::string& padding = "-inf") {
  const int64_t line = points * width;
  std::string text = R"(loops pool
buffer x f32[4, 9, POINTS, WIDTH] strides [PLANE, LINE, WIDTH, 1] input position 0
buffer y f32[4, 9, POINTS, WIDTH] strides [PLANE, LINE, WIDTH, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel pool ops [max_pool3d] {
    for i2 in [4] parallel {
      %0 = index.i64 [0]
      %1 = index.i64 [4]
      %2 = index.i64 [9]
      %3 = index.i64 [POINTS]
      %4 = constant.f32 NOTHING
      for i3 in [9] parallel {
        for i4 in [POINTS] parallel {
          for i1 in [WIDTH] parallel {
            %5 = for r0 in [3] reduce max.f32 {
              %6 = index.i64 [i2 + r0 - 1]
              %7 = ge.bool %6, %0
              %8 = lt.bool %6, %1
              %9 = logical_and.bool %7, %8
              %10 = for r1 in [3] reduce max.f32 {
                %11 = index.i64 [i3 + r1 - 1]
                %12 = ge.bool %11, %0
                %13 = logical_and.bool %9, %12
                %14 = lt.bool %11, %2
                %15 = logical_and.bool %13, %14
                %16 = for r2 in [3] reduce max.f32 {
                  %17 = index.i64 [i4 + r2 - 1]
                  %18 = ge.bool %17, %0
                  %19 = logical_and.bool %15, %18
                  %20 = lt.bool %17, %3
                  %21 = logical_and.bool %19, %20
                  %22 = load.f32 x[i2 + r0 - 1, i3 + r1 - 1, i4 + r2 - 1, i1] mask %21
                  %23 = select.f32 %21, %22, %4
                  yield %23
                }
                yield %16
              }
              yield %10
            }
            store y[i2, i3, i4, i1] = %5
          }
        }
      }
    }
  }
}
)";
  text = replace_all(replace_all(text, "POINTS", str(points)), "WIDTH", str(width));
  return replace_all(replace_all(replace_all(text, "PLANE", str(9 * line)), "LINE", str(line)), "NOTHING", padding);
}

TEST(TakePoints, APoolOverLinesAndPlanes) {
  bool changed = false;
  const std::string text = taken(pool(14, 32), changed);
  EXPECT_TRUE(changed);
  EXPECT_PART(text, "for i4 in [14] parallel @unroll(14, peel) {");
  EXPECT_PART(text, "for i1 in [32] parallel @lane(16, exact) {");
  EXPECT_PART(text, "for r0 in [3] reduce max.f32 only %9 {");
  EXPECT_PART(text, "for r1 in [3] reduce max.f32 only %15 {");
  EXPECT_PART(text, "for r2 in [3] reduce max.f32 only %21 @unroll(3, exact) {");
}

TEST(TakePoints, APoolOfALargePictureReadsFewStreams) {
  bool changed = false;
  EXPECT_PART(taken(pool(112, 256), changed), "for i4 in [112] parallel @unroll(2, peel) {");
}

// Zeros beside the picture are terms as any other.
TEST(TakePoints, APoolWhosePaddingCountsIsLeftAlone) {
  bool changed = false;
  taken(pool(14, 32, "0.0"), changed);
  EXPECT_FALSE(changed);
}

// A linear layer of few terms slides over nothing, and where gates follow its rows no part of it can be an item.
TEST(TakePoints, ASmallProductIsNoWindow) {
  bool changed = false;
  taken(R"(loops linear
buffer x f32[4, 8] strides [8, 1] input position 0
buffer w f32[32, 8] strides [8, 1] constant named "w"
buffer y f32[4, 32] strides [32, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel linear ops [linear] {
    for i0 in [4] parallel {
      for i1 in [32] parallel {
        %0 = for r0 in [8] reduce sum.f32 {
          %1 = load.f32 x[i0, r0]
          %2 = load.f32 w[i1, r0]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)",
        changed);
  EXPECT_FALSE(changed);
}

}  // namespace
}  // namespace kiln::loops
