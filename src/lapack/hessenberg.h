// The steps of geev before its eigenvectors.
#pragma once
#include "lapack/reflectors.h"
#include "lapack/rotations.h"

namespace kiln::lapack {

// Rows and columns [low, high] are not triangular yet. moved: for rows outside, what they were exchanged with; inside:
// scale is what their rows were divided by.
struct Balance {
  int64_t low = 0, high = 0;
  std::vector<int64_t> moved;
  std::vector<double> scale;
};
template <class T>
Balance balance_matrix(Matrix<T>& a);
void undo_balance(const Balance& balance, std::vector<Complex>& vector);

// a becomes Hessenberg; gives Q with (old a) = Q a Qᴴ.
template <class T>
Matrix<T> hessenberg(Matrix<T>& a, const Balance& balance);

// a becomes (quasi) triangular, q is multiplied along; false: no convergence.
bool schur(Matrix<double>& a, Matrix<double>& q, const Balance& balance, std::vector<Complex>& values, double unit);
bool schur(Matrix<Complex>& a, Matrix<Complex>& q, const Balance& balance, std::vector<Complex>& values, double unit);

}  // namespace kiln::lapack
