#include <gtest/gtest.h>

#include "base/text.h"
#include "schedule/sample_run_test.h"

namespace kiln::loops {
namespace {

// Two stages for each of 200 lines, with what passes between them.
const std::string stages = R"(loops stages
buffer x f32[200, 4, 16] strides [64, 16, 1] input position 0
buffer part f32[200, 16, 4] strides [64, 4, 1] temp
buffer y f32[200, 16] strides [16, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel lines ops [stages] {
    for i0 in [200] parallel {
      for i1 in [16] parallel {
        %0 = load.f32 x[i0, 0, i1]
        %1 = load.f32 x[i0, 1, i1]
        %2 = load.f32 x[i0, 2, i1]
        %3 = load.f32 x[i0, 3, i1]
        store part[i0, i1, 0] = %0
        store part[i0, i1, 1] = %1
        store part[i0, i1, 2] = %2
        store part[i0, i1, 3] = %3
      }
      for i2 in [16] parallel {
        %4 = load.f32 part[i0, i2, 3]
        %5 = load.f32 part[i0, 15, 0]
        %6 = mul.f32 %4, %5
        store y[i0, i2] = %6
      }
    }
  }
}
)";

class UseScratch : public testing::Test {
 protected:
  bool run(const std::string& text) {
    program_ = parse_loops(text);
    collapse_loops(program_, target_, log_);
    bind_axes(program_, target_, log_);
    const bool changed = use_scratch(program_, target_, log_);
    verify(program_);
    return changed;
  }
  std::string part() const {
    for (const Buffer& buffer : program_.buffers)
      if (buffer.name == "part")
        return str(buffer.role == BufferRole::scratch ? "scratch" : "temp",
                   join_map(buffer.sizes, "", [](const Expr& size) { return " " + size.text(); }));
    return "";
  }
  LoopProgram program_;
  Log log_;
  Target target_ = of_eight_lanes();
};

TEST_F(UseScratch, WhatPassesBetweenTheStagesOfALineHasThePlaceOfOneLine) {
  const std::vector<Datum> before = run_on_samples(parse_loops(stages));
  ASSERT_TRUE(run(stages));
  EXPECT_EQ(part(), "scratch 16 4");
  expect_near(run_on_samples(program_), before, 0);
}

TEST_F(UseScratch, WhatOthersReadStaysATemporary) {
  std::string text = stages;
  const size_t end = text.rfind("}\n");
  text.insert(end, R"(  kernel more ops [copy] {
    for i0 in [200] parallel {
      %0 = load.f32 part[i0, 1, 1]
      store y[i0, 1] = %0
    }
  }
)");
  EXPECT_FALSE(run(text));
}

TEST_F(UseScratch, AnotherLinesPartStaysATemporary) {
  std::string text = stages;
  const size_t at = text.find("part[i0, 15, 0]");
  text.replace(at, 15, "part[199, 15, 0]");
  EXPECT_FALSE(run(text));
}

TEST_F(UseScratch, AValueOfTheGraphStaysATemporary) {
  std::string text = stages;
  text.insert(text.rfind("  }\n}"), "    name %0 = part[i0, i1, 0]\n");
  EXPECT_FALSE(run(text));
}

}  // namespace
}  // namespace kiln::loops
