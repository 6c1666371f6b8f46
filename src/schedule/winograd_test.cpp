// Windows of 3 by 3 by Winograd's products: what the kernel becomes, and that it computes the same.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

struct WindowShape {
  int images = 1, lines = 24, points = 24, above = 1, left = 1, below = 1, right = 1, channels = 32, columns = 32;
  int out_lines() const { return lines + above + below - 2; }
  int out_points() const { return points + left + right - 2; }
};

// As a convolution with bias, residual and ReLU comes to the pass: channels last, one mask for what padding adds.
std::string window_of_three(const WindowShape& s) {
  const auto buffer = [&](const char* name, int channels, int lines, int points, const char* role) {
    return str("buffer ", name, " f32[", s.images, ", ", channels, ", ", lines, ", ", points, "] strides [",
               channels * lines * points, ", 1, ", channels * points, ", ", channels, "] ", role, "\n");
  };
  const int h = s.out_lines(), w = s.out_points(), c = s.channels, k = s.columns;
  return str(
      "loops picture\n", buffer("x", c, s.lines, s.points, "input position 0"),
      buffer("before", k, h, w, "input position 1"), "buffer w f32[", k, ", ", c, ", 3, 3] strides [", c * 9,
      ", 9, 3, 1] constant named \"w\"\n", "buffer bias f32[", k, "] strides [1] constant named \"bias\"\n",
      buffer("y", k, h, w, "output position 0"),
      "input x = buffer x\ninput before = buffer before\noutput buffer y\ninit {\n}\n", "main {\n",
      "  kernel picture ops [convolution, add, relu] {\n    for i0 in [", s.images, "] parallel {\n      for i2 in [",
      h, "] parallel {\n        %0 = index.i64 [0]\n        %1 = index.i64 [", s.lines, "]\n        %2 = index.i64 [",
      s.points, "]\n        %3 = constant.f32 0.0\n        for i3 in [", w, "] parallel {\n          for i1 in [", k,
      "] parallel {\n            %4 = for r1 in [3] reduce sum.f32 {\n              %5 = index.i64 [i2 + r1 - ",
      s.above, "]\n              %6 = ge.bool %5, %0\n              %7 = lt.bool %5, %1\n",
      "              %8 = logical_and.bool %6, %7\n              %9 = for r2 in [3] reduce sum.f32 {\n",
      "                %10 = index.i64 [i3 + r2 - ", s.left, "]\n                %11 = ge.bool %10, %0\n",
      "                %12 = lt.bool %10, %2\n                %13 = logical_and.bool %11, %12\n",
      "                %14 = logical_and.bool %8, %13\n                %15 = for r0 in [", c, "] reduce sum.f32 {\n",
      "                  %16 = load.f32 x[i0, r0, i2 + r1 - ", s.above, ", i3 + r2 - ", s.left, "] mask %14\n",
      "                  %17 = load.f32 w[i1, r0, r1, r2]\n                  %18 = mul.f32 %16, %17\n",
      "                  yield %18\n                }\n                yield %15\n              }\n",
      "              yield %9\n            }\n            %19 = load.f32 bias[i1]\n",
      "            %20 = add.f32 %4, %19\n            %21 = load.f32 before[i0, i1, i2, i3]\n",
      "            %22 = add.f32 %20, %21\n            %23 = max.f32 %22, %3\n",
      "            store y[i0, i1, i2, i3] = %23\n          }\n        }\n      }\n    }\n",
      "    name %4 = convolution[i0, i1, i2, i3]\n  }\n}\n");
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

TEST(UseWinograd, ComputesTheSame) {
  std::vector<WindowShape> shapes(3);
  shapes[1].images = 2, shapes[1].lines = 19, shapes[1].points = 17;
  shapes[2].above = shapes[2].below = shapes[2].left = shapes[2].right = 0;
  shapes.push_back({1, 25, 20, 2, 0, 0, 1, 33, 48});
  shapes.push_back({1, 31, 16, 0, 1, 1, 0, 40, 64});
  for (size_t i = 0; i <= shapes.size(); ++i) {
    const WindowShape& shape = shapes[i < shapes.size() ? i : 1];
    Target target = winograd_lanes();
    if (i == shapes.size()) target.lanes = 8, target.vector_registers = 16;
    LoopProgram program = parsed(window_of_three(shape));
    const std::vector<Datum> before = run_on_samples(program);
    Log log;
    ASSERT_TRUE(uses_winograd(program, log, target)) << log.decisions().back().text();
    bind_axes(program, target, log);
    order_sums(program, log);
    verify(program);
    expect_near(run_on_samples(program), before, 2e-4);
  }
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
  refused(replace_all(plain, "i2 + r1", "i2 + r1*2"), target, "does not move point by point");
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
