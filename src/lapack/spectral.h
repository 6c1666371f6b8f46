// Eigenvalues and singular values with LAPACK's signs, orders and scalings: syevd and heevd, gesdd, geev. Matrices up
// to about 25 rows take the very same path there; larger ones are divided and conquered by LAPACK and not here, so that
// their signs may differ.
#pragma once
#include "lapack/matrix.h"

namespace kiln::lapack {

// `unit` is the rounding of the tensor's type (LAPACK's "Epsilon": 2^-24 or 2^-53). It says when something is
// negligible: how many steps are taken, and with that the signs, depend on it.

// Ascending eigenvalues of the Hermitian matrix in the lower (or the upper) triangle; columns of `vectors` belong to
// them. False: the iteration did not end (a NaN or an infinity in the matrix).
template <class T>
bool hermitian_eigen(Matrix<T> a, bool upper, std::vector<double>& values, Matrix<T>& vectors, double unit);

// a = u diag(values) vh with whole or reduced u and vh; values descend.
template <class T>
bool singular_values(Matrix<T> a, bool full, Matrix<T>& u, std::vector<double>& values, Matrix<T>& vh, double unit);

// Eigenvalues in the order in which the QR algorithm leaves them on the diagonal; vectors of size 1. Of a real matrix
// the vectors of about every seventh complex pair have the other sign than eager's.
template <class T>
bool general_eigen(Matrix<T> a, std::vector<Complex>& values, Matrix<Complex>& vectors, double unit);

}  // namespace kiln::lapack
