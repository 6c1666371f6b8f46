// What lahqr does alike for real and complex Hessenberg matrices: finds negligible entries below the diagonal and takes
// one block after the other off the end.
#pragma once
#include "lapack/hessenberg.h"

namespace kiln::lapack {

// The last row at or above i, down to l, whose entry left of the diagonal is negligible; l: there is none.
template <class T>
int64_t small_below(const Matrix<T>& h, const Balance& balance, double ulp, int64_t i, int64_t l) {
  auto below = [&](int64_t row) { return std::fabs(real_part(h(row, row - 1))); };
  const double tiny = smallest * (static_cast<double>(balance.high - balance.low + 1) / ulp);
  int64_t k = i;
  for (; k > l; --k) {
    if (rough(h(k, k - 1)) <= tiny) break;
    double test = rough(h(k - 1, k - 1)) + rough(h(k, k));
    if (test == 0) {
      if (k - 2 >= balance.low) test += below(k - 1);
      if (k + 1 <= balance.high) test += below(k + 1);
    }
    if (below(k) > ulp * test) continue;
    double x = rough(h(k, k - 1)), y = rough(h(k - 1, k)), d = rough(h(k, k));
    double gap = rough(h(k - 1, k - 1) - h(k, k));
    double ab = std::max(x, y), ba = std::min(x, y), aa = std::max(d, gap), bb = std::min(d, gap), s = aa + ab;
    if (ba * (ab / s) <= std::max(tiny, ulp * (bb * (aa / s)))) break;
  }
  return k;
}

// sweep(first, last, how many so far) until a block of at most `largest` rows stands alone at the end of the active
// part, then finish(first, last), until nothing is left. False: no convergence.
template <class T, class Sweep, class Finish>
bool deflate(Matrix<T>& h, const Balance& balance, double ulp, int64_t largest, Sweep sweep, Finish finish) {
  const int64_t low = balance.low, most = 30 * std::max<int64_t>(10, balance.high - low + 1);
  for (int64_t i = balance.high; i >= low;) {
    int64_t l = low;
    int sweeps = 0;
    bool found = false;
    for (int64_t step = 0; step <= most && !found; ++step) {
      l = small_below(h, balance, ulp, i, l);
      if (l > low) h(l, l - 1) = 0;
      found = l > i - largest;
      if (!found) sweep(l, i, ++sweeps);
    }
    if (!found) return false;
    finish(l, i);
    i = l - 1;
  }
  return true;
}

}  // namespace kiln::lapack
