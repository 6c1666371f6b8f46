// Tiles whose products are matrix instructions of four warps together.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text.h"
#include "codegen/backend.h"
#include "loops/loops.h"

namespace kiln::codegen {
namespace {

// 256 rows of x times 512 columns of w; `across`: w lies [terms, columns].
std::string warpgroup_program(const std::string& block, const std::string& type = "bf16", bool across = false) {
  return str(
      "loops product\nbuffer x ", type, "[256, 320] strides [320, 1] input position 0\nbuffer w ", type,
      across ? "[320, 512] strides [512, 1]" : "[512, 320] strides [320, 1]",
      " input position 1\nbuffer y f32[256, 512] strides [512, 1] output position 0\ninput x = buffer x\n",
      "input w = buffer w\noutput buffer y\nmain {\n  kernel k {\n    contraction batch [] rows [i0] columns [i1] ",
      "sums [r0] left %1 of [%0, %1] right %3 of [%2, %3] shared []\n    schedule items [8] grain 1 lanes 1 ", block,
      "\n    for i0 in [256] parallel @item {\n      for i1 in [512] parallel @item {\n        %5 = for r0 in "
      "[320] reduce sum.f32 {\n          %0 = load.",
      type, " x[i0, r0]\n          %1 = cast.f32 %0\n          %2 = load.", type, across ? " w[r0, i1]" : " w[i1, r0]",
      "\n          %3 = cast.f32 %2\n          %4 = mul.f32 %1, %3\n          yield %4\n        }\n        store "
      "y[i0, i1] = %5\n      }\n    }\n  }\n}\n");
}

GeneratedCode warpgroup_code(const std::string& text) {
  const loops::LoopProgram program = loops::parse_loops(text);
  loops::verify(program);
  const Backend& backend = backend_for(DeviceType::cuda);
  return backend.generate(program, backend.target("sm_90a"), {});
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

const std::string along = " left_along_terms left_chunk 8 right_along_terms right_chunk 8";

TEST(Warpgroups, FourWarpsMultiplyLinesOfSharedMemory) {
  const GeneratedCode code = warpgroup_code(warpgroup_program(
      "threads 256 team 256 block 128 rows 128 columns 64 terms each 64 by 128 tensor_cores warpgroups stages 4" +
      along));
  const std::string& text = code.texts.at(0);
  expect_part(text,
              "const int warp = threadIdx.x / 32, group_row = warp / 4 / 1 * 64, warp_row = group_row + warp % 4 * 16, "
              "warp_column = warp / 4 % 1 * 128;");
  expect_part(text, "f32 sums[1][16][4] = {};");
  expect_part(text, "gpu_warpgroup_products<gpu_of_bf16, gpu_wgmma_128, 128, 128, true, true, 64, 128, 4>(");
  expect_part(text, "row_begin + warp_row + i * 64 + spread_row");
  const std::string& unit = code.sources.at(0);
  expect_part(unit, "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, ");
  expect_part(unit, ", %64, %65, 1, 1, 1, %66, %67;\"");
  EXPECT_EQ(unit.find("m64n64k16"), std::string::npos);  // no width that nobody uses
  // Of a newer GPU's PTX no instruction of this architecture alone may be a part.
  EXPECT_LT(unit.find("__CUDA_ARCH_FEAT_SM90_ALL"), unit.find("wgmma."));
  EXPECT_EQ(code.launches.at(0).shared, 4 * 64 * 2 * (128 + 128));
}

TEST(Warpgroups, LinesAcrossTheTermsStandInBlocksOf64) {
  const std::string block =
      "threads 256 team 256 block 128 rows 256 columns 64 terms each 64 by 256 tensor_cores warpgroups stages 3 "
      "left_along_terms left_chunk 8 right_chunk 8";
  const std::string text = warpgroup_code(warpgroup_program(block, "f16", true)).texts.at(0);
  expect_part(text, "gpu_block_place(line, chunk) * 8");
  expect_part(text, "gpu_warpgroup_products<gpu_of_f16, gpu_wgmma_256, 128, 256, true, false, 64, 256, 3>(");
}

TEST(Warpgroups, TextIsReadBack) {
  const std::string text = warpgroup_program(
      "threads 256 team 256 block 256 rows 128 columns 64 terms each 128 by 128 tensor_cores warpgroups stages 3" +
      along);
  const std::string printed = print(loops::parse_loops(text));
  expect_part(printed, "each 128 by 128 tensor_cores warpgroups stages 3 left_along_terms");
  EXPECT_EQ(print(loops::parse_loops(printed)), printed);
}

TEST(Warpgroups, WhatTheInstructionsDoNotHaveIsRefused) {
  const auto refused = [](const std::string& block, const std::string& type = "bf16", bool across = false) {
    EXPECT_THROW(loops::verify(loops::parse_loops(warpgroup_program(
                     block + " left_along_terms left_chunk 8" + (across ? "" : " right_along_terms") + " right_chunk 8",
                     type, across))),
                 Error)
        << block;
  };
  // Terms that are no line of 128 bytes, too few stages, half a matrix, no matrix instructions at all, other types.
  refused("threads 256 team 256 block 128 rows 128 columns 32 terms each 64 by 128 tensor_cores warpgroups stages 4");
  refused("threads 256 team 256 block 128 rows 128 columns 64 terms each 64 by 128 tensor_cores warpgroups stages 2");
  refused("threads 512 team 512 block 128 rows 128 columns 64 terms each 32 by 128 tensor_cores warpgroups stages 4");
  refused("threads 256 team 256 block 128 rows 96 columns 64 terms each 64 by 96 tensor_cores warpgroups stages 4",
          "bf16", true);
  refused("threads 64 team 64 block 128 rows 128 columns 64 terms each 64 by 128 tensor_cores warpgroups stages 4");
  refused("threads 256 team 256 block 128 rows 128 columns 64 terms each 64 by 128 tensor_cores warpgroups stages 4",
          "f64");
}

}  // namespace
}  // namespace kiln::codegen
