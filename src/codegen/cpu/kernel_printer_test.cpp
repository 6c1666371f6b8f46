#include "codegen/c_family/kernel_printer.h"

#include <gtest/gtest.h>

#include "codegen/backend.h"
#include "codegen/cpu/dialect.h"

namespace kiln::codegen {
namespace {

// y[i] = sum over k of w[i, k] * s[i, k // group]: a weight with one scale for each group of columns.
std::string printed(int64_t group, const std::string& index = "") {
  const std::string where = index.empty() ? str("r0 // ", group) : index;
  loops::LoopProgram program = loops::parse_loops(str(R"(loops groups
buffer w f32[8, 128] strides [128, 1] input position 0
buffer s f32[8, 128] strides [128, 1] input position 1
buffer y f32[8] strides [1] output position 0
input w = buffer w
input s = buffer s
output buffer y
init {
}
main {
  kernel groups ops [mv] {
    schedule items [8] grain 1 lanes 16
    for i0 in [8] parallel @item {
      %0 = for r0 in [128] reduce sum.f32 @lane(16, exact) {
        %1 = load.f32 w[i0, r0]
        %2 = load.f32 s[i0, )",
                                                      where, R"(]
        %3 = mul.f32 %1, %2
        yield %3
      }
      store y[i0] = %0
    }
  }
}
)"));
  const GeneratedCode code = cpu_backend().generate(program, cpu_backend().target("x86-64-v4"));
  return join(code.texts, "\n");
}

// Two weights of other sizes, packed alike, and two copies that run with every call.
TEST(KernelPrinter, KernelsThatRunOnceTakeTheirSizesAsArguments) {
  const auto packing = [](const std::string& from, const std::string& to, int64_t rows, int64_t columns) {
    return str("  kernel pack_", from, " ops [pack] {\n    schedule items [", rows,
               "] grain 1 lanes 1\n    for i0 in [", rows, "] parallel @item {\n      for i1 in [", columns,
               "] parallel {\n        %0 = load.f32 ", from, "[i0, i1]\n        store ", to,
               "[i1 // 4, i0, i1 % 4] = %0\n", "      }\n    }\n  }\n");
  };
  const loops::LoopProgram program =
      loops::parse_loops(str(R"(loops packing
buffer a f32[6, 8] strides [8, 1] constant named "a"
buffer b f32[10, 12] strides [12, 1] constant named "b"
buffer pa f32[2, 6, 4] strides [24, 4, 1] derived
buffer pb f32[3, 10, 4] strides [40, 4, 1] derived
buffer y f32[2, 6, 4] strides [24, 4, 1] output position 0
buffer z f32[3, 10, 4] strides [40, 4, 1] output position 1
output buffer y
output buffer z
init {
)",
                             packing("a", "pa", 6, 8), packing("b", "pb", 10, 12), "}\nmain {\n",
                             packing("a", "y", 6, 8), packing("b", "z", 10, 12), "}\n"));
  const GeneratedCode code = cpu_backend().generate(program, cpu_backend().target("x86-64-v4"));
  ASSERT_EQ(code.texts.size(), 3u) << join(code.texts, "\n");
  EXPECT_NE(code.texts[0].find("i1 < n"), std::string::npos) << code.texts[0];
  EXPECT_NE(code.texts[0].find("i1 / 4l"), std::string::npos) << code.texts[0];
  EXPECT_NE(code.texts[1].find("i1 < 8l"), std::string::npos) << code.texts[1];
  const auto& first = std::get<loops::Kernel>(program.init[0].what);
  const auto& second = std::get<loops::Kernel>(program.init[1].what);
  EXPECT_EQ(code.steps.at(&first).function, code.steps.at(&second).function);
  EXPECT_EQ(code.steps.at(&first).ints.size(), code.steps.at(&second).ints.size());
  EXPECT_EQ(code.steps.at(&first).ints[0].text(), "8");
  EXPECT_EQ(code.steps.at(&second).ints[0].text(), "12");
  EXPECT_EQ(cpu_backend().step_code(second, program).ints.size(), code.steps.at(&second).ints.size());
}

// Rows of other lengths: one function for both, whose arguments are each step's own; what stands alone keeps its sizes,
// and so do divisors and small numbers.
TEST(KernelPrinter, KernelsThatDifferInSizesShareAFunction) {
  const auto scaled = [](const char* name, const char* from, const char* to, int64_t rows, int64_t columns,
                         const char* op) {
    return str("  kernel ", name, " ops [", op, "] {\n    schedule items [", rows * 3,
               "] grain 1 lanes 16\n    for i0 in [", rows,
               "] parallel @item {\n      for i1 in [3] parallel @item {\n", "        for i2 in [", columns,
               "] parallel @lane(16, mask) {\n          %0 = load.f32 ", from, "[i0, i1, i2]\n          %1 = ", op,
               ".f32 %0, %0\n          store ", to, "[i0, i1, i2] = %1\n        }\n      }\n    }\n  }\n");
  };
  const loops::LoopProgram program =
      loops::parse_loops(str(R"(loops sizes
buffer a f32[20, 3, 40] strides [120, 40, 1] input position 0
buffer b f32[30, 3, 50] strides [150, 50, 1] input position 1
buffer x f32[20, 3, 40] strides [120, 40, 1] output position 0
buffer y f32[30, 3, 50] strides [150, 50, 1] output position 1
buffer z f32[20, 3, 40] strides [120, 40, 1] output position 2
input a = buffer a
input b = buffer b
output buffer x
output buffer y
output buffer z
init {
}
main {
)",
                             scaled("first", "a", "x", 20, 40, "mul"), scaled("second", "b", "y", 30, 50, "mul"),
                             scaled("alone", "a", "z", 20, 40, "add"), "}\n"));
  const GeneratedCode code = cpu_backend().generate(program, cpu_backend().target("x86-64-v4"));
  ASSERT_EQ(code.texts.size(), 2u) << join(code.texts, "\n");
  EXPECT_NE(code.texts[0].find("e_i2 = n"), std::string::npos) << code.texts[0];
  EXPECT_NE(code.texts[0].find("rest % 3l"), std::string::npos) << code.texts[0];
  EXPECT_NE(code.texts[1].find("e_i2 = 40l"), std::string::npos) << code.texts[1];
  const std::vector<std::string> expected = {"40", "50"};
  for (size_t i = 0; i < 2; ++i) {
    const auto& kernel = std::get<loops::Kernel>(program.block[i].what);
    const StepCode &step = code.steps.at(&kernel), again = cpu_backend().step_code(kernel, program);
    EXPECT_EQ(step.function, 0);
    ASSERT_FALSE(step.ints.empty());
    EXPECT_EQ(step.ints[0].text(), expected[i]);
    ASSERT_EQ(again.ints.size(), step.ints.size());
    for (size_t n = 0; n < step.ints.size(); ++n) EXPECT_EQ(again.ints[n].text(), step.ints[n].text());
  }
  EXPECT_TRUE(code.steps.at(&std::get<loops::Kernel>(program.block[2].what)).ints.empty());
}

// Loops are called after where a kernel comes from, which is nothing to a function.
TEST(KernelPrinter, NamesOfLoopsDoNotKeepFunctionsApart) {
  const auto doubled = [](const char* name, const char* loop, const char* to, const char* op) {
    return str("  kernel ", name, " ops [", op, "] {\n    schedule items [20] grain 1 lanes 16\n    for ", loop,
               " in [20] parallel @item {\n      for i64x in [40] parallel @lane(16, mask) {\n        %0 = load.f32 a[",
               loop, ", i64x]\n        %1 = ", op, ".f32 %0, %0\n        store ", to, "[", loop,
               ", i64x] = %1\n      }\n    }\n  }\n");
  };
  const loops::LoopProgram program =
      loops::parse_loops(str(R"(loops names
buffer a f32[20, 40] strides [40, 1] input position 0
buffer x f32[20, 40] strides [40, 1] output position 0
buffer y f32[20, 40] strides [40, 1] output position 1
buffer z f32[20, 40] strides [40, 1] output position 2
input a = buffer a
output buffer x
output buffer y
output buffer z
init {
}
main {
)",
                             doubled("first", "i0", "x", "add"), doubled("second", "i17", "y", "add"),
                             doubled("other", "i0", "z", "mul"), "}\n"));
  const GeneratedCode code = cpu_backend().generate(program, cpu_backend().target("x86-64-v4"));
  EXPECT_EQ(code.symbols, (std::vector<std::string>{"first", "other"}));
}

// Products of rows and columns side by side, of other widths and numbers of heads: one function, in which all rows have
// the same distances as arguments.
TEST(KernelPrinter, RowsSideBySideShareTheirSizes) {
  const auto product = [](const char* name, int64_t heads, int64_t terms) {
    return str("  kernel ", name, " ops [mm] {\n    schedule items [", heads * 2, R"(] grain 1 lanes 16
    for i0 in [2] parallel @item {
      for i1 in [)",
               heads, R"(] parallel @item {
        for i2 in [24] parallel @unroll(6, mask) {
          for i3 in [32] parallel @lane(32, exact) {
            %3 = for r0 in [)",
               terms, R"(] reduce sum.f32 fused {
              %0 = load.f32 a_)",
               name, R"([i0, i1, i2, r0]
              %1 = load.f32 b_)",
               name, R"([i0, i1, r0, i3]
              %2 = mul.f32 %0, %1
              yield %2
            }
            store scratch_)",
               name, R"([i2, i3] = %3
          }
        }
        for i4 in [24] parallel {
          for i5 in [32] parallel @lane(16, exact) {
            %4 = load.f32 scratch_)",
               name, R"([i4, i5]
            store y_)",
               name, R"([i0, i1, i4, i5] = %4
          }
        }
      }
    }
  }
)");
  };
  const auto buffers = [](const char* name, int64_t heads, int64_t terms, int place) {
    const auto dense = [&](const char* what, int64_t rows, int64_t columns, const std::string& role) {
      return str("buffer ", what, "_", name, " f32[2, ", heads, ", ", rows, ", ", columns, "] strides [",
                 heads * rows * columns, ", ", rows * columns, ", ", columns, ", 1] ", role, "\n");
    };
    return str(dense("a", 24, terms, str("input position ", place)),
               dense("b", terms, 32, str("input position ", place + 1)),
               dense("y", 24, 32, str("output position ", place / 2)), "buffer scratch_", name,
               " f32[24, 32] strides [32, 1] scratch\n");
  };
  const loops::LoopProgram program = loops::parse_loops(str(
      "loops heads\n", buffers("p", 3, 64, 0), buffers("q", 12, 80, 2),
      "input a_p = buffer a_p\ninput b_p = buffer b_p\ninput a_q = buffer a_q\ninput b_q = buffer b_q\n",
      "output buffer y_p\noutput buffer y_q\ninit {\n}\nmain {\n", product("p", 3, 64), product("q", 12, 80), "}\n"));
  loops::verify(program);
  const GeneratedCode code = cpu_backend().generate(program, cpu_backend().target("x86-64-v4"));
  ASSERT_EQ(code.texts.size(), 1u) << join(code.texts, "\n");
  const std::string& text = code.texts[0];
  EXPECT_NE(text.find("rest % n"), std::string::npos) << text;
  const size_t first = text.find("(i2_0 * n"), end = text.find(')', first);
  ASSERT_NE(first, std::string::npos) << text;
  const std::string number = text.substr(first + 8, end - first - 8);
  EXPECT_NE(text.find(str("(i2_5 * ", number, ")")), std::string::npos) << text;
}

TEST(KernelPrinter, AQuotientThatAllLanesShareIsOneLoad) {
  for (int64_t group : {16, 32, 64}) {
    const std::string text = printed(group);
    EXPECT_EQ(text.find("k_gather"), std::string::npos) << text;
    EXPECT_NE(text.find("k_get_f32"), std::string::npos) << text;
  }
  // Several groups in a vector: one load, no further than their last, is dealt out.
  const std::string text = printed(8);
  EXPECT_EQ(text.find("k_gather"), std::string::npos) << text;
  EXPECT_NE(text.find("k_load_f32_n(b1 + "), std::string::npos) << text;
  EXPECT_NE(text.find("(int)(2)"), std::string::npos) << text;
  EXPECT_NE(text.find("__builtin_shufflevector(g0, g0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)"),
            std::string::npos)
      << text;
  // Groups that end inside a vector, or that the lanes do not begin with.
  EXPECT_NE(printed(24).find("k_gather"), std::string::npos);
  EXPECT_NE(printed(0, "(r0 + 8) // 32").find("k_gather"), std::string::npos);
  EXPECT_EQ(printed(0, "(r0 + 48) // 32").find("k_gather"), std::string::npos);
}

TEST(KernelPrinter, ARemainderThatCountsUpInTheLanesIsOneVector) {
  const std::string text = printed(0, "r0 % 32");
  EXPECT_EQ(text.find("k_gather"), std::string::npos) << text;
  EXPECT_NE(printed(0, "r0 % 24").find("k_gather"), std::string::npos);
  EXPECT_NE(printed(0, "(r0 // 32) * 3 + r0 % 8").find("k_gather"), std::string::npos);
}

// ---- Text in, text out: every construct once
// ----------------------------------------------------------------------------

loops::LoopProgram program_of(const std::string& body, int lanes) {
  return loops::parse_loops(str(R"(loops constructs
symbol s0 in [1, 64] hint 8
buffer x f32[8, s0] strides [s0, 1] input position 0
buffer h bf16[8, s0] strides [s0, 1] input position 1
buffer m bool[s0] strides [1] input position 2
buffer idx i64[s0] strides [1] input position 3
buffer half f16[s0] strides [1] input position 4
buffer row f32[s0] strides [1] scratch
buffer y f32[8, s0] strides [s0, 1] output position 0
buffer n i64[8] strides [1] output position 1
buffer b bool[8] strides [1] output position 2
buffer bits i16[s0] strides [1] output position 3
input x = buffer x
input h = buffer h
input m = buffer m
input idx = buffer idx
input half = buffer half
output buffer y
output buffer n
output buffer b
output buffer bits
site "out of range" origin 0
main {
  kernel t {
    schedule items [8] grain 1 lanes )",
                                lanes, R"(
    for i0 in [8] parallel @item {
)",
                                body, R"(
    }
  }
}
origin 0 node "n" op "o" module ""
)"));
}

std::string text_of(const std::string& body, int lanes = 1, const Dialect& dialect = cpu_dialect()) {
  const loops::LoopProgram program = program_of(body, lanes);
  loops::verify(program);
  return KernelPrinter(std::get<loops::Kernel>(program.block[0].what), program, dialect).print().text;
}

// The parts stand in the text in this order.
void expect_text(const std::string& text, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    const size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << "\nis not (there) in\n" << text;
    at = found + part.size();
  }
}

std::string over_row(const std::string& loop, const std::string& statements) {
  return str("for i1 in [s0] parallel", loop, " {\n", statements, "\n}");
}
const char* const lane = " @lane(16, mask)";

TEST(KernelPrinter, TheFunctionAroundIt) {
  expect_text(
      text_of(over_row("", "%0 = load.f32 x[i0, i1]\nstore y[i0, i1] = %0")),
      {"extern \"C\" __attribute__((visibility(\"default\"))) int $NAME(const kiln_kernel_context* ctx, void* const* "
       "buffers, const i64* ints, i64 item_begin, i64 item_end) {\n",
       "  const f32* const b0 = (const f32*)buffers[0];\n", "  f32* const b1 = (f32*)buffers[1];\n",
       "  const i64 n0 = ints[0];\n", "  (void)ctx; (void)buffers; (void)ints;\n",
       "  for (i64 item = item_begin; item < item_end; ++item) {\n", "    const i64 i0 = item;\n",
       "for (i64 i1 = 0; i1 < n0; ++i1) {\n", "const f32 v0 = k_get_f32(b0 + ((i0 * n0) + i1));\n",
       "k_set_f32(b1 + ((i0 * n0) + i1), v0);\n", "  return 0;\n}\n"});
}

TEST(KernelPrinter, Operators) {
  expect_text(text_of(over_row("", R"(%0 = load.f32 x[i0, i1]
%1 = constant.f32 0.5
%2 = add.f32 %0, %1
%3 = exp.f32 %2
%4 = lt.bool %3, %1
%5 = select.f32 %4, %3, %1
%6 = cast.bf16 %5
%7 = index.i64 [i1*2]
%8 = index.f32 [i1]
%9 = random.f32 [i1]
%10 = load.f16 half[i1]
%11 = bitcast.i16 %10
store bits[i1] = %11
store y[i0, i1] = %5)")),
              {"const f32 v1 = 0x1p-1f;", "= k_add(v0, v1);", "= k_exp(", "const bool ", "= k_lt(", "= k_select(",
               "= k_cast_bf16(", "k_random_f32(ctx->seed, (i64)i1)", "= k_bitcast_i16(k_bits_f16("});
}

TEST(KernelPrinter, MemoryInLanes) {
  // Neighbours; a partial vector; another distance; a mask; any place.
  expect_text(text_of(over_row(lane, "%0 = load.f32 x[i0, i1]\nstore y[i0, i1] = %0"), 16),
              {"for (; i1 + 16 <= e_i1; i1 += 16) {", "= k_load_f32(b0 + ((i0 * n0) + i1));",
               "k_store_f32(b1 + ((i0 * n0) + i1), v0);", "const int left = (int)(e_i1 - i1);",
               "= k_load_f32_n(b0 + ((i0 * n0) + i1), left);", "k_store_f32_n(b1 + ((i0 * n0) + i1), v0, left);"});
  const auto strided = [](int lanes) {
    return text_of(
        str("for i1 in [8] parallel @lane(", lanes, ", mask) {\n%0 = load.f32 x[i1, 0]\nstore y[i1, 0] = %0\n}"),
        lanes);
  };
  expect_text(strided(8), {"= k_load_f32_s(b0 + (i1 * n0), n0);", "k_store_f32_s(b1 + (i1 * n0), v0, n0);",
                           "k_load_f32_sn(", ", n0, left);"});
  // Fewer elements than lanes are no whole vector.
  expect_text(strided(16), {"k_load_f32_sn(", ", n0, left);"});
  EXPECT_EQ(strided(16).find("k_load_f32_s("), std::string::npos);
  expect_text(
      text_of(over_row(lane, "%0 = load.bool m[i1]\n%1 = load.f32 x[i0, i1] mask %0\nstore y[i0, i1] = %1 mask %0"),
              16),
      {"const vmask v0 = k_load_bool(", "k_load_f32_m(b1 + ((i0 * n0) + i1), v0)",
       "k_store_f32_m(b2 + ((i0 * n0) + i1), v1, v0);", "(v0 & k_first(left))"});
  expect_text(text_of(over_row(lane, "%0 = load.f32 x[i0, (i1*i1) % s0]\nstore y[i0, (i1*i1) % s0] = %0"), 16),
              {"k_gather_f32(b0, ", "k_splat_i64(i1) + k_iota_i64()", "k_scatter_f32(b1, ", "k_gather_f32_m(b0, ",
               "k_first(left));"});
  // A masked scalar, and a value that all lanes share.
  expect_text(
      text_of(over_row(
          "",
          "%0 = load.bool m[i1]\n%1 = load.bf16 h[i0, i1] mask %0\n%2 = cast.f32 %1\nstore y[i0, i1] = %2 mask %0")),
      {"= v0 ? k_get_bf16(", " : (f32)0;", "if (v0) k_set_f32("});
}

TEST(KernelPrinter, StoresThatCombine) {
  for (const auto& [mode, call] : {std::pair<const char*, const char*>{"add", "k_add(k_get_f32("},
                                   {"min", "k_min("},
                                   {"max", "k_max("},
                                   {"prod", "k_mul("}})
    expect_text(text_of(over_row("", str("%0 = load.f32 x[i0, i1]\nstore.", mode, " y[i0, 0] = %0"))),
                {"k_set_f32(b1 + (i0 * n0), ", call});
  expect_text(text_of(over_row("", "%0 = load.f32 x[i0, i1]\nstore.atomic_add y[i0, 0] = %0")),
              {"k_atomic_add_f32(b1 + (i0 * n0), v0);"});
  expect_text(text_of(over_row("", "%0 = load.bool m[i1]\nstore.add b[i0] = %0")),
              {"k_set_bool(b1 + i0, k_get_bool(b1 + i0) || v0);"});
}

TEST(KernelPrinter, WhatMayRaise) {
  const char* const picks =
      "%0 = load.i64 idx[i1]\n%1 = check_index j = %0 in [s0] site 0\n%2 = load.f32 x[i0, j]\nstore y[i0, i1] = %2";
  expect_text(
      text_of(over_row("", picks)),
      {"i64 j = (i64)v0;", "if ((u64)(j += j < 0 ? n0 : 0) >= (u64)(n0)) return k_raise(ctx, 0, i1, (i64)v0);"});
  expect_text(text_of(over_row(lane, picks), 16),
              {"const vi64 j_given = k_cast_i64(v0);",
               "j_wrapped = k_select(k_lt(j_given, k_splat_i64(0)), j_given + k_splat_i64(n0), j_given);",
               "if (k_hany(j_bad)) return k_raise(ctx, 0, ", "k_gather_f32("});
  expect_text(
      text_of(over_row("", "%0 = load.i64 idx[i1]\n%1 = constant.i64 0\n%2 = lt.bool %0, %1\nraise_if %2 site 0")),
      {"if (v2) return k_raise(ctx, 0, i1, (i64)v0);"});
}

TEST(KernelPrinter, Reductions) {
  const auto reduce = [](const std::string& kind, const std::string& result, const std::string& directives = "") {
    return str(result, " = for r0 in [s0] reduce ", kind, directives,
               " {\n%10 = load.f32 x[i0, r0]\nyield %10\n}\nstore y[i0, 0] = %0");
  };
  expect_text(text_of(reduce("sum.f32", "%0")),
              {"f32 v0 = 0x0p+0f;", "for (i64 r0 = 0; r0 < n0; ++r0) {", "v0 = k_add(v0, v1);"});
  expect_text(text_of(reduce("max.f32", "%0")), {"f32 v0 = -__builtin_inff();", "v0 = k_max(v0, v1);"});
  expect_text(text_of(reduce("prod.f32", "%0")), {"v0 = k_mul(v0, v1);"});
  expect_text(text_of(reduce("sum.f32", "%0", " blocks(8, f64)")),
              {"f64 v0_wide = 0;", "r0_block += 8)", "v0_part = k_add(v0_part, v1);",
               "v0_wide = k_add(v0_wide, k_cast_f64(v0_part));", "v0 = k_cast_f32(v0_wide);"});
  expect_text(text_of(reduce("sum.f32", "%0", " @lane(16, mask)"), 16),
              {"vf32 v0_lanes = k_splat_f32(0x0p+0f);", "v0_lanes = k_add(v0_lanes, v1);",
               "const vf32 kept = k_select(k_first(left), v1, ", "v0 = k_hsum(v0_lanes);"});
  expect_text(text_of(reduce("argmax.f32", "%0, %1")),
              {"i64 v1 = 9223372036854775807l;", "|| v2 != v2)", "{ v0 = v2; v1 = r0; }"});
  expect_text(text_of(reduce("welford.f32", "%0, %1, %2")),
              {"v2 += 1; { const f32 d = v3 - v0; v0 += d / (f32)v2; v1 += d * (v3 - v0); }"});
  expect_text(text_of("%0 = for r0 in [s0] reduce sum.f32 fused {\n%1 = load.f32 x[i0, r0]\n%2 = mul.f32 %1, %1\nyield "
                      "%2\n}\nstore y[i0, 0] = %0"),
              {"v0 = k_madd(v1, v1, v0);"});
  expect_text(text_of("%0 = for r0 in [s0] reduce any.bool {\n%1 = load.bool m[r0]\nyield %1\n}\nstore b[i0] = %0"),
              {"bool v0 = false;", "v0 = v0 | v1;"});
  expect_text(text_of("%0 = for r0 in [s0] scan sum.f32 {\n%1 = load.f32 x[i0, r0]\nyield %1\n} after %2 {\nstore "
                      "y[i0, r0] = %2\n}"),
              {"v0 = k_add(v0, v1);", "const f32 v2 = v0;", "k_set_f32(b1 + ((i0 * n0) + r0), v2);"});
}

TEST(KernelPrinter, ScratchIsTheThreads) {
  expect_text(text_of(over_row(lane, "%0 = load.f32 x[i0, i1]\nstore row[i1] = %0") +
                          "\nfor i2 in [s0] parallel {\n%1 = load.f32 row[i2]\nstore y[i0, i2] = %1\n}",
                      16),
              {"f32* const scratch0 = (f32*)((char*)ctx->scratch + 0l);", "const i64 scratch0_bytes = n",
               "k_store_f32(scratch0 + i1, v0);", "k_get_f32(scratch0 + i2)"});
}

// ---- A language of threads
// ---------------------------------------------------------------------------------------------

// As a printer for CUDA would have it: the same statements, scalars in threads instead of vectors.
class Threads : public Dialect {
 public:
  bool has_vectors() const override { return false; }
  std::string head() const override { return "extern \"C\" __global__ void $NAME(kiln_args args, i64 items) {\n"; }
  std::string buffer(DType dtype, bool constant, size_t number) const override {
    return str("  ", constant ? "const " : "", storage_type(dtype), "* const b", number, " = args.get(", number,
               ");\n");
  }
  std::string integer(size_t number) const override {
    return str("  const i64 n", number, " = args.ints[", number, "];\n");
  }
  std::string scratch(DType dtype, size_t number, const std::string& offset) const override {
    return str("  ", storage_type(dtype), "* const scratch", number, " = shared_memory(", offset, ");\n");
  }
  std::string end() const override { return "}\n"; }
  std::string items() const override { return "for (i64 item = blockIdx.x; item < items; item += gridDim.x)"; }
  std::string seed() const override { return "args.seed"; }
  std::string raise(int site, const std::string& told) const override {
    return str("{ k_raise(args, ", site, ", ", told, "); return; }");
  }
  const char* spelling(const loops::ScalarOpInfo& info) const override { return info.cuda; }
  std::string thread() const override { return "threadIdx.x"; }
  std::string threads() const override { return "blockDim.x"; }
  std::string over_threads(loops::ReduceOp op, const std::string& value) const override {
    return str("k_block_", loops::reduce_info(op).name, "(", value, ")");
  }
};

TEST(KernelPrinter, ALanguageOfThreadsNeedsADialectAndNoOtherPrinter) {
  const std::string text = text_of(R"(%0 = for r0 in [s0] reduce max.f32 @lane(16, mask) {
%1 = load.f32 x[i0, r0]
yield %1
}
for i1 in [s0] parallel @lane(16, mask) {
%2 = load.f32 x[i0, i1]
%3 = sub.f32 %2, %0
%4 = exp.f32 %3
store y[i0, i1] = %4
})",
                                   16, Threads());
  expect_text(
      text, {"__global__ void $NAME", "for (i64 item = blockIdx.x; item < items; item += gridDim.x) {",
             "f32 v0 = -__builtin_inff();", "for (i64 r0 = threadIdx.x; r0 < n0; r0 += blockDim.x) {",
             "v0 = k_max(v0, v1);", "v0 = k_block_max(v0);", "for (i64 i1 = threadIdx.x; i1 < n0; i1 += blockDim.x) {",
             "const f32 v3 = (v2 - v0);", "const f32 v4 = exp(v3);", "k_set_f32(b1 + ((i0 * n0) + i1), v4);", "}\n"});
  for (const char* part : {"vf32", "k_load_", "k_splat", "ctx"})
    EXPECT_EQ(text.find(part), std::string::npos) << part << "\n" << text;
}

}  // namespace
}  // namespace kiln::codegen
