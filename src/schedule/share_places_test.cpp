// What channels share is found once: text in, text out.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// Lines of 100 points are made of 25, at places that are the same for all channels.
const char* const enlarged = R"(loops enlarged
buffer x f32[8, 32, 25] strides [800, 25, 1] input position 0
buffer y f32[8, 32, 100] strides [3200, 100, 1] output position 0
input x = buffer x
output buffer y
site "outside" origin 0
init {
}
main {
  kernel enlarged ops [upsample] {
    for i0 in [8] parallel {
      for i1 in [32] parallel {
        for i2 in [100] parallel {
          %0 = constant.f32 0.25
          %1 = index.i64 [i2]
          %2 = cast.f32 %1
          %3 = mul.f32 %2, %0
          %4 = floor.f32 %3
          %5 = sub.f32 %3, %4
          %6 = cast.i64 %4
          %7 = check_index j0 = %6 in [25] site 0
          %8 = load.f32 x[i0, i1, j0]
          %9 = mul.f32 %8, %5
          store y[i0, i1, i2] = %9
        }
      }
    }
  }
}
origin 0 node "upsample" op "aten.upsample_linear1d.default" module ""
)";

std::string shared(const std::string& text, const Target& target = {}) {
  LoopProgram program = parsed(text);
  Log log;
  const bool changed = share_places(program, target, log);
  verify(program);
  EXPECT_EQ(changed, print(program) != print(parsed(text)));
  return print(program);
}

TEST(SharePlaces, ChannelsGoInnermostAndOneAfterTheOther) {
  EXPECT_NE(shared(enlarged).find("      for i2 in [100] parallel {\n        for i1 in [32] parallel @serial {"),
            std::string::npos)
      << shared(enlarged);
}

TEST(SharePlaces, ChannelsThatAreNeighboursStayForLanes) {
  const std::string last = replace_all(enlarged, "strides [800, 25, 1]", "strides [800, 1, 32]");
  EXPECT_NE(shared(last).find("      for i2 in [100] parallel {\n        for i1 in [32] parallel {"),
            std::string::npos);
}

TEST(SharePlaces, LeavesWhatIsReadAlongThePoints) {
  const std::string along = replace_all(enlarged, "x[i0, i1, j0]", "x[i0, i1, (i2 // 4)]");
  EXPECT_EQ(shared(along), print(parsed(along)));
}

TEST(SharePlaces, LeavesThreadsTheirItems) {
  const std::string one = replace_all(replace_all(enlarged, "[8, 32", "[1, 32"), "for i0 in [8]", "for i0 in [1]");
  EXPECT_EQ(shared(one), print(parsed(one)));
}

TEST(SharePlaces, LeavesGpus) {
  Target gpu;
  gpu.device = DeviceType::cuda;
  EXPECT_EQ(shared(enlarged, gpu), print(parsed(enlarged)));
}

}  // namespace
}  // namespace kiln::loops
