#include "codegen/cpu/common_parts.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace kiln::codegen {
namespace {

// A kernel of a block with a long loop, `long_loop`, that is followed by `tail`.
KernelText kernel(const std::string& name, const std::string& input, const std::string& long_loop,
                  const std::string& tail, int lanes = 16) {
  return {str("extern \"C\" __attribute__((visibility(\"default\"))) int ", name,
              "(const kiln_kernel_context* ctx, void* const* buffers, const i64* ints, i64 item_begin, i64 item_end) "
              "{\n  const f32* const ",
              input, " = (const f32*)buffers[0];\n  for (i64 item = item_begin; item < item_end; ++item) {\n",
              "    const i64 v0 = 14l;\n    f32 sum = 0;\n    vf32 tile[2];\n", long_loop, "    ", tail,
              "\n  }\n  return 0;\n}\n"),
          lanes};
}

std::string long_loop(const std::string& input, const std::string& variable, const std::string& line) {
  std::string out = str("     {\n      for (i64 ", variable, " = 0; ", variable, " < v0; ++", variable, ") {\n");
  for (int i = 0; i < 40; ++i)
    out += str("        tile[1] = k_madd(tile[1], k_load_f32(", input, " + (", variable, " + ", i, "l)));\n");
  return out + str("        ", line, "\n      }\n    }\n");
}

TEST(CommonParts, OneFunctionStandsForPartsThatDifferInNames) {
  const SharedText shared =
      with_common_parts({kernel("first", "b0", long_loop("b0", "r0", ""), "k_store_f32(b0, tile[0]);"),
                         kernel("second", "b3", long_loop("b3", "i1", ""), "k_store_f32(b3 + 1, tile[0]);")});
  ASSERT_EQ(shared.parts.size(), 1u);
  const std::string head =
      "extern \"C\" __attribute__((visibility(\"protected\"), noinline)) void first_part0(vf32 (&tile)[2], const f32* "
      "const b0)";
  EXPECT_EQ(shared.parts[0].declaration, head + ";\n");
  // A name for a number is known to the compiler there too.
  EXPECT_TRUE(starts_with(shared.parts[0].definition, head + " {\n  const i64 v0 = 14l;\n     {\n"))
      << shared.parts[0].definition;
  EXPECT_NE(shared.kernels[0].text.find("first_part0(tile, b0);\n    k_store_f32(b0, tile[0]);"), std::string::npos)
      << shared.kernels[0].text;
  EXPECT_NE(shared.kernels[1].text.find("first_part0(tile, b3);\n    k_store_f32(b3 + 1, tile[0]);"),
            std::string::npos);
  EXPECT_EQ(shared.kernels[1].text.find("k_madd"), std::string::npos);
  EXPECT_EQ(shared.kernels[1].parts, std::vector<size_t>{0});
}

TEST(CommonParts, WhatIsNotAFunctionStays) {
  const auto parts_of = [](const std::string& line, int lanes = 16) {
    const KernelText first = kernel("first", "b0", long_loop("b0", "r0", line), "k_store_f32(b0, tile[0]);");
    const SharedText shared = with_common_parts(
        {first, kernel("second", "b0", long_loop("b0", "r0", line), "k_store_f32(b0 + 1, tile[0]);", lanes)});
    EXPECT_TRUE(!shared.parts.empty() || shared.kernels[0].text == first.text);
    return shared.parts.size();
  };
  EXPECT_EQ(parts_of(""), 1u);
  EXPECT_EQ(parts_of("if (r0 > 3) continue;"), 1u);
  EXPECT_EQ(parts_of("", 8), 0u);                              // vectors of another width
  EXPECT_EQ(parts_of("sum += k_get_f32(b0);"), 0u);            // what the kernel goes on with
  EXPECT_EQ(parts_of("return k_raise(ctx, 0, r0, 0l);"), 0u);  // leaves the kernel
  EXPECT_EQ(parts_of("tile[0] = k_splat_f32(nobody_knows);"), 0u);
  // The last `item` is the kernel's again.
  EXPECT_EQ(parts_of("if (r0 > 3) {\nf32 item = 0;\nitem += 1;\n}\ntile[0] = k_splat_f32((f32)item);"), 1u);
  EXPECT_EQ(parts_of("item[0] = 1;"), 0u);
}

TEST(CommonParts, OtherNumbersAreOtherParts) {
  const SharedText shared =
      with_common_parts({kernel("first", "b0", long_loop("b0", "r0", "tile[0] = k_load_f32(b0 + 128l);"), ""),
                         kernel("second", "b0", long_loop("b0", "r0", "tile[0] = k_load_f32(b0 + 256l);"), "")});
  EXPECT_TRUE(shared.parts.empty());
}

}  // namespace
}  // namespace kiln::codegen
