// Jacobi's rotations: eigenvalues and singular values of the references, by other means than the kernels' steps.
#pragma once
#include "ops/linalg_reference.h"

namespace kiln {

// Of the Hermitian matrix whose lower triangle is given: eigenvalues in ascending order; columns are eigenvectors.
std::vector<double> jacobi_eigenvalues(const RefMatrix& lower, RefMatrix& vectors);
// In descending order; of u and v as many columns as there are values. Columns of a value of 0 are 0.
std::vector<double> jacobi_singular_values(const RefMatrix& a, RefMatrix& u, RefMatrix& v);

}  // namespace kiln
