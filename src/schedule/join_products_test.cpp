// Products of the same rows as one, for a CPU: text in, text out, and the same numbers. gpu_schedule_test.cpp has a
// GPU's.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

struct Product {
  std::string name;
  int columns;
  std::string rows = "x", then = "tanh";
};

// Products with bias and activation, whose results a last kernel multiplies.
std::string text_of(const std::vector<Product>& products) {
  std::string buffers, kernels, last = "        %0 = constant.f32 1.0\n";
  int value = 0;
  for (const Product& p : products) {
    buffers += str("buffer w_", p.name, " f32[", p.columns, ", 24] strides [24, 1] constant named \"w_", p.name,
                   "\"\nbuffer b_", p.name, " f32[", p.columns, "] strides [1] constant named \"b_", p.name,
                   "\"\nbuffer ", p.name, " f32[20, ", p.columns, "] strides [", p.columns, ", 1] temp\n");
    kernels +=
        str("  kernel ", p.name, " ops [linear, ", p.then, "] {\n    for i0 in [20] parallel {\n      for i1 in [",
            p.columns, "] parallel {\n        %0 = for r0 in [24] reduce sum.f32 {\n          %1 = load.f32 ", p.rows,
            "[i0, r0]\n          %2 = load.f32 w_", p.name,
            "[i1, r0]\n          %3 = mul.f32 %1, %2\n          yield %3\n        }\n        %4 = load.f32 b_", p.name,
            "[i1]\n        %5 = add.f32 %0, %4\n        %6 = ", p.then, ".f32 %5\n        store ", p.name,
            "[i0, i1] = %6\n      }\n    }\n    name %6 = ", p.name, "[i0, i1]\n  }\n");
    last += str("        %", value + 1, " = load.f32 ", p.name, "[i0, i1 + 1]\n        %", value + 2, " = mul.f32 %",
                value, ", %", value + 1, "\n");
    value += 2;
  }
  return str(
      "loops products\nbuffer x f32[20, 24] strides [24, 1] input position 0\n"
      "buffer z f32[20, 24] strides [24, 1] input position 1\n",
      buffers, "buffer y f32[20, 8] strides [8, 1] output position 0\n",
      "input x = buffer x\ninput z = buffer z\noutput buffer y\ninit {\n}\nmain {\n", kernels,
      "  kernel y ops [mul] {\n    for i0 in [20] parallel {\n      for i1 in [8] parallel {\n", last,
      "        store y[i0, i1] = %", value, "\n      }\n    }\n  }\n}\n");
}

TEST(JoinProducts, OfACpuAreOneAndEachWeightIsPackedOnce) {
  LoopProgram program = parsed(text_of({{"a", 48}, {"b", 96}, {"c", 48}}));
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  find_contractions(program, log);
  ASSERT_TRUE(join_products(program, of_eight_lanes(), log));
  verify(program);
  expect_near(run_on_samples(program), before, 0);
  std::string text = print(program);
  EXPECT_EQ(program.block.size(), 2u) << text;
  EXPECT_NE(text.find("buffer a_joined f32[20, 192] strides [192, 1] temp"), std::string::npos) << text;
  for (const char* part :
       {"name %6 = a[i0, i1]", "name %6 = b[i0, i1 - 48]", "name %6 = c[i0, i1 - 144]", "load.f32 a_joined[i0, i1 + 1]",
        "load.f32 a_joined[i0, i1 + 49]", "load.f32 a_joined[i0, i1 + 145]"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;

  ASSERT_TRUE(use_templates(program, of_eight_lanes(), log));
  verify(program);
  expect_near(run_on_samples(program), before, 1e-5);
  text = print(program);
  // No copy of the weights lies between them and the packed ones.
  for (const char* name : {"a", "b", "c"})
    EXPECT_NE(text.find(str("load.f32 w_", name, "[i0*24 + i2, i1]")), std::string::npos) << text;
  for (const char* place :
       {"w_a_joined_packed[i0, i1, i2]", "w_a_joined_packed[i0 + 2, i1, i2]", "w_a_joined_packed[i0 + 6, i1, i2]"})
    EXPECT_NE(text.find(str("store ", place)), std::string::npos) << place << text;
  EXPECT_EQ(text.find("store w_a_joined["), std::string::npos) << text;
}

// Weights of 16, 80 and 32 columns, in panels of 24: the first two have one together, and behind the last are zeros.
TEST(JoinProducts, OfACpuShareAPanelWhereTheyMeet) {
  for (const int lanes : {8, 16}) {
    Target target = of_eight_lanes();
    target.lanes = lanes;
    LoopProgram program = parsed(text_of({{"a", 16}, {"b", 80}, {"c", 32}}));
    const std::vector<Datum> before = run_on_samples(program);
    Log log;
    find_contractions(program, log);
    ASSERT_TRUE(join_products(program, target, log));
    ASSERT_TRUE(use_templates(program, target, log));
    verify(program);
    expect_near(run_on_samples(program), before, 1e-5);
    EXPECT_EQ(print(program).find("store w_a_joined["), std::string::npos) << print(program);
    if (lanes != 8) continue;
    EXPECT_NE(print(program).find(R"(        for i2 in [24] parallel {
          %1 = index.i64 [i0*24 + i2]
          %2 = index.i64 [16]
          %3 = lt.bool %1, %2
          %0 = load.f32 w_a[i0*24 + i2, i1] mask %3
          store w_a_joined_packed[i0, i1, i2] = %0 mask %3
        }
      }
    }
  }
  kernel pack_w_b ops [pack] {
    for i0 in [4] parallel {
      for i1 in [24] parallel {
        for i2 in [24] parallel {
          %1 = index.i64 [15]
          %2 = index.i64 [i0*24 + i2]
          %3 = lt.bool %1, %2
          %0 = load.f32 w_b[i0*24 + i2 - 16, i1] mask %3
          store w_a_joined_packed[i0, i1, i2] = %0 mask %3
        }
      }
    }
  }
  kernel pack_w_c ops [pack] {
    for i0 in [2] parallel {
      for i1 in [24] parallel {
        for i2 in [24] parallel {
          %1 = index.i64 [i0*24 + i2]
          %2 = index.i64 [32]
          %3 = lt.bool %1, %2
          %0 = load.f32 w_c[i0*24 + i2, i1] mask %3
          store w_a_joined_packed[i0 + 4, i1, i2] = %0
)"),
              std::string::npos)
        << print(program);
  }
}

TEST(JoinProducts, OfOtherRowsOrOtherEpiloguesStayApart) {
  for (const Product& second : {Product{"b", 32, "z"}, Product{"b", 32, "x", "exp"}}) {
    LoopProgram program = parsed(text_of({{"a", 32}, second}));
    Log log;
    find_contractions(program, log);
    EXPECT_FALSE(join_products(program, of_eight_lanes(), log));
  }
}

// The channels of a picture lie side by side, in the dimension before its lines.
TEST(JoinProducts, OfPicturesKeepTheOrderOfTheirDimensions) {
  std::string buffers, kernels;
  for (const char* name : {"a", "b"}) {
    buffers += str("buffer w_", name, " f32[32, 24, 1, 1] strides [24, 1, 1, 1] constant named \"w_", name,
                   "\"\nbuffer ", name, " f32[32, 5, 4] strides [1, 128, 32] temp\n");
    kernels += str("  kernel ", name,
                   " ops [convolution] {\n    for i0 in [5] parallel {\n      for i1 in [4] parallel {\n        for i2 "
                   "in [32] parallel {\n          %0 = for r0 in [24] reduce sum.f32 {\n            %1 = load.f32 "
                   "x[r0, i0, i1]\n            %2 = load.f32 w_",
                   name,
                   "[i2, r0, 0, 0]\n            %3 = mul.f32 %1, %2\n            yield %3\n          }\n          "
                   "store ",
                   name, "[i2, i0, i1] = %0\n        }\n      }\n    }\n  }\n");
  }
  LoopProgram program = parsed(str(
      "loops branches\nbuffer x f32[24, 5, 4] strides [1, 96, 24] input position 0\n", buffers,
      "buffer y f32[32, 5, 4] strides [20, 4, 1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\n"
      "main {\n",
      kernels,
      "  kernel y ops [add] {\n    for i0 in [32] parallel {\n      for i1 in [5] parallel {\n        for i2 in [4] "
      "parallel {\n          %0 = load.f32 a[i0, i1, i2]\n          %1 = load.f32 b[i0, i1, i2]\n          %2 = "
      "add.f32 "
      "%0, %1\n          store y[i0, i1, i2] = %2\n        }\n      }\n    }\n  }\n}\n"));
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  find_contractions(program, log);
  ASSERT_TRUE(join_products(program, of_eight_lanes(), log));
  verify(program);
  const std::string text = print(program);
  EXPECT_NE(text.find("buffer a_joined f32[64, 5, 4] strides [1, 256, 64] temp"), std::string::npos) << text;
  EXPECT_NE(text.find("load.f32 a_joined[i0 + 32, i1, i2]"), std::string::npos) << text;
  expect_near(run_on_samples(program), before, 0);
}

}  // namespace
}  // namespace kiln::loops
