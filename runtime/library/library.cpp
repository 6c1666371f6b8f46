#include "runtime/library/library.h"

#include "runtime/library/kernels.h"

namespace kiln::runtime {
namespace {

constexpr LibraryKernel table[] = {
    {"bincount", size_bincount, run_bincount},
    {"nonzero", size_nonzero, run_nonzero},
    {"repeat_interleave", size_repeat_interleave, run_repeat_interleave},
    {"sort", nullptr, run_sort},
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
