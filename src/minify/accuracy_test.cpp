// Rounding is no failure, also where it is magnified; a wrong value is one.
#include "minify/accuracy.h"

#include <gtest/gtest.h>

#include "minify/recorded_values.h"

namespace kiln::minify {
namespace {

// The difference from the mean of nearly equal numbers, divided by their spread: what the last bits of x say.
Program magnifier() {
  Program program = parse_program(R"(program "model"
graph main {
  input %x: f32[2, 16] = user
  %n: f32[2, 16] = aten.layer_norm.default(input=%x, normalized_shape=[16], eps=1e-12)
  output %n = user
}
)");
  Tensor x = random_tensor(DType::f32, {2, 16}, {16, 1}, 5);
  for (int64_t i = 0; i < x.numel(); ++i) x.set_item(i, Scalar(3 + 1e-5 * x.item(i).as_double()));
  program.sample_inputs = {Datum{x}};
  return program;
}

CallResult reference_of(const Program& program) {
  ExecutableOptions options;
  options.backend = Backend::interpret;
  return make_executable(program, options)->call(program.sample_inputs);
}

TEST(Accuracy, MagnifiedRoundingIsNoFailure) {
  const Program program = magnifier();
  CallResult got = reference_of(program);
  EXPECT_FALSE(judge(program, got, {}).failed());
  // Float arithmetic of x - mean(x) is off by the last bit of x: 3e-7 of 1e-5.
  Tensor off = got.outputs[0].tensor();
  for (int64_t i = 0; i < off.numel(); ++i) off.set_item(i, Scalar(off.item(i).as_double() + 0.01));
  const Failure rounding = judge(program, got, {});
  EXPECT_FALSE(rounding.failed()) << rounding.message;
  EXPECT_NE(rounding.message.find("rounding explains it"), std::string::npos) << rounding.message;
  for (int64_t i = 0; i < off.numel(); ++i) off.set_item(i, Scalar(off.item(i).as_double() + 1));
  const Failure wrong = judge(program, got, {});
  EXPECT_EQ(wrong.kind, FailureKind::accuracy);
  EXPECT_EQ(wrong.code, "values");
  EXPECT_GT(wrong.error, 1000);
}

TEST(Accuracy, WhereNothingIsMagnifiedASmallErrorCounts) {
  Program program = parse_program(R"(program "model"
graph main {
  input %x: f32[4] = user
  %s: f32[4] = aten.sin.default(self=%x)
  output %s = user
}
)");
  program.sample_inputs = {Datum{random_tensor(DType::f32, {4}, {1}, 5)}};
  CallResult got = reference_of(program);
  Tensor off = got.outputs[0].tensor();
  off.set_item(2, Scalar(off.item(2).as_double() + 0.001));
  EXPECT_TRUE(judge(program, got, {}).failed());
  AccuracyOptions loose;
  loose.atol = 0.01;
  EXPECT_FALSE(judge(program, got, loose).failed());
}

// What a mask makes huge excuses nothing beside it, and is judged by itself.
TEST(Accuracy, ValuesBesideHugeOnesAreJudged) {
  Program program = parse_program(R"(program "model"
graph main {
  input %x: f32[64] = user
  input %m: f32[64] = user
  %s: f32[64] = aten.add.Tensor(self=%x, other=%m)
  output %s = user
}
)");
  Tensor mask = random_tensor(DType::f32, {64}, {1}, 6);
  for (int64_t i = 0; i < 64; ++i) mask.set_item(i, Scalar(i % 4 == 0 ? -3e38 : 0.0));
  program.sample_inputs = {Datum{random_tensor(DType::f32, {64}, {1}, 5)}, Datum{mask}};
  for (const int64_t wrong : {2, 8}) {
    CallResult got = reference_of(program);
    EXPECT_FALSE(judge(program, got, {}).failed());
    Tensor off = got.outputs[0].tensor();
    off.set_item(wrong, Scalar(off.item(wrong).as_double() * 1.5 + 1));
    EXPECT_TRUE(judge(program, got, {}).failed()) << wrong;
  }
}

}  // namespace
}  // namespace kiln::minify
