#include "codegen/cpu/kernel_printer.h"

#include <gtest/gtest.h>

#include "codegen/backend.h"

namespace kiln::codegen {
namespace {

// y[i] = sum over k of w[i, k] * s[i, k // group]: a weight with one scale for each group of columns.
std::string printed(int64_t group, const std::string& index = "") {
  const std::string where = index.empty() ? str("r0 // ", group) : index;
  loops::LoopProgram program = loops::parse_loops(str(R"(loops groups
buffer w f32[8, 128] strides [128, 1] input position 0
buffer s f32[8, 128] strides [128, 1] input position 1
buffer y f32[8] strides [1] output position 0
input w = buffer w
input s = buffer s
output buffer y
init {
}
main {
  kernel groups ops [mv] {
    schedule items [8] grain 1 lanes 16
    for i0 in [8] parallel @item {
      %0 = for r0 in [128] reduce sum.f32 @lane(16, exact) {
        %1 = load.f32 w[i0, r0]
        %2 = load.f32 s[i0, )",
                                                      where, R"(]
        %3 = mul.f32 %1, %2
        yield %3
      }
      store y[i0] = %0
    }
  }
}
)"));
  const GeneratedCode code = cpu_backend().generate(program, cpu_backend().target("x86-64-v4"));
  return join(code.texts, "\n");
}

TEST(KernelPrinter, AQuotientThatAllLanesShareIsOneLoad) {
  for (int64_t group : {16, 32, 64}) {
    const std::string text = printed(group);
    EXPECT_EQ(text.find("k_gather"), std::string::npos) << text;
    EXPECT_NE(text.find("k_get_f32"), std::string::npos) << text;
  }
  // Groups that end inside a vector, or that the lanes do not begin with.
  for (int64_t group : {8, 24}) EXPECT_NE(printed(group).find("k_gather"), std::string::npos) << group;
  EXPECT_NE(printed(0, "(r0 + 8) // 32").find("k_gather"), std::string::npos);
  EXPECT_EQ(printed(0, "(r0 + 48) // 32").find("k_gather"), std::string::npos);
}

TEST(KernelPrinter, ARemainderThatCountsUpInTheLanesIsOneVector) {
  const std::string text = printed(0, "r0 % 32");
  EXPECT_EQ(text.find("k_gather"), std::string::npos) << text;
  EXPECT_NE(printed(0, "r0 % 24").find("k_gather"), std::string::npos);
  EXPECT_NE(printed(0, "(r0 // 32) * 3 + r0 % 8").find("k_gather"), std::string::npos);
}

}  // namespace
}  // namespace kiln::codegen
