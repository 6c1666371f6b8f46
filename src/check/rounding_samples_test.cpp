#include "check/rounding_samples.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

Tensor filled(DType dtype, const std::vector<double>& values) {
  Tensor out = Tensor::empty(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) out.set_item(static_cast<int64_t>(i), Scalar(values[i]));
  return out;
}

// Of a value that sample 0 has, which every odd sample has as `other`.
class RoundingSamples : public testing::Test {
 protected:
  Comparison judged(DType dtype, double got, double expected, double reference, double other) const {
    std::vector<Datum> made;
    for (const double value : {reference, other})
      made.push_back(Datum{filled(is_integral(dtype) ? dtype : DType::f64, {1.0, value, 2.0})});
    return compare("output 0", Datum{filled(dtype, {1.0, got, 2.0})}, Datum{filled(dtype, {1.0, expected, 2.0})}, {},
                   [&](int sample) { return &made[static_cast<size_t>(sample % 2)]; });
  }
};

TEST_F(RoundingSamples, WhatRoundingDecidesMayBeEither) {
  const Comparison result = judged(DType::f32, 2, 3, 3, 2);
  EXPECT_TRUE(result.ok()) << result.failure;
  EXPECT_EQ(result.rescued, 1);
  EXPECT_TRUE(judged(DType::i64, 17, 4, 4, 17).ok()) << "an index among nearly equal numbers";
  EXPECT_TRUE(judged(DType::i64, 4, 17, 4, 17).ok()) << "and the reference has the other";
}

TEST_F(RoundingSamples, WhatItDoesNotDecideMayNot) {
  EXPECT_FALSE(judged(DType::f32, 2, 3, 3, 3).ok());
  EXPECT_FALSE(judged(DType::i64, 5, 4, 4, 17).ok()) << "integers are one of the two, not between";
  EXPECT_FALSE(judged(DType::i64, 17, 4, 5, 17).ok()) << "what is expected is neither";
  EXPECT_FALSE(judged(DType::f32, 9, 3, 3, 4).ok()) << "more than four times as far";
}

TEST_F(RoundingSamples, WhatItMagnifiesMayBeAsFar) {
  EXPECT_TRUE(judged(DType::f32, 1.003, 1.0, 1.001, 1.002).ok());
  EXPECT_FALSE(judged(DType::f32, 1.01, 1.0, 1.001, 1.002).ok());
}

TEST_F(RoundingSamples, OfAllValuesTogether) {
  // Each is twice as far as the one sample that is off, and nearly all of them are.
  std::vector<double> truth(100, 1.0), off(100, 1.0), got(100, 1.0);
  for (size_t i = 0; i < off.size(); ++i) off[i] = 1.001, got[i] = 1.0035;
  const Datum reference{filled(DType::f64, truth)}, sample{filled(DType::f64, off)};
  EXPECT_FALSE(
      compare("output 0", Datum{filled(DType::f32, got)}, Datum{filled(DType::f32, truth)}, {}, [&](int number) {
        return number == 0 ? &reference : &sample;
      }).ok());
}

}  // namespace
}  // namespace kiln
