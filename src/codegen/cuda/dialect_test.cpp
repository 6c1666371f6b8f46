#include "codegen/cuda/dialect.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/backend.h"
#include "codegen/c_family/kernel_printer.h"

namespace kiln::codegen {
namespace {

loops::LoopProgram threads_program(const std::string& grid, const std::string& body) {
  loops::LoopProgram program = loops::parse_loops(str(R"(loops threads
symbol s0 in [1, 4096] hint 512
buffer x f32[8, s0] strides [s0, 1] input position 0
buffer n i32[8] strides [1] input position 1
buffer t f32[8, s0] strides [s0, 1] temp
buffer y f32[8, s0] strides [s0, 1] output position 0
buffer i i64[8] strides [1] output position 1
input x = buffer x
input n = buffer n
output buffer y
output buffer i
site "out of range" origin 0
main {
  kernel k {
    schedule items [8] grain 1 lanes 1 )",
                                                      grid, R"(
    for i0 in [8] parallel @item {
)",
                                                      body, R"(
    }
  }
}
origin 0 node "n" op "o" module ""
)"));
  loops::verify(program);
  return program;
}

std::string cuda_text(const std::string& grid, const std::string& body) {
  const loops::LoopProgram program = threads_program(grid, body);
  const Backend& backend = backend_for(DeviceType::cuda);
  return backend.generate(program, backend.target("sm_90a"), {}).texts.at(0);
}

void expect_in_order(const std::string& text, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    const size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << "\nis not (there) in\n" << text;
    at = found + part.size();
  }
}

TEST(CudaDialect, AThreadForEachItem) {
  const std::string text = cuda_text("threads 256 team 1", R"(for i1 in [s0] parallel {
%0 = load.f32 x[i0, i1]
%1 = exp.f32 %0
store y[i0, i1] = %1
}
%2 = load.i32 n[i0]
%3 = add.i32 %2, %2
%4 = cast.i64 %3
store i[i0] = %4)");
  expect_in_order(text,
                  {"extern \"C\" __global__ void __launch_bounds__(256) k(const kiln_arguments<4, 1> args) {",
                   "const f32* const b0 = (const f32*)args.buffers[0];",
                   "for (i64 item = blockIdx.x * 256l + threadIdx.x; item < args.items; item += gridDim.x * 256l)",
                   "for (i64 i1 = 0; i1 < n0; ++i1) {", "= exp(v0);", "gpu_add(", "k_set_i64(b3 + i0, "});
  EXPECT_EQ(text.find("__sync"), std::string::npos) << text;
}

TEST(CudaDialect, ATeamSharesOutLanesAndItsFirstThreadStores) {
  const std::string text = cuda_text("threads 128 team 32", R"(%0 = for r0 in [s0] reduce max.f32 @lane(32, mask) {
%1 = load.f32 x[i0, r0]
yield %1
}
%2, %3 = for r1 in [s0] reduce argmax.f32 @lane(32, mask) {
%4 = load.f32 x[i0, r1]
yield %4
}
store i[i0] = %3)");
  expect_in_order(text, {"blockIdx.x * 4l + threadIdx.x / 32", "for (i64 r0 = (threadIdx.x % 32); r0 < n0; r0 += 32)",
                         "team_reduce<32>(v0, [](auto a, auto b) { return k_max(a, b); });", "gpu_greatest(a, b)",
                         "if ((threadIdx.x % 32) == 0) k_set_i64("});
}

// What a loop of the team writes and another reads: everybody waits before it and after it.
TEST(CudaDialect, WhereAKernelReadsWhatItWroteTheTeamWaits) {
  const std::string text = cuda_text("threads 256 team 256", R"(for i1 in [s0] parallel @lane(256, mask) {
%0 = load.f32 x[i0, i1]
store t[i0, i1] = %0
}
for i2 in [s0] parallel @lane(256, mask) {
%1 = load.f32 t[i0, s0 - 1 - i2]
store y[i0, i2] = %1
})");
  expect_in_order(text, {"__syncthreads();", "for (i64 i1 = threadIdx.x;", "k_set_f32(", "__syncthreads();",
                         "for (i64 i2 = threadIdx.x;"});
}

// Two loops write one buffer, the second over the first.
TEST(CudaDialect, WhereAKernelWritesTwiceTheTeamWaits) {
  const std::string text = cuda_text("threads 64 team 64", R"(for i1 in [s0] parallel @lane(64, mask) {
%0 = load.f32 x[i0, i1]
store y[i0, i1] = %0
}
for i2 in [s0 // 2] parallel @lane(64, mask) {
%1 = constant.f32 1.0
store y[i0, i2 * 2] = %1
})");
  expect_in_order(text, {"for (i64 i1 = threadIdx.x;", "k_set_f32(", "__syncthreads();", "for (i64 i2 = threadIdx.x;"});
}

// A team that is neither a part of a warp nor the whole block could not wait for its own threads alone.
TEST(CudaDialect, ATeamOfSeveralWarpsIsTheBlock) {
  EXPECT_THROW(threads_program("threads 256 team 128", "%0 = load.f32 x[i0, 0]\nstore y[i0, 0] = %0"), Error);
}

TEST(CudaDialect, ASumInBlocksMeetsInAnotherType) {
  const std::string text =
      cuda_text("threads 128 team 32", R"(%0 = for r0 in [s0] reduce sum.f32 blocks(64, f64) @lane(32, mask) {
%1 = load.f32 x[i0, r0]
yield %1
}
store y[i0, 0] = %0)");
  expect_in_order(text, {"f64 v0_total = 0;", "r0_next += 64l * 32)", "f32 v0_part = 0x0p+0f;", "r0 += 32) {",
                         "v0_total = k_add(v0_total, k_cast_f64(v0_part));", "team_reduce<32>(v0_total,",
                         "const f32 v0 = k_cast_f32(v0_total);"});
}

// A thread's neighbours come and go in one word, where memory allows it, and a row stays in registers.
TEST(CudaDialect, NeighboursAreOneWord) {
  const std::string text = cuda_text("threads 128 team 32 vector 4", R"(for i1 in [s0] parallel @lane(128, mask) {
%0 = load.f32 x[0, i1]
%1 = exp.f32 %0
store y[0, i1] = %1
})");
  expect_in_order(
      text, {"const bool wide = gpu_aligned(b0, b1);", "i1_first += 128)", "const i64 i1_left = n0 - i1;",
             "gpu_fetch<4>(b0 + i1, wide, i1_left);", "gpu_word<f32, 4> ", "if (e >= i1_left) break;",
             "k_get_f32(w0_i1.items + e);", "k_set_f32(w1_i1.items + e, ", "gpu_put(b1 + i1, w1_i1, wide, i1_left);"});
}

// Scratch in registers is what a thread wrote itself; another's element cannot be read.
TEST(CudaDialect, HeldRowsAreTheThreadsOwn) {
  const auto program = [](const char* index) {
    return str(R"(loops held
buffer x f32[64, 256] strides [256, 1] input position 0
buffer y f32[64, 256] strides [256, 1] output position 0
buffer s f32[256] strides [1] scratch
input x = buffer x
output buffer y
main {
  kernel k {
    schedule items [64] grain 1 lanes 1 threads 128 team 32 vector 4 hold 2
    for i0 in [64] parallel @item {
      for i1 in [256] parallel @lane(128, mask) {
        %0 = load.f32 x[i0, i1]
        store s[i1] = %0
      }
      for i2 in [256] parallel @lane(128, mask) {
        %1 = load.f32 s[)",
               index, R"(]
        store y[i0, i2] = %1
      }
    }
  }
}
)");
  };
  const loops::LoopProgram good = loops::parse_loops(program("i2"));
  loops::verify(good);
  const Backend& backend = backend_for(DeviceType::cuda);
  expect_in_order(backend.generate(good, backend.target("sm_90a"), {}).texts.at(0),
                  {"f32 held0[8];", "for (int round = 0; round < 2; ++round) {", "held0[round * 4 + e] = v0;",
                   "= held0[round * 4 + e];"});
  EXPECT_THROW(loops::verify(loops::parse_loops(program("255 - i2"))), Error);
}

TEST(CudaDialect, AnIndexOutOfRangeEndsItsThread) {
  const std::string text = cuda_text("threads 64 team 1", R"(%0 = load.i32 n[i0]
%1 = check_index j = %0 in [s0] site 0
%2 = load.f32 x[i0, j]
store y[i0, 0] = %2)");
  expect_in_order(text, {"{ gpu_raise(args, 0, i0, (i64)v0); return; }"});
}

TEST(CudaBackend, UnitsAreTakenApartAgain) {
  const loops::LoopProgram program =
      threads_program("threads 64 team 1", "%0 = load.f32 x[i0, 0]\nstore y[i0, 0] = %0");
  const Backend& backend = backend_for(DeviceType::cuda);
  const GeneratedCode code = backend.generate(program, backend.target("sm_80"), {});
  ASSERT_EQ(code.sources.size(), 1u);
  const auto functions = backend.functions_of_unit(code.sources[0]);
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(functions.begin()->first, "k");
  EXPECT_EQ(functions.begin()->second, code.texts[0]);
  EXPECT_EQ(code.sources[0].find("#include"), std::string::npos);
  ASSERT_EQ(code.launches.size(), 1u);
  EXPECT_EQ(code.launches[0].threads, 64);
}

}  // namespace
}  // namespace kiln::codegen
