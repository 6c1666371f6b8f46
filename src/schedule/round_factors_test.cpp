// Factors of f32 products rounded to bf16: text in, text out, and the results that rounded factors give.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"

namespace kiln::loops {
namespace {

// t = x / 3, y = t w^T, z = t + t. `also`: whether z is there, which reads t as it is.
std::string product_of_thirds(bool also, int64_t terms = 8, const std::string& role = "constant named \"w\"") {
  const std::string text =
      str(R"(loops thirds
buffer x f32[5, TERMS] strides [TERMS, 1] input position 0
buffer w f32[16, TERMS] strides [TERMS, 1] )",
          role, R"(
buffer t f32[5, TERMS] strides [TERMS, 1] temp
buffer y f32[5, 16] strides [16, 1] output position 0
)",
          also ? "buffer z f32[5, TERMS] strides [TERMS, 1] output position 1\n" : "", "input x = buffer x\n",
          role[0] == 'i' ? "input w = buffer w\n" : "", "output buffer y\n", also ? "output buffer z\n" : "", R"(init {
}
main {
  kernel make ops [div] {
    for i0 in [5] parallel {
      for i1 in [TERMS] parallel {
        %0 = load.f32 x[i0, i1]
        %1 = constant.f32 3.0
        %2 = div.f32 %0, %1
        store t[i0, i1] = %2
      }
    }
  }
  kernel product ops [linear] {
    for i0 in [5] parallel {
      for i1 in [16] parallel {
        %0 = for r0 in [TERMS] reduce sum.f32 {
          %1 = load.f32 t[i0, r0]
          %2 = load.f32 w[i1, r0]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store y[i0, i1] = %0
      }
    }
  }
)",
          also ? R"(  kernel twice ops [add] {
    for i0 in [5] parallel {
      for i1 in [TERMS] parallel {
        %0 = load.f32 t[i0, i1]
        %1 = add.f32 %0, %0
        store z[i0, i1] = %1
      }
    }
  }
)"
               : "",
          "}\n");
  return replace_all(text, "TERMS", std::to_string(terms));
}

Target that_rounds() {
  Target target;
  target.bf16_pairs = target.rounds_to_bf16 = true;
  return target;
}

std::string rounded(LoopProgram& program) {
  Log log;
  EXPECT_TRUE(round_factors(program, that_rounds(), log, {{"linear", "convolution"}, {}}));
  verify(program);
  const std::string text = print(program);
  EXPECT_EQ(print(parse_loops(text)), text);
  EXPECT_EQ(log.decisions().back().text(), "round the factors of product: float32_matmul_precision is medium");
  return text;
}

double nearest_bf16(double x) {
  Tensor one = Tensor::empty(DType::bf16, {1});
  one.set_item(0, Scalar(x));
  return one.item(0).as_double();
}

TEST(RoundFactors, StoresRowsAsBf16AloneWhereOnlyProductsReadThem) {
  LoopProgram program = parsed(product_of_thirds(false));
  const std::string text = rounded(program);
  expect_all(text, {"buffer t_bf16 bf16[5, 8] strides [8, 1] temp", "buffer w_bf16 bf16[16, 8] strides [8, 1] derived",
                    "store t_bf16[i0, i1] = %2", "load.f32 w[i0, i1]",
                    "store w_bf16[i0, i1] = ", "load.bf16 t_bf16[i0, r0]", "load.bf16 w_bf16[i1, r0]"});
  EXPECT_EQ(text.find("store t["), std::string::npos) << text;
}

TEST(RoundFactors, GivesProductsOfRoundedFactorsAndLeavesTheRestAlone) {
  LoopProgram program = parsed(product_of_thirds(true));
  const std::vector<Datum> before = run_on_samples(program);
  expect_all(rounded(program), {"store t[i0, i1] = %2\n        store t_bf16[i0, i1] = %2"});
  const std::vector<Datum> after = run_on_samples(program);
  const Tensor x = filled(program.buffers[0], 2), w = filled(program.buffers[1], 1);
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 16; ++j) {
      float sum = 0;
      for (int64_t r = 0; r < 8; ++r) {
        const float t = static_cast<float>(x.item(i * 8 + r).as_double()) / 3.0f;
        sum += static_cast<float>(nearest_bf16(t) * nearest_bf16(w.item(j * 8 + r).as_double()));
      }
      EXPECT_NEAR(after[0].tensor().item(i * 16 + j).as_double(), sum, 1e-5);
    }
  expect_near({after[1]}, {before[1]}, 0);
}

TEST(RoundFactors, RoundsAnInputByAKernelAndAWeightWhileItIsPacked) {
  std::string text = product_of_thirds(false, 64);
  text = replace_all(replace_all(text, "load.f32 t[i0, r0]", "load.f32 x[i0, r0]"), "buffer t ", "buffer unused ");
  text.erase(text.find("  kernel make"), text.find("  kernel product") - text.find("  kernel make"));
  LoopProgram program = parsed(text);
  expect_all(rounded(program), {"kernel round_x ops [round]", "store x_bf16[i0, i1] = ", "load.bf16 x_bf16[i0, r0]"});
  Log log;
  find_contractions(program, log);
  use_templates(program, that_rounds(), log);
  verify(program);
  const std::string made = print(program);
  expect_all(made, {"w_bf16_packed bf16[", "load.f32 w[", " pairs\n"});
  // The rounded copy that was packed is not kept beside it.
  EXPECT_EQ(made.find("store w_bf16["), std::string::npos) << made;
  EXPECT_EQ(made.find("w_bf16 bf16[16, 64] strides [64, 1] derived"), std::string::npos) << made;
}

// The other factor is bf16 and computed, as values that attention weighs are; the terms need not be pairs.
TEST(RoundFactors, RoundsWhatMeetsNarrowNumbers) {
  std::string text = product_of_thirds(false, 7, "input position 1");
  text = replace_all(text, "buffer w f32", "buffer w bf16");
  text = replace_all(text, "%2 = load.f32 w[i1, r0]\n          %3 = mul.f32 %1, %2",
                     "%2 = load.bf16 w[i1, r0]\n          %4 = cast.f32 %2\n          %3 = mul.f32 %1, %4");
  LoopProgram program = parsed(text);
  const std::string made = rounded(program);
  expect_all(made, {"store t_bf16[i0, i1] = %2", "load.bf16 t_bf16[i0, r0]", "load.bf16 w[i1, r0]"});
  EXPECT_EQ(made.find("store t["), std::string::npos) << made;
}

// Without the setting: both kernels come from one call of an attention, or from two; over many keys, or fewer.
TEST(RoundFactors, RoundsTheWeightsOfALongAttentionOverBf16) {
  Target pairs;
  pairs.bf16_pairs = true;
  const auto changes = [&](const char* op, const char* other_node, int64_t keys = 512, int64_t rows = 64) {
    std::string text = product_of_thirds(false, keys, "input position 1");
    text = replace_all(text, "buffer w f32", "buffer w bf16");
    text = replace_all(text, "%2 = load.f32 w[i1, r0]\n          %3 = mul.f32 %1, %2",
                       "%2 = load.bf16 w[i1, r0]\n          %4 = cast.f32 %2\n          %3 = mul.f32 %1, %4");
    text = replace_all(replace_all(text, "[5, ", str("[", rows, ", ")), "in [5]", str("in [", rows, "]"));
    text = replace_all(replace_all(text, "ops [div]", "ops [div] from [0]"), "ops [linear]", "ops [linear] from [1]");
    text += str("origin 0 node \"call\" op \"", op, "\" module \"\"\norigin 1 node \"", other_node, "\" op \"", op,
                "\" module \"\"\n");
    LoopProgram program = parsed(text);
    Log log;
    const bool changed = round_factors(program, pairs, log, {{"linear"}, {"aten.attention.default"}});
    verify(program);
    EXPECT_EQ(changed, print(program).find("load.bf16 t_bf16[i0, r0]") != std::string::npos);
    return changed;
  };
  EXPECT_TRUE(changes("aten.attention.default", "call"));
  EXPECT_FALSE(changes("aten.attention.default", "other"));
  EXPECT_FALSE(changes("aten.matmul.default", "call")) << "the user's own product of f32";
  EXPECT_FALSE(changes("aten.attention.default", "call", 500)) << "few keys";
  EXPECT_FALSE(changes("aten.attention.default", "call", 512, 1)) << "one row";
}

// With the setting both factors, where an attention multiplies what is computed or comes in; its rows must be many.
TEST(RoundFactors, RoundsBothComputedFactorsOfAnAttention) {
  const auto changes = [](const char* op, int64_t rows, int64_t terms = 8) {
    std::string text = product_of_thirds(false, terms, "input position 1");
    text = replace_all(replace_all(text, "[5, ", str("[", rows, ", ")), "in [5]", str("in [", rows, "]"));
    text = replace_all(text, "ops [linear]", "ops [linear] from [0]");
    text += str("origin 0 node \"call\" op \"", op, "\" module \"\"\n");
    LoopProgram program = parsed(text);
    Log log;
    const bool changed = round_factors(program, that_rounds(), log, {{"linear"}, {"aten.attention.default"}});
    verify(program);
    if (changed)
      expect_all(print(program), {"kernel round_w ops [round]", "store t_bf16[i0, i1] = %2", "load.bf16 t_bf16[i0, r0]",
                                  "load.bf16 w_bf16[i1, r0]"});
    return changed;
  };
  EXPECT_TRUE(changes("aten.attention.default", 64));
  EXPECT_FALSE(changes("aten.attention.default", 2)) << "a step of decoding would round its whole cache";
  EXPECT_FALSE(changes("aten.attention.default", 64, 7)) << "no pairs of terms";
  EXPECT_FALSE(changes("aten.matmul.default", 64)) << "no template multiplies two computed factors of bf16";
}

TEST(RoundFactors, LeavesWhatPairsWouldNotTake) {
  Log log;
  for (const std::string& text : {product_of_thirds(false, 7), product_of_thirds(false, 8, "input position 1")}) {
    LoopProgram program = parsed(text);
    EXPECT_FALSE(round_factors(program, that_rounds(), log, {{"linear", "convolution"}, {}})) << text;
  }
  // A window over each channel by itself: the weight has no columns of its own.
  LoopProgram depthwise = parsed(R"(loops depthwise
buffer x f32[6, 20] strides [20, 1] input position 0
buffer w f32[6, 4] strides [4, 1] constant named "w"
buffer y f32[6, 16] strides [16, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel window ops [convolution] {
    for i0 in [6] parallel {
      for i1 in [16] parallel {
        %0 = for r0 in [4] reduce sum.f32 {
          %1 = load.f32 x[i0, i1 + r0]
          %2 = load.f32 w[i0, r0]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)");
  EXPECT_FALSE(round_factors(depthwise, that_rounds(), log, {{"linear", "convolution"}, {}}));
  LoopProgram program = parsed(product_of_thirds(false));
  EXPECT_FALSE(round_factors(program, that_rounds(), log, {{"mm"}, {}})) << "it is another operator";
  EXPECT_FALSE(round_factors(program, Target(), log, {{"linear"}, {}})) << "nobody asked for it";
}

}  // namespace
}  // namespace kiln::loops
