// Linear algebra of the references, in complex<double> and independent of the library kernels: other algorithms where
// results do not depend on the algorithm, the defining one where they do (pivots, signs of QR).
#pragma once
#include <complex>

#include "ops/op_record.h"

namespace kiln {

struct RefMatrix {
  RefMatrix() = default;
  RefMatrix(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(r * c)) {}
  int64_t rows = 0, columns = 0;
  std::vector<std::complex<double>> values;
  std::complex<double>& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  const std::complex<double>& at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
};

RefMatrix adjoint(const RefMatrix& a);
RefMatrix transposed(const RefMatrix& a);
RefMatrix times(const RefMatrix& a, const RefMatrix& b);
RefMatrix identity_matrix(int64_t n);

struct RefLu {
  RefMatrix lu;
  std::vector<int64_t> pivots;  // from 1, as LAPACK counts
  int64_t info = 0;             // the first zero on the diagonal, from 1; 0: none
};
RefLu reference_lu(const RefMatrix& a, bool pivot);
// By Gauss and Jordan; `info` as above.
RefMatrix reference_inverse(RefMatrix a, int64_t& info);
RefMatrix reference_cholesky(const RefMatrix& a, int64_t& info);  // lower
RefMatrix reference_triangular(const RefMatrix& a, const RefMatrix& b, bool upper, bool unit);
// r becomes R, the result is the whole Q.
RefMatrix reference_qr(RefMatrix& r);
// Eigenvalues in ascending order of the Hermitian matrix given by the lower triangle; columns are eigenvectors.
std::vector<double> reference_eigh(RefMatrix a, RefMatrix& vectors);
// a = u diag(s) vᴴ with whole u and v.
std::vector<double> reference_svd(const RefMatrix& a, RefMatrix& u, RefMatrix& v);

}  // namespace kiln
