#include <gtest/gtest.h>

#include "base/text.h"
#include "schedule/sample_run_test.h"

namespace kiln::loops {
namespace {

// A picture's mean for each of 32 channels, and two products of it: a squeeze and an excitation.
const std::string excitation = R"(loops excitation
buffer x f32[32, 14, 14] strides [1, 448, 32] input position 0
buffer w f32[8, 32] strides [32, 1] constant named "w"
buffer v f32[32, 8] strides [8, 1] constant named "v"
buffer pooled f32[32, 1] strides [1, 1] temp
buffer few f32[8] strides [1] temp
buffer y f32[32] strides [1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel pool ops [mean] {
    for i0 in [32] parallel {
      %0 = for r0 in [14] reduce sum.f32 {
        %1 = for r1 in [14] reduce sum.f32 {
          %2 = load.f32 x[i0, r0, r1]
          yield %2
        }
        yield %1
      }
      store pooled[i0, 0] = %0
    }
    name %0 = mean[i0, 0]
  }
  kernel squeeze ops [linear, relu] {
    for i0 in [8] parallel {
      %0 = for r0 in [32] reduce sum.f32 {
        %1 = load.f32 pooled[r0, 0]
        %2 = load.f32 w[i0, r0]
        %3 = mul.f32 %1, %2
        yield %3
      }
      %4 = constant.f32 0.0
      %5 = max.f32 %0, %4
      store few[i0] = %5
    }
    name %5 = relu[i0]
  }
  kernel excite ops [linear] {
    for i0 in [32] parallel {
      %0 = for r0 in [8] reduce sum.f32 {
        %1 = load.f32 few[r0]
        %2 = load.f32 v[i0, r0]
        %3 = mul.f32 %1, %2
        yield %3
      }
      store y[i0] = %0
    }
    name %0 = linear_1[i0]
  }
}
)";

class ChainKernels : public testing::Test {
 protected:
  std::string scheduled(const std::string& text) {
    program_ = parse_loops(text);
    collapse_loops(program_, target_, log_);
    bind_axes(program_, target_, log_);
    use_scratch(program_, target_, log_);
    widen_sums(program_, log_);
    order_sums(program_, log_);
    count_items(program_, log_);
    changed_ = chain_kernels(program_, target_, log_);
    verify(program_);
    return print(program_);
  }
  Target target_;
  LoopProgram program_;
  Log log_;
  bool changed_ = false;
};

TEST_F(ChainKernels, WhatOneThreadRunsAnywayIsOneKernel) {
  const std::string text = scheduled(excitation);
  EXPECT_TRUE(changed_);
  ASSERT_EQ(program_.block.size(), 1U) << text;
  const auto& kernel = std::get<Kernel>(program_.block[0].what);
  EXPECT_EQ(kernel.op_names, (std::vector<std::string>{"mean", "linear", "relu", "linear"}));
  EXPECT_EQ(kernel.body.size(), 3U) << text;
  EXPECT_TEXT(text, "buffer pooled f32[32, 1] strides [1, 1] scratch");
  EXPECT_TEXT(text, "buffer few f32[8] strides [1] scratch");
  EXPECT_TEXT(text, "schedule items [1] grain 1");
  // Values of the graph are where they were.
  for (const char* name : {"= mean[", "= relu[", "= linear_1["}) EXPECT_TEXT(text, name);
  EXPECT_EQ(print(parse_loops(text)), text);
  expect_near(run_on_samples(program_), run_on_samples(parse_loops(excitation)), 1e-2);
}

TEST_F(ChainKernels, WhatOthersReadStaysABuffer) {
  const std::string seen =
      replace_all(excitation, "buffer few f32[8] strides [1] temp", "buffer few f32[8] strides [1] output position 1");
  const std::string text = scheduled(replace_all(seen, "output buffer y\n", "output buffer y\noutput buffer few\n"));
  EXPECT_EQ(program_.block.size(), 2U) << text;
  EXPECT_TEXT(text, "buffer pooled f32[32, 1] strides [1, 1] scratch");
}

TEST_F(ChainKernels, WorkForSeveralThreadsStaysApart) {
  const std::string text = scheduled(replace_all(replace_all(excitation, "[14]", "[140]"), "14, 14", "140, 140"));
  EXPECT_EQ(program_.block.size(), 2U) << text;
  EXPECT_TEXT(text, "buffer pooled f32[32, 1] strides [1, 1] temp");
  EXPECT_TEXT(text, "for o0 in [2] parallel @item {");  // the pool has an item for each vector of channels
  EXPECT_TEXT(text, "buffer few f32[8] strides [1] scratch");
  // Nothing is known of how much there is.
  const std::string sized = replace_all(replace_all(excitation, "w f32[8, 32]", "w f32[s0, 32]"), "in [8]", "in [s0]");
  const std::string dynamic =
      scheduled(replace_all(replace_all(replace_all(sized, "few f32[8]", "few f32[s0]"), "v f32[32, 8] strides [8, 1]",
                                        "v f32[32, s0] strides [s0, 1]"),
                            "loops excitation\n", "loops excitation\nsymbol s0 in [2, inf]\n"));
  EXPECT_EQ(program_.block.size(), 3U) << dynamic;
}

// Each line of the second kernel fills the same scratch.
TEST_F(ChainKernels, ItemsThatShareScratchFollowOneAnother) {
  const std::string lines = R"(loops lines
buffer x f32[2, 24] strides [24, 1] input position 0
buffer doubled f32[2, 24] strides [24, 1] temp
buffer rest f32[2, 24] strides [24, 1] temp
buffer y f32[2, 5] strides [5, 1] output position 0
buffer second f32[2] strides [1] output position 1
input x = buffer x
output buffer y
output buffer second
init {
}
main {
  kernel double ops [mul] {
    for i0 in [2] parallel {
      for i1 in [24] parallel {
        %0 = load.f32 x[i0, i1]
        %1 = load.f32 x[i0, 0]
        %2 = add.f32 %0, %1
        store doubled[i0, i1] = %2
      }
      %3 = load.f32 x[i0, 1]
      store second[i0] = %3
    }
  }
  kernel windows ops [sub, sum] {
    for i0 in [2] parallel {
      for i1 in [24] parallel {
        %0 = load.f32 doubled[i0, i1]
        %1 = load.f32 doubled[i0, 0]
        %2 = sub.f32 %0, %1
        store rest[i0, i1] = %2
      }
      for i2 in [5] parallel {
        %3 = for r0 in [4] reduce sum.f32 {
          %4 = load.f32 rest[i0, i2*4 + r0]
          yield %4
        }
        store y[i0, i2] = %3
      }
    }
  }
}
)";
  const std::string text = scheduled(lines);
  EXPECT_EQ(program_.block.size(), 1U) << text;
  EXPECT_TEXT(text, "buffer rest f32[24] strides [1] scratch");
  EXPECT_TEXT(text, "in [2] parallel @serial {");
  EXPECT_EQ(print(parse_loops(text)), text);
  expect_near(run_on_samples(program_), run_on_samples(parse_loops(lines)), 1e-6);
}

TEST_F(ChainKernels, AGPUsKernelsStayApart) {
  scheduled(excitation);
  LoopProgram program = parse_loops(excitation);
  EXPECT_FALSE(chain_kernels(program, an_h200(), log_));
}

}  // namespace
}  // namespace kiln::loops
