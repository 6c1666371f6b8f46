// Reductions that count through several dimensions at once: text in, text out.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// The sum of a picture of 4 channels and 3 by 5 points, which lies in memory with these strides.
std::string summed(const std::string& strides, const std::string& index) {
  return R"(loops sums
buffer x f32[4, 3, 5] strides [)" +
         strides + R"(] input position 0
buffer y f32[] strides [] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel sum ops [sum] {
    %0 = for r0 in [60] reduce sum.f32 {
      %1 = load.f32 x[)" +
         index + R"(]
      yield %1
    }
    store y[] = %0
  }
}
)";
}

std::string taken_apart(const std::string& text, const Target& target = {}) {
  LoopProgram program = parsed(text);
  Log log;
  const bool changed = split_digits(program, target, log);
  verify(program);
  EXPECT_EQ(changed, print(program) != print(parsed(text)));
  return print(program);
}

const char* const three_digits = "r0 // 15, (r0 // 5) % 3, r0 % 5";

TEST(SplitDigits, RunsAlongMemory) {
  EXPECT_NE(taken_apart(summed("1, 20, 4", three_digits)).find(R"(    %0 = for r2 in [3] reduce sum.f32 {
      %3 = for r1 in [5] reduce sum.f32 {
        %2 = for r3 in [4] reduce sum.f32 {
          %1 = load.f32 x[r3, r2, r1]
          yield %1
        }
        yield %2
      }
      yield %3
    })"),
            std::string::npos);
}

TEST(SplitDigits, LeavesWhatIsOneLineAlready) {
  const std::string text = summed("15, 5, 1", three_digits);
  EXPECT_EQ(taken_apart(text), print(parsed(text)));
}

TEST(SplitDigits, LeavesPlacesThatDoNotFitEachOther) {
  const std::string text = summed("1, 20, 4", "r0 // 15, (r0 // 4) % 3, r0 % 5");
  EXPECT_EQ(taken_apart(text), print(parsed(text)));
}

TEST(SplitDigits, LeavesGpus) {
  Target gpu;
  gpu.device = DeviceType::cuda;
  const std::string text = summed("1, 20, 4", three_digits);
  EXPECT_EQ(taken_apart(text, gpu), print(parsed(text)));
}

// Lines and points of which nothing is known but that they are counted through.
TEST(SplitDigits, TakesSizesApart) {
  const std::string text = taken_apart(R"(loops sums
symbol s0 in [1, inf] hint 64
symbol s1 in [1, inf] hint 96
buffer x f32[4, s0, s1] strides [1, s1*4, 4] input position 0
buffer y f32[] strides [] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel sum ops [sum] {
    %0 = for r0 in [s0*s1*4] reduce sum.f32 {
      %1 = load.f32 x[r0 // (s0*s1), (r0 // s1) % s0, r0 % s1]
      yield %1
    }
    store y[] = %0
  }
}
)");
  EXPECT_NE(text.find("for r2 in [s0] reduce sum.f32"), std::string::npos) << text;
  EXPECT_NE(text.find("for r1 in [s1] reduce sum.f32"), std::string::npos) << text;
  EXPECT_NE(text.find("load.f32 x[r3, r2, r1]"), std::string::npos) << text;
}

}  // namespace
}  // namespace kiln::loops
