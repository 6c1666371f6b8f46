// What a GPU's schedules make of programs in text, and that these still compute the same: attention as a block of rows,
// temporaries stored narrow and in the order of their reader, tiles that several blocks have together.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// Causal attention: what a row weighs is narrow, its result is narrowed by the reader, who joins heads.
std::string attention_text(const std::string& seen) {
  return str(R"(loops attention
buffer q bf16[2, 20, 24] strides [480, 24, 1] input position 0
buffer k bf16[2, 20, 24] strides [480, 24, 1] input position 1
buffer scores f32[2, 20, 20] strides [400, 20, 1] temp
buffer e f32[2, 20, 20] strides [400, 20, 1] temp
buffer weights f32[2, 20, 20] strides [400, 20, 1] temp
buffer a f32[2, 20, 24] strides [480, 24, 1] temp
buffer y bf16[20, 48] strides [48, 1] output position 0
input q = buffer q
input k = buffer k
output buffer y
init {
}
main {
  kernel scores ops [matmul, softmax] {
    for i0 in [2] parallel {
      for i1 in [20] parallel {
        for i2 in [20] parallel {
          %0 = for r0 in [24] reduce sum.f32 {
            %1 = load.bf16 q[i0, i1, r0]
            %2 = cast.f32 %1
            %3 = load.bf16 k[i0, i2, r0]
            %4 = cast.f32 %3
            %5 = mul.f32 %2, %4
            yield %5
          }
          store scores[i0, i1, i2] = %0
        }
        %6 = for r1 in [20] reduce max.f32 {
          %7 = load.f32 scores[i0, i1, r1]
          %8 = index.i64 [r1]
          %9 = index.i64 [i1]
          %10 = )",
             seen, R"(.bool %8, %9
          %11 = constant.f32 -inf
          %12 = select.f32 %10, %7, %11
          yield %12
        }
        for i3 in [20] parallel {
          %13 = load.f32 scores[i0, i1, i3]
          %14 = index.i64 [i3]
          %15 = index.i64 [i1]
          %16 = )",
             seen, R"(.bool %14, %15
          %17 = constant.f32 -inf
          %18 = select.f32 %16, %13, %17
          %19 = sub.f32 %18, %6
          %20 = exp.f32 %19
          store e[i0, i1, i3] = %20
        }
        %21 = for r2 in [20] reduce sum.f32 {
          %22 = load.f32 e[i0, i1, r2]
          yield %22
        }
        for i4 in [20] parallel {
          %23 = load.f32 e[i0, i1, i4]
          %24 = div.f32 %23, %21
          store weights[i0, i1, i4] = %24
        }
      }
    }
  }
  kernel output ops [matmul] {
    for i0 in [2] parallel {
      for i1 in [20] parallel {
        for i2 in [24] parallel {
          %0 = for r0 in [20] reduce sum.f32 {
            %1 = load.f32 weights[i0, i1, r0]
            %2 = load.bf16 k[i0, r0, i2]
            %3 = cast.f32 %2
            %4 = mul.f32 %1, %3
            yield %4
          }
          store a[i0, i1, i2] = %0
        }
      }
    }
  }
  kernel next ops [reshape, neg] {
    for i0 in [20] parallel {
      for i1 in [48] parallel {
        %0 = load.f32 a[i1 // 24, i0, i1 % 24]
        %1 = cast.bf16 %0
        %2 = cast.f32 %1
        %3 = neg.f32 %2
        store y[i0, i1] = %3
      }
    }
  }
}
)");
}

TEST(GpuSchedule, AttentionIsABlockOfRows) {
  LoopProgram program = parsed(attention_text("le"));
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  refit_temporaries(program, an_h200(), log);
  find_contractions(program, log);
  ASSERT_TRUE(fuse_attention(program, an_h200(), log));
  use_templates(program, an_h200(), log);
  count_items(program, log);
  verify(program);
  const std::string text = print(program);
  EXPECT_EQ(print(parse_loops(text)), text);
  EXPECT_NE(text.find("threads 64 team 64 block 32 rows 32 columns 32 terms each 16 by 32 tensor_cores stages 2 "
                      "left_along_terms left_chunk 8 right_along_terms right_chunk 8 keys 64 value_chunk 8 "
                      "weight_parts 2 causal"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("schedule items [2] "), std::string::npos) << text;  // two heads, one block of rows each
  expect_near(run_on_samples(program), before, 1e-6);
  EXPECT_FALSE(attention_nest(std::get<Kernel>(program.block[0].what)).empty_rows_are_zero);
}

TEST(GpuSchedule, OnlyLaterKeysAreLeftOut) {
  LoopProgram program = parsed(attention_text("ge"));
  Log log;
  find_contractions(program, log);
  ASSERT_TRUE(fuse_attention(program, an_h200(), log));
  EXPECT_EQ(print(program).find("causal"), std::string::npos);
  // A schedule that says so all the same is refused.
  std::get<Kernel>(program.block[0].what).schedule->grid.causal = true;
  EXPECT_ANY_THROW(verify(program));
}

TEST(GpuSchedule, AttentionOfWideNumbersStaysTwoProducts) {
  std::string text = attention_text("le");
  text = replace_all(text, "buffer q bf16", "buffer q f32");
  text = replace_all(text, "%1 = load.bf16 q[i0, i1, r0]\n            %2 = cast.f32 %1", "%2 = load.f32 q[i0, i1, r0]");
  LoopProgram program = parsed(text);
  Log log;
  find_contractions(program, log);
  const size_t buffers = program.buffers.size();
  EXPECT_FALSE(fuse_attention(program, an_h200(), log));
  EXPECT_EQ(program.buffers.size(), buffers);
}

TEST(GpuSchedule, WhatReadersNarrowIsStoredNarrowAndInTheirOrder) {
  LoopProgram program = parsed(attention_text("le"));
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  ASSERT_TRUE(refit_temporaries(program, an_h200(), log));
  verify(program);
  const std::string text = print(program);
  EXPECT_NE(text.find("buffer a_bf16 bf16[2, 20, 24] strides [24, 48, 1] temp"), std::string::npos) << text;
  EXPECT_NE(text.find("%0 = load.bf16 a_bf16[i1 // 24, i0, i1 % 24]\n        %2 = cast.f32 %0"), std::string::npos)
      << text;
  expect_near(run_on_samples(program), before, 0);
  Target cpu;
  EXPECT_FALSE(refit_temporaries(program, cpu, log));
}

// Two products of the same rows, with weights of 16 and 32 columns, and who reads them.
std::string products_text(const std::string& rows_of_second = "x") {
  const auto product = [](const std::string& name, const std::string& x, int columns) {
    return str("  kernel ", name, " ops [linear] {\n    for i0 in [20] parallel {\n      for i1 in [", columns,
               "] parallel {\n        %0 = for r0 in [24] reduce sum.f32 {\n          %1 = load.f32 ", x,
               "[i0, r0]\n          %2 = load.f32 w_", name,
               "[i1, r0]\n          %3 = mul.f32 %1, %2\n          yield %3\n        }\n        %4 = load.f32 b_", name,
               "[i1]\n        %5 = add.f32 %0, %4\n        store ", name, "[i0, i1] = %5\n      }\n    }\n  }\n");
  };
  std::string buffers;
  for (const auto& [name, columns] : {std::pair{"a", 16}, std::pair{"b", 32}})
    buffers += str("buffer w_", name, " f32[", columns, ", 24] strides [24, 1] constant named \"w_", name,
                   "\"\nbuffer b_", name, " f32[", columns, "] strides [1] constant named \"b_", name, "\"\nbuffer ",
                   name, " f32[20, ", columns, "] strides [", columns, ", 1] temp\n");
  return str(
      "loops products\nbuffer x f32[20, 24] strides [24, 1] input position 0\n"
      "buffer z f32[20, 24] strides [24, 1] input position 1\n",
      buffers,
      "buffer y f32[20, 16] strides [16, 1] output position 0\ninput x = buffer x\ninput z = buffer z\n"
      "output buffer y\ninit {\n}\nmain {\n",
      product("a", "x", 16), product("b", rows_of_second, 32),
      "  kernel y ops [mul] {\n    for i0 in [20] parallel {\n      for i1 in [16] parallel {\n        %0 = load.f32 "
      "a[i0, i1]\n        %1 = load.f32 b[i0, i1*2 + 1]\n        %2 = mul.f32 %0, %1\n        store y[i0, i1] = "
      "%2\n      }\n    }\n  }\n}\n");
}

TEST(GpuSchedule, ProductsOfTheSameRowsAreOne) {
  LoopProgram program = parsed(products_text());
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  find_contractions(program, log);
  ASSERT_TRUE(join_products(program, an_h200(), log));
  verify(program);
  const std::string text = print(program);
  EXPECT_EQ(program.block.size(), 2u) << text;
  EXPECT_NE(text.find("buffer a_joined f32[20, 48] strides [48, 1] temp"), std::string::npos) << text;
  EXPECT_NE(text.find("load.f32 a_joined[i0, i1*2 + 17]"), std::string::npos) << text;
  expect_near(run_on_samples(program), before, 0);
}

// The same of a single row, which is no contraction.
TEST(GpuSchedule, ProductsOfOneRowAreOne) {
  std::string text = products_text();
  text = replace_all(text, "    for i0 in [20] parallel {\n      for i1", "      for i1");
  text = replace_all(text, "      }\n    }\n  }\n", "      }\n  }\n");
  text = replace_all(text, "[i0, ", "[0, ");
  text = replace_all(text, "[20, ", "[1, ");
  text = replace_all(text, "24", "128");
  LoopProgram program = parsed(text);
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  find_contractions(program, log);
  ASSERT_TRUE(join_products(program, an_h200(), log));
  verify(program);
  EXPECT_EQ(program.block.size(), 2u) << print(program);
  EXPECT_NE(print(program).find("for i1 in [48] parallel"), std::string::npos) << print(program);
  expect_near(run_on_samples(program), before, 0);
}

// Heads that lie as rows already.
TEST(GpuSchedule, ACopyToTheSamePlacesIsNone) {
  LoopProgram program = parsed(R"(loops copied
buffer x f32[4, 8] strides [8, 1] input position 0
buffer a f32[4, 8] strides [8, 1] temp
buffer b f32[1, 32] strides [32, 1] temp
buffer y f32[32] strides [1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel a ops [neg] {
    for i0 in [4] parallel {
      for i1 in [8] parallel {
        %0 = load.f32 x[i0, i1]
        %1 = neg.f32 %0
        store a[i0, i1] = %1
      }
    }
  }
  kernel b ops [reshape] {
    for i0 in [32] parallel {
      %0 = load.f32 a[i0 // 8, i0 % 8]
      store b[0, i0] = %0
    }
  }
  kernel y ops [flip] {
    for i0 in [32] parallel {
      %0 = load.f32 b[0, -i0 + 31]
      store y[i0] = %0
    }
  }
}
)");
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  ASSERT_TRUE(refit_temporaries(program, an_h200(), log));
  verify(program);
  EXPECT_EQ(program.block.size(), 2u) << print(program);
  EXPECT_NE(print(program).find("store b[0, i0*8 + i1] = %1"), std::string::npos) << print(program);
  expect_near(run_on_samples(program), before, 0);
}

TEST(GpuSchedule, ProductsOfOtherRowsAreNot) {
  LoopProgram program = parsed(products_text("z"));
  Log log;
  find_contractions(program, log);
  EXPECT_FALSE(join_products(program, an_h200(), log));
}

// An edge is copied for which there must be something: the host asks for it before the copy is launched.
TEST(GpuSchedule, WhatIsAskedOfSizesTheHostAsserts) {
  const std::string text = R"(loops edge
symbol s0 in [0, 64] hint 5
buffer x f32[s0] strides [1] input position 0
buffer y f32[s0 + 1] strides [1] output position 0
input x = buffer x
output buffer y
site "there must be an edge" origin 0
init {
}
main {
  kernel asked ops [pad] from [0] {
    %0 = index.i64 [1]
    %1 = index.i64 [s0]
    %2 = lt.bool %1, %0
    raise_if %2 site 0
  }
  kernel edge ops [pad] from [0] {
    for i0 in [s0 + 1] parallel {
      %0 = load.f32 x[min(s0 - 1, i0)]
      store y[i0] = %0
    }
  }
}
origin 0 node "pad" op "aten.pad.default" module ""
)";
  LoopProgram program = parsed(text);
  Log log;
  Target cpu;
  EXPECT_FALSE(assert_sizes(program, cpu, log)) << "a CPU's kernels come one after the other";
  ASSERT_TRUE(assert_sizes(program, an_h200(), log));
  verify(program);
  EXPECT_NE(main_of(program).find("  assert [1 <= s0] \"there must be an edge\" from [0]\n  kernel edge"),
            std::string::npos)
      << main_of(program);
  EXPECT_EQ(main_of(program).find("raise_if"), std::string::npos);
  // What is asked of values stays where the values are.
  std::string of_values = replace_all(text, "%1 = index.i64 [s0]\n    %2 = lt.bool %1, %0",
                                      "%1 = load.f32 x[0]\n    %3 = cast.i64 %1\n    %2 = lt.bool %3, %0");
  LoopProgram other = parsed(of_values);
  EXPECT_FALSE(assert_sizes(other, an_h200(), log));
}

}  // namespace
}  // namespace kiln::loops
