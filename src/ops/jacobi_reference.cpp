#include "ops/jacobi_reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/lapack_matrices.h"

namespace kiln {
namespace {

constexpr int most_sweeps = 100;  // ten are many: they converge quadratically

// Columns lie one behind the other in memory, since it is columns that rotations combine.
template <class T>
struct Columns {
  int64_t rows = 0, count = 0;
  std::vector<T> values;
  T* operator[](int64_t c) { return values.data() + c * rows; }
};

template <class T>
Columns<T> columns_of(const RefMatrix& a) {
  Columns<T> out{a.rows, a.columns, std::vector<T>(a.values.size())};
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) {
      if constexpr (std::is_same_v<T, double>)
        out[j][i] = a.at(i, j).real();
      else
        out[j][i] = a.at(i, j);
    }
  return out;
}

template <class T>
RefMatrix matrix_of(Columns<T>& columns, const std::vector<int64_t>& order) {
  RefMatrix out(columns.rows, static_cast<int64_t>(order.size()));
  for (size_t j = 0; j < order.size(); ++j)
    for (int64_t i = 0; i < columns.rows; ++i) out.at(i, static_cast<int64_t>(j)) = columns[order[j]][i];
  return out;
}

bool is_real(const RefMatrix& a) {
  return std::all_of(a.values.begin(), a.values.end(), [](Complex x) { return x.imag() == 0; });
}

// The unitary matrix [c, s; -s phase, c phase].
template <class T>
struct Rotation {
  double c = 1, s = 0;
  T phase = 1;
  // Of the Hermitian [x, y; conj(y), z]: what makes it diagonal. y is not 0.
  Rotation(double x, T y, double z) {
    const double size = std::abs(y), theta = 0.5 * std::atan2(2 * size, z - x);
    // The smaller of the two angles that do so, which leaves what is nearly diagonal in its order.
    const double angle = theta > std::atan(1.0) ? theta - 2 * std::atan(1.0) : theta;
    c = std::cos(angle), s = std::sin(angle), phase = conjugate(y) / size;
  }
  void turn(T* p, T* q, int64_t count) const {
    const T below = -s * phase, beside = c * phase;
    for (int64_t i = 0; i < count; ++i) {
      const T old = p[i];
      p[i] = c * old + below * q[i];
      q[i] = s * old + beside * q[i];
    }
  }
};

template <class T>
Columns<T> unit_columns(int64_t n) {
  Columns<T> out{n, n, std::vector<T>(static_cast<size_t>(n * n))};
  for (int64_t i = 0; i < n; ++i) out[i][i] = T(1);
  return out;
}

template <class T>
std::vector<double> eigenvalues(const RefMatrix& lower, RefMatrix& vectors) {
  const int64_t n = lower.rows;
  Columns<T> a = columns_of<T>(lower), v = unit_columns<T>(n);
  double scale = 0;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = j; i < n; ++i) {
      if (i == j) a[j][j] = real_part(a[j][j]);
      a[i][j] = conjugate(a[j][i]);
      scale = std::max(scale, std::abs(a[j][i]));
    }
  bool turned = true;
  for (int sweep = 0; turned && sweep < most_sweeps; ++sweep) {
    turned = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        if (!(std::abs(a[q][p]) > scale * 1e-17)) continue;
        turned = true;
        const Rotation<T> rotation(real_part(a[p][p]), a[q][p], real_part(a[q][q]));
        rotation.turn(a[p], a[q], n);
        // The rows likewise: of the two by two block by the same formula, all others are the columns' conjugates.
        for (int64_t k = 0; k < n; ++k)
          if (k != p && k != q) a[k][p] = conjugate(a[p][k]), a[k][q] = conjugate(a[q][k]);
        const T below = -rotation.s * conjugate(rotation.phase), beside = rotation.c * conjugate(rotation.phase);
        const T first = rotation.c * a[p][p] + below * a[p][q], second = rotation.s * a[q][p] + beside * a[q][q];
        a[p][p] = real_part(first), a[q][q] = real_part(second);
        a[q][p] = a[p][q] = 0;
        rotation.turn(v[p], v[q], n);
      }
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t x, int64_t y) { return real_part(a[x][x]) < real_part(a[y][y]); });
  std::vector<double> values;
  for (const int64_t k : order) values.push_back(real_part(a[k][k]));
  vectors = matrix_of(v, order);
  return values;
}

// One-sided: the columns are rotated until they are at right angles; their lengths are the values. At least as many
// rows as columns.
template <class T>
std::vector<double> singular_values(const RefMatrix& tall, RefMatrix& u, RefMatrix& v) {
  const int64_t m = tall.rows, n = tall.columns;
  Columns<T> left = columns_of<T>(tall), right = unit_columns<T>(n);
  double scale = 0;  // squares of what is very large or small would leave the range
  for (const T& value : left.values) scale = std::max(scale, std::abs(value));
  if (scale > 0)
    for (T& value : left.values) value /= scale;
  const auto dot = [&](const T* x, const T* y) {
    T sum = 0;
    for (int64_t i = 0; i < m; ++i) sum += conjugate(x[i]) * y[i];
    return sum;
  };
  const double right_angle = 1e-15 + 1e-16 * static_cast<double>(m);  // as far as sums of m terms can tell
  bool turned = true;
  for (int sweep = 0; turned && sweep < most_sweeps; ++sweep) {
    turned = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        const double x = real_part(dot(left[p], left[p])), z = real_part(dot(left[q], left[q]));
        const T y = dot(left[p], left[q]);
        if (!(std::abs(y) > right_angle * std::sqrt(x * z))) continue;
        turned = true;
        const Rotation<T> rotation(x, y, z);
        rotation.turn(left[p], left[q], m);
        rotation.turn(right[p], right[q], n);
      }
  }
  std::vector<double> lengths;
  for (int64_t c = 0; c < n; ++c) lengths.push_back(std::sqrt(real_part(dot(left[c], left[c]))));
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
    return lengths[static_cast<size_t>(x)] > lengths[static_cast<size_t>(y)];
  });
  // A short column has roundings of the long ones that it was combined with, which are large beside it.
  for (size_t c = 0; c < order.size(); ++c) {
    T* column = left[order[c]];
    const auto divide = [&](double length) {
      for (int64_t i = 0; i < m; ++i) column[i] = length > 0 ? column[i] / length : T(0);
    };
    divide(lengths[static_cast<size_t>(order[c])]);
    for (size_t longer = 0; longer < c; ++longer) {
      const T* other = left[order[longer]];
      const T part = dot(other, column);
      for (int64_t i = 0; i < m; ++i) column[i] -= part * other[i];
    }
    divide(std::sqrt(real_part(dot(column, column))));
  }
  u = matrix_of(left, order), v = matrix_of(right, order);
  std::vector<double> values;
  for (const int64_t k : order) values.push_back(lengths[static_cast<size_t>(k)] * scale);
  return values;
}

}  // namespace

std::vector<double> jacobi_eigenvalues(const RefMatrix& lower, RefMatrix& vectors) {
  return is_real(lower) ? eigenvalues<double>(lower, vectors) : eigenvalues<Complex>(lower, vectors);
}

std::vector<double> jacobi_singular_values(const RefMatrix& a, RefMatrix& u, RefMatrix& v) {
  if (a.rows < a.columns) return jacobi_singular_values(adjoint(a), v, u);
  return is_real(a) ? singular_values<double>(a, u, v) : singular_values<Complex>(a, u, v);
}

}  // namespace kiln
