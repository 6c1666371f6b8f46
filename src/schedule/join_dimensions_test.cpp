// Dimensions that a sum joins: text in, text out.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

std::string heads_read_as(const std::string& role, const std::string& outputs) {
  return R"(loops heads
buffer x f32[1, 3, 5, 4] strides [60, 20, 4, 1] input position 0
buffer w f32[12, 8] strides [8, 1] constant named "w"
buffer h f32[1, 3, 5, 4] strides [60, 20, 4, 1] )" +
         role + R"(
buffer y f32[5, 8] strides [8, 1] output position 0
input x = buffer x
)" + outputs +
         R"(output buffer y
init {
}
main {
  kernel heads ops [neg] {
    for i0 in [3] parallel {
      for i1 in [5] parallel {
        for i2 in [4] parallel {
          %0 = load.f32 x[0, i0, i1, i2]
          %1 = neg.f32 %0
          store h[0, i0, i1, i2] = %1
        }
      }
    }
  }
  kernel product ops [linear] {
    for i0 in [5] parallel {
      for i1 in [8] parallel {
        %0 = for r0 in [12] reduce sum.f32 {
          %1 = load.f32 h[0, r0 // 4, i0, r0 % 4]
          %2 = load.f32 w[r0, i1]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)";
}

TEST(JoinDimensions, PutsHeadsBesideOneAnother) {
  LoopProgram program = parsed(heads_read_as("temp", ""));
  Log log;
  ASSERT_TRUE(join_dimensions(program, log));
  verify(program);
  EXPECT_NE(print(program).find("buffer h f32[1, 3, 5, 4] strides [60, 4, 12, 1] temp"), std::string::npos)
      << print(program);
  // What the sum reads is one line of memory.
  const Stmt* load = nullptr;
  const auto& product = std::get<Kernel>(program.block[1].what);
  for_each_stmt(product.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::load && !load) load = &stmt;
  });
  EXPECT_EQ(address_of(*load, program, kernel_ranges(product, program)).text(), "i0*12 + r0");
  EXPECT_FALSE(join_dimensions(program, log));
}

TEST(JoinDimensions, LeavesWhatTheUserSees) {
  LoopProgram program = parsed(heads_read_as("output position 1", "output buffer h\n"));
  Log log;
  EXPECT_FALSE(join_dimensions(program, log));
}

}  // namespace
}  // namespace kiln::loops
