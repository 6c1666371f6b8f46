// The library kernels, one file each.
#pragma once
#include "runtime/library/library.h"

namespace kiln::runtime {

void run_sort(LibraryCall& call);
void run_topk(LibraryCall& call);
void size_nonzero(LibraryCall& call);
void run_nonzero(LibraryCall& call);

}  // namespace kiln::runtime
