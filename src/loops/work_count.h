// What one launch of a kernel does, counted from its loops.
#pragma once
#include "loops/loops.h"

namespace kiln {

// What the products of a kernel are computed by: a machine does so many of each kind at most. Whatever the type in
// memory: numbers of f16, and of bf16 that are not multiplied by instructions of their own, are widened to f32 first.
enum class Arithmetic : uint8_t {
  single_terms,  // each term of a sum by itself
  bf16_pairs,    // instructions for two neighbouring terms of bf16
  bf16_tiles,    // instructions for tiles of matrices of bf16
  byte_quads,    // instructions for four neighbouring terms of bytes
};
const char* arithmetic_name(Arithmetic arithmetic);  // "f32", "bf16 pairs", "bf16 tiles", "bytes"
Arithmetic arithmetic_of(const loops::Kernel& kernel);

struct Work {
  // Arithmetic on floats (and on integers where these are a quantised product's bytes) whose result is used, 1 per
  // element; a sum of n elements counts n, however its loops are split. A convolution counts as is usual, 2 per weight
  // and place, zeros of the padding included; places that the stride of a transposed one leaves out do not count.
  double flops = 0;
  double bytes = 0;  // what its loops reach of each buffer, once for reading and once for writing
};

Work count_work(const loops::Kernel& kernel, const std::vector<loops::Buffer>& buffers, const SymbolValues& symbols);

}  // namespace kiln
