// Dense factorisations that take LAPACK's steps in LAPACK's order, in double: eigenvectors and singular vectors are
// determined up to a sign, and eager's have the signs that these steps give. Shared by the runtime's library kernels
// and by the references, which compute values by other means and only take signs and orders from here.
//
// A matrix is a row-major array. T is double or complex<double>.
#pragma once
#include <complex>
#include <cstdint>
#include <vector>

namespace kiln {

using Complex = std::complex<double>;

template <class T>
struct Matrix {
  Matrix() = default;
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(r * c)) {}
  int64_t rows = 0, columns = 0;
  std::vector<T> values;
  T& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  const T& operator()(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
};

inline double conjugate(double x) { return x; }
inline Complex conjugate(Complex x) { return std::conj(x); }
inline double real_part(double x) { return x; }
inline double real_part(Complex x) { return x.real(); }
inline double imag_part(double) { return 0; }
inline double imag_part(Complex x) { return x.imag(); }
// A size that costs no square root.
inline double rough(double x) { return std::fabs(x); }
inline double rough(Complex x) { return std::fabs(x.real()) + std::fabs(x.imag()); }

template <class T>
Matrix<T> identity(int64_t n) {
  Matrix<T> out(n, n);
  for (int64_t i = 0; i < n; ++i) out(i, i) = T(1);
  return out;
}

template <class T>
Matrix<T> adjoint(const Matrix<T>& a) {
  Matrix<T> out(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) out(j, i) = conjugate(a(i, j));
  return out;
}

}  // namespace kiln
