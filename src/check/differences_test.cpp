#include "check/differences.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kiln {
namespace {

Tensor numbers(DType dtype, const std::vector<double>& values) {
  Tensor tensor = Tensor::empty(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    tensor.set_item(static_cast<int64_t>(i),
                    is_integral(dtype) ? Scalar(static_cast<int64_t>(values[i])) : Scalar(values[i]));
  return tensor;
}

OutputDifference of(const Datum& a, const Datum& b, DifferenceLimits limits = {}) {
  return find_differences({{"output 0", a}}, {b}, limits).at(0);
}

TEST(Differences, EqualValuesAreEqual) {
  const Datum x{numbers(DType::f32, {1, NAN, INFINITY, -0.0})}, y{numbers(DType::f32, {1, NAN, INFINITY, 0.0})};
  const OutputDifference difference = of(x, y);
  EXPECT_TRUE(difference.ok());
  EXPECT_EQ(difference.unequal, 0);
  EXPECT_EQ(difference_text(difference), "output 0: float32[4]: equal, 4 values\n");
}

TEST(Differences, TheLargestComeFirst) {
  const Datum x{numbers(DType::f32, {1, 2, 3, 4, 0})}, y{numbers(DType::f32, {1.5, 2, 3.25, 5, 1e-6})};
  DifferenceLimits limits;
  limits.most_places = 2;
  const OutputDifference difference = of(x, y, limits);
  EXPECT_FALSE(difference.ok());
  EXPECT_EQ(difference.unequal, 4);
  EXPECT_EQ(difference.outside, 3);  // the last is within atol
  ASSERT_EQ(difference.places.size(), 2u);
  EXPECT_EQ(difference.places[0].index, std::vector<int64_t>{3});
  EXPECT_EQ(difference.places[0].absolute, 1);
  EXPECT_EQ(difference.places[0].relative, 0.2);
  EXPECT_EQ(difference.places[1].index, std::vector<int64_t>{0});
  EXPECT_EQ(difference.largest_relative, 1);
  EXPECT_NE(
      difference_text(difference).find("DIFFERS: 3 of 5 values outside of the tolerance (rtol 1.3e-06, atol 1e-05)"),
      std::string::npos);
  EXPECT_NE(difference_text(difference).find("  at [3]: 4 and 5, off by 1, relative 0.2\n"), std::string::npos);
  limits.tolerance.rtol = 0, limits.tolerance.atol = 1;
  EXPECT_TRUE(of(x, y, limits).ok());
}

TEST(Differences, NanAgainstANumberIsTheLargest) {
  const OutputDifference difference =
      of({numbers(DType::f64, {1e300, NAN, 1})}, {numbers(DType::f64, {-1e300, 2, INFINITY})});
  EXPECT_EQ(difference.outside, 3);
  EXPECT_EQ(difference.places[0].a, "nan");
  EXPECT_NE(difference_text(difference).find("  at [1]: nan and 2\n"), std::string::npos);
  EXPECT_NE(json_text(difference_json(difference)).find(R"("absolute":null,"relative":null)"), std::string::npos);
  // Numbers are numbers in JSON too, where it has them.
  EXPECT_NE(json_text(difference_json(difference)).find(R"("a":"nan","b":2,)"), std::string::npos);
  EXPECT_NE(json_text(difference_json(of({numbers(DType::f64, {1.5})}, {numbers(DType::f64, {2})})))
                .find(R"("a":1.5,"b":2,)"),
            std::string::npos);
}

TEST(Differences, IntegersAreExact) {
  DifferenceLimits loose;
  loose.tolerance.atol = 10, loose.tolerance.rtol = 1, loose.values_only = true;
  EXPECT_FALSE(of({numbers(DType::i64, {1, 2})}, {numbers(DType::i64, {1, 3})}, loose).ok());
  EXPECT_FALSE(of({numbers(DType::i64, {1, 2})}, {numbers(DType::i32, {1, 3})}, loose).ok());
  EXPECT_TRUE(of({numbers(DType::i64, {1, 2})}, {numbers(DType::i32, {1, 2})}, loose).ok());
  Tensor big = numbers(DType::i64, {0}), bigger = numbers(DType::i64, {0});
  big.set_item(0, Scalar(int64_t{1} << 62)), bigger.set_item(0, Scalar((int64_t{1} << 62) + 1));
  EXPECT_EQ(of({big}, {bigger}).outside, 1);
}

TEST(Differences, AnotherTypeDiffersUnlessOnlyValuesCount) {
  const Datum wide{numbers(DType::f32, {1, 2.001})}, narrow{numbers(DType::bf16, {1, 2})};
  OutputDifference difference = of(wide, narrow);
  EXPECT_FALSE(difference.ok());
  EXPECT_EQ(difference.outside, 0);  // bfloat16's tolerance
  EXPECT_EQ(difference.failure, "dtypes are float32 and bfloat16");
  DifferenceLimits limits;
  limits.values_only = true;
  EXPECT_TRUE(of(wide, narrow, limits).ok());
  limits.tolerance.rtol = 0, limits.tolerance.atol = 0;
  EXPECT_FALSE(of(wide, narrow, limits).ok());
}

TEST(Differences, WhatCannotBeComparedIsSaid) {
  EXPECT_EQ(of({numbers(DType::f32, {1})}, {numbers(DType::f32, {1, 2})}).failure, "sizes are [1] and [2]");
  EXPECT_EQ(of({numbers(DType::f32, {1})}, {Datum{}}).failure, "is a tensor, expected None");
  EXPECT_TRUE(of(Datum{}, Datum{}).ok());
  EXPECT_FALSE(of(Datum{std::string("a")}, Datum{std::string("b")}).ok());
  // A number in a file that only has tensors.
  EXPECT_TRUE(of(Datum{Scalar(2.5)}, Datum{Tensor::scalar(DType::f64, Scalar(2.5))}).ok());
  EXPECT_FALSE(of(Datum{Scalar(2.5)}, Datum{Tensor::scalar(DType::f64, Scalar(3.5))}).ok());
}

}  // namespace
}  // namespace kiln
