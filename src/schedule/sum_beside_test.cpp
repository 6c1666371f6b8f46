// Sums of groups of channels that are neighbours in memory: text in, text out.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"

namespace kiln::loops {
namespace {

// For 8 groups of channels of a picture of `lines` by 40 points: the sum of the terms, or with `squares` also that of
// the squares of what differs from the mean, and the mean.
std::string group_sums(int lines, int each, bool squares, const std::string& batch = "2") {
  const std::string channel = each == 1 ? "i1" : str("i1*", each, " + ");
  const auto nest = [&](int result, const char* line, const char* point, const char* within, bool off) {
    const std::string load = str("load.f32 x[i0, ", line, ", ", point, ", ", channel, each == 1 ? "" : within, "]\n",
                                 "%", result + 2, " = cast.f64 %", result + 1, "\n");
    const std::string term = off ? str("%", result + 3, " = sub.f64 %", result + 2, ", %9\n%", result + 4,
                                       " = mul.f64 %", result + 3, ", %", result + 3, "\nyield %", result + 4, "\n")
                                 : str("yield %", result + 2, "\n");
    const std::string inner = each == 1
                                  ? str("%", result + 1, " = ", load, term)
                                  : str("%", result + 6, " = for ", within, " in [", each, "] reduce sum.f64 {\n%",
                                        result + 1, " = ", load, term, "}\nyield %", result + 6, "\n");
    return str("%", result, " = for ", line, " in [", lines, "] reduce sum.f64 {\n%", result + 5, " = for ", point,
               " in [40] reduce sum.f64 {\n", inner, "}\nyield %", result + 5, "\n}\n");
  };
  const std::string symbol = batch == "2" ? "" : "symbol " + batch + " in [1, 8] hint 2\n";
  return str("loops norm\n", symbol, "buffer x f32[", batch, ", ", lines, ", 40, ", 8 * each, "] strides [",
             lines * 320 * each, ", ", 320 * each, ", ", 8 * each, ", 1] input position 0\nbuffer y f64[", batch,
             ", 8] strides [8, 1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\n",
             "main {\nkernel norm ops [var_mean] {\nfor i0 in [", batch, "] parallel {\nfor i1 in [8] parallel {\n",
             nest(1, "r0", "r1", "r2", false), "%8 = index.f64 [", lines * 40 * each, "]\n%9 = div.f64 %1, %8\n",
             squares ? nest(11, "r3", "r4", "r5", true) + "%18 = add.f64 %11, %9\n" : "", "store y[i0, i1] = %",
             squares ? 18 : 9, "\n}\n}\n}\n}\n");
}

std::string beside(const std::string& text, const Target& target = of_eight_lanes()) {
  LoopProgram program = parsed(text);
  Log log;
  const bool changed = sum_beside(program, target, log);
  verify(program);
  EXPECT_EQ(changed, print(program) != print(parsed(text)));
  return print(program);
}

void expect_same_results(const std::string& text) {
  expect_near(run_on_samples(parsed(beside(text))), run_on_samples(parsed(text)), 1e-9);
}

TEST(SumBeside, SumsAllChannelsOfPartsOfThePicture) {
  const std::string text = group_sums(64, 2, false), made = beside(text);
  EXPECT_TEXT(made, R"(  kernel norm_parts ops [var_mean] {
    for i0 in [2] parallel {
      for p0 in [2] parallel {
        for c0 in [16] parallel @lane(16, exact) {
          %3 = for r0 in [32] reduce sum.f64 {
            %2 = for r1 in [40] reduce sum.f64 {
              %0 = load.f32 x[i0, p0*32 + r0, r1, c0]
              %1 = cast.f64 %0
              yield %1
            }
            yield %2
          }
          store norm_parts[i0, p0, c0] = %3
        }
      }
    }
  })");
  EXPECT_TEXT(made, R"( = for p0 in [2] reduce sum.f64 {)");
  EXPECT_TEXT(made, R"( = load.f64 norm_parts[i0, p0, i1*2 + r3])");
  expect_same_results(text);
}

TEST(SumBeside, StoresTheMeanForEachChannel) {
  const std::string text = group_sums(64, 2, true), made = beside(text);
  EXPECT_TEXT(made, "store norm_results[i0, i1*2 + i2] = ");
  EXPECT_TEXT(made, "load.f64 norm_results[i0, c0]");
  EXPECT_TEXT(made, "load.f64 norm_results[i0, i1*2]");
  expect_same_results(text);
}

TEST(SumBeside, GroupsOfOneChannel) {
  const std::string text = group_sums(128, 1, true);
  EXPECT_TEXT(beside(text), "load.f64 norm_results[i0, c0]");
  expect_same_results(text);
}

TEST(SumBeside, LinesThatHaveNoEqualParts) {
  const std::string text = group_sums(67, 2, true);
  EXPECT_TEXT(beside(text), "for r0 in [min(34, -p0*34 + 67)] reduce sum.f64");
  expect_same_results(text);
}

TEST(SumBeside, DynamicBatch) {
  EXPECT_TEXT(beside(group_sums(64, 2, true, "s0")), "buffer norm_parts f64[s0, 2, 16] strides [32, 16, 1] temp");
}

TEST(SumBeside, LeavesShortSums) {
  const std::string text = group_sums(16, 2, true);
  EXPECT_EQ(beside(text), print(parsed(text)));
}

TEST(SumBeside, LeavesFewChannels) {
  Target target = of_eight_lanes();
  target.lanes = 16;
  const std::string text = group_sums(128, 1, true);
  EXPECT_EQ(beside(text, target), print(parsed(text)));
}

TEST(SumBeside, LeavesRowsThatRunAlongMemory) {
  const std::string text = R"(loops rows
buffer x f32[32, 8192] strides [8192, 1] input position 0
buffer y f64[32] strides [1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel sum ops [sum] {
    for i0 in [32] parallel {
      %0 = for r0 in [8192] reduce sum.f64 {
        %1 = load.f32 x[i0, r0]
        %2 = cast.f64 %1
        yield %2
      }
      store y[i0] = %0
    }
  }
}
)";
  EXPECT_EQ(beside(text), print(parsed(text)));
}

TEST(SumBeside, LeavesGpus) {
  const std::string text = group_sums(64, 2, true);
  EXPECT_EQ(beside(text, an_h200()), print(parsed(text)));
}

}  // namespace
}  // namespace kiln::loops
