// hold_given_weights and prepare_given_weights: a window whose weights are an input, between the two passes and after.
#include <gtest/gtest.h>

#include "schedule/schedule_passes_test.h"

namespace kiln::loops {
namespace {

// 3 by 3 windows of 16 channels, points by points of them, 32 results each: 16 by 16 are a million products.
std::string window(int64_t points, const char* weight = "input position 1", const char* op = "conv2d") {
  const std::string side = str(points), around = str(points + 2);
  return str("loops window\nbuffer x f32[16, ", around, ", ", around, "] strides [", (points + 2) * (points + 2), ", ",
             around, ", 1] input position 0\nbuffer w f32[32, 16, 3, 3] strides [144, 9, 3, 1] ", weight,
             "\nbuffer y f32[32, ", side, ", ", side, "] strides [", points * points, ", ", side,
             ", 1] output position 0\ninput x = buffer x\n",
             std::string_view(weight).starts_with("input") ? "input w = buffer w\n" : "",
             "output buffer y\ninit {\n}\nmain {\n  kernel window ops [", op, "] {\n    for i0 in [32] parallel {\n",
             "      for i1 in [", side, "] parallel {\n        for i2 in [", side, "] parallel {\n",
             "          %0 = for r0 in [16] reduce sum.f32 {\n            %1 = for r1 in [3] reduce sum.f32 {\n"
             "              %2 = for r2 in [3] reduce sum.f32 {\n"
             "                %3 = load.f32 x[r0, i1 + r1, i2 + r2]\n                %4 = load.f32 w[i0, r0, r1, r2]\n"
             "                %5 = mul.f32 %3, %4\n                yield %5\n              }\n"
             "              yield %2\n            }\n            yield %1\n          }\n"
             "          store y[i0, i1, i2] = %0\n        }\n      }\n    }\n  }\n}\n");
}

class GivenWeights : public SchedulePasses {
 protected:
  GivenWeights() { target_ = of_eight_lanes(); }
  bool hold() { return hold_given_weights(program_, target_, log_, {"conv2d"}); }
};

TEST_F(GivenWeights, PassForDerivedOnes) {
  given(window(16));
  ASSERT_TRUE(hold());
  expect_all(after(), {"buffer w_held f32[32, 16, 3, 3] strides [144, 9, 3, 1] derived", "kernel hold_w ops [hold]",
                       "store w_held[i0, i1, i2, i3]", "load.f32 w_held[i0, r0, r1, r2]"});
}

TEST_F(GivenWeights, AreReadWhereTheyAreIfNobodyLaidThemOut) {
  given(window(16));
  const std::string before = print(program_);
  ASSERT_TRUE(hold());
  ASSERT_TRUE(prepare_given_weights(program_, log_));
  const std::string text = after();
  EXPECT_EQ(text.find("kernel hold_w"), std::string::npos) << text;
  EXPECT_NE(text.find("load.f32 w[i0, r0, r1, r2]"), std::string::npos) << text;
}

TEST_F(GivenWeights, AreLaidOutInEachCall) {
  given(window(16));
  ASSERT_TRUE(hold());
  choose_layouts(program_, log_);
  find_contractions(program_, log_);
  use_templates(program_, target_, log_);
  ASSERT_TRUE(prepare_given_weights(program_, log_));
  EXPECT_TRUE(program_.init.empty());
  const std::string text = after();
  const size_t pack = text.find("ops [pack]"), sums = text.find("ops [conv2d]");
  ASSERT_NE(pack, std::string::npos) << text;
  EXPECT_LT(pack, sums) << text;
  EXPECT_LT(text.find("load.f32 w["), sums) << text;
  EXPECT_NE(text.find("buffer w_held_packed f32"), std::string::npos) << text;
  EXPECT_EQ(text.find("derived"),
            text.find("w_held f32") == std::string::npos ? std::string::npos : text.find("derived"));
}

TEST_F(GivenWeights, OnlyWhereManyPointsReadThem) {
  given(window(4));
  EXPECT_FALSE(hold());
}

TEST_F(GivenWeights, OfThePackageAreConstantsAnyway) {
  given(window(16, "constant named \"w\""));
  EXPECT_FALSE(hold());
  EXPECT_FALSE(prepare_given_weights(program_, log_));
}

TEST_F(GivenWeights, OnlyThoseOfConvolutions) {
  given(window(16, "input position 1", "sum"));
  EXPECT_FALSE(hold());
}

TEST_F(GivenWeights, NotThoseThatTheProgramChanges) {
  given(window(16, "input position 1 mutated"));
  EXPECT_FALSE(hold());
}

}  // namespace
}  // namespace kiln::loops
