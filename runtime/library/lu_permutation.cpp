// kiln.lu_permutation: the permutation that LAPACK's pivots amount to. Row i was exchanged with row pivots[i] (counted
// from 1), in order.
#include <numeric>

#include "runtime/element.h"
#include "runtime/library/kernels.h"
#include "runtime/library/rows.h"

namespace kiln::runtime {

void run_lu_permutation(LibraryCall& call) {
  TensorView pivots = call.tensor("pivots"), out = call.output(0);
  Rows from(pivots, pivots.rank() - 1), to(out, out.rank() - 1);
  std::vector<int64_t> order(static_cast<size_t>(to.length()));
  for (int64_t row = 0; row < to.count(); ++row) {
    std::iota(order.begin(), order.end(), int64_t{0});
    for (int64_t i = 0; i < from.length(); ++i) {
      int64_t other = 0;
      element_integer(pivots.dtype, from.row(row) + i * from.step(), other);
      if (i >= to.length() || other < 1 || other > to.length()) call.fail("lu_unpack: pivots out of range");
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(other - 1)]);
    }
    for (int64_t i = 0; i < to.length(); ++i)
      *reinterpret_cast<int64_t*>(to.row(row) + i * to.step()) = order[static_cast<size_t>(i)];
  }
}

}  // namespace kiln::runtime
