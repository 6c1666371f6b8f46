#include <gtest/gtest.h>

#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

Target gpu_target() {
  Target target;
  target.name = "sm_90a", target.lanes = 1, target.device = DeviceType::cuda;
  target.multiprocessors = 132, target.shared_memory = 227 << 10;
  return target;
}

std::string bound_for_gpu(const std::string& sizes, const std::string& body) {
  LoopProgram program = parse_loops(str(R"(loops bound
buffer x f32[)",
                                        sizes, R"(] strides [4096, 1] input position 0
buffer y f32[)",
                                        sizes, R"(] strides [4096, 1] output position 0
buffer z f32[1] strides [1] output position 1
input x = buffer x
output buffer y
output buffer z
main {
  kernel k {
)",
                                        body, R"(
  }
}
)"));
  Log log;
  bind_axes(program, gpu_target(), log);
  count_items(program, log);
  verify(program);
  const std::string text = print(program);
  EXPECT_EQ(print(parse_loops(text)), text);
  return text;
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(BindThreads, PointwiseIsAThreadForEachElement) {
  const std::string text = bound_for_gpu("4096, 4096", R"(for i0 in [4096] parallel {
for i1 in [4096] parallel {
%0 = load.f32 x[i0, i1]
store y[i0, i1] = %0
}
})");
  expect_part(text, "items [16777216] grain");
  expect_part(text, "threads 256 team 1");
  expect_part(text, "for i1 in [4096] parallel @item {");
}

TEST(BindThreads, RowsAreTeams) {
  const char* const row = R"(%0 = for r0 in [$N] reduce max.f32 {
%1 = load.f32 x[i0, r0]
yield %1
}
for i1 in [$N] parallel {
%2 = load.f32 x[i0, i1]
%3 = sub.f32 %2, %0
store y[i0, i1] = %3
}
})";
  auto of_length = [&](const char* length) {
    return bound_for_gpu("4096, 4096", "for i0 in [4096] parallel {\n" + replace_all(row, "$N", length));
  };
  expect_part(of_length("512"), "threads 128 team 32");
  expect_part(of_length("512"), "reduce max.f32 @lane(32, mask)");
  expect_part(of_length("4096"), "threads 1024 team 1024");
  expect_part(of_length("4"), "team 1");
}

TEST(BindThreads, SumsDownAColumnReadNeighbours) {
  const std::string text = bound_for_gpu("4096, 4096", R"(for i0 in [4096] parallel {
for i1 in [4096] parallel {
%0 = for r0 in [4096] reduce sum.f32 {
%1 = load.f32 x[r0, i1]
yield %1
}
store y[i0, i1] = %0
}
})");
  expect_part(text, "threads 256 team 1");
}

TEST(BindThreads, OneLongSumIsABlock) {
  const std::string text = bound_for_gpu("4096, 4096", R"(%0 = for r0 in [4096] reduce sum.f32 {
%1 = load.f32 x[0, r0]
yield %1
}
store z[0] = %0)");
  expect_part(text, "items [1]");
  expect_part(text, "threads 1024 team 1024");
}

}  // namespace
}  // namespace kiln::loops
