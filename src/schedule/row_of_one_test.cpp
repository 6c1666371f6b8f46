#include <gtest/gtest.h>

#include "base/text.h"
#include "schedule/sample_run_test.h"

namespace kiln::loops {
namespace {

// A product of one row with a weight of 256 by 320 that lies along its columns, or along its terms.
std::string one_row(const std::string& dtype, bool along_columns, bool repeated = false) {
  const std::string before = repeated ? "  while steps counting it0 {\n  } on expr [it0 < 8] do {\n" : "";
  const std::string weight = along_columns ? "[256, 320] strides [320, 1]" : "[320, 256] strides [256, 1]";
  return str("loops row\n", repeated ? "symbol it0 in [0, inf] unbacked\n" : "", "buffer w ", dtype, weight,
             " constant named \"w\"\nbuffer x ", dtype, "[256] strides [1] input position 0\nbuffer y ", dtype,
             "[320] strides [1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n", before,
             "  kernel row ops [mm] {\n    for i0 in [320] parallel {\n      %0 = for r0 in [256] reduce sum.f32 {\n",
             "        %1 = load.", dtype, " x[r0]\n        %2 = cast.f32 %1\n        %3 = load.", dtype, " w[",
             along_columns ? "r0, i0" : "i0, r0", R"(]
        %4 = cast.f32 %3
        %5 = mul.f32 %2, %4
        yield %5
      }
      store y[i0] = %0
    }
  }
)",
             repeated ? "  }\n" : "", "}\n");
}

class RowOfOne : public testing::Test {
 protected:
  RowOfOne() {
    target_.lanes = 16;
    target_.bf16_pairs = true;
  }
  std::string scheduled(const std::string& text) {
    LoopProgram program = parse_loops(text);
    Log log;
    find_contractions(program, log);
    use_templates(program, target_, log);
    bind_axes(program, target_, log);
    order_sums(program, log);
    count_items(program, log);
    verify(program);
    return print(program);
  }
  Target target_;
};

TEST_F(RowOfOne, PacksWeightsThatLieAlongTheirColumns) {
  const std::string text = scheduled(one_row("bf16", true));
  EXPECT_TEXT(text, "lanes 16 tile 1 rows 4 vectors beside pairs");
  EXPECT_TEXT(text, "for i1 in [1] parallel @item(1, mask) {");
  EXPECT_TEXT(text, "load.bf16 w_packed[i0 // 64, r0 // 2, i0 % 64, r0 % 2]");
  // f16 has no instruction for pairs, and neither has every target.
  EXPECT_TEXT(scheduled(one_row("f16", true)), "load.f16 w_packed[i0 // 64, r0, i0 % 64]");
  target_.bf16_pairs = false;
  EXPECT_TEXT(scheduled(one_row("bf16", true)), "load.bf16 w_packed[i0 // 64, r0, i0 % 64]");
}

TEST_F(RowOfOne, LeavesWeightsThatLieAlongTheirTerms) {
  const std::string pairs = scheduled(one_row("bf16", false)), single = scheduled(one_row("f16", false));
  EXPECT_TEXT(pairs, "for r0 in [256] reduce sum.f32 fused pairs @lane(32, exact) {");
  EXPECT_TEXT(single, "for r0 in [256] reduce sum.f32 fused @lane(16, exact) {");
  for (const std::string& text : {pairs, single}) EXPECT_EQ(text.find("w_packed"), std::string::npos) << text;
  // Only sums of products of bf16 have lanes of pairs.
  EXPECT_THROW(verify(parse_loops(replace_all(single, "fused @lane(16", "fused @lane(32"))), Error);
  // Half a vector of pairs is left over, or no instruction is there.
  EXPECT_TEXT(scheduled(replace_all(one_row("bf16", false), "256", "272")),
              "reduce sum.f32 fused blocks(256, f32) @lane(16, exact)");
  target_.bf16_pairs = false;
  EXPECT_TEXT(scheduled(one_row("bf16", false)), "reduce sum.f32 fused @lane(16, exact) {");
}

TEST_F(RowOfOne, PacksWeightsOfF32ThatNoCacheHolds) {
  const std::string small = replace_all(one_row("f32", true), "cast.f32", "neg.f32");
  EXPECT_EQ(scheduled(small).find("w_packed"), std::string::npos);
  const std::string text = scheduled(replace_all(small, "320", "640"));
  EXPECT_TEXT(text, "lanes 16 turns tile 1 rows 4 vectors beside");
  EXPECT_TEXT(text, "load.f32 w_packed[i0 // 64, r0, i0 % 64]");
  // Those that lie along their terms are read in one piece as they are.
  const std::string terms = replace_all(replace_all(one_row("f32", false), "cast.f32", "neg.f32"), "320", "640");
  EXPECT_EQ(scheduled(terms).find("w_packed"), std::string::npos);
}

TEST_F(RowOfOne, PacksWhatALoopReadsAgainAndAgain) {
  for (const bool along_columns : {true, false}) {
    const std::string text = scheduled(one_row("bf16", along_columns, true));
    EXPECT_TEXT(text, "load.bf16 w_packed[i0 // 64, r0 // 2, i0 % 64, r0 % 2]");
  }
  const std::string large = replace_all(one_row("bf16", false, true), "320", "3200");
  EXPECT_TEXT(scheduled(large), "lanes 16 turns tile 1 rows 4 vectors beside pairs");
  EXPECT_TEXT(scheduled(replace_all(one_row("f32", false, true), "cast.f32", "neg.f32")),
              "load.f32 w_packed[i0 // 64, r0, i0 % 64]");
  EXPECT_TEXT(scheduled(one_row("f16", false, true)), "load.f16 w_packed[i0 // 64, r0, i0 % 64]");
}

}  // namespace
}  // namespace kiln::loops
