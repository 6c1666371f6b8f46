// Each pass on a small program: Loops in, expected lines out.
#include "loop_passes/passes.h"

#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "loop_passes/rewrite.h"

namespace kiln::loops {
namespace {

TEST(InlineProducers, PutsAPointwiseProducerIntoItsOnlyReader) {
  LoopProgram program = parsed(chain);
  Log log;
  EXPECT_TRUE(inline_producers(program, log));
  EXPECT_TRUE(remove_dead_kernels(program, log));
  simplify_bodies(program, log);
  verify(program);
  EXPECT_EQ(program.block.size(), 1u);
  EXPECT_EQ(main_of(program).find("load.f32 t"), std::string::npos) << main_of(program);
  EXPECT_EQ(log.decisions()[0].text(), "inline t into exp: it is read once");
}

// Three kernels: the rounding between the first two shows in the comparison of the third, which is inlined last.
const std::string rounded_chain = R"(loops rounded
buffer x bf16[8] strides [1] input position 0
buffer t bf16[8] strides [1] temp
buffer u bf16[8] strides [1] temp
buffer y TYPE[8] strides [1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel double ops [double] {
    for i0 in [8] parallel {
      %0 = load.bf16 x[i0]
      %1 = cast.f32 %0
      %2 = exp.f32 %1
      store t[i0] = %2
    }
  }
  kernel difference ops [difference] {
    for i0 in [8] parallel {
      %0 = load.bf16 t[i0]
      %1 = cast.f32 %0
      %2 = load.bf16 x[i0]
      %3 = cast.f32 %2
      %4 = sub.f32 %1, %3
      store u[i0] = %4
    }
  }
  kernel last ops [last] {
    for i0 in [8] parallel {
      %0 = load.bf16 u[i0]
      %1 = cast.f32 %0
      LAST
      store y[i0] = %2
    }
  }
}
)";

TEST(InlineProducers, KeepsARoundingThatShowsAfterFurtherKernels) {
  auto casts = [](const std::string& type, const std::string& last) {
    LoopProgram program = parsed(replace_all(replace_all(rounded_chain, "TYPE", type), "LAST", last));
    Log log;
    EXPECT_TRUE(inline_producers(program, log));
    remove_dead_kernels(program, log);
    verify(program);
    const std::string text = main_of(program);
    size_t count = 0;
    for (size_t at = text.find("cast.bf16"); at != std::string::npos; at = text.find("cast.bf16", at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(casts("bool", "%2 = is_nan.bool %1"), 2u);  // both roundings decide
  EXPECT_EQ(casts("f32", "%2 = neg.f32 %1"), 2u);       // and show in a wider result
  EXPECT_EQ(casts("bf16", "%2 = neg.f32 %1"), 0u);      // but not in the rounding of the result itself
}

TEST(UpdateInPlace, WritesACacheWithoutCopyingIt) {
  LoopProgram program = parsed(R"(loops cache
buffer row f32[4] strides [1] input position 0
buffer cache f32[64, 4] strides [4, 1] constant named "cache" mutated
buffer new f32[64, 4] strides [4, 1] temp
input row = buffer row
init {
}
main {
  kernel copy ops [copy] {
    for i0 in [64] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 cache[i0, i1]
        store new[i0, i1] = %0
      }
    }
  }
  kernel update ops [slice_scatter] {
    for i0 in [4] parallel {
      %0 = load.f32 row[i0]
      store new[7, i0] = %0
    }
  }
  kernel write_back ops [copy] {
    for i0 in [64] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 new[i0, i1]
        store cache[i0, i1] = %0
      }
    }
  }
}
)");
  Log log;
  EXPECT_TRUE(update_in_place(program, log));
  remove_dead_kernels(program, log);
  verify(program);
  ASSERT_EQ(program.block.size(), 1u) << main_of(program);
  EXPECT_NE(main_of(program).find("store cache[7, i0]"), std::string::npos) << main_of(program);
}

TEST(UpdateInPlace, KeepsTheOldValueWhereItIsStillRead) {
  LoopProgram program = parsed(R"(loops old_value
buffer x f32[4] strides [1] input position 0 mutated
buffer new f32[4] strides [1] temp
buffer y f32[4] strides [1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel add ops [add] {
    for i0 in [4] parallel {
      %0 = load.f32 x[i0]
      %1 = constant.f32 1.0
      %2 = add.f32 %0, %1
      store new[i0] = %2
    }
  }
  kernel flip ops [flip] {
    for i0 in [4] parallel {
      %0 = load.f32 x[3 - i0]
      store y[i0] = %0
    }
  }
  kernel write_back ops [copy] {
    for i0 in [4] parallel {
      %0 = load.f32 new[i0]
      store x[i0] = %0
    }
  }
}
)");
  Log log;
  EXPECT_FALSE(update_in_place(program, log));
  EXPECT_EQ(program.block.size(), 3u);
}

TEST(SimplifyBodies, DropsLoopsThatRunOnceAndEqualLoads) {
  std::string text = replace_all(chain, "[s0, 4] strides [4, 1]", "[s0, 1] strides [1, 1]");
  text = replace_all(text, "for i1 in [4]", "for i1 in [1]");
  LoopProgram program = parsed(text);
  Log log;
  EXPECT_TRUE(simplify_bodies(program, log));
  verify(program);
  EXPECT_EQ(main_of(program).find("i1"), std::string::npos) << main_of(program);
}

// x * 1 and x - 0 are x; x + 0 and x - -0 are not, of -0.
TEST(SimplifyBodies, DropsFactorsOfOne) {
  LoopProgram program = parsed(R"(loops ones
buffer x f32[4] strides [1] input position 0
buffer y f32[4] strides [1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel scale ops [mul] {
    for i0 in [4] parallel {
      %0 = load.f32 x[i0]
      %1 = constant.f32 1.0
      %2 = constant.f32 0.0
      %3 = mul.f32 %1, %0
      %4 = sub.f32 %3, %2
      %5 = div.f32 %4, %1
      %6 = add.f32 %5, %2
      %7 = constant.f32 -0.0
      %8 = sub.f32 %6, %7
      store y[i0] = %8
    }
  }
}
)");
  Log log;
  EXPECT_TRUE(simplify_bodies(program, log));
  verify(program);
  const std::string text = main_of(program);
  for (const char* gone : {"mul", "div"}) EXPECT_EQ(text.find(str(gone, ".f32")), std::string::npos) << text;
  EXPECT_NE(text.find("add.f32"), std::string::npos) << text;
  EXPECT_EQ(text.find("sub.f32"), text.rfind("sub.f32")) << text;
  EXPECT_NE(text.find("sub.f32"), std::string::npos) << text;
}

TEST(SimplifyBodies, WhatNeverRaisesIsNotChecked) {
  const std::string text = R"(loops checks
buffer y f32[4] strides [1] output position 0
output buffer y
site "never" origin 0
init {
}
main {
  kernel require ops [require_all] {
    for i0 in [4] parallel {
      %0 = constant.bool VALUE
      %1 = logical_not.bool %0
      raise_if %1 site 0
    }
  }
  kernel fill ops [fill] {
    for i0 in [4] parallel {
      %0 = constant.f32 1.0
      store y[i0] = %0
    }
  }
}
origin 0 node "n" op "aten.n.default" module ""
)";
  for (const bool holds : {true, false}) {
    LoopProgram program = parsed(replace_all(text, "VALUE", holds ? "true" : "false"));
    Log log;
    EXPECT_TRUE(simplify_bodies(program, log));
    verify(program);
    remove_dead_kernels(program, log);
    EXPECT_EQ(program.block.size(), holds ? 1u : 2u) << main_of(program);
  }
}

// x[1:][:, 1:] += 1 as two writes of parts: the inner part is updated where it lies, and nothing is copied.
const std::string nested_parts = R"(loops parts
buffer a f32[5, 4] strides [4, 1] input position 0
buffer x f32[5, 4] strides [4, 1] temp
buffer rows f32[4, 4] strides [4, 1] temp
buffer sum f32[4, 3] strides [3, 1] temp
buffer y f32[5, 4] strides [4, 1] output position 0
input a = buffer a
output buffer y
init {
}
main {
  kernel exp ops [exp] {
    for i0 in [5] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 a[i0, i1]
        %1 = exp.f32 %0
        store x[i0, i1] = %1
      }
    }
  }
  kernel out ops [slice] {
    for i0 in [4] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 x[i0 + 1, i1]
        store rows[i0, i1] = %0
      }
    }
  }
  kernel add ops [add] {
    for i0 in [4] parallel {
      for i1 in [3] parallel {
        %0 = load.f32 rows[i0, i1 + 1]
        %1 = constant.f32 1.0
        %2 = add.f32 %0, %1
        store sum[i0, i1] = %2
      }
    }
  }
  kernel inner ops [slice_scatter] {
    for i0 in [4] parallel {
      for i1 in [3] parallel {
        %0 = load.f32 sum[i0, i1]
        store rows[i0, i1 + 1] = %0
      }
    }
  }
  kernel back ops [slice_scatter] {
    for i0 in [4] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 rows[i0, i1]
        store x[i0 + PLACE, i1] = %0
      }
    }
  }
  kernel relu ops [relu] {
    for i0 in [5] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 x[i0, i1]
        %1 = constant.f32 0.0
        %2 = max.f32 %0, %1
        store y[i0, i1] = %2
      }
    }
  }
}
)";

TEST(UpdateInPlace, APartThatIsCopiedBackIsUpdatedWhereItLies) {
  LoopProgram program = parsed(replace_all(nested_parts, "PLACE", "1"));
  Log log;
  EXPECT_TRUE(update_in_place(program, log));
  verify(program);
  EXPECT_EQ(program.block.size(), 4u) << main_of(program);
  EXPECT_NE(main_of(program).find("load.f32 x[i0 + 1, i1 + 1]"), std::string::npos) << main_of(program);
  EXPECT_NE(main_of(program).find("store x[i0 + 1, i1 + 1]"), std::string::npos) << main_of(program);
}

TEST(UpdateInPlace, APartThatMovesIsCopied) {
  LoopProgram program = parsed(replace_all(nested_parts, "PLACE", "0"));
  Log log;
  EXPECT_FALSE(update_in_place(program, log));
}

TEST(UpdateInPlace, APartIsCopiedWhereTheOldOneIsReadMeanwhile) {
  std::string text = replace_all(nested_parts, "PLACE", "1");
  text = replace_all(text, "%1 = constant.f32 1.0\n        %2 = add", "%1 = load.f32 x[i0, i1]\n        %2 = add");
  LoopProgram program = parsed(text);
  Log log;
  EXPECT_FALSE(update_in_place(program, log));
}

// A load gives 0 where it is masked off: choosing 0 there once more changes nothing. Another number is another matter.
TEST(SimplifyBodies, AMaskedLoadIsZeroAlready) {
  for (const char* otherwise : {"0.0", "-0.0", "1.0"}) {
    const std::string text = replace_all(R"(loops padded
buffer x f32[8] strides [1] input position 0
buffer y f32[9] strides [1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel pad ops [constant_pad_nd] {
    for i0 in [9] parallel {
      %0 = index.i64 [i0]
      %1 = index.i64 [8]
      %2 = lt.bool %0, %1
      %3 = load.f32 x[i0] mask %2
      %4 = constant.f32 OTHERWISE
      %5 = select.f32 %2, %3, %4
      store y[i0] = %5
    }
  }
}
)",
                                         "OTHERWISE", otherwise);
    LoopProgram program = parsed(text);
    Log log;
    simplify_bodies(program, log);
    verify(program);
    EXPECT_EQ(main_of(program).find("select") == std::string::npos, std::string(otherwise) == "0.0") << otherwise;
  }
}

// rows = table[ids], and their sums: as [4, 3, 8], or only the first three of each four.
const std::string looked_up = R"(loops looked_up
buffer table f32[100, 8] strides [8, 1] input position 0
buffer ids i64[12] strides [1] input position 1
buffer rows f32[12, 8] strides [8, 1] temp
buffer y f32[BAGS, 8] strides [8, 1] output position 0
input table = buffer table
input ids = buffer ids
output buffer y
site "index" origin 0
init {
}
main {
  kernel select ops [index_select] {
    for i0 in [12] parallel {
      for i1 in [8] parallel {
        %0 = load.i64 ids[i0]
        %1 = check_index j0 = %0 in [100] site 0
        %2 = load.f32 table[j0, i1]
        store rows[i0, i1] = %2
      }
    }
  }
  kernel sum ops [sum] {
    for i0 in [BAGS] parallel {
      for i1 in [8] parallel {
        %1 = for r0 in [3] reduce sum.f32 {
          %0 = load.f32 rows[PLACE, i1]
          yield %0
        }
        store y[i0, i1] = %1
      }
    }
  }
}
origin 0 node "n" op "aten.n.default" module ""
)";

TEST(InlineProducers, AReaderOfAllMakesTheChecksOfItsProducer) {
  for (const bool all : {true, false}) {
    std::string text = replace_all(looked_up, "BAGS", all ? "4" : "3");
    text = replace_all(text, "PLACE", all ? "i0*3 + r0" : "i0*4 + r0");
    LoopProgram program = parsed(text);
    Log log;
    EXPECT_TRUE(inline_producers(program, log));
    verify(program);
    remove_dead_kernels(program, log);
    EXPECT_NE(main_of(program).find("kernel sum"), std::string::npos);
    EXPECT_NE(main_of(program).find("check_index", main_of(program).find("kernel sum")), std::string::npos);
    EXPECT_EQ(program.block.size(), all ? 1u : 2u) << "an id that nobody reads is checked where it was\n"
                                                   << main_of(program);
  }
}

// A loop's body is a block as any other: a slice of what stands in front of it is read where it is wanted.
TEST(InlineProducers, InlinesInsideOfLoops) {
  LoopProgram program = parsed(R"(loops steps
symbol it0 in [0, inf] unbacked
buffer x f32[8, 4] strides [4, 1] input position 0
buffer e f32[8, 4] strides [4, 1] temp
buffer row f32[4] strides [1] temp
buffer y f32[4] strides [1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel start ops [zeros] {
    for i0 in [4] parallel {
      %0 = constant.f32 0.0
      store y[i0] = %0
    }
  }
  kernel exp ops [exp] {
    for i0 in [8] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 x[i0, i1]
        %1 = exp.f32 %0
        store e[i0, i1] = %1
      }
    }
  }
  while steps counting it0 {
  } on expr [it0 < 8] do {
    kernel slice ops [slice] {
      for i0 in [4] parallel {
        %0 = load.f32 e[it0, i0]
        store row[i0] = %0
      }
    }
    kernel add ops [add] {
      for i0 in [4] parallel {
        %0 = load.f32 y[i0]
        %1 = load.f32 row[i0]
        %2 = add.f32 %0, %1
        store y[i0] = %2
      }
    }
  }
}
)");
  Log log;
  EXPECT_TRUE(inline_producers(program, log));
  remove_dead_kernels(program, log);
  verify(program);
  const std::string text = main_of(program);
  EXPECT_EQ(text.find("kernel slice"), std::string::npos) << text;
  EXPECT_NE(text.find("load.f32 e[it0, i0]"), std::string::npos) << text;
  EXPECT_NE(text.find("kernel exp"), std::string::npos) << "it would be computed in every iteration\n" << text;
}

// A pool gives places as well, which nobody reads: only what was found is left to be found.
TEST(SimplifyBodies, APlaceThatNobodyReadsIsNotLookedFor) {
  LoopProgram program = parsed(R"(loops pool
buffer x f32[4, 6] strides [6, 1] input position 0
buffer y f32[4] strides [1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel pool ops [pool] {
    for i0 in [4] parallel {
      %0, %1 = for r0 in [2] reduce argmax.f32 {
        %2, %3 = for r1 in [3] reduce argmax.f32 {
          %4 = load.f32 x[i0, r0*3 + r1]
          %5 = index.i64 [r0*3 + r1]
          yield %4, %5
        }
        yield %2, %3
      }
      store y[i0] = %0
    }
  }
}
)");
  Log log;
  EXPECT_TRUE(simplify_bodies(program, log));
  verify(program);
  const std::string text = main_of(program);
  EXPECT_NE(text.find("%0 = for r0 in [2] reduce max.f32"), std::string::npos) << text;
  EXPECT_NE(text.find("%2 = for r1 in [3] reduce max.f32"), std::string::npos) << text;
  EXPECT_EQ(text.find("index.i64"), std::string::npos) << text;
}

// What merging puts into one kernel gets new names there; i64 among them would hide the type in generated code.
TEST(Copier, NoVariableIsNamedLikeAType) {
  Kernel from, to;
  for (int i = 0; i < 70; ++i) {
    Stmt stmt;
    stmt.kind = StmtKind::loop;
    stmt.loop = std::make_unique<Loop>();
    stmt.loop->var = str("i", 100 + i);
    stmt.loop->extent = Expr(2);
    from.body.push_back(std::move(stmt));
  }
  Copier(from, to).copy(from.body, to.body);
  std::set<std::string> names = variables_of(to);
  EXPECT_EQ(names.size(), 70u);
  for (const char* type : {"i8", "i16", "i32", "i64"}) EXPECT_FALSE(names.contains(type)) << type;
}

}  // namespace
}  // namespace kiln::loops
