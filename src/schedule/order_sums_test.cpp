// In which blocks sums are added up.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"

namespace kiln::loops {
namespace {

std::string product_of_bf16(const std::string& result) {
  return replace_all(R"(loops product
buffer x bf16[12, 1024] strides [1024, 1] input position 0
buffer w bf16[64, 1024] strides [1024, 1] constant named "w"
buffer y RESULT[12, 64] strides [64, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel product ops [linear] {
    for i0 in [12] parallel {
      for i1 in [64] parallel {
        %0 = for r0 in [1024] reduce sum.f32 {
          %1 = load.bf16 x[i0, r0]
          %2 = cast.f32 %1
          %3 = load.bf16 w[i1, r0]
          %4 = cast.f32 %3
          %5 = mul.f32 %2, %4
          yield %5
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)",
                     "RESULT", result);
}

TEST(OrderSums, ProductsOfPairsMeetInBlocksUnlessTheirResultIsRounded) {
  Target target;
  target.bf16_pairs = true;
  for (const bool rounded : {false, true}) {
    LoopProgram program = parsed(product_of_bf16(rounded ? "bf16" : "f32"));
    Log log;
    find_contractions(program, log);
    use_templates(program, target, log);
    order_sums(program, log);
    verify(program);
    const std::string text = print(program);
    EXPECT_TEXT(text, "reduce sum.f32 fused pairs");
    EXPECT_EQ(text.find("fused pairs blocks(256, f32)") == std::string::npos, rounded) << text;
  }
}

// A sum of products whose left factor is y[ROWS r0]: of squares, which eager adds up in a tree as any sum, or a row
// times a matrix.
std::string sum_of_products(const std::string& left) {
  return replace_all(R"(loops sums
buffer x f32[64, 4096] strides [4096, 1] input position 0
buffer v f32[4096] strides [1] input position 1
buffer y f32[64] strides [1] output position 0
input x = buffer x
input v = buffer v
output buffer y
init {
}
main {
  kernel sums ops [sum] {
    for i0 in [64] parallel {
      %0 = for r0 in [4096] reduce sum.f32 {
        %1 = load.f32 LEFT
        %2 = load.f32 x[i0, r0]
        %3 = mul.f32 %1, %2
        yield %3
      }
      store y[i0] = %0
    }
  }
}
)",
                     "LEFT", left);
}

TEST(OrderSums, SumsOfSquaresAreNoMatrixProducts) {
  for (const bool squares : {true, false}) {
    LoopProgram program = parsed(sum_of_products(squares ? "x[i0, r0]" : "v[r0]"));
    Log log;
    bind_axes(program, Target(), log);
    order_sums(program, log);
    verify(program);
    EXPECT_TEXT(print(program), squares ? "fused blocks(32, f64)" : "fused blocks(256, f32)");
  }
}

}  // namespace
}  // namespace kiln::loops
