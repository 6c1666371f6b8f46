#include "runtime/library/library.h"

#include "runtime/library/kernels.h"

namespace kiln::runtime {
namespace {

constexpr LibraryKernel table[] = {
    {"nonzero", size_nonzero, run_nonzero},
    {"sort", nullptr, run_sort},
    {"topk", nullptr, run_topk},
};

}  // namespace

const LibraryKernel* find_library_kernel(std::string_view name) {
  for (const LibraryKernel& kernel : table)
    if (name == kernel.name) return &kernel;
  return nullptr;
}

}  // namespace kiln::runtime
