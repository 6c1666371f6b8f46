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
    {"nonzero", size_nonzero, run_nonzero},
    {"lu_permutation", nullptr, run_lu_permutation},
    {"poisson_quantile", nullptr, run_poisson_quantile},
    {"repeat_interleave", size_repeat_interleave, run_repeat_interleave},
    {"search_sorted", nullptr, run_search_sorted},
    {"sort", nullptr, run_sort},
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
