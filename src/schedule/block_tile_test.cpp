#include <gtest/gtest.h>

#include "schedule/sample_run_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

Target tile_target(int most_parts = 1, bool tf32 = false, bool warpgroups = false) {
  Target target = an_h200();
  target.warpgroups = warpgroups;
  target.tf32 = tf32;
  target.most_parts = most_parts;
  return target;
}

// x [rows, terms] times w [columns, terms], transposed.
std::string tiled(int64_t rows, int64_t columns, int64_t terms, const std::string& left = "bf16",
                  const std::string& right = "bf16", int most_parts = 1, bool tf32 = false, bool warpgroups = false) {
  const auto load = [](const std::string& dtype, int value, const std::string& from) {
    if (dtype == "f32") return str("%", value + 1, " = load.f32 ", from, "\n");
    return str("%", value, " = load.", dtype, " ", from, "\n%", value + 1, " = cast.f32 %", value, "\n");
  };
  LoopProgram program =
      parse_loops(str("loops product\nbuffer x ", left, "[", rows, ", ", terms, "] strides [", terms,
                      ", 1] input position 0\nbuffer w ", right, "[", columns, ", ", terms, "] strides [", terms,
                      ", 1] input position 1\nbuffer y f32[", rows, ", ", columns, "] strides [", columns,
                      ", 1] output position 0\ninput x = buffer x\ninput w = buffer w\noutput "
                      "buffer y\nmain {\nkernel k {\nfor i0 in [",
                      rows, "] parallel {\nfor i1 in [", columns, "] parallel {\n%5 = for r0 in [", terms,
                      "] reduce sum.f32 {\n", load(left, 0, "x[i0, r0]"), load(right, 2, "w[i1, r0]"),
                      "%4 = mul.f32 %1, %3\nyield %4\n}\n%6 = neg.f32 %5\nstore y[i0, i1] = "
                      "%6\n}\n}\n}\n}\n"));
  Log log;
  find_contractions(program, log);
  use_templates(program, tile_target(most_parts, tf32, warpgroups), log);
  bind_axes(program, tile_target(most_parts, tf32, warpgroups), log);
  order_sums(program, log);
  count_items(program, log);
  verify(program);
  const std::string text = print(program);
  EXPECT_EQ(print(parse_loops(text)), text);
  return text;
}

void expect_tile(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(BlockTile, LargeProductsOfBf16HaveLargeTilesOfMatrixInstructions) {
  expect_tile(tiled(4096, 4096, 4096), "items [1024]");
  expect_tile(tiled(4096, 4096, 4096),
              "block 128 rows 128 columns 32 terms each 64 by 32 tensor_cores stages 6 left_along_terms left_chunk 8 "
              "right_along_terms right_chunk 8");
}

TEST(BlockTile, FewTilesAreSplitAlongTheTerms) {
  const std::string text = tiled(128, 768, 3072);
  expect_tile(text, "kernel k_parts");
  expect_tile(text, "contraction batch [part] rows [i0] columns [i1] sums [r0]");
  expect_tile(text, "store y[i0, i1] = %6");
  EXPECT_LT(text.find("tensor_cores"), text.find("reduce sum.f32 {\n          %7 = load.f32 k_parts[p0, i0, i1]"))
      << text;
}

TEST(BlockTile, BlocksThatSeeEachOtherHaveFewTilesTogether) {
  const std::string text = tiled(128, 768, 3072, "bf16", "bf16", 8);
  expect_tile(text, "tensor_cores");
  expect_tile(text, " parts ");
  EXPECT_EQ(text.find("k_parts"), std::string::npos) << text;
}

TEST(BlockTile, AFactorThatNoWordDividesComesElementByElement) {
  const std::string text = tiled(64, 64, 75);
  expect_tile(text, "tensor_cores");
  EXPECT_EQ(text.find("chunk"), std::string::npos) << text;
}

TEST(BlockTile, F32MayBeRoundedToTf32WhereThatIsWanted) {
  const std::string text = tiled(256, 256, 256, "f32", "f32", 1, true);
  expect_tile(text, "tensor_cores");
  expect_tile(text, "left_along_terms left_chunk 4 right_along_terms right_chunk 4");
}

TEST(BlockTile, F32WithF32IsMultiplyAdds) {
  EXPECT_EQ(tiled(512, 512, 512, "f32", "f32").find("tensor_cores"), std::string::npos);
  expect_tile(tiled(512, 512, 512, "f32", "f32"), "each ");
  // With bf16 it is three of bf16.
  expect_tile(tiled(512, 512, 512, "f32", "bf16"), "tensor_cores");
  expect_tile(tiled(512, 512, 512, "f32", "bf16"), "left_chunk 4");
  EXPECT_EQ(tiled(512, 512, 512, "f32", "f16").find("tensor_cores"), std::string::npos);
}

// The sizes of a vision transformer, of a language model's prompt and of one sentence, as they were measured.
TEST(BlockTile, FourWarpsMultiplyTogetherWhereTheyCan) {
  const auto grouped = [](int64_t rows, int64_t columns, int64_t terms, const std::string& type = "bf16") {
    return tiled(rows, columns, terms, type, type, 8, false, true);
  };
  expect_tile(
      grouped(4096, 4096, 4096),
      "threads 256 team 256 block 128 rows 256 columns 64 terms each 64 by 256 tensor_cores warpgroups stages 4 "
      "left_along_terms left_chunk 8 right_along_terms right_chunk 8");
  expect_tile(grouped(1576, 768, 768, "f16"),
              "block 128 rows 96 columns 64 terms each 64 by 96 tensor_cores warpgroups ");
  expect_tile(grouped(128, 768, 768), "threads 128 team 128 block 64 rows 32 columns 64 terms each 64 by 32 ");
  expect_tile(grouped(128, 768, 3072),
              "block 64 rows 64 columns 64 terms each 64 by 64 tensor_cores warpgroups stages 8");
  expect_tile(grouped(128, 768, 3072), " parts 4");
  // Too few rows or terms for them, factors that come one by one, other types, other GPUs.
  EXPECT_EQ(grouped(32, 4096, 4096).find("warpgroups"), std::string::npos);
  EXPECT_EQ(grouped(4096, 4096, 32).find("warpgroups"), std::string::npos);
  EXPECT_EQ(grouped(512, 512, 75).find("warpgroups"), std::string::npos);
  EXPECT_EQ(tiled(512, 512, 512, "f32", "bf16", 8, false, true).find("warpgroups"), std::string::npos);
  EXPECT_EQ(tiled(512, 512, 512, "f32", "f32", 8, true, true).find("warpgroups"), std::string::npos);
  EXPECT_EQ(tiled(512, 512, 512, "bf16", "bf16", 8).find("warpgroups"), std::string::npos);
}

TEST(BlockTile, OneRowIsAWarpForEachResult) {
  const std::string text = tiled(1, 8192, 2048);
  EXPECT_EQ(text.find("block "), std::string::npos) << text;
  expect_tile(text, "team 32 vector 8 hold 8");
}

}  // namespace
}  // namespace kiln::loops
