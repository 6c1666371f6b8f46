// Temporaries that lie across the loops: text in, text out.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// A temporary of 5 rows of 8 numbers that lie across memory, written along the rows and read with this index.
std::string across(const std::string& role, const std::string& outputs, const std::string& read) {
  return R"(loops rows
buffer x f32[1, 5, 8] strides [40, 8, 1] input position 0
buffer h f32[1, 5, 8] strides [40, 1, 5] )" +
         role + R"(
buffer y f32[5, 8] strides [8, 1] output position 0
input x = buffer x
)" + outputs +
         R"(output buffer y
init {
}
main {
  kernel make ops [neg] {
    for i0 in [5] parallel {
      for i1 in [8] parallel {
        %0 = load.f32 x[0, i0, i1]
        %1 = neg.f32 %0
        store h[0, i0, i1] = %1
      }
    }
  }
  kernel use ops [neg] {
    for i0 in [5] parallel {
      for i1 in [8] parallel {
        %0 = load.f32 h[)" +
         read + R"(]
        %1 = neg.f32 %0
        store y[i0, i1] = %1
      }
    }
  }
}
)";
}

std::string straightened(const std::string& text, const Target& target = {}) {
  LoopProgram program = parsed(text);
  Log log;
  const bool changed = straighten_rows(program, target, log);
  verify(program);
  EXPECT_EQ(changed, print(program) != print(parsed(text)));
  return print(program);
}

const char* const along_rows = "buffer h f32[1, 5, 8] strides [40, 8, 1]";

TEST(StraightenRows, LaysOutWhatAllRunAlong) {
  EXPECT_NE(straightened(across("temp", "", "0, i0, i1")).find(along_rows), std::string::npos);
}

TEST(StraightenRows, LeavesWhatSomeRunAcross) {
  EXPECT_EQ(straightened(across("temp", "", "0, min(4, i1), min(7, i0)")).find(along_rows), std::string::npos);
  EXPECT_EQ(straightened(across("temp", "", "0, i0, (i1 * 3) % 8")).find(along_rows), std::string::npos);
}

TEST(StraightenRows, LeavesWhatTheUserSeesAndGpus) {
  const std::string seen = across("output position 1", "output buffer h\n", "0, i0, i1");
  EXPECT_EQ(straightened(seen).find(along_rows), std::string::npos);
  Target gpu;
  gpu.device = DeviceType::cuda;
  EXPECT_EQ(straightened(across("temp", "", "0, i0, i1"), gpu).find(along_rows), std::string::npos);
}

}  // namespace
}  // namespace kiln::loops
