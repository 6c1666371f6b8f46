// When a product's sum runs in parts.
#include "loops/sum_parts.h"

#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// y = x w, and with `own` of y in it: then y cannot hold sums that wait.
std::string product_of(int64_t rows, int64_t terms, int64_t columns, bool own) {
  return str(
      "loops product\nbuffer x f32[", rows, ", ", terms, "] strides [", terms, ", 1] input position 0\nbuffer w f32[",
      terms, ", ", columns, "] strides [", columns, ", 1] constant named \"w\"\nbuffer y f32[", rows, ", ", columns,
      "] strides [", columns,
      ", 1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n  kernel product ops [mm] {\n",
      "    for i0 in [", rows, "] parallel {\n      for i1 in [", columns, "] parallel {\n        %0 = for r0 in [",
      terms, R"(] reduce sum.f32 {
          %1 = load.f32 x[i0, r0]
          %2 = load.f32 w[r0, i1]
          %3 = mul.f32 %1, %2
          yield %3
        }
)",
      own ? "        %4 = load.f32 y[i0, i1]\n        %5 = add.f32 %0, %4\n        store y[i0, i1] = %5\n"
          : "        store y[i0, i1] = %0\n",
      "      }\n    }\n  }\n}\n");
}

LoopProgram scheduled(int64_t rows, int64_t terms, int64_t columns, bool own = false) {
  LoopProgram program = parsed(product_of(rows, terms, columns, own));
  Log log;
  find_contractions(program, log);
  use_templates(program, Target(), log);
  verify(program);
  bind_axes(program, Target(), log);
  order_sums(program, log);
  count_items(program, log);
  verify(program);
  const std::string text = print(program);
  EXPECT_EQ(print(parse_loops(text)), text);
  return program;
}

std::string parts_of(int64_t rows, int64_t terms, int64_t columns, bool own = false) {
  const LoopProgram program = scheduled(rows, terms, columns, own);
  const ContractionNest nest = contraction_nest(std::get<Kernel>(program.block[0].what));
  return is_in_parts(nest) ? str(nest.sums[0].stmt->loop->extent.text(), " of ", nest.innermost_sum().extent.text())
                           : "one";
}

TEST(SumInParts, WhereTheRowsAreMoreThanTheCacheHolds) {
  EXPECT_EQ(parts_of(128, 3072, 768), "4 of 768");
  EXPECT_EQ(parts_of(128, 2816, 1024), "4 of 704");
}
TEST(SumInParts, NotWhereTheyFit) { EXPECT_EQ(parts_of(128, 768, 3072), "one"); }
TEST(SumInParts, NotWhereAPartDoesNotFitEither) { EXPECT_EQ(parts_of(1500, 1536, 384), "one"); }
TEST(SumInParts, NotWhereTheResultIsRead) { EXPECT_EQ(parts_of(128, 3072, 768, true), "one"); }
// Of few rows the weight passes once, from memory: a panel need not fit the second cache to be as wide as registers
// are.
TEST(SumInParts, FewRowsHaveWideTilesHoweverLongTheirSumsAre) {
  const auto tile_of = [](int64_t rows, int64_t terms) {
    LoopProgram program = parsed(product_of(rows, terms, 1024, false));
    Log log;
    find_contractions(program, log);
    use_templates(program, Target(), log);
    const Tile& tile = std::get<Kernel>(program.block[0].what).schedule->tile;
    return str(tile.rows, " by ", tile.vectors);
  };
  for (const int64_t terms : {1024, 4096}) {
    EXPECT_EQ(tile_of(4, terms), "4 by 4");
    EXPECT_EQ(tile_of(8, terms), "8 by 3");
  }
}
// Eager multiplies two or three rows as dot products, whose sums in lanes round less than one long one.
TEST(SumOrder, FewRowsHaveShortBlocks) {
  for (const int64_t rows : {2, 3}) EXPECT_TEXT(print(scheduled(rows, 256, 1024)), "fused blocks(64, f32)");
  EXPECT_EQ(print(scheduled(4, 256, 1024)).find("blocks("), std::string::npos);
  EXPECT_TEXT(print(scheduled(4, 1024, 1024)), "fused blocks(256, f32)");
}
TEST(SumInParts, NotWhereTermsHaveNoEqualParts) { EXPECT_EQ(parts_of(128, 3001, 768), "one"); }

}  // namespace
}  // namespace kiln::loops
