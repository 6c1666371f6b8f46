// Two products around a softmax, and the kernel over blocks of rows that they become: text in, text out.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

const char* const two_products = R"(loops attention
buffer q f32[24, 4] strides [4, 1] input position 0
buffer k f32[10, 4] strides [4, 1] input position 1
buffer v f32[10, 8] strides [8, 1] input position 2
buffer scores f32[24, 10] strides [10, 1] temp
buffer e f32[24, 10] strides [10, 1] temp
buffer weights f32[24, 10] strides [10, 1] temp
buffer y f32[24, 8] strides [8, 1] output position 0
input q = buffer q
input k = buffer k
input v = buffer v
output buffer y
init {
}
main {
  kernel scores ops [matmul, softmax] {
    for i0 in [24] parallel {
      for i1 in [10] parallel {
        %0 = for r0 in [4] reduce sum.f32 {
          %1 = load.f32 q[i0, r0]
          %2 = load.f32 k[i1, r0]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store scores[i0, i1] = %0
      }
      %4 = for r1 in [10] reduce max.f32 {
        %5 = load.f32 scores[i0, r1]
        %6 = constant.f32 0.5
        %7 = mul.f32 %5, %6
        yield %7
      }
      for i2 in [10] parallel {
        %8 = load.f32 scores[i0, i2]
        %9 = constant.f32 0.5
        %10 = mul.f32 %8, %9
        %11 = sub.f32 %10, %4
        %12 = exp.f32 %11
        store e[i0, i2] = %12
      }
      %13 = for r2 in [10] reduce sum.f32 {
        %14 = load.f32 e[i0, r2]
        yield %14
      }
      for i3 in [10] parallel {
        %15 = load.f32 e[i0, i3]
        %16 = div.f32 %15, %13
        store weights[i0, i3] = %16
      }
    }
  }
  kernel output ops [matmul] {
    for i0 in [24] parallel {
      for i1 in [8] parallel {
        %0 = for r0 in [10] reduce sum.f32 {
          %1 = load.f32 weights[i0, r0]
          %2 = load.f32 v[r0, i1]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)";

Target of_eight_lanes() {
  Target target;
  target.name = "x86-64-v3";
  target.lanes = 8;
  target.vector_registers = 16;
  return target;
}

TEST(FuseAttention, MakesOneKernelOverBlocksOfRows) {
  LoopProgram program = parsed(two_products);
  Log log;
  find_contractions(program, log);
  ASSERT_TRUE(fuse_attention(program, of_eight_lanes(), log));
  verify(program);
  EXPECT_EQ(main_of(program), R"(main {
  kernel scores ops [matmul, softmax, matmul] {
    schedule items [1] grain 1 lanes 8
    for o0 in [1] parallel @item {
      for i4 in [24] parallel {
        for i5 in [4] parallel @lane(8, mask) {
          %0 = load.f32 q[i4 + o0*24, i5]
          store weights_rows[i5, i4] = %0
        }
      }
      for i6 in [10] parallel @unroll(4, mask) {
        for i7 in [24] parallel @lane(24, exact) {
          %4 = for r3 in [4] reduce sum.f32 {
            %1 = load.f32 weights_rows[r3, i7]
            %2 = load.f32 k[i6, r3]
            %3 = mul.f32 %1, %2
            yield %3
          }
          %5 = constant.f32 0.5
          %6 = mul.f32 %4, %5
          store weights_block[i6, i7] = %6
        }
      }
      for i9 in [24] parallel @lane(16, mask) {
        %8 = for r4 in [10] reduce max.f32 {
          %7 = load.f32 weights_block[r4, i9]
          yield %7
        }
        %9 = constant.f32 -87.0
        %10 = constant.f32 -inf
        %16 = for r5 in [10] reduce sum.f32 {
          %11 = load.f32 weights_block[r5, i9]
          %12 = sub.f32 %11, %8
          %13 = lt.bool %12, %9
          %14 = select.f32 %13, %10, %12
          %15 = exp.f32 %14
          store weights_block[r5, i9] = %15
          yield %15
        }
        %17 = constant.f32 1.0
        %18 = div.f32 %17, %16
        store weights_shares[i9] = %18
      }
      for i10 in [24] parallel @unroll(12, exact) {
        for i11 in [8] parallel @lane(8, exact) {
          %22 = for r6 in [10] reduce sum.f32 {
            %19 = load.f32 weights_block[r6, i10]
            %20 = load.f32 v[r6, i11]
            %21 = mul.f32 %19, %20
            yield %21
          }
          %23 = load.f32 weights_shares[i10]
          %24 = mul.f32 %22, %23
          store y[i10 + o0*24, i11] = %24
        }
      }
    }
  }
}
)");
}

// So many keys that they and their values do not stay at hand for a block's rows.
TEST(FuseAttention, TakesManyKeysInChunks) {
  const std::string text = replace_all(replace_all(two_products, "[10", "[4000"), ", 10]", ", 4000]");
  LoopProgram program =
      parsed(replace_all(replace_all(text, "[10,", "[4000,"), "strides [10, 1]", "strides [4000, 1]"));
  Log log;
  find_contractions(program, log);
  ASSERT_TRUE(fuse_attention(program, of_eight_lanes(), log));
  verify(program);
  const std::string made = main_of(program);
  EXPECT_NE(made.find(R"(      for i10 in [24] parallel {
        for i11 in [8] parallel @lane(8, exact) {
          %19 = constant.f32 0.0
          store weights_sums[i10, i11] = %19
        }
      }
      for c0 in [80] parallel @serial {
        for i12 in [24] parallel @unroll(12, exact) {
          for i13 in [8] parallel @lane(8, exact) {
            %23 = for r6 in [50] reduce sum.f32 {
              %20 = load.f32 weights_block[c0*50 + r6, i12]
              %21 = load.f32 v[c0*50 + r6, i13]
              %22 = mul.f32 %20, %21
              yield %22
            }
            %24 = load.f32 weights_sums[i12, i13]
            %25 = add.f32 %24, %23
            store weights_sums[i12, i13] = %25
          }
        }
      }
      for i14 in [24] parallel {
        for i15 in [8] parallel @lane(8, exact) {
          %26 = load.f32 weights_sums[i14, i15]
          %27 = load.f32 weights_shares[i14]
          %28 = mul.f32 %26, %27
          store y[i14 + o0*24, i15] = %28
        }
      }
)"),
            std::string::npos)
      << made;
}

// A bias that is a weight lies with the rows beside one another, of which there are more than exist.
TEST(FuseAttention, PacksWeightsThatAreAddedToTheScores) {
  std::string text = replace_all(two_products, "buffer scores ",
                                 "buffer bias f32[23, 10] strides [10, 1] constant named \"bias\"\nbuffer scores ");
  text = replace_all(text, "        store scores[i0, i1] = %0\n",
                     "        %17 = load.f32 bias[i0, i1]\n        %18 = add.f32 %0, %17\n"
                     "        store scores[i0, i1] = %18\n");
  LoopProgram program = parsed(replace_all(text, "[24", "[23"));
  Log log;
  find_contractions(program, log);
  ASSERT_TRUE(fuse_attention(program, of_eight_lanes(), log));
  verify(program);
  const std::string made = print(program);
  EXPECT_NE(made.find("buffer bias_by_rows f32[10, 24] strides [24, 1] derived"), std::string::npos) << made;
  EXPECT_NE(made.find(R"(    for i0 in [10] parallel {
      for i1 in [24] parallel {
        %1 = index.i64 [i1]
        %2 = index.i64 [23]
        %3 = lt.bool %1, %2
        %0 = load.f32 bias[i1, i0] mask %3
        store bias_by_rows[i0, i1] = %0
      }
    }
)"),
            std::string::npos)
      << made;
  EXPECT_NE(main_of(program).find("load.f32 bias_by_rows[i6, i7 + o0*24]"), std::string::npos) << main_of(program);
}

TEST(FuseAttention, LeavesScalarCodeAndGpusAlone) {
  for (const bool gpu : {false, true}) {
    LoopProgram program = parsed(two_products);
    Log log;
    find_contractions(program, log);
    Target target;
    target.lanes = 1;
    if (gpu) target.device = DeviceType::cuda;
    const std::string before = print(program);
    EXPECT_FALSE(fuse_attention(program, target, log));
    EXPECT_EQ(print(program), before);
  }
}

TEST(FuseAttention, KeepsWeightsThatOthersRead) {
  // A third kernel copies the weights out.
  std::string text = replace_all(two_products, "buffer y f32[24, 8] strides [8, 1] output position 0\n",
                                 "buffer y f32[24, 8] strides [8, 1] output position 0\n"
                                 "buffer w f32[24, 10] strides [10, 1] output position 1\n");
  text = replace_all(text, "output buffer y\n", "output buffer y\noutput buffer w\n");
  text.insert(text.rfind("}\n"), R"(  kernel copy ops [copy] {
    for i0 in [24] parallel {
      for i1 in [10] parallel {
        %0 = load.f32 weights[i0, i1]
        store w[i0, i1] = %0
      }
    }
  }
)");
  LoopProgram program = parsed(text);
  Log log;
  find_contractions(program, log);
  EXPECT_FALSE(fuse_attention(program, of_eight_lanes(), log));
  EXPECT_NE(log.decisions().back().text().find("weights is needed by others"), std::string::npos)
      << log.decisions().back().text();
}

}  // namespace
}  // namespace kiln::loops
