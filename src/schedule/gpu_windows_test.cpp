// Convolutions over few channels and reductions over windows, as a GPU has them, on programs in text: that channels are
// filled up, windows are written out, and that all still computes the same.
#include <gtest/gtest.h>

#include "schedule/sample_run_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

// 3 × 3 windows, one point of padding, over 8 × 8 points of `all` channels, of which `channels` are read from `first`
// on; 16 results each.
std::string window_text(int64_t channels, int64_t all, int64_t first) {
  const std::string channel = channels == 1 ? std::to_string(first) : str("r0 + ", first);
  const std::string weight = channels == 1 ? "0" : "r0";
  return str(
      "loops picture\nbuffer x bf16[", all, ", 8, 8] strides [64, 8, 1] input position 0\nbuffer w bf16[16, ", channels,
      ", 3, 3] strides [", 9 * channels,
      ", 9, 3, 1] constant named \"w\"\nbuffer y f32[8, 8, 16] strides [128, 16, 1] output position 0\n"
      "input x = buffer x\noutput buffer y\ninit {\n}\nmain {\n  kernel conv ops [convolution] {\n"
      "    for i0 in [8] parallel {\n      for i1 in [8] parallel {\n        for i2 in [16] parallel {\n"
      "          %20 = for r1 in [3] reduce sum.f32 {\n            %0 = index.i64 [0]\n"
      "            %1 = index.i64 [8]\n            %2 = index.i64 [i0 + r1 - 1]\n"
      "            %3 = ge.bool %2, %0\n            %4 = lt.bool %2, %1\n"
      "            %5 = logical_and.bool %3, %4\n            %19 = for r2 in [3] reduce sum.f32 {\n"
      "              %6 = index.i64 [i1 + r2 - 1]\n              %7 = ge.bool %6, %0\n"
      "              %8 = lt.bool %6, %1\n              %9 = logical_and.bool %7, %8\n"
      "              %10 = logical_and.bool %5, %9\n",
      channels == 1 ? "" : str("              %18 = for r0 in [", channels, "] reduce sum.f32 {\n"),
      "                %11 = load.bf16 x[", channel, ", i0 + r1 - 1, i1 + r2 - 1] mask %10\n",
      "                %12 = cast.f32 %11\n                %13 = load.bf16 w[i2, ", weight,
      ", r1, r2]\n                %14 = cast.f32 %13\n                %15 = mul.f32 %12, %14\n",
      "                yield %15\n", channels == 1 ? "" : "              }\n              yield %18\n",
      "            }\n            yield %19\n          }\n          store y[i0, i1, i2] = %20\n        }\n      }\n"
      "    }\n  }\n}\n");
}

TEST(GpuWindows, FewChannelsAreFilledUp) {
  struct {
    int64_t channels, filled, word;
  } const cases[] = {{1, 2, 2}, {2, 2, 2}, {3, 4, 4}, {4, 4, 4}, {5, 8, 8}, {12, 16, 8}};
  for (const auto& [channels, filled, word] : cases) {
    LoopProgram program = parse_loops(window_text(channels, channels + 2, 1));
    verify(program);
    const std::vector<Datum> before = run_on_samples(program);
    Log log;
    find_contractions(program, log);
    use_templates(program, an_h200(), log);
    verify(program);
    const std::string text = print(program);
    expect_has(text,
               str("buffer x_channels_last bf16[8, 8, ", filled, "] strides [", 8 * filled, ", ", filled, ", 1] temp"));
    expect_has(text, str("buffer w_packed bf16[3, 3, ", filled, ", 16]"));
    expect_has(text, str("left_along_terms left_chunk ", word));
    expect_near(run_on_samples(program), before, 1e-4);
  }
}

TEST(GpuWindows, ManyChannelsOfAChannelsLastPictureStay) {
  std::string text = window_text(8, 8, 0);
  text = replace_all(text, "strides [64, 8, 1] input", "strides [1, 64, 8] input");
  LoopProgram program = parse_loops(text);
  Log log;
  find_contractions(program, log);
  use_templates(program, an_h200(), log);
  expect_has(print(program), "left_along_terms left_chunk 8");
  EXPECT_EQ(print(program).find("x_channels_last"), std::string::npos);
}

// A window over the lines and points of a picture whose channels are innermost.
std::string pooling(const std::string& op, int64_t lines, const std::string& first_dimension) {
  return str(
      "loops pool\nbuffer x bf16[", first_dimension, ", 64] strides [4224, 64, 1] input position 0\n",
      "buffer y bf16[64, 64, 64] strides [4096, 64, 1] output position 0\ninput x = buffer x\noutput buffer y\n"
      "init {\n}\nmain {\n  kernel pool ops [pool] {\n    for i0 in [64] parallel {\n"
      "      for i1 in [64] parallel {\n        for i2 in [64] parallel {\n          %0 = index.i64 [0]\n"
      "          %20 = for r0 in [",
      lines, "] reduce ", op, ".f32 {\n            %1 = index.i64 [i0 + r0 - 1]\n",
      "            %2 = ge.bool %1, %0\n            %19 = for r1 in [2] reduce ", op,
      ".f32 {\n              %3 = load.bf16 x[i0 + r0 - 1, i1 + r1, i2] mask %2\n"
      "              %4 = cast.f32 %3\n              yield %4\n            }\n            yield %19\n          }\n"
      "          store y[i0, i1, i2] = %20\n        }\n      }\n    }\n  }\n}\n");
}

std::string pooled(const std::string& text) {
  LoopProgram program = parse_loops(text);
  verify(program);
  Log log;
  bind_axes(program, an_h200(), log);
  count_items(program, log);
  verify(program);
  return print(program);
}

TEST(GpuWindows, NeighboursOfAWindowComeInWords) {
  for (const char* op : {"max", "min", "sum", "prod"}) {
    const std::string text = pooled(pooling(op, 3, "66, 66"));
    expect_has(text, "team 1 vector 4");
    expect_has(text, "for i2 in [64] parallel @item(4, mask) {");
    EXPECT_EQ(text.find("reduce"), std::string::npos) << text;
  }
}

TEST(GpuWindows, LongWindowsStayLoops) {
  const std::string text = pooled(pooling("max", 40, "128, 66"));
  expect_has(text, "reduce max.f32");
  EXPECT_EQ(text.find("vector"), std::string::npos) << text;
}

TEST(GpuWindows, WindowsThatAreWrittenOutComputeTheSame) {
  for (const char* op : {"max", "sum"}) {
    LoopProgram program = parse_loops(pooling(op, 3, "66, 66"));
    const std::vector<Datum> before = run_on_samples(program);
    Log log;
    bind_axes(program, an_h200(), log);
    expect_near(run_on_samples(program), before, 0.02);
  }
}

// A step of a decoder: eight heads, four of which share their keys.
TEST(GpuWindows, HeadsThatShareKeysAreRows) {
  const std::string text = R"(loops step
buffer q bf16[8, 16] strides [16, 1] input position 0
buffer k bf16[2, 40, 16] strides [640, 16, 1] input position 1
buffer y f32[8, 40] strides [40, 1] output position 0
input q = buffer q
input k = buffer k
output buffer y
init {
}
main {
  kernel scores ops [matmul] {
    for i0 in [8] parallel {
      for i1 in [40] parallel {
        %0 = for r0 in [16] reduce sum.f32 {
          %1 = load.bf16 k[i0 // 4, i1, r0]
          %2 = cast.f32 %1
          %3 = load.bf16 q[i0, r0]
          %4 = cast.f32 %3
          %5 = mul.f32 %4, %2
          yield %5
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)";
  LoopProgram program = parse_loops(text);
  const std::vector<Datum> before = run_on_samples(program);
  Log log;
  ASSERT_TRUE(split_groups(program, an_h200(), log));
  verify(program);
  expect_has(print(program), "for i0 in [2] parallel {\n      for i2 in [4] parallel {");
  expect_has(print(program), "load.bf16 k[i0, i1, r0]");
  expect_near(run_on_samples(program), before, 0);
  find_contractions(program, log);
  expect_has(print(program), "contraction batch [i0] rows [i2] columns [i1] sums [r0]");
  // Wide numbers have no matrix instructions.
  LoopProgram wide = parse_loops(replace_all(text, "bf16", "f32"));
  EXPECT_FALSE(split_groups(wide, an_h200(), log));
}

}  // namespace
}  // namespace kiln::loops
