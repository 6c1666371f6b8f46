#include <gtest/gtest.h>

#include "schedule/sample_run_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

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
  bind_axes(program, an_h200(), log);
  count_items(program, log);
  verify(program);
  const std::string text = print(program);
  EXPECT_EQ(print(parse_loops(text)), text);
  return text;
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(BindThreads, PointwiseIsAThreadForEachWord) {
  const std::string text = bound_for_gpu("4096, 4096", R"(for i0 in [4096] parallel {
for i1 in [4096] parallel {
%0 = load.f32 x[i0, i1]
store y[i0, i1] = %0
}
})");
  expect_part(text, "items [4194304] grain");
  expect_part(text, "threads 256 team 1 vector 4");
  expect_part(text, "for i1 in [4096] parallel @item(4, mask) {");
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
  expect_part(of_length("512"), "threads 128 team 32 vector 4 hold 4");
  expect_part(of_length("512"), "reduce max.f32 @lane(128, mask)");
  expect_part(of_length("4096"), "threads 256 team 256 vector 4 hold 4");
  expect_part(of_length("4"), "team 1");
  // What two loops read comes once.
  expect_part(of_length("512"), "buffer x_row f32[512] strides [1] scratch");
  expect_part(of_length("512"), "store x_row[h0] = ");
  // A length that no word divides.
  expect_part(of_length("511"), "threads 64 team 64 hold 8");
}

// A row that one loop writes and others read is the threads' own, unless somebody else sees it.
TEST(BindThreads, RowsInBetweenAreHeld) {
  const auto text_with = [](const char* role) {
    LoopProgram program = parse_loops(str(R"(loops held
buffer x bf16[4096, 1024] strides [1024, 1] input position 0
buffer t f32[4096, 1024] strides [1024, 1] )",
                                          role, R"(
buffer y bf16[4096, 1024] strides [1024, 1] output position 0
input x = buffer x
output buffer y
main {
  kernel k {
    for i0 in [4096] parallel {
      for i1 in [1024] parallel {
        %0 = load.bf16 x[i0, i1]
        %1 = cast.f32 %0
        %2 = exp.f32 %1
        store t[i0, i1] = %2
      }
      %3 = for r0 in [1024] reduce sum.f32 {
        %4 = load.f32 t[i0, r0]
        yield %4
      }
      for i2 in [1024] parallel {
        %5 = load.f32 t[i0, i2]
        %6 = div.f32 %5, %3
        %7 = cast.bf16 %6
        store y[i0, i2] = %7
      }
    }
  }
}
)"));
    Log log;
    bind_axes(program, an_h200(), log);
    count_items(program, log);
    verify(program);
    const std::string text = print(program);
    EXPECT_EQ(print(parse_loops(text)), text);
    return text;
  };
  expect_part(text_with("temp"), "store t_row[i1] = %2");
  expect_part(text_with("temp"), "vector 8 hold 4");
  EXPECT_EQ(text_with("output position 1\noutput buffer t").find("t_row"), std::string::npos);
}

TEST(SplitReductions, ALongSumOfOneItemBecomesPartsAndTheirSum) {
  LoopProgram program = parse_loops(R"(loops sums
buffer x f32[8192, 4096] strides [4096, 1] input position 0
buffer y f32[] strides [] output position 0
buffer z f32[4096] strides [1] output position 1
input x = buffer x
output buffer y
output buffer z
main {
  kernel whole {
    %0 = for r0 in [8192] reduce sum.f32 {
      %1 = for r1 in [4096] reduce sum.f32 {
        %2 = load.f32 x[r0, r1]
        yield %2
      }
      yield %1
    }
    store y[] = %0
  }
  kernel columns {
    for i0 in [4096] parallel {
      %0 = for r0 in [8192] reduce max.f32 {
        %1 = load.f32 x[r0, i0]
        yield %1
      }
      store z[i0] = %0
    }
  }
}
)");
  Log log;
  EXPECT_FALSE(split_reductions(program, Target(), log));
  EXPECT_TRUE(split_reductions(program, an_h200(), log));
  verify(program);
  const std::string text = print(program);
  expect_part(text, "for part in [512] parallel {");
  expect_part(text, "%0 = for p0 in [512] reduce sum.f32 {");
  expect_part(text, "load.f32 x[part*16 + r0 // 4096, r0 % 4096]");
  expect_part(text, "for part in [32] parallel {");
  expect_part(text, "%0 = for p0 in [32] reduce max.f32 {");
  EXPECT_FALSE(split_reductions(program, an_h200(), log)) << "it is split once";
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
  expect_part(text, "threads 1024 team 1024 vector 4 hold 1");
}

}  // namespace
}  // namespace kiln::loops
