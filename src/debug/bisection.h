// One run of a package under examination: what `kiln bisect` (bisect.h) does in each of its child processes.
//
// Around each step its arguments are looked at:
// - what it read must still be what was written there (checksums), and must have been written at all: otherwise the
//   plan is at fault (overlapping lifetimes, a missing dependency), not a kernel;
// - constants must be those the program was compiled for, prepared ones must follow from them (else they are stale);
// - sizes, strides, the branch taken and the number of iterations must be those of the loops;
// - what is only read must not change;
// - what it wrote is compared with the fp64 reference of the operators it stands for, given the same inputs, so that
//   drift from upstream blames nobody innocent. Where that cannot be told (random numbers, a value that is stored
//   nowhere), with the kernel's own loops; those may be wrong too, so that in such a run the program's outputs are
//   compared with the reference of the whole program, and where they differ it says that it is uncertain.
#pragma once
#include "debug/bisect.h"
#include "debug/watched_child.h"

namespace kiln {

class PackageDebug;

struct BisectionRun {
  ChildProgress& progress;
  bool compare = true;   // all of the above; false: only run it
  bool guarded = false;  // each argument of a step alone between guard pages (PYTORCH_NO_CUDA_MEMORY_CACHING)
  int64_t stop_at = 0;   // the launch, counted from 1, that is only looked at: it would end the process
  std::string suspect;   // the buffer that it leaves, as far as is known
  std::string watched;   // a buffer that somebody changes who must not
};

BisectResult run_bisection(PackageDebug& package, const std::string& path, const std::vector<Datum>& inputs,
                           const BisectOptions& options, const BisectionRun& run);

}  // namespace kiln
