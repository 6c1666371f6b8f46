#include "types/dtype.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln {
namespace {

constexpr DType all(int i) { return static_cast<DType>(i); }

TEST(DTypes, NamesAndNumbersInvert) {
  for (int i = 0; i < dtype_count; ++i) {
    EXPECT_EQ(dtype_from_name(dtype_name(all(i))), all(i));
    EXPECT_EQ(dtype_from_name(dtype_torch_name(all(i))), all(i));
    EXPECT_EQ(dtype_from_name(str("torch.", dtype_torch_name(all(i)))), all(i));
    EXPECT_EQ(dtype_from_schema(dtype_schema_number(all(i))), all(i));
  }
  EXPECT_EQ(dtype_from_name("float"), DType::f32);
  EXPECT_EQ(dtype_from_name("f33"), std::nullopt);
  EXPECT_EQ(dtype_from_schema(0), std::nullopt);
  EXPECT_EQ(dtype_from_schema(33), std::nullopt);  // float8_e8m0fnu
}

TEST(DTypes, Kinds) {
  EXPECT_EQ(dtype_bytes(DType::c128), 16);
  EXPECT_EQ(dtype_bytes(DType::boolean), 1);
  EXPECT_TRUE(is_float(DType::f8e5m2));
  EXPECT_FALSE(is_float(DType::c64));
  EXPECT_FALSE(is_integer(DType::boolean));
  EXPECT_TRUE(is_integral(DType::boolean));
  EXPECT_FALSE(is_signed(DType::u32));
  EXPECT_EQ(complex_part(DType::c64), DType::f32);
  EXPECT_EQ(complex_of(DType::f16), DType::c32);
  EXPECT_EQ(compute_dtype(DType::bf16), DType::f32);
  EXPECT_EQ(compute_dtype(DType::f64), DType::f64);
  EXPECT_EQ(compute_dtype(DType::i8), DType::i8);
}

// One row per type, as torch.promote_types (2.15) gives it: index into DType, -1 where PyTorch refuses.
TEST(DTypes, PromotionIsPyTorchs) {
  constexpr int x = -1;
  constexpr int table[dtype_count][dtype_count] = {
      {0, 1, 2, 3, x, 5, x, 7, x, x, x, x, x, 13, 14, 15, 16, 17, 18, 19},
      {1, 1, 3, 3, x, 5, x, 7, x, x, x, x, x, 13, 14, 15, 16, 17, 18, 19},
      {2, 3, 2, 3, x, 5, x, 7, x, x, x, x, x, 13, 14, 15, 16, 17, 18, 19},
      {3, 3, 3, 3, x, 5, x, 7, x, x, x, x, x, 13, 14, 15, 16, 17, 18, 19},
      {x, x, x, x, 4, x, x, x, x, x, x, x, x, 13, 14, 15, 16, x, x, x},
      {5, 5, 5, 5, x, 5, x, 7, x, x, x, x, x, 13, 14, 15, 16, 17, 18, 19},
      {x, x, x, x, x, x, 6, x, x, x, x, x, x, 13, 14, 15, 16, x, x, x},
      {7, 7, 7, 7, x, 7, x, 7, x, x, x, x, x, 13, 14, 15, 16, 17, 18, 19},
      {x, x, x, x, x, x, x, x, 8, x, x, x, x, 13, 14, 15, 16, x, x, x},
      {x, x, x, x, x, x, x, x, x, 9, x, x, x, x, x, x, x, x, x, x},
      {x, x, x, x, x, x, x, x, x, x, 10, x, x, x, x, x, x, x, x, x},
      {x, x, x, x, x, x, x, x, x, x, x, 11, x, x, x, x, x, x, x, x},
      {x, x, x, x, x, x, x, x, x, x, x, x, 12, x, x, x, x, x, x, x},
      {13, 13, 13, 13, 13, 13, 13, 13, 13, x, x, x, x, 13, 15, 15, 16, 17, 18, 19},
      {14, 14, 14, 14, 14, 14, 14, 14, 14, x, x, x, x, 15, 14, 15, 16, 18, 18, 19},
      {15, 15, 15, 15, 15, 15, 15, 15, 15, x, x, x, x, 15, 15, 15, 16, 18, 18, 19},
      {16, 16, 16, 16, 16, 16, 16, 16, 16, x, x, x, x, 16, 16, 16, 16, 19, 19, 19},
      {17, 17, 17, 17, x, 17, x, 17, x, x, x, x, x, 17, 18, 18, 19, 17, 18, 19},
      {18, 18, 18, 18, x, 18, x, 18, x, x, x, x, x, 18, 18, 18, 19, 18, 18, 19},
      {19, 19, 19, 19, x, 19, x, 19, x, x, x, x, x, 19, 19, 19, 19, 19, 19, 19}};
  for (int a = 0; a < dtype_count; ++a) {
    for (int b = 0; b < dtype_count; ++b) {
      int got = x;
      try {
        got = static_cast<int>(promote(all(a), all(b)));
      } catch (const Error&) {
      }
      EXPECT_EQ(got, table[a][b]) << dtype_name(all(a)) << " " << dtype_name(all(b));
    }
  }
}

}  // namespace
}  // namespace kiln
