// Plane rotations and 2 by 2 problems, after LAPACK's lartg, lasr, laev2, las2 and lasv2.
#pragma once
#include <algorithm>
#include <cmath>

#include "lapack/matrix.h"

namespace kiln::lapack {

constexpr double smallest = 0x1p-1022;

inline double sign(double size, double of) { return std::copysign(size, of); }

struct Rotation {
  double c = 1, s = 0, r = 0;
};

// [c s; -s c] (f, g) = (r, 0); r has the sign of f.
inline Rotation make_rotation(double f, double g) {
  if (g == 0) return {1, 0, f};
  if (f == 0) return {0, sign(1, g), std::fabs(g)};
  double size = std::hypot(f, g), r = sign(size, f);
  return {std::fabs(f) / size, g / r, r};
}

// The same of LAPACK before 3.10, which the libraries still use for symmetric matrices: r is positive unless f is the
// larger of the two and negative.
inline Rotation make_older_rotation(double f, double g) {
  if (g == 0) return {1, 0, f};
  if (f == 0) return {0, 1, g};
  double size = std::hypot(f, g);
  if (std::fabs(f) > std::fabs(g) && f < 0) size = -size;
  return {f / size, g / size, size};
}

// Turns two columns (or rows): x becomes c x + s y, y becomes c y - s x.
template <class T>
void turn_columns(Matrix<T>& m, int64_t p, int64_t q, double c, double s) {
  for (int64_t i = 0; i < m.rows; ++i) {
    T x = m(i, p), y = m(i, q);
    m(i, p) = c * x + s * y;
    m(i, q) = c * y - s * x;
  }
}
template <class T>
void turn_rows(Matrix<T>& m, int64_t p, int64_t q, double c, double s) {
  for (int64_t j = 0; j < m.columns; ++j) {
    T x = m(p, j), y = m(q, j);
    m(p, j) = c * x + s * y;
    m(q, j) = c * y - s * x;
  }
}

// Rotations of neighbours start, start + 1, …: forward from the first, or backward from the last.
struct Sequence {
  std::vector<double> c, s;
  void resize(int64_t n) {
    c.resize(static_cast<size_t>(n));
    s.resize(static_cast<size_t>(n));
  }
  void set(int64_t i, double cosine, double sine) {
    c[static_cast<size_t>(i)] = cosine;
    s[static_cast<size_t>(i)] = sine;
  }
};
template <class T>
void turn_columns(Matrix<T>& m, int64_t start, const Sequence& all, bool forward) {
  auto count = static_cast<int64_t>(all.c.size());
  for (int64_t k = 0; k < count; ++k) {
    int64_t j = forward ? k : count - 1 - k;
    turn_columns(m, start + j, start + j + 1, all.c[static_cast<size_t>(j)], all.s[static_cast<size_t>(j)]);
  }
}
template <class T>
void turn_rows(Matrix<T>& m, int64_t start, const Sequence& all, bool forward) {
  auto count = static_cast<int64_t>(all.c.size());
  for (int64_t k = 0; k < count; ++k) {
    int64_t j = forward ? k : count - 1 - k;
    turn_rows(m, start + j, start + j + 1, all.c[static_cast<size_t>(j)], all.s[static_cast<size_t>(j)]);
  }
}

// Eigenvalues (the larger in size first) and the unit vector (c, s) of the first, of [a b; b c].
struct Eigen2 {
  double first, second, c, s;
};
Eigen2 symmetric_2x2(double a, double b, double c);

// The smaller singular value of [f g; 0 h].
double smaller_singular_value(double f, double g, double h);

// [cl sl; -sl cl] [f g; 0 h] [cr -sr; sr cr] = diag(largest, least), which may be negative.
struct Singular2 {
  double least, largest, sr, cr, sl, cl;
};
Singular2 triangular_2x2(double f, double g, double h);

}  // namespace kiln::lapack
