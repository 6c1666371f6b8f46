#include "debug/tensor_difference.h"

#include <gtest/gtest.h>

#include <limits>

namespace kiln {
namespace {

Tensor row(std::vector<float> values) {
  Tensor t = Tensor::empty(DType::f32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t.as<float>()[i] = values[i];
  return t;
}

// What rounding does to a mask's numbers, or to an overflow beside them, excuses no other value.
TEST(TensorDifference, NumbersOfAnotherSizeExcuseNothing) {
  for (const float mask : {std::numeric_limits<float>::lowest(), -1e9f}) {
    const Tensor truth = row({0.5f, 0.25f, 1, 2, mask, mask, mask}), wrong = row({1.5f, 0.25f, 1, 2, mask, mask, mask});
    EXPECT_FALSE(find_difference(truth, truth, truth, {}));
    const auto found = find_difference(wrong, truth, truth, {});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->count, 1);
  }
}

TEST(TensorDifference, RoundedFactorsAreAPartOfTheLargestValue) {
  const Tensor truth = row({4, 1, -2}), near = row({4, 1.02f, -2}), far = row({4, 1.2f, -2});
  EXPECT_TRUE(find_difference(near, truth, truth, {}));
  DifferenceOptions rounded;
  rounded.rounded_factors = true;
  EXPECT_FALSE(find_difference(near, truth, truth, rounded));
  EXPECT_TRUE(find_difference(far, truth, truth, rounded));
}

}  // namespace
}  // namespace kiln
