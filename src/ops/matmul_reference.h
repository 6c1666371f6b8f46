// The product of dense row-major matrices for references: c[m, n] += a[m, k] * b[k, n], rows of b streamed so that it
// stays in cache; floats are summed in double, integers wrap.
#pragma once
#include <cstdint>

namespace kiln {

template <class T>
void accumulate_product(const T* a, const T* b, T* c, int64_t m, int64_t k, int64_t n) {
  for (int64_t i = 0; i < m; ++i) {
    T* row = c + i * n;
    for (int64_t p = 0; p < k; ++p) {
      const T factor = a[i * k + p];
      const T* from = b + p * n;
      for (int64_t j = 0; j < n; ++j) {
        if constexpr (static_cast<T>(0.5) == 0) {
          row[j] = static_cast<T>(static_cast<uint64_t>(row[j]) +
                                  static_cast<uint64_t>(factor) * static_cast<uint64_t>(from[j]));
        } else {
          row[j] += factor * from[j];
        }
      }
    }
  }
}

}  // namespace kiln
