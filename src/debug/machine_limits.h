// What this machine can do, measured: the yardstick of the profiler.
#pragma once
#include <string>
#include <vector>

#include "loops/work_count.h"

namespace kiln {

struct MachineLimits {
  double gflops = 0;                        // f32 multiply-adds on all threads
  double pair_gflops = 0, tile_gflops = 0;  // likewise of products of bf16, by pairs and by tiles; 0: it has none
  double byte_gops = 0;                     // and of bytes
  double gbs = 0;                           // reading memory that no cache holds
  // What smaller amounts can be read with, in the order of their size: caches.
  struct Level {
    double bytes = 0, gbs = 0;
  };
  std::vector<Level> caches;
  double gbs_for(double bytes) const;  // of the smallest level that holds them
  double gflops_for(Arithmetic arithmetic) const;
  std::string what = "this machine, measured", flops_of = "f32";
  std::string clock = "";  // what a GPU's kernels were timed by; empty: the host's clock
};

// Of this thread, without what others do on its processor.
double processor_seconds();

// With so many threads at work, but no more than there are processors. A second or less in all.
MachineLimits measure_machine(int threads);
MachineLimits measure_machine();  // with all of them

}  // namespace kiln
