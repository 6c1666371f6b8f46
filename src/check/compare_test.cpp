#include "check/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kiln {
namespace {

Tensor filled(DType dtype, std::vector<int64_t> sizes, const std::vector<double>& values) {
  Tensor tensor = Tensor::empty(dtype, std::move(sizes));
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_integral(dtype))
      tensor.set_item(static_cast<int64_t>(i), Scalar(static_cast<int64_t>(values[i])));
    else
      tensor.set_item(static_cast<int64_t>(i), Scalar(values[i]));
  }
  return tensor;
}

Datum one(DType dtype, double value) { return Datum{filled(dtype, {1}, {value})}; }

bool same(const Datum& got, const Datum& expected, const CompareOptions& options = {}, const Fp64Lookup& fp64 = {}) {
  return compare("output 0", got, expected, options, fp64).ok();
}

// It may be any number, one that leads out of the address space too.
TEST(Compare, TheStrideOfOneElementIsNotWalked) {
  Tensor got = filled(DType::f32, {2, 1, 2}, {1, 2, 3, 4}), expected = got.clone();
  got.strides[1] = int64_t{1} << 62;
  EXPECT_TRUE(same(Datum{got}, Datum{expected}));
  EXPECT_EQ(got.clone().at({1, 0, 1}).as_double(), 4);
  expected.set_item(3, Scalar(5.0));
  EXPECT_FALSE(same(Datum{got}, Datum{expected}));
}

TEST(Compare, CountsOutputs) {
  const Comparison result = compare_lists("output", {one(DType::f32, 1)}, {}, {});
  EXPECT_EQ(result.failure, "number of outputs is 1, expected 0");
}

TEST(Compare, ChecksTheKind) {
  EXPECT_FALSE(same(Datum{Scalar(1)}, Datum{Scalar(true)}));
  EXPECT_FALSE(same(Datum{Scalar(1)}, Datum{Scalar(1.0)}));
  EXPECT_FALSE(same(Datum{}, one(DType::f32, 1)));
  EXPECT_TRUE(same(Datum{}, Datum{}));
}

TEST(Compare, ChecksTheDtype) {
  const Comparison result = compare("output 0", one(DType::f64, 1), one(DType::f32, 1), {});
  EXPECT_EQ(result.failure, "output 0: dtype is float64, expected float32");
}

TEST(Compare, ChecksTheSizes) {
  EXPECT_FALSE(same(Datum{Tensor::empty(DType::f32, {2, 3})}, Datum{Tensor::empty(DType::f32, {3, 2})}));
  EXPECT_FALSE(same(Datum{Tensor::empty(DType::f32, {0, 3})}, Datum{Tensor::empty(DType::f32, {0, 2})}));
}

TEST(Compare, ChecksStridesOfDenseTensors) {
  const Datum rows{Tensor::empty(DType::f32, {2, 3})};
  const Datum columns{Tensor::empty_strided(DType::f32, {2, 3}, {1, 2})};
  EXPECT_FALSE(same(rows, columns));
  EXPECT_FALSE(same(columns, rows));
}

TEST(Compare, IgnoresStridesOfDimensionsOfSizeOne) {
  const Datum a{Tensor::empty_strided(DType::f32, {2, 1, 3}, {3, 3, 1})};
  const Datum b{Tensor::empty_strided(DType::f32, {2, 1, 3}, {3, 77, 1})};
  EXPECT_TRUE(same(a, b));
}

TEST(Compare, IgnoresStridesWhereTheExpectedTensorIsNotDenseOrOverlaps) {
  const Datum dense{Tensor::empty(DType::f32, {2, 3})};
  EXPECT_TRUE(same(dense, Datum{Tensor::empty_strided(DType::f32, {2, 3}, {0, 1})}));
  EXPECT_TRUE(same(dense, Datum{Tensor::empty_strided(DType::f32, {2, 3}, {6, 2})}));
}

TEST(Compare, KnowsDenseLayouts) {
  EXPECT_TRUE(dense_and_not_overlapping({2, 3}, {3, 1}));
  EXPECT_TRUE(dense_and_not_overlapping({2, 3, 4}, {3, 1, 6}));
  EXPECT_TRUE(dense_and_not_overlapping({}, {}));
  EXPECT_FALSE(dense_and_not_overlapping({2, 3}, {0, 1}));
  EXPECT_FALSE(dense_and_not_overlapping({2, 3}, {4, 1}));
  EXPECT_FALSE(dense_and_not_overlapping({4}, {2}));
}

// One pair of values inside and one outside of each tolerance of torch.testing.assert_close.
TEST(Compare, UsesTheTolerancesOfTheDtype) {
  EXPECT_TRUE(same(one(DType::f16, 1.0009765625), one(DType::f16, 1)));
  EXPECT_FALSE(same(one(DType::f16, 1.001953125), one(DType::f16, 1)));
  EXPECT_TRUE(same(one(DType::bf16, 1.015625), one(DType::bf16, 1)));
  EXPECT_FALSE(same(one(DType::bf16, 1.0234375), one(DType::bf16, 1)));
  EXPECT_TRUE(same(one(DType::f32, 1.00001), one(DType::f32, 1)));
  EXPECT_FALSE(same(one(DType::f32, 1.00002), one(DType::f32, 1)));
  EXPECT_TRUE(same(one(DType::f64, 1 + 1.9e-7), one(DType::f64, 1)));
  EXPECT_FALSE(same(one(DType::f64, 1 + 2.1e-7), one(DType::f64, 1)));
  EXPECT_EQ(default_tolerance(DType::c32), (Tolerance{1e-3, 1e-5}));
  EXPECT_EQ(default_tolerance(DType::c64), (Tolerance{1.3e-6, 1e-5}));
  EXPECT_EQ(default_tolerance(DType::c128), (Tolerance{1e-7, 1e-7}));
  EXPECT_EQ(default_tolerance(DType::i32), (Tolerance{0, 0}));
}

TEST(Compare, IntegersAreExactWhateverTheTolerance) {
  CompareOptions loose;
  loose.rtol = loose.atol = 10;
  EXPECT_FALSE(same(one(DType::i64, 3), one(DType::i64, 4), loose));
  EXPECT_FALSE(same(one(DType::boolean, 1), one(DType::boolean, 0), loose));
  EXPECT_FALSE(same(Datum{Scalar(3)}, Datum{Scalar(4)}, loose));
  EXPECT_TRUE(same(one(DType::i64, 4), one(DType::i64, 4)));
  // Neighbours that are the same as doubles.
  Tensor a = Tensor::empty(DType::i64, {1}), b = Tensor::empty(DType::i64, {1});
  *a.as<int64_t>() = (int64_t{1} << 62) + 1;
  *b.as<int64_t>() = int64_t{1} << 62;
  EXPECT_FALSE(same(Datum{a}, Datum{b}));
}

TEST(Compare, NanEqualsNanOnly) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(same(one(DType::f32, nan), one(DType::f32, nan)));
  EXPECT_FALSE(same(one(DType::f32, nan), one(DType::f32, 0)));
  EXPECT_FALSE(same(one(DType::f32, 0), one(DType::f32, nan)));
  EXPECT_TRUE(same(Datum{Scalar(nan)}, Datum{Scalar(nan)}));
}

TEST(Compare, InfinitiesMustMatch) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(same(one(DType::f32, inf), one(DType::f32, inf)));
  EXPECT_FALSE(same(one(DType::f32, inf), one(DType::f32, -inf)));
  EXPECT_FALSE(same(one(DType::f32, 3e38), one(DType::f32, inf)));
  EXPECT_FALSE(same(one(DType::f32, inf), one(DType::f32, 3e38)));
}

TEST(Compare, ComplexByDistance) {
  const auto complex_tensor = [](std::complex<double> value) {
    Tensor tensor = Tensor::empty(DType::c64, {1});
    tensor.set_item(0, Scalar(value));
    return Datum{tensor};
  };
  EXPECT_TRUE(same(complex_tensor({1, 2}), complex_tensor({1, 2.00001})));
  EXPECT_FALSE(same(complex_tensor({1, 2}), complex_tensor({1, 2.001})));
}

TEST(Compare, ToleranceOfTheCaseReplacesTheDtypes) {
  CompareOptions options;
  options.atol = 0.1;
  options.rtol = 0;
  EXPECT_TRUE(same(one(DType::f32, 1.05), one(DType::f32, 1), options));
  EXPECT_FALSE(same(one(DType::f32, 1.2), one(DType::f32, 1), options));
  options.atol = 0;
  EXPECT_FALSE(same(one(DType::f32, 1.000001), one(DType::f32, 1), options));
}

TEST(Compare, ShapesOnlyIgnoresValues) {
  CompareOptions options;
  options.shapes_only = true;
  EXPECT_TRUE(same(one(DType::f32, 1), one(DType::f32, 2), options));
  EXPECT_FALSE(same(one(DType::f64, 1), one(DType::f32, 1), options));
  EXPECT_FALSE(same(Datum{Tensor::empty(DType::f32, {2})}, one(DType::f32, 1), options));
}

TEST(Compare, ReadsElementsThroughStridesAndOffsets) {
  Tensor base = filled(DType::f32, {2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
  Tensor view = base;
  view.sizes = {2, 2};
  view.strides = {1, 4};
  view.offset = 1;
  EXPECT_TRUE(same(Datum{view}, Datum{[&] {
                     Tensor expected = Tensor::empty_strided(DType::f32, {2, 2}, {4, 1});
                     expected.set_item(0, Scalar(1.0)), expected.set_item(1, Scalar(5.0));
                     expected.set_item(2, Scalar(2.0)), expected.set_item(3, Scalar(6.0));
                     return expected;
                   }()}));
}

// expected 1, tolerance about 1.13e-5.
class Rescue : public ::testing::Test {
 protected:
  Comparison rescue(double got, double reference) {
    const Datum fp64 = one(DType::f64, reference);
    return compare("output 0", one(DType::f32, got), one(DType::f32, 1), {}, [&] { return &fp64; });
  }
};

TEST_F(Rescue, PassesWhenTheExpectedValueIsItselfAsFarOff) {
  const Comparison result = rescue(1.0001, 1.00005);
  EXPECT_TRUE(result.ok()) << result.failure;
  EXPECT_EQ(result.rescued, 1);
}

TEST_F(Rescue, NotWhenTheReferenceIsFurtherThanTenTolerances) { EXPECT_FALSE(rescue(1.0004, 1.0003).ok()); }

// The rule stays strict, but the message says where to look: the result is as good as what was expected.
TEST(Compare, SaysThatWhatDiffersIsAsNearToTheReferenceAsWhatWasExpected) {
  const auto failure = [](DType dtype, double got) {
    const Datum fp64 = one(DType::f64, 0.00013);
    return compare("output 0", one(dtype, got), one(dtype, 0), {}, [&] { return &fp64; }).failure;
  };
  const std::string hint = "; it is at most twice as far from the reference as the expected value";
  EXPECT_NE(failure(DType::bf16, 0.00025).find(hint), std::string::npos) << failure(DType::bf16, 0.00025);
  EXPECT_NE(failure(DType::bf16, 0.00025).find("--atol"), std::string::npos);
  EXPECT_EQ(failure(DType::bf16, 0.0006).find("twice"), std::string::npos);
  EXPECT_EQ(failure(DType::f32, 0.00025).find("twice"), std::string::npos) << "f32 has digits enough";
}

// One value of many is too far off for a rescue, and the tensor as a whole is as good as what was expected.
TEST(Compare, SaysHowFarANarrowTensorIsFromTheReference) {
  const Tensor reference = filled(DType::f64, {3}, {1.0, 2.0, 0.001});
  const Datum fp64{reference};
  const auto failure = [&](double last) {
    return compare("output 0", Datum{filled(DType::bf16, {3}, {1.0, 2.0, last})},
                   Datum{filled(DType::bf16, {3}, {1.0078125, 2.0, 0.001})}, {}, [&] { return &fp64; })
        .failure;
  };
  const std::string close = failure(0.0012), far = failure(3);
  EXPECT_NE(close.find("root mean square distance from the reference 0.0001"), std::string::npos) << close;
  EXPECT_NE(close.find("of the expected values 0.0045"), std::string::npos) << close;
  EXPECT_NE(close.find("--atol"), std::string::npos) << close;
  EXPECT_NE(far.find("root mean square"), std::string::npos) << far;
  EXPECT_EQ(far.find("--atol"), std::string::npos) << far;
}

// Four rows of 64 values of size 1, the last row of size 0.01; what is expected, and what a result has, differ from the
// reference as roundings do, by up to 2^-7 of their row's size, and where terms cancel the value itself is near zero.
class NarrowTensor : public testing::Test {
 protected:
  static constexpr int64_t rows = 4, columns = 64;

  static double noise(int64_t i, int salt) {
    return static_cast<double>((i * 7919 + salt * 104729) % 257) / 128 - 1;  // -1 to 1
  }
  static double size_of(int64_t i) { return i / columns == rows - 1 ? 0.01 : 1; }

  NarrowTensor() {
    for (int64_t i = 0; i < rows * columns; ++i) {
      reference_.push_back(i % 8 == 3 ? 1e-4 * size_of(i) : noise(i, 3) * size_of(i));
      expected_.push_back(reference_.back() + noise(i, 1) * size_of(i) / 128);
      got_.push_back(reference_.back() + noise(i, 2) * size_of(i) / 128);
    }
  }
  Comparison judged(DType dtype = DType::bf16) const {
    const Datum fp64{filled(DType::f64, {rows, columns}, reference_)};
    return compare("output 0", Datum{filled(dtype, {rows, columns}, got_)},
                   Datum{filled(dtype, {rows, columns}, expected_)}, {}, [&] { return &fp64; });
  }

  std::vector<double> reference_, expected_, got_;
};

TEST_F(NarrowTensor, PassesWhereItIsAsNearAsWhatWasExpected) {
  const Comparison result = judged();
  EXPECT_TRUE(result.ok()) << result.failure;
  EXPECT_GT(result.rescued, 10);
  EXPECT_TRUE(judged(DType::f16).ok()) << judged(DType::f16).failure;
  EXPECT_FALSE(judged(DType::f32).ok()) << "f32 has digits enough";
}

TEST_F(NarrowTensor, PassesStoredInMoreDigitsThanItWasComputedIn) {
  CompareOptions options;
  const auto judged_as = [&] {
    const Datum fp64{filled(DType::f64, {rows, columns}, reference_)};
    return compare("output 0", Datum{filled(DType::f32, {rows, columns}, got_)},
                   Datum{filled(DType::f32, {rows, columns}, expected_)}, options, [&] { return &fp64; });
  };
  EXPECT_FALSE(judged_as().ok());
  options.computed_in = DType::bf16;
  EXPECT_TRUE(judged_as().ok()) << judged_as().failure;
  got_[70] = reference_[70] + 2.5 / 128;
  EXPECT_FALSE(judged_as().ok());
}

// Results of size 50, some of them near zero by cancellation: the expected ones were rounded once.
TEST(Compare, FourRoundingsOfTheLargestValueAreUsual) {
  std::vector<double> reference, expected, got;
  for (int i = 0; i < 128; ++i) {
    reference.push_back(i % 8 == 3 ? 0.5 : 50 + i);
    expected.push_back(reference.back()), got.push_back(reference.back());
  }
  got[3] += 3e-5;
  const Datum fp64{filled(DType::f64, {128}, reference)};
  const auto ok = [&] {
    return compare("output 0", Datum{filled(DType::f32, {128}, got)}, Datum{filled(DType::f32, {128}, expected)}, {},
                   [&] { return &fp64; })
        .ok();
  };
  EXPECT_TRUE(ok());
  got[3] += 1e-4;
  EXPECT_FALSE(ok());
  got[3] = reference[3] + 3e-5;
  for (int i = 0; i < 128; ++i) got[static_cast<size_t>(i)] *= 1 + 4e-7;
  EXPECT_FALSE(ok()) << "all a little off";
}

TEST_F(NarrowTensor, FailsWhereAValueIsMoreThanTwiceAsFar) {
  got_[70] = reference_[70] + 2.5 / 128;
  EXPECT_NE(judged().failure.find("1 of 256 values differ, worst at [1, 6]"), std::string::npos) << judged().failure;
}

TEST_F(NarrowTensor, FailsWhereASmallRowIsAsFarAsLargeOnes) {
  got_[200] = reference_[200] + 1.0 / 128;
  EXPECT_NE(judged().failure.find("worst at [3, 8]"), std::string::npos) << judged().failure;
}

TEST_F(NarrowTensor, FailsWhereAllValuesAreALittleOff) {
  for (size_t i = 0; i < got_.size(); ++i) got_[i] = reference_[i] + 1.2 / 128 * size_of(static_cast<int64_t>(i));
  EXPECT_FALSE(judged().ok());
}

TEST_F(NarrowTensor, FailsWhereTheReferenceIsNone) {
  for (size_t i = 0; i < got_.size(); ++i) expected_[i] = -reference_[i];
  EXPECT_FALSE(judged().ok());
}

TEST_F(NarrowTensor, ProductsWithRoundedFactorsAreComparedAsSuch) {
  CompareOptions options, strict;
  options.rounded_factors = strict.rounded_factors = true;
  strict.rtol = 1e-3, strict.atol = 1e-5;
  const auto ok = [&](const CompareOptions& with) {
    return compare("output 0", Datum{filled(DType::f32, {rows, columns}, got_)},
                   Datum{filled(DType::f32, {rows, columns}, reference_)}, with)
        .ok();
  };
  EXPECT_FALSE(ok({}));
  EXPECT_TRUE(ok(options));
  EXPECT_FALSE(ok(strict)) << "a tolerance that is given counts";
  got_[200] = reference_[200] + 1.0 / 32;
  EXPECT_FALSE(ok(options)) << "in a row of small values";
  got_[200] = reference_[200];
  for (double& value : got_) value *= 1.05;
  EXPECT_FALSE(ok(options)) << "all a little off";
}

TEST_F(NarrowTensor, ANaNIsExcusedByNothing) {
  got_[5] = NAN;
  EXPECT_NE(judged().failure.find("1 of 256 values differ"), std::string::npos) << judged().failure;
}

TEST(Compare, StridesOfNothingDoNotCount) {
  Tensor got = filled(DType::f32, {0, 0}, {}), expected = got;
  got.strides = {0, 1}, expected.strides = {1, 1};
  EXPECT_TRUE(compare("output 0", Datum{got}, Datum{expected}, {}).ok());
}

TEST_F(Rescue, NotWhenTheResultIsMoreThanTwiceAsFar) { EXPECT_FALSE(rescue(1.0002, 1.00005).ok()); }

TEST_F(Rescue, NotOnTheOtherSide) { EXPECT_FALSE(rescue(0.9999, 1.00005).ok()); }

TEST_F(Rescue, NotWithNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(rescue(nan, 1.00005).ok());
  EXPECT_FALSE(rescue(1.0001, nan).ok());
}

TEST_F(Rescue, IsNotAskedForWhenNothingIsOff) {
  bool asked = false;
  EXPECT_TRUE(compare("output 0", one(DType::f32, 1), one(DType::f32, 1), {}, [&]() -> const Datum* {
                asked = true;
                return nullptr;
              }).ok());
  EXPECT_FALSE(asked);
}

TEST(Compare, NeverRescuesIntegers) {
  const Datum fp64 = one(DType::f64, 3.5);
  EXPECT_FALSE(compare("output 0", one(DType::i64, 3), one(DType::i64, 4), {}, [&] { return &fp64; }).ok());
}

TEST(Compare, SaysWhatWhereAndHowFar) {
  const Datum got{filled(DType::f32, {2, 2}, {1, 2, 3, 4.5})};
  const Datum expected{filled(DType::f32, {2, 2}, {1, 2.25, 3, 4})};
  EXPECT_EQ(compare("output 0", got, expected, {}).failure,
            "output 0: 2 of 4 values differ, worst at [1, 1]: got 4.5, expected 4, off by 0.5, allowed 1.52e-05");
}

TEST(Compare, StateByName) {
  const std::map<std::string, Tensor> expected{{"pos", filled(DType::i64, {}, {1})}};
  EXPECT_TRUE(
      compare_state({{"pos", filled(DType::i64, {}, {1})}, {"other", filled(DType::i64, {}, {1})}}, expected, {}).ok());
  EXPECT_FALSE(compare_state({{"pos", filled(DType::i64, {}, {2})}}, expected, {}).ok());
  EXPECT_EQ(compare_state({}, expected, {}).failure, "state pos: there is no such buffer after the call");
}

TEST(Compare, UnchangedInputsBitForBit) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(compare_unchanged({one(DType::f32, nan)}, {one(DType::f32, nan)}).ok());
  EXPECT_FALSE(compare_unchanged({one(DType::f32, -0.0)}, {one(DType::f32, 0.0)}).ok());
}

}  // namespace
}  // namespace kiln
