#include "graph/element_places.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TensorType laid_out(std::vector<Expr> sizes, std::vector<Expr> strides) {
  TensorType type;
  type.sizes = std::move(sizes), type.strides = std::move(strides);
  return type;
}

TEST(ElementPlaces, NumbersAreDecided) {
  EXPECT_TRUE(elements_apart(laid_out({3, 4}, {4, 1}), {}));
  EXPECT_TRUE(elements_apart(laid_out({3, 4}, {10, 2}), {}));
  EXPECT_TRUE(elements_apart(laid_out({1, 4}, {0, 1}), {}));
  EXPECT_TRUE(elements_apart(laid_out({0, 4}, {0, 1}), {}));
  EXPECT_FALSE(elements_apart(laid_out({3, 4}, {0, 1}), {}));
  EXPECT_FALSE(elements_apart(laid_out({6, 3}, {1, 1}), {}));
}

TEST(ElementPlaces, SymbolsMustBeProven) {
  const Expr s = Expr::symbol("s"), t = Expr::symbol("t");
  RangeEnv ranges;
  ranges.ranges["s"] = {1, 1000};
  ranges.ranges["t"] = {1, 10};
  EXPECT_TRUE(elements_apart(laid_out({s, t, 4}, {t * 4, 4, 1}), ranges));
  EXPECT_TRUE(elements_apart(laid_out({s, t, 4}, {4, s * 4, 1}), ranges));  // another order
  EXPECT_FALSE(elements_apart(laid_out({s, 1, t, t}, {0, t * t, t, 1}), ranges));
  // Rows of ten: t columns fit, s need not.
  EXPECT_TRUE(elements_apart(laid_out({4, t}, {10, 1}), ranges));
  EXPECT_FALSE(elements_apart(laid_out({4, s}, {10, 1}), ranges));
  EXPECT_FALSE(elements_apart(laid_out({s, 3}, {1, 1}), ranges));
  EXPECT_FALSE(elements_apart(laid_out({s, 3}, {Expr::symbol("step"), 1}), ranges));
}

}  // namespace
}  // namespace kiln
