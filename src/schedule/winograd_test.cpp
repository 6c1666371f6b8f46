// Windows of 3 by 3 by Winograd's products: what the kernel becomes, and that it computes the same.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

struct WindowShape {
  int images = 1, lines = 24, points = 24, above = 1, left = 1, below = 1, right = 1, channels = 32, columns = 32;
  int lines_apart = 1, points_apart = 1;     // of the window's
  int slices = 0, in_front = 1, behind = 1;  // > 0: a picture in three dimensions
  int slices_apart = 1, window_slices = 3;
  int out_slices() const { return slices + in_front + behind - slices_apart * (window_slices - 1); }
  int out_lines() const { return lines + above + below - 2 * lines_apart; }
  int out_points() const { return points + left + right - 2 * points_apart; }
};

// As a convolution with bias, residual and ReLU comes to the pass: channels last, one mask for what padding adds.
std::string window_of_three(const WindowShape& s) {
  const bool deep = s.slices > 0;
  const auto if_deep = [&](const std::string& text) { return deep ? text : ""; };
  const auto buffer = [&](const char* name, int channels, int slices, int lines, int points, const char* role) {
    const int slice = channels * lines * points;
    return str("buffer ", name, " f32[", s.images, ", ", channels, ", ", if_deep(str(slices, ", ")), lines, ", ",
               points, "] strides [", deep ? slices * slice : slice, ", 1, ", if_deep(str(slice, ", ")),
               channels * points, ", ", channels, "] ", role, "\n");
  };
  const auto at = [](const char* var, const char* window, int apart, int padding) {
    return str(var, " + ", window, apart > 1 ? str("*", apart) : "", " - ", padding);
  };
  const int d = s.out_slices(), h = s.out_lines(), w = s.out_points(), c = s.channels, k = s.columns;
  const int window = deep ? 9 * s.window_slices : 9;
  const std::string slice = at("i4", "r3", s.slices_apart, s.in_front), line = at("i2", "r1", s.lines_apart, s.above),
                    point = at("i3", "r2", s.points_apart, s.left);
  const std::string place = str("[i0, i1, ", if_deep("i4, "), "i2, i3]");
  const char *mask = deep ? "%36" : "%14", *sum = deep ? "%37" : "%4";
  return str("loops picture\n", buffer("x", c, s.slices, s.lines, s.points, "input position 0"),
             buffer("before", k, d, h, w, "input position 1"), "buffer w f32[", k, ", ", c, ", ",
             if_deep(str(s.window_slices, ", ")), "3, 3] strides [", c * window, ", ", window, ", ", if_deep("9, "),
             "3, 1] constant named \"w\"\n", "buffer bias f32[", k, "] strides [1] constant named \"bias\"\n",
             buffer("y", k, d, h, w, "output position 0"),
             "input x = buffer x\ninput before = buffer before\noutput buffer y\ninit {\n}\n", "main {\n",
             "  kernel picture ops [convolution, add, relu] {\n    for i0 in [", s.images, "] parallel {\n",
             if_deep(str("for i4 in [", d, "] parallel {\n")), "      for i2 in [", h,
             "] parallel {\n        %0 = index.i64 [0]\n        %1 = index.i64 [", s.lines,
             "]\n        %2 = index.i64 [", s.points, "]\n        %3 = constant.f32 0.0\n        for i3 in [", w,
             "] parallel {\n          for i1 in [", k, "] parallel {\n",
             if_deep(str("            %37 = for r3 in [", s.window_slices, "] reduce sum.f32 {\n  %30 = index.i64 [",
                         slice, "]\n  %31 = ge.bool %30, %0\n  %32 = index.i64 [", s.slices,
                         "]\n  %33 = lt.bool %30, %32\n", "  %34 = logical_and.bool %31, %33\n")),
             "            %4 = for r1 in [3] reduce sum.f32 {\n              %5 = index.i64 [", line,
             "]\n              %6 = ge.bool %5, %0\n              %7 = lt.bool %5, %1\n",
             "              %8 = logical_and.bool %6, %7\n              %9 = for r2 in [3] reduce sum.f32 {\n",
             "                %10 = index.i64 [", point, "]\n                %11 = ge.bool %10, %0\n",
             "                %12 = lt.bool %10, %2\n                %13 = logical_and.bool %11, %12\n",
             "                %14 = logical_and.bool %8, %13\n", if_deep("  %36 = logical_and.bool %14, %34\n"),
             "                %15 = for r0 in [", c, "] reduce sum.f32 {\n",
             "                  %16 = load.f32 x[i0, r0, ", if_deep(slice + ", "), line, ", ", point, "] mask ", mask,
             "\n                  %17 = load.f32 w[i1, r0, ", if_deep("r3, "),
             "r1, r2]\n                  %18 = mul.f32 %16, %17\n",
             "                  yield %18\n                }\n                yield %15\n              }\n",
             "              yield %9\n            }\n", if_deep("  yield %4\n}\n"),
             "            %19 = load.f32 bias[i1]\n            %20 = add.f32 ", sum, ", %19\n",
             "            %21 = load.f32 before", place, "\n            %22 = add.f32 %20, %21\n",
             "            %23 = max.f32 %22, %3\n            store y", place,
             " = %23\n          }\n        }\n      }\n    }\n", if_deep("}\n"), "    name ", sum, " = convolution",
             place, "\n  }\n}\n");
}

Target winograd_lanes() {
  Target target;
  target.name = "x86-64-v4";
  return target;
}

bool uses_winograd(LoopProgram& program, Log& log, const Target& target = winograd_lanes()) {
  find_contractions(program, log);
  const bool changed = use_winograd(program, target, log);
  verify(program);
  return changed;
}

TEST(UseWinograd, TransformsPictureWeightsAndResults) {
  LoopProgram program = parsed(window_of_three({}));
  Log log;
  ASSERT_TRUE(uses_winograd(program, log)) << log.decisions().back().text();
  const std::string all = print(program), made = main_of(program);
  EXPECT_EQ(print(parse_loops(all)), all);
  EXPECT_NE(all.find("buffer w_winograd f32[1, 16, 32, 32] strides [16384, 1024, 32, 1] derived"), std::string::npos)
      << all;
  EXPECT_NE(all.find("buffer picture_picture f32[16, 24, 32] strides [784, 32, 1] scratch"), std::string::npos) << all;
  // Once for the groups of columns that follow one another.
  EXPECT_NE(made.find("@item {\n      for o0 in [1] parallel @item {\n        for i4 in [24] parallel @kept {"),
            std::string::npos)
      << made;
  // Padding is a mask of the picture's loads, as before.
  EXPECT_NE(made.find("%72 = load.f32 x[0, i5, o1*4 + (i4 // 12)*2 - 1, (i4 % 12)*2 + 2] mask %71"), std::string::npos)
      << made;
  EXPECT_NE(made.find(R"(        for i6 in [1] parallel @serial {
          for i7 in [16] parallel {
            for i9 in [24] parallel @unroll(8, exact) {
              for i10 in [32] parallel @lane(32, exact) {
                %102 = for r3 in [32] reduce sum.f32 blocks(64, f32) {
                  %99 = load.f32 picture_picture[i7, i9, r3]
                  %100 = load.f32 w_winograd[i6 + o0, i7, r3, i10]
                  %101 = mul.f32 %99, %100
                  yield %101
                }
                store picture_sums[i7, i9, i10] = %102
              }
            }
          }
)"),
            std::string::npos)
      << made;
}

// An item is a part of one picture, of however many there are.
TEST(UseWinograd, AnyNumberOfPictures) {
  const int images = 61;  // stands nowhere else
  std::string text = replace_all(window_of_three({.images = images}), "[61, ", "[s0, ");
  text = replace_all(text, "for i0 in [61]", "for i0 in [s0]");
  LoopProgram program = parsed(replace_all(text, "loops picture\n", "loops picture\nsymbol s0 in [1, 64] hint 2\n"));
  Log log;
  ASSERT_TRUE(uses_winograd(program, log)) << log.decisions().back().text();
  const std::string made = main_of(program);
  EXPECT_NE(made.find("    for o0 in [s0] parallel @item {\n      for o2 in ["), std::string::npos) << made;
  EXPECT_NE(made.find("load.f32 x[o0, i5, "), std::string::npos) << made;
}

// Squares of a picture of unknown lines and points are counted by expressions; which of them have a second line or
// point is asked of each.
TEST(UseWinograd, PicturesOfAnySize) {
  const int lines = 61, points = 59;  // stand nowhere else
  std::string text = window_of_three({.lines = lines, .points = points});
  for (const auto& [from, to] :
       {std::pair{str(32 * lines * points), std::string("s0*s1*32")}, {str(32 * points), "s1*32"}})
    text = replace_all(text, "[" + from + ",", "[" + to + ","),
    text = replace_all(text, " " + from + ",", " " + to + ",");
  text = replace_all(replace_all(text, "61, 59]", "s0, s1]"), "[61]", "[s0]");
  text = replace_all(replace_all(text, "[59]", "[s1]"), "loops picture\n",
                     "loops picture\nsymbol s0 in [1, 999] hint 24\nsymbol s1 in [1, 999] hint 24\n");
  LoopProgram program = parsed(text);
  Log log;
  ASSERT_TRUE(uses_winograd(program, log)) << log.decisions().back().text();
  const std::string made = main_of(program);
  EXPECT_NE(made.find("in [(((s0 + 1) // 2)*((s1 + 1) // 2) + 23) // 24] parallel @item {"), std::string::npos) << made;
  EXPECT_NE(made.find("in [min(24, "), std::string::npos) << made;
  // Lines outside of the picture are read, under their masks, at its edge.
  EXPECT_NE(made.find("max(0, min(s0 - 1, "), std::string::npos) << made;
  EXPECT_EQ(print(parse_loops(print(program))), print(program));
}

void expect_the_same(const WindowShape& shape, const Target& target) {
  LoopProgram program = parsed(window_of_three(shape));
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  ASSERT_TRUE(uses_winograd(program, log, target)) << log.decisions().back().text();
  bind_axes(program, target, log);
  order_sums(program, log);
  verify(program);
  expect_near(run_on_samples(program), before, 2e-4);
}

TEST(UseWinograd, ComputesTheSame) {
  std::vector<WindowShape> shapes(3);
  shapes[1].images = 2, shapes[1].lines = 19, shapes[1].points = 17;
  shapes[2].above = shapes[2].below = shapes[2].left = shapes[2].right = 0;
  shapes.push_back({1, 25, 20, 2, 0, 0, 1, 33, 48});
  shapes.push_back({1, 31, 16, 0, 1, 1, 0, 40, 64});
  for (const WindowShape& shape : shapes) expect_the_same(shape, winograd_lanes());
  Target narrow = winograd_lanes();
  narrow.lanes = 8, narrow.vector_registers = 16;
  expect_the_same(shapes[1], narrow);
}

// Weights of f16 become places of f32, as long as the program's memory does not double by that.
TEST(UseWinograd, TakesHalfFloatsWhereThereIsRoom) {
  std::string text = replace_all(window_of_three({}), "buffer x f32", "buffer x f16");
  text = replace_all(replace_all(text, "buffer w f32", "buffer w f16"), "%16 = load.f32", "%16 = load.f16");
  text = replace_all(text, "%17 = load.f32", "%17 = load.f16");
  text = replace_all(text, "%18 = mul.f32 %16, %17",
                     "%40 = cast.f32 %16\n%41 = cast.f32 %17\n                  %18 = mul.f32 %40, %41");
  LoopProgram alone = parsed(text);
  Log log;
  EXPECT_FALSE(uses_winograd(alone, log));
  EXPECT_NE(log.decisions().back().text().find("more than the weights"), std::string::npos);
  // Another weight that is larger.
  LoopProgram program = parsed(replace_all(
      text, "buffer bias f32", "buffer more f16[64, 512] strides [512, 1] constant named \"more\"\nbuffer bias f32"));
  ASSERT_TRUE(uses_winograd(program, log)) << log.decisions().back().text();
  const std::string all = print(program);
  EXPECT_NE(all.find("buffer w_winograd f32[1, 16, 32, 32]"), std::string::npos) << all;
  EXPECT_NE(all.find("= load.f16 w["), std::string::npos) << all;
  EXPECT_NE(all.find("= load.f16 x["), std::string::npos) << all;
  // Products of bf16 have instructions of their own.
  LoopProgram brain = parsed(replace_all(print(parsed(text)), "f16", "bf16"));
  EXPECT_FALSE(uses_winograd(brain, log));
}

// The third dimension of a window is terms beside the channels; padding along it is a mask as any other.
TEST(UseWinograd, TakesWindowsInThreeDimensions) {
  WindowShape shape{1, 10, 12};
  shape.slices = 4;
  LoopProgram program = parsed(window_of_three(shape));
  Log log;
  ASSERT_TRUE(uses_winograd(program, log)) << log.decisions().back().text();
  const std::string all = print(program);
  EXPECT_EQ(print(parse_loops(all)), all);
  EXPECT_NE(all.find("buffer w_winograd f32[1, 16, 96, 32]"), std::string::npos) << all;
  EXPECT_NE(all.find("reduce sum.f32 blocks(64, f32) {"), std::string::npos) << all;
  expect_the_same(shape, winograd_lanes());
  WindowShape odd{2, 7, 9, 1, 0, 0, 1, 33, 64};
  odd.slices = 4, odd.in_front = 2, odd.behind = 0;
  expect_the_same(odd, winograd_lanes());
  WindowShape apart{1, 8, 8};
  apart.slices = 8, apart.window_slices = 4, apart.slices_apart = 2, apart.behind = 0;
  expect_the_same(apart, winograd_lanes());
}

// Results that share a square are as far apart as the points of the window; those beyond the last are not stored.
TEST(UseWinograd, TakesDilatedWindows) {
  for (const auto& [lines, points, lines_apart, points_apart] :
       {std::array{16, 16, 2, 2}, {15, 17, 2, 2}, {27, 14, 4, 4}, {21, 15, 3, 2}, {17, 19, 1, 5}, {14, 20, 4, 1}}) {
    WindowShape shape{1, lines, points, 0, 0, 0, 0, 32, 64};
    shape.lines_apart = shape.above = shape.below = lines_apart;
    shape.points_apart = shape.left = shape.right = points_apart;
    expect_the_same(shape, winograd_lanes());
  }
  WindowShape unpadded{2, 22, 23, 0, 0, 0, 0};
  unpadded.lines_apart = 3, unpadded.points_apart = 2;
  expect_the_same(unpadded, winograd_lanes());
  WindowShape deep{1, 11, 12, 2, 2, 2, 2, 32, 64};
  deep.lines_apart = deep.points_apart = 2, deep.slices = 4, deep.behind = 0;
  expect_the_same(deep, winograd_lanes());
}

// Terms of which few squares would fill the cache: the sums of a part are added to those before it.
TEST(UseWinograd, TakesManyTermsInParts) {
  Target target = winograd_lanes();
  target.second_cache = 180 << 10;
  const WindowShape wide{1, 12, 12, 1, 1, 1, 1, 128, 64};
  WindowShape deep{1, 12, 10, 1, 1, 1, 1, 64, 64};
  deep.slices = 4, deep.in_front = deep.behind = 0;
  for (const auto& [shape, parts] : {std::pair{wide, 2}, {deep, 3}}) {
    LoopProgram program = parsed(window_of_three(shape));
    Log log;
    ASSERT_TRUE(uses_winograd(program, log, target)) << log.decisions().back().text();
    const std::string said = log.decisions().back().text();
    EXPECT_NE(said.find(str("1/", parts, " of the terms")), std::string::npos) << said;
    expect_the_same(shape, target);
  }
}

// Where nothing is mapped, masked loads are slow: those far outside of the picture read at its edge.
TEST(UseWinograd, ReadsPaddingNearThePicture) {
  WindowShape shape{1, 12, 12};
  shape.slices = 4;
  LoopProgram program = parsed(window_of_three(shape));
  Log log;
  ASSERT_TRUE(uses_winograd(program, log)) << log.decisions().back().text();
  const std::string made = main_of(program);
  EXPECT_NE(made.find("load.f32 x[0, i7, max(0, min(3, "), std::string::npos) << made;
}

TEST(UseWinograd, LeavesTheRestAlone) {
  const auto refused = [](const std::string& text, const Target& target, const std::string& why) {
    LoopProgram program = parsed(text);
    Log log;
    find_contractions(program, log);
    const std::string before = print(program);
    EXPECT_FALSE(use_winograd(program, target, log));
    EXPECT_EQ(print(program), before);
    const std::string said = log.decisions().empty() ? "" : log.decisions().back().text();
    EXPECT_NE(said.find(why), std::string::npos) << said;
  };
  const std::string plain = window_of_three({});
  const Target target = winograd_lanes();
  refused(replace_all(plain, "i2 + r1", "i2 - r1"), target, "does not move point by point");
  refused(replace_all(replace_all(plain, "i2 + r1 - 1]", "i2*2 + r1 - 1]"), "i2 + r1 - 1,", "i2*2 + r1 - 1,"), target,
          "does not move point by point");
  refused(replace_all(plain, "r1 in [3]", "r1 in [2]"), target, "not 3 by 3");
  WindowShape few;
  few.channels = 24;
  refused(window_of_three(few), target, "too few channels");
  refused(replace_all(plain, "constant named \"w\"", "constant named \"w\" mutated"), target, "not a constant");
  Target scalar = target;
  scalar.lanes = 1;
  refused(plain, scalar, "");
  refused(plain, an_h200(), "");
}

}  // namespace
}  // namespace kiln::loops
