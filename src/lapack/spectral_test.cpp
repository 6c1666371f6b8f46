// What the decompositions promise, on matrices of pseudo-random numbers; signs and orders are pinned by cases made by
// PyTorch (tests/cases).
#include "lapack/spectral.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <type_traits>

#include "lapack/ldl.h"

namespace kiln::lapack {
namespace {

template <class T>
Matrix<T> random_matrix(int64_t rows, int64_t columns, unsigned seed) {
  std::mt19937 numbers(seed);
  std::normal_distribution<double> normal;
  Matrix<T> out(rows, columns);
  for (T& value : out.values) {
    if constexpr (std::is_same_v<T, double>)
      value = normal(numbers);
    else
      value = T(normal(numbers), normal(numbers));
  }
  return out;
}

template <class A, class B>
auto times(const Matrix<A>& a, const Matrix<B>& b) {
  Matrix<decltype(A{} * B{})> out(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.columns; ++j)
      for (int64_t k = 0; k < a.columns; ++k) out(i, j) += a(i, k) * b(k, j);
  return out;
}

template <class T>
double distance(const Matrix<T>& a, const Matrix<T>& b) {
  double out = a.rows == b.rows && a.columns == b.columns ? 0 : INFINITY;
  for (size_t i = 0; i < a.values.size() && out < 1e300; ++i) out = std::max(out, std::abs(a.values[i] - b.values[i]));
  return out;
}

template <class T>
Matrix<T> diagonal(const std::vector<double>& values) {
  Matrix<T> out(static_cast<int64_t>(values.size()), static_cast<int64_t>(values.size()));
  for (int64_t i = 0; i < out.rows; ++i) out(i, i) = values[static_cast<size_t>(i)];
  return out;
}

template <class T>
class Spectral : public testing::Test {};
using Scalars = testing::Types<double, Complex>;
TYPED_TEST_SUITE(Spectral, Scalars);

TYPED_TEST(Spectral, HermitianEigenvectorsDiagonalise) {
  for (int64_t n : {1, 2, 3, 6, 11, 30}) {
    auto a = random_matrix<TypeParam>(n, n, static_cast<unsigned>(n));
    auto other = adjoint(a);
    for (size_t i = 0; i < a.values.size(); ++i) a.values[i] += other.values[i];
    for (bool upper : {false, true}) {
      std::vector<double> values;
      Matrix<TypeParam> v, half = a;  // the other triangle is not read
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < i; ++j) (upper ? half(i, j) : half(j, i)) = TypeParam(99);
      ASSERT_TRUE(hermitian_eigen(half, upper, values, v, 0x1p-53));
      EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
      EXPECT_LT(distance(times(a, v), times(v, diagonal<TypeParam>(values))), 1e-12 * static_cast<double>(n));
      EXPECT_LT(distance(times(adjoint(v), v), identity<TypeParam>(n)), 1e-13 * static_cast<double>(n));
    }
  }
}

TYPED_TEST(Spectral, SingularVectorsRebuildTheMatrix) {
  for (auto [m, n] : {std::pair{1, 1}, {2, 2}, {5, 3}, {3, 5}, {7, 6}, {2, 9}, {9, 2}, {20, 20}, {4, 1}, {1, 4}})
    for (bool full : {false, true}) {
      auto a = random_matrix<TypeParam>(m, n, static_cast<unsigned>(m * 31 + n));
      Matrix<TypeParam> u, vh;
      std::vector<double> s;
      ASSERT_TRUE(singular_values(a, full, u, s, vh, 0x1p-53));
      ASSERT_EQ(u.columns, full ? m : std::min(m, n));
      ASSERT_EQ(vh.rows, full ? n : std::min(m, n));
      EXPECT_TRUE(std::is_sorted(s.rbegin(), s.rend()));
      Matrix<TypeParam> middle(u.columns, vh.rows);
      for (size_t i = 0; i < s.size(); ++i) middle(static_cast<int64_t>(i), static_cast<int64_t>(i)) = s[i];
      EXPECT_LT(distance(times(times(u, middle), vh), a), 1e-12) << m << " by " << n;
      EXPECT_LT(distance(times(adjoint(u), u), identity<TypeParam>(u.columns)), 1e-12);
      EXPECT_LT(distance(times(vh, adjoint(vh)), identity<TypeParam>(vh.rows)), 1e-12);
    }
}

TYPED_TEST(Spectral, GeneralEigenvectorsAreEigenvectors) {
  for (int64_t n : {1, 2, 3, 4, 7, 12, 25}) {
    auto a = random_matrix<TypeParam>(n, n, static_cast<unsigned>(n) + 90);
    if (n == 4) a(1, 0) = a(2, 0) = a(3, 0) = TypeParam{};  // something to isolate
    std::vector<Complex> values;
    Matrix<Complex> v;
    ASSERT_TRUE(general_eigen(a, values, v, 0x1p-53));
    Matrix<Complex> scaled = v;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) scaled(i, j) *= values[static_cast<size_t>(j)];
    EXPECT_LT(distance(times(a, v), scaled), 1e-11 * static_cast<double>(n)) << n;
    for (int64_t j = 0; j < n; ++j) {
      double size = 0;
      for (int64_t i = 0; i < n; ++i) size += std::norm(v(i, j));
      EXPECT_NEAR(size, 1, 1e-12);
    }
  }
}

TYPED_TEST(Spectral, SymmetricFactorsSolve) {
  for (bool hermitian : {false, true})
    for (int64_t n : {1, 2, 3, 5, 8, 13}) {
      auto a = random_matrix<TypeParam>(n, n, static_cast<unsigned>(n) + 7);
      for (int64_t i = 0; i < n; ++i) {
        a(i, i) = n == 5 ? TypeParam{} : TypeParam(real_part(a(i, i)));  // nothing on the diagonal: blocks of two rows
        for (int64_t j = i + 1; j < n; ++j) a(i, j) = hermitian ? conjugate(a(j, i)) : a(j, i);
      }
      auto x = random_matrix<TypeParam>(n, 2, 3), b = times(a, x);
      std::vector<int64_t> pivots;
      auto factors = a;
      ASSERT_EQ(factor_ldl(factors, pivots, hermitian), 0);
      ASSERT_TRUE(solve_ldl(factors, pivots, b, hermitian));
      EXPECT_LT(distance(b, x), 1e-10) << n << (hermitian ? " hermitian" : "");
    }
}

TEST(SymmetricFactors, ZeroAndBadPivotsAreTold) {
  Matrix<double> zero(2, 2), b(2, 1);
  std::vector<int64_t> pivots;
  EXPECT_EQ(factor_ldl(zero, pivots, false), 1);
  EXPECT_FALSE(solve_ldl(zero, {9, 2}, b, false));
}

}  // namespace
}  // namespace kiln::lapack
