#include "loops/work_count.h"

#include <gtest/gtest.h>

#include "loops/narrow_tile_test.h"

namespace kiln {
namespace {

Work work_of(const std::string& text, const SymbolValues& symbols) {
  loops::LoopProgram program = loops::parse_loops(text);
  loops::verify(program);
  return count_work(std::get<loops::Kernel>(program.block.at(0).what), program.buffers, symbols);
}

// One row of a cache of 4096, at a place read from memory: what is counted is the row, not the cache.
TEST(WorkCount, BytesAreThoseThatTheLoopsReach) {
  Work work = work_of(R"(loops cache
buffer row f32[64] strides [1] input position 0
buffer at i64[1] strides [1] input position 1
buffer cache f32[4096, 64] strides [64, 1] input position 2 mutated
input row = buffer row
input at = buffer at
input cache = buffer cache
site "index out of range" origin 0
init {
}
main {
  kernel put ops [index_copy] {
    %0 = load.i64 at[0]
    %1 = check_index j0 = %0 in [4096] site 0
    for i0 in [64] parallel {
      %2 = load.f32 row[i0]
      store cache[j0, i0] = %2
    }
  }
}
origin 0 node "put" op "aten.index_copy.default" module ""
)",
                      {});
  EXPECT_EQ(work.flops, 0);
  EXPECT_EQ(work.bytes, 64 * 4 + 8 + 64 * 4);
}

// Each row of x is read once per column of y, and counted once.
TEST(WorkCount, WhatIsReadAgainCountsOnce) {
  Work work = work_of(R"(loops outer
symbol s0 in [1, 64] hint 8
buffer x f32[s0] strides [1] input position 0
buffer y f32[s0, 3] strides [3, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel twice ops [mul] {
    for i0 in [s0] parallel {
      for i1 in [3] parallel {
        %0 = load.f32 x[i0]
        %1 = mul.f32 %0, %0
        store y[i0, i1] = %1
      }
    }
  }
}
)",
                      {{"s0", 5}});
  EXPECT_EQ(work.flops, 15);
  EXPECT_EQ(work.bytes, 5 * 4 + 15 * 4);
}

// A convolution: 2 operations per weight and place. The product that widening left behind is used by nobody, and the
// three loops of the sum are one sum.
TEST(WorkCount, AConvolutionCountsItsProducts) {
  Work work = work_of(R"(loops conv
buffer x f32[3, 8, 8] strides [64, 8, 1] input position 0
buffer w f32[4, 3, 3, 3] strides [27, 9, 3, 1] input position 1
buffer y f32[4, 8, 8] strides [64, 8, 1] output position 0
input x = buffer x
input w = buffer w
output buffer y
init {
}
main {
  kernel conv ops [convolution] {
    for i0 in [4] parallel {
      %0 = index.i64 [0]
      %1 = index.i64 [8]
      for i1 in [8] parallel {
        for i2 in [8] parallel {
          %16 = for r0 in [3] reduce sum.f64 {
            %15 = for r1 in [3] reduce sum.f64 {
              %2 = index.i64 [i1 + r1 - 1]
              %3 = ge.bool %2, %0
              %4 = lt.bool %2, %1
              %5 = logical_and.bool %3, %4
              %14 = for r2 in [3] reduce sum.f64 {
                %6 = index.i64 [i2 + r2 - 1]
                %7 = ge.bool %6, %0
                %8 = logical_and.bool %5, %7
                %9 = lt.bool %6, %1
                %10 = logical_and.bool %8, %9
                %11 = load.f32 x[r0, i1 + r1 - 1, i2 + r2 - 1] mask %10
                %12 = load.f32 w[i0, r0, r1, r2]
                %17 = mul.f32 %11, %12
                %18 = cast.f64 %11
                %19 = cast.f64 %12
                %13 = mul.f64 %18, %19
                yield %13
              }
              yield %14
            }
            yield %15
          }
          %20 = cast.f32 %16
          store y[i0, i1, i2] = %20
        }
      }
    }
  }
}
)",
                      {});
  EXPECT_EQ(work.flops, 2.0 * 4 * 8 * 8 * 3 * 3 * 3);
}

// Every input meets every weight once: what the stride leaves out is masked, and no work.
TEST(WorkCount, ATransposedConvolutionCountsNoGaps) {
  Work work = work_of(R"(loops transposed
buffer x f32[90] strides [1] input position 0
buffer w f32[8] strides [1] input position 1
buffer y f32[364] strides [1] output position 0
input x = buffer x
input w = buffer w
output buffer y
init {
}
main {
  kernel spread ops [convolution] {
    %0 = index.i64 [0]
    %1 = index.i64 [90]
    for i0 in [364] parallel {
      %12 = for r0 in [8] reduce sum.f32 {
        %2 = index.i64 [i0 - r0]
        %3 = ge.bool %2, %0
        %4 = index.i64 [(i0 - r0) % 4]
        %5 = eq.bool %4, %0
        %6 = logical_and.bool %3, %5
        %7 = index.i64 [(i0 - r0) // 4]
        %8 = lt.bool %7, %1
        %9 = logical_and.bool %6, %8
        %10 = load.f32 x[(i0 - r0) // 4] mask %9
        %11 = load.f32 w[r0]
        %13 = mul.f32 %10, %11
        yield %13
      }
      store y[i0] = %12
    }
  }
}
)",
                      {});
  EXPECT_NEAR(work.flops, 2.0 * 90 * 8, 1e-6);
}

// Products of bf16 by tiles, by pairs, and by widening each number.
TEST(WorkCount, SaysWhatProductsAreComputedBy) {
  const std::string text = loops::text_of(loops::brain_float_tile);
  const auto arithmetic = [](const std::string& changed) {
    const loops::LoopProgram program = loops::parse_loops(changed);
    return arithmetic_of(std::get<loops::Kernel>(program.block.at(0).what));
  };
  EXPECT_EQ(arithmetic(text), Arithmetic::bf16_tiles);
  const std::string pairs = replace_all(text, "matrix rows_in a_rows", "pairs");
  EXPECT_EQ(arithmetic(pairs), Arithmetic::bf16_pairs);
  EXPECT_EQ(arithmetic(replace_all(replace_all(pairs, "vectors pairs", "vectors"), "fused pairs", "fused")),
            Arithmetic::single_terms);
  EXPECT_EQ(arithmetic(replace_all(replace_all(pairs, "bf16", "f16"), "pairs", "")), Arithmetic::single_terms);
}

}  // namespace
}  // namespace kiln
