// What one launch of a kernel does, counted from its loops.
#pragma once
#include "loops/loops.h"

namespace kiln {

struct Work {
  double flops = 0;  // an arithmetic statement on floats counts 1 per iteration (a reduction's update 1 more)
  double bytes = 0;  // what its loops reach of each buffer, once for reading and once for writing
};

Work count_work(const loops::Kernel& kernel, const std::vector<loops::Buffer>& buffers, const SymbolValues& symbols);

}  // namespace kiln
