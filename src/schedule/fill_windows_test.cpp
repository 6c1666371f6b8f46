// fill_windows on a first convolution in text: the same numbers from pairs of terms, and what is left alone.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/sample_run_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// A window of 3 × 3 over 51 × 53 points of so many colours, every second one, with zeros around it.
std::string first_layer(int64_t colours, const std::string& weights = "constant named \"w\"", int64_t last = 53,
                        int64_t width = 192) {
  std::string text = R"(loops first
buffer x bf16[COLOURS, 51, 53] strides [2703, 53, 1] input position 0
buffer w bf16[WIDTH, COLOURS, 3, 3] strides [EACH, 9, 3, 1] WEIGHTS
buffer y f32[WIDTH, 26, 27] strides [702, 27, 1] output position 0
input x = buffer x
MOREoutput buffer y
init {
}
main {
  kernel window ops [convolution] {
    for i2 in [26] parallel {
      for i3 in [27] parallel {
        for i1 in [WIDTH] parallel {
          %0 = index.i64 [0]
          %3 = index.i64 [51]
          %12 = index.i64 [LAST]
          %19 = for r1 in [3] reduce sum.f32 {
            %1 = index.i64 [i2*2 + r1 - 1]
            %2 = ge.bool %1, %0
            %5 = lt.bool %1, %3
            %6 = logical_and.bool %2, %5
            %18 = for r2 in [3] reduce sum.f32 {
              %8 = index.i64 [i3*2 + r2 - 1]
              %9 = ge.bool %8, %0
              %10 = logical_and.bool %6, %9
              %13 = lt.bool %8, %12
              %14 = logical_and.bool %10, %13
              %21 = for r0 in [COLOURS] reduce sum.f32 {
                %15 = load.bf16 x[r0, i2*2 + r1 - 1, i3*2 + r2 - 1] mask %14
                %22 = cast.f32 %15
                %16 = load.bf16 w[i1, r0, r1, r2]
                %23 = cast.f32 %16
                %17 = mul.f32 %22, %23
                yield %17
              }
              yield %21
            }
            yield %18
          }
          store y[i1, i2, i3] = %19
        }
      }
    }
  }
}
)";
  text = replace_all(text, "WEIGHTS", weights);
  text = replace_all(text, "MORE", weights[0] == 'i' ? "input w = buffer w\n" : "");
  text = replace_all(text, "EACH", std::to_string(colours * 9));
  text = replace_all(text, "LAST", std::to_string(last));
  text = replace_all(text, "WIDTH", std::to_string(width));
  return replace_all(text, "COLOURS", std::to_string(colours));
}

Target with_pairs() {
  Target target;
  target.bf16_pairs = true;
  return target;
}

TEST(FillWindows, GivesTheSameFromPairs) {
  for (const int64_t colours : {3, 4, 5}) {
    LoopProgram program = parsed(first_layer(colours));
    const std::vector<Datum> before = run_on_samples(program);
    Log log;
    find_contractions(program, log);
    ASSERT_TRUE(fill_windows(program, with_pairs(), log)) << colours;
    verify(program);
    EXPECT_FALSE(take_points(program, with_pairs(), log));
    use_templates(program, with_pairs(), log);
    verify(program);
    const std::string text = print(program);
    EXPECT_NE(text.find(" pairs\n"), std::string::npos) << text;
    EXPECT_NE(text.find("x_filled bf16["), std::string::npos) << text;
    expect_near(run_on_samples(program), before, 1e-5);
  }
}

// Zeros beside the channels meet zeros: what is no number shows where it did.
TEST(FillWindows, NaNStaysWhereItWas) {
  LoopProgram program = parsed(first_layer(3));
  Tensor x = filled(program.buffers[0], 2);
  x.set_item(2703 + 20 * 53 + 30, Scalar(NAN));
  const auto run = [&] {
    return LoopInterpreter(program, {{"w", filled(program.buffers[1], 1)}}, {}).run({{x}}).outputs;
  };
  const Tensor before = run().at(0).tensor();
  Log log;
  find_contractions(program, log);
  ASSERT_TRUE(fill_windows(program, with_pairs(), log));
  const Tensor after = run().at(0).tensor();
  int64_t none = 0;
  for (int64_t i = 0; i < before.numel(); ++i) {
    none += std::isnan(before.item(i).as_double());
    EXPECT_EQ(std::isnan(before.item(i).as_double()), std::isnan(after.item(i).as_double())) << i;
  }
  EXPECT_GT(none, 0);
}

// One colour and many, weights that are inputs, a mask that says more than where the picture ends, so few channels made
// of it that a copy costs more than it gains, other targets.
TEST(FillWindows, LeavesTheRest) {
  Log log;
  for (const std::string& text :
       {first_layer(1), first_layer(9), first_layer(3, "input position 1"), first_layer(3, "constant named \"w\"", 50),
        first_layer(3, "constant named \"w\"", 53, 32)}) {
    LoopProgram program = parsed(text);
    find_contractions(program, log);
    EXPECT_FALSE(fill_windows(program, with_pairs(), log)) << text;
  }
  LoopProgram program = parsed(first_layer(3));
  find_contractions(program, log);
  EXPECT_FALSE(fill_windows(program, Target(), log));
}

}  // namespace
}  // namespace kiln::loops
