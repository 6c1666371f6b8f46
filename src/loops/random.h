// Counter-based random numbers: the same seed and counter give the same bits, on every machine and in any order.
// The bits are those of SplitMix64 at position `counter`. Generated code repeats these few lines.
#pragma once
#include <cstdint>

#include "loops/scalar_ops.h"

namespace kiln::loops {

inline uint64_t random_bits(uint64_t seed, uint64_t counter) {
  uint64_t z = seed + (counter + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// What `random` gives: floats in [0, 1) with 24 (f32 and narrower) or 53 bits (f64); integers get the upper bits of
// their width; bool the highest one.
inline Cell random_cell(DType dtype, uint64_t seed, uint64_t counter) {
  uint64_t bits = random_bits(seed, counter);
  Cell raw, out;
  if (dtype == DType::f64) {
    out.f = static_cast<double>(bits >> 11) * 0x1p-53;
  } else if (is_float(dtype)) {
    out.f = static_cast<double>(bits >> 40) * 0x1p-24;
  } else if (dtype == DType::boolean) {
    out.i = static_cast<int64_t>(bits >> 63);
  } else {
    raw.i = static_cast<int64_t>(bits >> (64 - 8 * dtype_bytes(dtype)));
    cast_function(DType::i64, dtype)(&raw, out);  // the width's sign
  }
  return out;
}

}  // namespace kiln::loops
