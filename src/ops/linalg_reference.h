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
// r becomes R, the result is the whole Q; on request the reflections that make Q, as LAPACK packs them.
struct RefReflections {
  RefMatrix below;  // their vectors, below the diagonal
  std::vector<std::complex<double>> tau;
};
RefMatrix reference_qr(RefMatrix& r, RefReflections* packed = nullptr);
// The whole Q of packed reflections.
RefMatrix reference_q(const RefMatrix& below, const RefMatrix& tau);

// Vectors of eigenvalues and singular values are computed by other means than the kernels', and then get the sign
// (phase) that LAPACK's steps give a matrix of this type. Where those give another basis of the same space, that is
// taken.
struct Precision {
  bool real = true;
  double unit = 0x1p-53;
};
bool all_finite(const RefMatrix& a);
// Eigenvalues in ascending order of the Hermitian matrix given by one triangle; columns are eigenvectors.
std::vector<double> reference_eigh(RefMatrix a, bool upper, RefMatrix& vectors, Precision precision);
// a = u diag(s) vᴴ with whole u and v.
std::vector<double> reference_svd(const RefMatrix& a, RefMatrix& u, RefMatrix& v, Precision precision);
// Eigenvalues in the kernel's order; columns are eigenvectors. These are the kernel's own steps, checked by A v = λ v.
std::vector<std::complex<double>> reference_eig(const RefMatrix& a, RefMatrix& vectors, Precision precision);

}  // namespace kiln
