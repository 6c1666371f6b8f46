// A = L D Lᵀ (Hermitian: Lᴴ) with D of blocks of one or two rows, pivoted as Bunch and Kaufman say: LAPACK's sytf2 and
// hetf2 on the lower triangle. Exchanges are not carried to columns already finished.
#pragma once
#include "lapack/matrix.h"

namespace kiln::lapack {

// a becomes the factors, zero above the diagonal. Pivots count from 1; a block of two rows has the same negative one
// twice. Gives the first zero on the diagonal, counted from 1; 0 where there is none.
template <class T>
int64_t factor_ldl(Matrix<T>& a, std::vector<int64_t>& pivots, bool hermitian);
// b becomes A⁻¹ b. False: a pivot outside of the matrix.
template <class T>
bool solve_ldl(const Matrix<T>& factors, const std::vector<int64_t>& pivots, Matrix<T>& b, bool hermitian);

}  // namespace kiln::lapack
