#include "tensor_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace kiln::cli {
namespace {

Tensor floats(std::vector<int64_t> sizes, const std::vector<double>& values) {
  Tensor tensor = Tensor::empty(DType::f32, std::move(sizes));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_item(static_cast<int64_t>(i), Scalar(values[i]));
  return tensor;
}

// The expected texts are what torch prints between "tensor(" and ")".
TEST(TensorText, FloatsAsTorchPrintsThem) {
  EXPECT_EQ(values_text(floats({2, 2}, {1.5, -2, 3, 4})), "[[ 1.5000, -2.0000],\n [ 3.0000,  4.0000]]");
  EXPECT_EQ(values_text(floats({3}, {1, 2, 3})), "[1., 2., 3.]");
  EXPECT_EQ(values_text(floats({2}, {1e-6, 1})), "[1.0000e-06, 1.0000e+00]");
  EXPECT_EQ(values_text(floats({}, {0.25})), "0.2500");
  EXPECT_EQ(values_text(floats({2}, {std::numeric_limits<double>::infinity(), 1.5})), "[   inf, 1.5000]");
}

TEST(TensorText, IntegersAndBools) {
  Tensor numbers = Tensor::empty(DType::i64, {2});
  numbers.set_item(1, Scalar(-12));
  EXPECT_EQ(values_text(numbers), "[  0, -12]");
  EXPECT_EQ(values_text(Tensor::empty(DType::boolean, {1})), "[False]");
}

TEST(TensorText, LongOnesAreShortened) {
  EXPECT_EQ(values_text(Tensor::empty(DType::i64, {100})), "[0, 0, 0, ..., 0, 0, 0]");
  EXPECT_EQ(values_text(Tensor::empty(DType::i64, {0, 3})), "[]");
}

TEST(TensorText, WithTypeAndIndent) {
  EXPECT_EQ(datum_text(Datum{floats({2, 1}, {1.5, 2})}, 4),
            "float32[2, 1]  [[1.5000],\n" + std::string(20, ' ') + "[2.0000]]");
  EXPECT_EQ(datum_text(Datum{}), "None");
  EXPECT_EQ(datum_text(Datum{Scalar(true)}), "True");
}

}  // namespace
}  // namespace kiln::cli
