// Loops around a window over a picture: text in, text out.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// Three results from windows of 2 points over 16 channels, the loops as an operator writes them.
const char* const colours = R"(loops colours
buffer x f32[16, 9] strides [1, 16] input position 0
buffer w f32[3, 16, 2] strides [32, 2, 1] constant named "w"
buffer y f32[3, 8] strides [8, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel colours ops [convolution] {
    for i0 in [3] parallel {
      for i1 in [8] parallel {
        %0 = for r0 in [16] reduce sum.f32 {
          %1 = for r1 in [2] reduce sum.f32 {
            %2 = load.f32 x[r0, i1 + r1]
            %3 = load.f32 w[i0, r0, r1]
            %4 = mul.f32 %2, %3
            yield %4
          }
          yield %1
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)";

std::string ordered(const std::string& text, const Target& target = {}) {
  LoopProgram program = parsed(text);
  Log log;
  const bool changed = order_columns(program, target, log);
  verify(program);
  EXPECT_EQ(changed, print(program) != print(parsed(text)));
  return print(program);
}

TEST(OrderColumns, WhatOnlyWeightsVaryWithGoesInnermost) {
  EXPECT_NE(ordered(colours).find("    for i1 in [8] parallel {\n      for i0 in [3] parallel {"), std::string::npos);
}

TEST(OrderColumns, LeavesOrderedLoopsAndWhatHasNoWeights) {
  const std::string done = ordered(colours);
  EXPECT_EQ(ordered(done), done);
  const std::string computed = replace_all(replace_all(colours, "constant named \"w\"", "input position 1"),
                                           "input x = buffer x\n", "input x = buffer x\ninput w = buffer w\n");
  EXPECT_EQ(ordered(computed), print(parsed(computed)));
}

TEST(OrderColumns, LeavesGpus) {
  Target gpu;
  gpu.device = DeviceType::cuda;
  EXPECT_EQ(ordered(colours, gpu), print(parsed(colours)));
}

}  // namespace
}  // namespace kiln::loops
