// What is merged into one kernel, kept in its registers and taken out of it, on a small program: expected lines out.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

TEST(MergeKernels, SharesLoopsAndForwardsTheStore) {
  LoopProgram program = parsed(chain);
  Log log;
  EXPECT_TRUE(merge_kernels(program, log));
  EXPECT_TRUE(forward_stores(program, log));
  simplify_bodies(program, log);
  verify(program);
  EXPECT_EQ(main_of(program), R"(main {
  kernel relu ops [relu, exp] {
    for i0 in [s0] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 x[i0, i1]
        %1 = constant.f32 0.0
        %2 = max.f32 %0, %1
        %4 = exp.f32 %2
        store y[i0, i1] = %4
      }
    }
  }
}
)");
}

TEST(MergeKernels, RefusesWhenAnIterationNeedsAnother) {
  std::string transposed = replace_all(chain, "load.f32 t[i0, i1]", "load.f32 t[i1, i0]");
  transposed = replace_all(transposed, "[s0, 4]", "[4, 4]");
  transposed =
      replace_all(replace_all(transposed, "for i0 in [s0]", "for i0 in [4]"), "symbol s0 in [1, 64] hint 8\n", "");
  LoopProgram program = parsed(transposed);
  Log log;
  EXPECT_FALSE(merge_kernels(program, log));
  const std::string last = log.decisions().back().text();
  EXPECT_NE(last.find("iterations of one need other iterations"), std::string::npos) << last;
}

// Both touch row i0 + 1 in iteration i0: what is read there is what is written there.
TEST(MergeKernels, RowsThatAreMovedAlikeAreTheSameRows) {
  const std::string text = R"(loops rows
buffer x f32[5, 4] strides [4, 1] input position 0 mutated
buffer t f32[4, 4] strides [4, 1] temp
input x = buffer x
output buffer x
init {
}
main {
  kernel add ops [add] {
    for i0 in [4] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 x[i0 + 1, i1]
        %1 = exp.f32 %0
        store t[i0, i1] = %1
      }
    }
  }
  kernel back ops [slice_scatter] {
    for i0 in [4] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 t[i0, i1]
        store x[i0 + PLACE, i1] = %0
      }
    }
  }
}
)";
  for (const bool same : {true, false}) {
    LoopProgram program = parsed(replace_all(text, "PLACE", same ? "1" : "0"));
    Log log;
    merge_kernels(program, log);
    verify(program);
    EXPECT_EQ(main_of(program).find("for i0", main_of(program).find("for i0") + 1) == std::string::npos, same)
        << main_of(program);
  }
}

// A pool and a product that read one picture: each has points of its own to take together.
// A grouped product is a product for each of its groups; the norm of all its columns would leave it none.
TEST(MergeKernels, GroupsOfAProductStayProducts) {
  const auto kernels = [](const std::string& group) {
    LoopProgram program = parsed(replace_all(R"(loops grouped
buffer x f32[30, 48] strides [48, 1] input position 0
buffer w f32[32, 24] strides [24, 1] constant named "w"
buffer t f32[30, 32] strides [32, 1] temp
buffer y f32[30, 32] strides [32, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel product ops [convolution] {
    for i0 in [30] parallel {
      for i1 in [32] parallel {
        %0 = for r0 in [24] reduce sum.f32 {
          %1 = load.f32 x[i0, r0 + GROUP*24]
          %2 = load.f32 w[i1, r0]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store t[i0, i1] = %0
      }
    }
  }
  kernel norm ops [sum, sub] {
    for i0 in [30] parallel {
      %0 = for r0 in [32] reduce sum.f32 {
        %1 = load.f32 t[i0, r0]
        yield %1
      }
      for i1 in [32] parallel {
        %2 = load.f32 t[i0, i1]
        %3 = sub.f32 %2, %0
        store y[i0, i1] = %3
      }
    }
  }
}
)",
                                             "GROUP", group));
    Log log;
    merge_kernels(program, log);
    verify(program);
    return program.block.size();
  };
  EXPECT_EQ(kernels("(i1 // 16)"), 2u);
  EXPECT_EQ(kernels("(i0 // 16)"), 1u) << "rows in groups are rows";
}

TEST(MergeKernels, APoolAndAProductStayApart) {
  LoopProgram program = parsed(R"(loops branches
buffer x f32[30, 64] strides [64, 1] input position 0
buffer w f32[32, 64] strides [64, 1] input position 1
buffer y f32[28, 32] strides [32, 1] output position 0
buffer p f32[28, 64] strides [64, 1] output position 1
input x = buffer x
input w = buffer w
output buffer y
output buffer p
init {
}
main {
  kernel product ops [convolution] {
    for i0 in [28] parallel {
      for i1 in [32] parallel {
        %0 = for r0 in [64] reduce sum.f32 {
          %1 = load.f32 x[i0, r0]
          %2 = load.f32 w[i1, r0]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store y[i0, i1] = %0
      }
    }
  }
  kernel pool ops [max_pool1d] {
    for i0 in [28] parallel {
      for i1 in [64] parallel {
        %0 = for r0 in [3] reduce max.f32 {
          %1 = load.f32 x[i0 + r0, i1]
          yield %1
        }
        store p[i0, i1] = %0
      }
    }
  }
}
)");
  Log log;
  EXPECT_FALSE(merge_kernels(program, log));
  const std::string last = log.decisions().back().text();
  EXPECT_NE(last.find("a pool takes its points"), std::string::npos) << last;
}

// The two kernels of `text` as one, with what the first stored kept in registers.
std::string merged_main(const std::string& text) {
  Log log;
  LoopProgram program = parsed(text);
  merge_kernels(program, log);
  forward_stores(program, log);
  simplify_bodies(program, log);
  verify(program);
  return main_of(program);
}

TEST(ForwardStores, SkipsTheRoundingOfAStoreButNotOfACast) {
  std::string text = replace_all(replace_all(chain, "buffer t f32", "buffer t bf16"), "buffer y f32", "buffer y bf16");
  text = replace_all(
      text, "%0 = load.f32 t[i0, i1]\n        %1 = exp.f32 %0\n        store y[i0, i1] = %1",
      "%0 = load.bf16 t[i0, i1]\n        %1 = cast.f32 %0\n        %2 = exp.f32 %1\n        store y[i0, i1] = %2");
  const std::string stored = merged_main(text);
  EXPECT_EQ(stored.find("bf16"), std::string::npos) << stored;
  const std::string cast =
      merged_main(replace_all(text, "store t[i0, i1] = %2", "%3 = cast.bf16 %2\n        store t[i0, i1] = %3"));
  EXPECT_NE(cast.find("cast.bf16"), std::string::npos) << cast;
}

// A wider result would show the digits that eager rounds away between the two operators.
TEST(ForwardStores, KeepsTheRoundingBeforeAWiderResult) {
  std::string text = replace_all(chain, "buffer t f32", "buffer t bf16");
  text = replace_all(
      text, "%0 = load.f32 t[i0, i1]\n        %1 = exp.f32 %0\n        store y[i0, i1] = %1",
      "%0 = load.bf16 t[i0, i1]\n        %1 = cast.f32 %0\n        %2 = exp.f32 %1\n        store y[i0, i1] = %2");
  const std::string merged = merged_main(text);
  EXPECT_NE(merged.find("cast.bf16"), std::string::npos) << merged;
}

// Quantising shows a skipped rounding as a whole step, however far from the load it stands.
TEST(ForwardStores, KeepsTheRoundingBeforeAStep) {
  const std::string widened = "%0 = load.bf16 t[i0, i1]\n        %1 = cast.f32 %0\n        %2 = exp.f32 %1\n        ";
  for (const char* step :
       {"%3 = cast.i32 %2\n        %4 = cast.f32 %3", "%3 = cast.f8e4m3fn %2\n        %4 = cast.f32 %3",
        "%3 = floor.f32 %2\n        %4 = abs.f32 %3"}) {
    std::string text =
        replace_all(replace_all(chain, "buffer t f32", "buffer t bf16"), "buffer y f32", "buffer y bf16");
    text = replace_all(text, "%0 = load.f32 t[i0, i1]\n        %1 = exp.f32 %0\n        store y[i0, i1] = %1",
                       str(widened, step, "\n        store y[i0, i1] = %4"));
    const std::string merged = merged_main(text);
    EXPECT_NE(merged.find("cast.bf16"), std::string::npos) << merged;
  }
}

TEST(HoistConstants, MovesWorkOnWeightsToTheInitSection) {
  std::string text = replace_all(chain, "buffer x f32[s0, 4] strides [4, 1] input position 0",
                                 "buffer x f32[8, 4] strides [4, 1] constant named \"w\"");
  text = replace_all(text, "input x = buffer x\n", "");
  text = replace_all(replace_all(text, "[s0, 4]", "[8, 4]"), "for i0 in [s0]", "for i0 in [8]");
  LoopProgram program = parsed(replace_all(text, "symbol s0 in [1, 64] hint 8\n", ""));
  Log log;
  EXPECT_TRUE(hoist_constants(program, log));
  verify(program);
  EXPECT_EQ(program.init.size(), 1u);  // relu(w); exp writes an output and stays
  EXPECT_EQ(program.block.size(), 1u);
}

// A table that is filled and then written in part, for a kernel that multiplies it by weights.
constexpr const char* made_table = R"(loops table
buffer w f32[4] strides [1] constant named "w"
buffer t f32[8, 4] strides [4, 1] temp
buffer u f32[8, 4] strides [4, 1] temp
buffer v f32[8, 4] strides [4, 1] temp
buffer x f32[8, 4] strides [4, 1] input position 0
buffer y f32[8, 4] strides [4, 1] output position 0
buffer z f32[8, 4] strides [4, 1] output position 1
input x = buffer x
output buffer y
output buffer z
init {
}
main {
  kernel zeros ops [zeros] {
    for i0 in [8] parallel {
      for i1 in [4] parallel {
        %0 = constant.f32 0.0
        store t[i0, i1] = %0
      }
    }
  }
EARLY
  kernel part ops [select_scatter] {
    for i0 in [8] parallel {
      %0 = index.i64 [i0]
      %1 = cast.f32 %0
      store t[i0, 1] = %1
    }
  }
  kernel mul ops [mul] {
    for i0 in [8] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 t[i0, i1]
        %1 = load.f32 w[i1]
        %2 = mul.f32 %0, %1
        store u[i0, i1] = %2
      }
    }
  }
  kernel add ops [add] {
    for i0 in [8] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 x[i0, i1]
        %1 = load.f32 u[i0, i1]
        %2 = add.f32 %0, %1
        store y[i0, i1] = %2
      }
    }
  }
LATE
}
)";

std::string reader_of(const std::string& table) {
  return replace_all(R"(  kernel sub ops [sub] {
    for i0 in [8] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 x[i0, i1]
        %1 = load.f32 T[i0, i1]
        %2 = sub.f32 %0, %1
        store z[i0, i1] = %2
      }
    }
  })",
                     "T[", table + "[");
}

TEST(HoistConstants, MovesTablesThatAreMadeForWeights) {
  const auto hoisted = [](const std::string& early, const std::string& late, const std::string& from = "",
                          const std::string& to = "") {
    std::string text = replace_all(replace_all(made_table, "EARLY\n", early), "LATE\n", late);
    if (!from.empty()) text = replace_all(text, from, to);
    LoopProgram program = parsed(text);
    Log log;
    hoist_constants(program, log);
    verify(program);
    return program.init.size();
  };
  const std::string reader = reader_of("t") + "\n";
  const std::string negated = replace_all(
      replace_all(reader_of("u") + "\n", "%0 = load.f32 x[i0, i1]", "%0 = constant.f32 0.0"), "store z", "store v");
  EXPECT_EQ(hoisted("", reader_of("u") + "\n"), 3u);  // zeros, its part, the product
  EXPECT_EQ(hoisted("", reader), 3u) << "who reads the finished table may stay";
  EXPECT_EQ(hoisted("", negated + reader_of("v") + "\n"), 4u) << "what is made of that does not read weights itself";
  EXPECT_EQ(hoisted(reader, ""), 0u) << "who reads the table before it is finished would see all of it";
  EXPECT_EQ(hoisted("", reader, "%1 = load.f32 w[i1]", "%1 = load.f32 x[i0, i1]"), 0u)
      << "nobody needs it with weights";
  EXPECT_EQ(hoisted("", reader, "%1 = cast.f32 %0", "%1 = load.f32 x[i0, 0]"), 0u) << "a part depends on inputs";
}

// What an index of weights by weights raises, every call would raise.
TEST(HoistConstants, MovesIndicesOfWeightsToo) {
  LoopProgram program = parsed(R"(loops index
buffer table f32[5, 4] strides [4, 1] constant named "table"
buffer at i64[8] strides [1] constant named "at"
buffer x f32[8, 4] strides [4, 1] input position 0
buffer t f32[8, 4] strides [4, 1] temp
buffer y f32[8, 4] strides [4, 1] output position 0
input x = buffer x
output buffer y
site "index out of range" origin 0
init {
}
main {
  kernel index ops [index] {
    for i0 in [8] parallel {
      %0 = load.i64 at[i0]
      %1 = check_index j0 = %0 in [5] site 0
      for i1 in [4] parallel {
        %2 = load.f32 table[j0, i1]
        store t[i0, i1] = %2
      }
    }
  }
  kernel add ops [add] {
    for i0 in [8] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 x[i0, i1]
        %1 = load.f32 t[i0, i1]
        %2 = add.f32 %0, %1
        store y[i0, i1] = %2
      }
    }
  }
}
origin 0 node "index" op "aten.index.Tensor" module ""
)");
  Log log;
  EXPECT_TRUE(hoist_constants(program, log));
  verify(program);
  EXPECT_EQ(program.init.size(), 1u);
  EXPECT_EQ(program.block.size(), 1u);
}

}  // namespace
}  // namespace kiln::loops
