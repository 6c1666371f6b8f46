// Two products around a softmax, and the kernel over blocks of rows that they become: text in, text out.
#include <gtest/gtest.h>

#include <regex>

#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"
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
      for i4 in [24] parallel @unroll(8, exact) {
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
        %9 = constant.f32 3.0
        %10 = add.f32 %8, %9
        %14 = for r5 in [10] reduce sum.f32 {
          %11 = load.f32 weights_block[r5, i9]
          %12 = sub.f32 %11, %10
          %13 = exp_or_zero.f32 %12
          store weights_block[r5, i9] = %13
          yield %13
        }
        %15 = constant.f32 1.0
        %16 = div.f32 %15, %14
        store weights_shares[i9] = %16
      }
      for i10 in [24] parallel @unroll(12, exact) {
        for i11 in [8] parallel @lane(8, exact) {
          %20 = for r6 in [10] reduce sum.f32 {
            %17 = load.f32 weights_block[r6, i10]
            %18 = load.f32 v[r6, i11]
            %19 = mul.f32 %17, %18
            yield %19
          }
          %21 = load.f32 weights_shares[i10]
          %22 = mul.f32 %20, %21
          store y[i10 + o0*24, i11] = %22
        }
      }
    }
  }
}
)");
}

// merge_kernels leaves rows of many keys apart from the product.
std::string with_rows_apart() {
  return std::regex_replace(std::string(two_products), std::regex("\\n      %4 = for r1 "),
                            R"(
    }
  }
  kernel rows ops [softmax] {
    for i0 in [24] parallel {
      %4 = for r1 )");
}

TEST(FuseAttention, TakesRowsThatStandApartFromTheirProduct) {
  LoopProgram whole = parsed(two_products), apart = parsed(with_rows_apart());
  Log log;
  for (LoopProgram* program : {&whole, &apart}) {
    find_contractions(*program, log);
    ASSERT_TRUE(fuse_attention(*program, of_eight_lanes(), log));
    verify(*program);
  }
  // Of both kernels the operators, of a loop the first free name.
  const std::string named = std::regex_replace(main_of(apart), std::regex("softmax, softmax"), "softmax");
  EXPECT_EQ(std::regex_replace(named, std::regex("\\bi2\\b"), "i4"), main_of(whole));
}

TEST(FuseAttention, LeavesRowsApartThatAreNoSoftmax) {
  std::string text = with_rows_apart();
  text = std::regex_replace(text, std::regex("%12 = exp.f32"), "%12 = sin.f32");
  LoopProgram program = parsed(text);
  Log log;
  find_contractions(program, log);
  const std::string before = main_of(program);
  EXPECT_FALSE(fuse_attention(program, of_eight_lanes(), log));
  EXPECT_EQ(main_of(program), before);
}

// Somebody between the two writes what the product reads.
TEST(FuseAttention, LeavesRowsApartWhereTheProductCannotMoveToThem) {
  const std::string text = std::regex_replace(with_rows_apart(), std::regex("position 1"), "position 1 mutated");
  LoopProgram program = parsed(std::regex_replace(text, std::regex("  kernel rows "), R"(  kernel change ops [add_] {
    for i0 in [10] parallel {
      for i1 in [4] parallel {
        %0 = constant.f32 1.0
        store k[i0, i1] = %0
      }
    }
  }
  kernel rows )"));
  Log log;
  find_contractions(program, log);
  EXPECT_FALSE(fuse_attention(program, of_eight_lanes(), log));
}

// So many keys that they and their values do not stay at hand for a block's rows: what is summed up of some is scaled
// down where the next have a higher score.
TEST(FuseAttention, TakesManyKeysInParts) {
  const std::string text = replace_all(replace_all(two_products, "[10", "[4000"), ", 10]", ", 4000]");
  LoopProgram program =
      parsed(replace_all(replace_all(text, "[10,", "[4000,"), "strides [10, 1]", "strides [4000, 1]"));
  Log log;
  find_contractions(program, log);
  ASSERT_TRUE(fuse_attention(program, of_eight_lanes(), log));
  verify(program);
  const std::string made = main_of(program);
  EXPECT_NE(made.find(R"(      for i6 in [8] parallel @lane(8, exact) {
        %1 = constant.f32 -inf
        store weights_tops[i6] = %1
        %2 = constant.f32 0.0
        store weights_shares[i6] = %2
      }
      for i7 in [8] parallel {
        for i9 in [8] parallel @lane(8, exact) {
          %3 = constant.f32 0.0
          store weights_sums[i7, i9] = %3
        }
      }
      for c0 in [16] parallel @serial {
        for i10 in [250] parallel @unroll(13, mask) {
          for i11 in [8] parallel @lane(8, exact) {
            %7 = for r3 in [4] reduce sum.f32 {
              %4 = load.f32 weights_rows[r3, i11]
              %5 = load.f32 k[c0*250 + i10, r3]
              %6 = mul.f32 %4, %5
              yield %6
            }
            %8 = constant.f32 0.5
            %9 = mul.f32 %7, %8
            store weights_block[i10, i11] = %9
          }
        }
        for i12 in [8] parallel @lane(8, exact) {
          %10 = load.f32 weights_tops[i12]
          %12 = for r4 in [250] reduce max.f32 {
            %11 = load.f32 weights_block[r4, i12]
            yield %11
          }
          %13 = constant.f32 9.0
          %14 = add.f32 %12, %13
          %15 = max.f32 %10, %14
          %16 = constant.f32 -inf
          %17 = eq.bool %15, %16
          %18 = constant.f32 0.0
          %19 = select.f32 %17, %18, %15
          %20 = sub.f32 %10, %19
          %21 = exp_or_zero.f32 %20
          store weights_tops[i12] = %15
          store weights_factors[i12] = %21
          %25 = for r5 in [250] reduce sum.f32 {
            %22 = load.f32 weights_block[r5, i12]
            %23 = sub.f32 %22, %19
            %24 = exp_or_zero.f32 %23
            store weights_block[r5, i12] = %24
            yield %24
          }
          %26 = load.f32 weights_shares[i12]
          %27 = mul.f32 %26, %21
          %28 = add.f32 %27, %25
          store weights_shares[i12] = %28
        }
        for i13 in [8] parallel @unroll(8, exact) {
          for i14 in [8] parallel @lane(8, exact) {
            %32 = for r6 in [250] reduce sum.f32 {
              %29 = load.f32 weights_block[r6, i13]
              %30 = load.f32 v[c0*250 + r6, i14]
              %31 = mul.f32 %29, %30
              yield %31
            }
            %33 = load.f32 weights_factors[i13]
            %34 = load.f32 weights_sums[i13, i14]
            %35 = mul.f32 %34, %33
            %36 = add.f32 %35, %32
            store weights_sums[i13, i14] = %36
          }
        }
      }
      for i15 in [8] parallel @lane(8, exact) {
        %37 = constant.f32 1.0
        %38 = load.f32 weights_shares[i15]
        %39 = div.f32 %37, %38
        store weights_shares[i15] = %39
      }
      for i17 in [8] parallel {
        for i18 in [8] parallel @lane(8, exact) {
          %40 = load.f32 weights_sums[i17, i18]
          %41 = load.f32 weights_shares[i17]
          %42 = mul.f32 %40, %41
          store y[i17 + o0*8, i18] = %42
        }
      }
)"),
            std::string::npos)
      << made;
}

// A causal mask: a block ends behind the last key that its last row sees, in whole tiles of keys.
TEST(FuseAttention, LeavesOutKeysThatNoRowOfABlockSees) {
  std::string text = replace_all(replace_all(two_products, "[24", "[96"), "[10", "[96");
  text = replace_all(replace_all(text, ", 10]", ", 96]"), "strides [10, 1]", "strides [96, 1]");
  const auto mask = [](const std::string& product, const std::string& key, int first) {
    return str("index.i64 [", key, "]\n        %", first + 1, " = index.i64 [i0 + 2]\n        %", first + 2,
               " = gt.bool %", first, ", %", first + 1, "\n        %", first + 3, " = constant.f32 -inf\n        %",
               first + 4, " = select.f32 %", first + 2, ", %", first + 3, ", %", product);
  };
  text = replace_all(text, "        yield %7\n", str("        %20 = ", mask("7", "r1", 20), "\n        yield %24\n"));
  text = replace_all(text, "        %11 = sub.f32 %10, %4\n",
                     str("        %30 = ", mask("10", "i2", 30), "\n        %11 = sub.f32 %34, %4\n"));
  LoopProgram program = parsed(text);
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  find_contractions(program, log);
  ASSERT_TRUE(fuse_attention(program, of_eight_lanes(), log));
  verify(program);
  expect_near(run_on_samples(program), before, 1e-6);
  const std::string made = main_of(program);
  for (const char* part :
       {"for o0 in [4] parallel @item {", "for i6 in [min(96, o0*24 + 28)] parallel @unroll(4, mask) {",
        "%13 = for r4 in [min(96, o0*24 + 28)] reduce max.f32 {",
        "%19 = for r5 in [min(96, o0*24 + 28)] reduce sum.f32 {",
        "%25 = for r6 in [min(96, o0*24 + 28)] reduce sum.f32 {",
        "%8 = index.i64 [i7 + o0*24 + 2]\n          %9 = gt.bool %7, %8\n"})
    EXPECT_NE(made.find(part), std::string::npos) << part << made;
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

// What is weighed is a product itself, made between the two.
TEST(FuseAttention, LooksBehindTheProductThatIsWeighed) {
  std::string text = replace_all(two_products, "buffer v f32[10, 8] strides [8, 1] input position 2\n",
                                 "buffer x f32[10, 6] strides [6, 1] input position 2\n"
                                 "buffer w f32[6, 8] strides [8, 1] constant named \"w\"\n"
                                 "buffer v f32[10, 8] strides [8, 1] temp\n");
  text = replace_all(text, "input v = buffer v\n", "input x = buffer x\n");
  text = replace_all(text, "  kernel output ops [matmul] {\n", R"(  kernel project ops [linear] {
    for i0 in [10] parallel {
      for i1 in [8] parallel {
        %0 = for r0 in [6] reduce sum.f32 {
          %1 = load.f32 x[i0, r0]
          %2 = load.f32 w[r0, i1]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store v[i0, i1] = %0
      }
    }
  }
  kernel output ops [matmul] {
)");
  LoopProgram program = parsed(text);
  Log log;
  find_contractions(program, log);
  ASSERT_TRUE(fuse_attention(program, of_eight_lanes(), log));
  verify(program);
  EXPECT_EQ(program.block.size(), 2u);
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
