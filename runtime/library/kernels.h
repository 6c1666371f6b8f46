// The library kernels, one file each.
#pragma once
#include "runtime/library/library.h"

namespace kiln::runtime {

void run_complex_copy(LibraryCall& call);
void run_complex_join(LibraryCall& call);
void run_complex_parts(LibraryCall& call);
void run_fft_c2c(LibraryCall& call);
void run_fft_c2r(LibraryCall& call);
void run_fft_r2c(LibraryCall& call);
void run_binomial_quantile(LibraryCall& call);
void run_gamma_quantile(LibraryCall& call);
void run_linalg_cholesky(LibraryCall& call);
void run_linalg_eigh(LibraryCall& call);
void run_linalg_inv(LibraryCall& call);
void run_linalg_lu_factor(LibraryCall& call);
void run_linalg_lu_solve(LibraryCall& call);
void run_linalg_qr(LibraryCall& call);
void run_linalg_solve(LibraryCall& call);
void run_linalg_solve_triangular(LibraryCall& call);
void run_linalg_svd(LibraryCall& call);
void run_lu_permutation(LibraryCall& call);
void run_orthogonal_polynomial(LibraryCall& call);
void run_poisson_quantile(LibraryCall& call);
void run_ps_roi_align(LibraryCall& call);
void run_roi_align(LibraryCall& call);
void run_roi_pool(LibraryCall& call);
void run_search_sorted(LibraryCall& call);
void run_sort(LibraryCall& call);
void run_special_erfcx(LibraryCall& call);
void run_special_i0e(LibraryCall& call);
void run_special_i1(LibraryCall& call);
void run_special_i1e(LibraryCall& call);
void run_special_igamma(LibraryCall& call);
void run_special_igammac(LibraryCall& call);
void run_special_j0(LibraryCall& call);
void run_special_j1(LibraryCall& call);
void run_special_k0(LibraryCall& call);
void run_special_k0e(LibraryCall& call);
void run_special_k1(LibraryCall& call);
void run_special_k1e(LibraryCall& call);
void run_special_log_ndtr(LibraryCall& call);
void run_special_zeta(LibraryCall& call);
void run_special_y0(LibraryCall& call);
void run_special_y1(LibraryCall& call);
void run_topk(LibraryCall& call);
void size_nms(LibraryCall& call);
void run_nms(LibraryCall& call);
void size_nonzero(LibraryCall& call);
void run_nonzero(LibraryCall& call);
void size_unique(LibraryCall& call);
void run_unique(LibraryCall& call);
void size_unique_consecutive(LibraryCall& call);
void run_unique_consecutive(LibraryCall& call);
void size_bincount(LibraryCall& call);
void run_bincount(LibraryCall& call);
void size_repeat_interleave(LibraryCall& call);
void run_repeat_interleave(LibraryCall& call);
void size_tensor_split(LibraryCall& call);
void run_tensor_split(LibraryCall& call);

}  // namespace kiln::runtime
