// Pools: where their activations go, what they run along, and into how many items they fall.
#include "schedule/schedule_passes_test.h"

namespace kiln::loops {
namespace {

class PoolPasses : public SchedulePasses {};

// A convolution, its activation and a pool of 2 by 2 over it, which the user sees.
std::string pooled_convolution() {
  std::string text = replace_all(convolution, "buffer y f32[1, 16, 6, 5] strides [480, 30, 5, 1] output",
                                 "buffer a f32[1, 16, 6, 5] strides [480, 30, 5, 1] temp\n"
                                 "buffer y f32[1, 16, 3, 2] strides [96, 6, 2, 1] output");
  text = replace_all(text, "store y[0, i1, i2, i3]", "store a[0, i1, i2, i3]");
  return text.substr(0, text.rfind('}')) + R"(  kernel pool ops [max_pool2d] {
    for i1 in [16] parallel {
      for i2 in [3] parallel {
        for i3 in [2] parallel {
          %0 = for r0 in [2] reduce max.f32 {
            %1 = for r1 in [2] reduce max.f32 {
              %2 = load.f32 a[0, i1, i2*2 + r0, i3*2 + r1]
              yield %2
            }
            yield %1
          }
          store y[0, i1, i2, i3] = %0
        }
      }
    }
  }
}
)";
}

// Between a product and a pool an activation costs nothing with the one and a lot with the other.
TEST_F(PoolPasses, AnActivationStaysWithTheProductBeforeAPool) {
  given(pooled_convolution());
  inline_producers(program_, log_);
  remove_dead_kernels(program_, log_);
  choose_layouts(program_, log_);
  merge_kernels(program_, log_);
  forward_stores(program_, log_);
  const std::string text = after();
  EXPECT_TEXT(text, "load.f32 a[0, i1, i2*2 + r0, i3*2 + r1]\n              yield");
  EXPECT_EQ(text.find("load.f32 c["), std::string::npos) << text;
}

// What a pool reads is channels last: so it runs, and its results are put into the user's order by a copy.
TEST_F(PoolPasses, APoolRunsAlongWhatItReads) {
  given(pooled_convolution());
  EXPECT_TRUE(choose_layouts(program_, log_));
  EXPECT_TEXT(after(), "buffer y_channels_last f32[1, 16, 3, 2] strides [96, 1, 32, 16] temp");
  EXPECT_TEXT(after(), "store y_channels_last[0, i1, i2, i3] = %0");
  EXPECT_TEXT(after(), "kernel copy_y ops [layout]");
}

// Every second element is two vectors and a shuffle, so a pool runs along the lines that it writes; what each of its
// items computes alike does not leave it with few of them.
TEST_F(PoolPasses, APoolOverLinesHasLanesAndItems) {
  given(R"(loops pool
buffer x f32[2, 8, 64, 96] strides [49152, 6144, 96, 1] input position 0
buffer y f32[2, 8, 32, 48] strides [12288, 1536, 48, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel pool ops [relu, max_pool2d] {
    for i0 in [2] parallel {
      %0 = constant.f32 0.0
      for i1 in [8] parallel {
        for i2 in [32] parallel {
          for i3 in [48] parallel {
            %1 = for r0 in [2] reduce max.f32 {
              %2 = for r1 in [2] reduce max.f32 {
                %3 = load.f32 x[i0, i1, i2*2 + r0, i3*2 + r1]
                %4 = max.f32 %3, %0
                yield %4
              }
              yield %2
            }
            store y[i0, i1, i2, i3] = %1
          }
        }
      }
    }
  }
}
)");
  bind_axes(program_, target_, log_);
  EXPECT_TEXT(after(), "for i3 in [48] parallel @lane(16, exact)");
  EXPECT_TEXT(after(), "for i1 in [8] parallel @item {\n        %0 = constant.f32 0.0");
}

}  // namespace
}  // namespace kiln::loops
