#include "runtime/library/library.h"

#include "runtime/library/kernels.h"

namespace kiln::runtime {
namespace {

constexpr LibraryKernel table[] = {
    {"complex_copy", nullptr, run_complex_copy},
    {"complex_join", nullptr, run_complex_join},
    {"complex_parts", nullptr, run_complex_parts},
    {"fft_c2c", nullptr, run_fft_c2c},
    {"fft_c2r", nullptr, run_fft_c2r},
    {"fft_r2c", nullptr, run_fft_r2c},
    {"binomial_quantile", nullptr, run_binomial_quantile},
    {"gamma_quantile", nullptr, run_gamma_quantile},
    {"linalg_cholesky", nullptr, run_linalg_cholesky},
    {"linalg_eigh", nullptr, run_linalg_eigh},
    {"linalg_inv", nullptr, run_linalg_inv},
    {"linalg_lu_factor", nullptr, run_linalg_lu_factor},
    {"linalg_lu_solve", nullptr, run_linalg_lu_solve},
    {"linalg_qr", nullptr, run_linalg_qr},
    {"linalg_solve", nullptr, run_linalg_solve},
    {"linalg_solve_triangular", nullptr, run_linalg_solve_triangular},
    {"linalg_svd", nullptr, run_linalg_svd},
    {"bincount", size_bincount, run_bincount},
    {"nms", size_nms, run_nms},
    {"nonzero", size_nonzero, run_nonzero},
    {"lu_permutation", nullptr, run_lu_permutation},
    {"orthogonal_polynomial", nullptr, run_orthogonal_polynomial},
    {"poisson_quantile", nullptr, run_poisson_quantile},
    {"ps_roi_align", nullptr, run_ps_roi_align},
    {"roi_align", nullptr, run_roi_align},
    {"roi_pool", nullptr, run_roi_pool},
    {"repeat_interleave", size_repeat_interleave, run_repeat_interleave},
    {"search_sorted", nullptr, run_search_sorted},
    {"sort", nullptr, run_sort},
    {"special_erfcx", nullptr, run_special_erfcx},
    {"special_i0e", nullptr, run_special_i0e},
    {"special_i1", nullptr, run_special_i1},
    {"special_i1e", nullptr, run_special_i1e},
    {"special_igamma", nullptr, run_special_igamma},
    {"special_igammac", nullptr, run_special_igammac},
    {"special_j0", nullptr, run_special_j0},
    {"special_j1", nullptr, run_special_j1},
    {"special_k0", nullptr, run_special_k0},
    {"special_k0e", nullptr, run_special_k0e},
    {"special_k1", nullptr, run_special_k1},
    {"special_k1e", nullptr, run_special_k1e},
    {"special_log_ndtr", nullptr, run_special_log_ndtr},
    {"special_y0", nullptr, run_special_y0},
    {"special_y1", nullptr, run_special_y1},
    {"special_zeta", nullptr, run_special_zeta},
    {"tensor_split", size_tensor_split, run_tensor_split},
    {"topk", nullptr, run_topk},
    {"unique", size_unique, run_unique},
    {"unique_consecutive", size_unique_consecutive, run_unique_consecutive},
};

}  // namespace

const LibraryKernel* find_library_kernel(std::string_view name) {
  for (const LibraryKernel& kernel : table)
    if (name == kernel.name) return &kernel;
  return nullptr;
}

}  // namespace kiln::runtime
