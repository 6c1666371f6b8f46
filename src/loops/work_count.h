// What one launch of a kernel does, counted from its loops.
#pragma once
#include "loops/loops.h"

namespace kiln {

struct Work {
  // Arithmetic on floats whose result is used, 1 per element; a sum of n elements counts n, however its loops are
  // split. A convolution counts as is usual, 2 per weight and place, zeros of the padding included; places that the
  // stride of a transposed one leaves out do not count.
  double flops = 0;
  double bytes = 0;  // what its loops reach of each buffer, once for reading and once for writing
};

Work count_work(const loops::Kernel& kernel, const std::vector<loops::Buffer>& buffers, const SymbolValues& symbols);

}  // namespace kiln
