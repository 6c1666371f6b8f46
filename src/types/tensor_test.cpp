#include "types/tensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/error.h"

namespace kiln {
namespace {

Tensor floats(const std::vector<double>& values, DType dtype = DType::f32) {
  Tensor tensor = Tensor::empty(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.set_item(static_cast<int64_t>(i), Scalar(values[i]));
  return tensor;
}

std::vector<int64_t> ints(const Tensor& tensor) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < tensor.numel(); ++i) out.push_back(tensor.item(i).as_int());
  return out;
}

std::vector<int64_t> raw_bytes(const Tensor& tensor) {
  Tensor bytes = tensor;
  bytes.dtype = DType::u8;
  return ints(bytes);
}

TEST(Scalars, ConvertAndPrint) {
  EXPECT_EQ(Scalar(2.9).as_int(), 2);
  EXPECT_EQ(Scalar(-2.9).as_int(), -2);
  EXPECT_EQ(Scalar(true).as_int(), 1);
  EXPECT_EQ(Scalar(NAN).as_int(), INT64_MIN);
  EXPECT_EQ(Scalar(1e30).as_int(), INT64_MIN);
  EXPECT_EQ(Scalar(3).text(), "3");
  EXPECT_EQ(Scalar(true).text(), "true");
  EXPECT_EQ(Scalar(1.0).text(), "1.0");
  EXPECT_EQ(Scalar(std::complex<double>(1, 2)).text(), "(1.0,2.0)");
  EXPECT_EQ(Scalar(NAN), Scalar(NAN));
  EXPECT_FALSE(Scalar(0.0) == Scalar(-0.0));
  EXPECT_FALSE(Scalar(1) == Scalar(1.0));
}

TEST(Tensors, LayoutAndElements) {
  Tensor tensor = Tensor::empty(DType::i32, {2, 3});
  EXPECT_EQ(tensor.strides, (std::vector<int64_t>{3, 1}));
  for (int64_t i = 0; i < 6; ++i) tensor.set_item(i, Scalar(i));
  EXPECT_EQ(tensor.at({1, 2}), Scalar(5));
  Tensor view = tensor;
  view.sizes = {3, 2};
  view.strides = {1, 3};
  EXPECT_FALSE(view.contiguous());
  EXPECT_EQ(ints(view), (std::vector<int64_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(ints(view.clone()), ints(view));
  EXPECT_TRUE(view.clone().contiguous());
  EXPECT_EQ(tensor_type_text(view), "i32[3, 2]");
  EXPECT_EQ(Tensor::empty(DType::f32, {0, 5}).numel(), 0);
  EXPECT_TRUE(Tensor::empty(DType::f32, {0, 5}).contiguous());
  EXPECT_EQ(storage_bytes_needed(DType::f32, {2, 3}, {10, 1}, 4), (4 + 10 + 2 + 1) * 4);
  EXPECT_THROW(count_elements({INT64_MAX, 3}), Error);
  EXPECT_EQ(count_elements({INT64_MAX, 3, 0}), 0);
}

TEST(Tensors, NoSizeOrStrideIsNegative) {
  auto code = [](std::vector<int64_t> sizes, std::vector<int64_t> strides) -> std::string {
    try {
      Tensor::empty_strided(DType::f32, std::move(sizes), std::move(strides));
    } catch (const Error& error) {
      return error.code();
    }
    return "";
  };
  EXPECT_EQ(code({2, -2}, {1, 1}), "K0243");
  EXPECT_EQ(code({-2, -2}, {1, 1}), "K0243");
  EXPECT_EQ(code({2, 2}, {-1, 1}), "K0243");
  EXPECT_EQ(code({1, 2}, {-1, 1}), "");  // a single step says nothing
}

TEST(Tensors, CopyBroadcasts) {
  Tensor out = Tensor::empty(DType::i64, {2, 3});
  copy_into(floats({1, 2, 3}), out);
  EXPECT_EQ(ints(out), (std::vector<int64_t>{1, 2, 3, 1, 2, 3}));
  copy_into(Tensor::scalar(DType::f64, Scalar(7.9)), out);
  EXPECT_EQ(ints(out), (std::vector<int64_t>{7, 7, 7, 7, 7, 7}));
  Tensor column = floats({4, 5});
  column.sizes = {2, 1};
  column.strides = {1, 1};
  copy_into(column, out);
  EXPECT_EQ(ints(out), (std::vector<int64_t>{4, 4, 4, 5, 5, 5}));
}

TEST(Tensors, FileMemoryIsNotWritten) {
  Tensor tensor = Tensor::empty(DType::f32, {2});
  tensor.storage->writable = false;
  EXPECT_THROW(tensor.set_item(0, Scalar(1)), Error);
  EXPECT_THROW(copy_into(floats({1, 2}), tensor), Error);
}

// Expected values from PyTorch 2.15 on x86.
TEST(Convert, FloatToIntegers) {
  const Tensor x = floats({NAN, INFINITY, -INFINITY, 1e20, -1e20, 300.7, -3.5, -0.0});
  EXPECT_EQ(ints(convert(x, DType::i8)), (std::vector<int64_t>{0, 0, 0, 0, 0, 44, -3, 0}));
  EXPECT_EQ(ints(convert(x, DType::u8)), (std::vector<int64_t>{0, 0, 0, 0, 0, 44, 253, 0}));
  const int64_t low = INT32_MIN;
  EXPECT_EQ(ints(convert(x, DType::i32)), (std::vector<int64_t>{low, low, low, low, low, 300, -3, 0}));
  EXPECT_EQ(ints(convert(x, DType::u32)),
            (std::vector<int64_t>{2147483648, 0, 2147483648, 0, 2147483648, 300, 4294967293, 0}));
  EXPECT_EQ(ints(convert(x, DType::boolean)), (std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1, 0}));
}

TEST(Convert, IntegersWrap) {
  Tensor x = Tensor::empty(DType::i64, {3});
  x.set_item(0, Scalar(300));
  x.set_item(1, Scalar(-1));
  x.set_item(2, Scalar(int64_t{1} << 40));
  EXPECT_EQ(ints(convert(x, DType::u8)), (std::vector<int64_t>{44, 255, 0}));
  EXPECT_EQ(ints(convert(x, DType::i16)), (std::vector<int64_t>{300, -1, 0}));
  Tensor big = Tensor::empty(DType::u64, {1});
  big.set_item(0, Scalar(int64_t{-1}));
  EXPECT_EQ(convert(big, DType::f64).item(), Scalar(18446744073709551616.0));
}

TEST(Convert, EightBitFloats) {
  const Tensor x =
      floats({NAN, INFINITY, -INFINITY, 300.7, -3.5, -0.0, 448, 465, 57344, 61440, 248, 0x1p-9, 0x1.8p-10, -1e-9});
  EXPECT_EQ(raw_bytes(convert(x, DType::f8e4m3fn)),
            (std::vector<int64_t>{127, 126, 254, 121, 198, 128, 126, 126, 126, 126, 120, 1, 1, 128}));
  EXPECT_EQ(raw_bytes(convert(x, DType::f8e5m2)),
            (std::vector<int64_t>{127, 124, 252, 93, 195, 128, 95, 95, 123, 124, 92, 24, 22, 128}));
  EXPECT_EQ(raw_bytes(convert(x, DType::f8e4m3fnuz)),
            (std::vector<int64_t>{128, 128, 128, 128, 206, 0, 128, 128, 128, 128, 128, 2, 2, 0}));
  EXPECT_EQ(raw_bytes(convert(x, DType::f8e5m2fnuz)),
            (std::vector<int64_t>{128, 128, 128, 97, 199, 0, 99, 99, 127, 128, 96, 28, 26, 0}));
}

TEST(Convert, NarrowFloatsSurviveTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (!std::isnan(f16_to_f32(half))) {
      EXPECT_EQ(f32_to_f16(f16_to_f32(half)), half);
    }
    if (!std::isnan(bf16_to_f32(half))) {
      EXPECT_EQ(f32_to_bf16(bf16_to_f32(half)), half);
    }
  }
  for (DType dtype : {DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz}) {
    for (int bits = 0; bits < 256; ++bits) {
      const float wide = f8_to_f32(dtype, static_cast<uint8_t>(bits));
      if (!std::isnan(wide)) {
        EXPECT_EQ(f32_to_f8(dtype, wide), bits) << dtype_name(dtype);
      }
    }
  }
}

TEST(Convert, HalfRounding) {
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0);  // a tie, to even
  EXPECT_EQ(f32_to_f16(0x1.000002p-25f), 1);
  EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f), 0x3c00);  // a tie, to even
  EXPECT_EQ(f32_to_f16(1.0f + 0x1.8p-10f), 0x3c02);
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(NAN))));
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
  EXPECT_EQ(f64_to_bf16(1.0 + 0x1p-8 + 0x1p-40), 0x3f80);  // PyTorch rounds through f32
}

TEST(Scalars, EveryTypeLoadsWhatItStores) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor one = Tensor::scalar(dtype, Scalar(1));
    EXPECT_EQ(one.item().as_complex(), std::complex<double>(1, 0)) << dtype_name(dtype);
  }
  EXPECT_EQ(Tensor::scalar(DType::boolean, Scalar(0.5)).item(), Scalar(true));
  EXPECT_EQ(Tensor::scalar(DType::c64, Scalar(std::complex<double>(1, -2))).item(),
            Scalar(std::complex<double>(1, -2)));
}

}  // namespace
}  // namespace kiln
