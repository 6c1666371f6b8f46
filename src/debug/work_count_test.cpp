#include "debug/work_count.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace kiln
