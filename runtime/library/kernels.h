// The library kernels, one file each.
#pragma once
#include "runtime/library/library.h"

namespace kiln::runtime {

void run_sort(LibraryCall& call);
void run_topk(LibraryCall& call);
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

}  // namespace kiln::runtime
