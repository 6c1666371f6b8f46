// Symmetric and Hermitian matrices that need not be definite: factors and systems of equations.
#include "base/text.h"
#include "lapack/ldl.h"
#include "runtime/library/kernels.h"
#include "runtime/library/matrices.h"

namespace kiln::runtime {

void run_linalg_ldl_factor(LibraryCall& call) {
  TensorView a = call.tensor("self"), out = call.output(0), pivots = call.output(1), info = call.output(2);
  auto batch = batch_sizes(a);
  bool hermitian = call.boolean("hermitian", false), checks = call.boolean("check_errors", false);
  with_scalar(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t index = 0; index < batch_count(batch); ++index) {
      auto matrix = load_matrix<T>(a, batch, index);
      std::vector<int64_t> order;
      int64_t zero_at = lapack::factor_ldl(matrix, order, hermitian);
      if (zero_at && checks)
        call.fail(str("torch.linalg.ldl_factor_ex: ", batch_text(a, index), "D[", zero_at, ",", zero_at,
                      "] is zero and using it on ldl_solve would result in a division by zero."));
      Matrix<double> numbers(static_cast<int64_t>(order.size()), 1), code(1, 1);
      for (size_t i = 0; i < order.size(); ++i) numbers.values[i] = static_cast<double>(order[i]);
      code(0, 0) = static_cast<double>(zero_at);
      store_matrix(out, batch, index, matrix);
      store_matrix(pivots, batch, index, numbers, 1);
      store_matrix(info, batch, index, code, 0);
    }
  });
}

void run_linalg_ldl_solve(LibraryCall& call) {
  TensorView factors = call.tensor("LD"), pivots = call.tensor("pivots"), b = call.tensor("B"), out = call.output(0);
  auto batch = batch_sizes(out);
  bool hermitian = call.boolean("hermitian", false);
  with_scalar(factors.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t index = 0; index < batch_count(batch); ++index) {
      auto right = load_matrix<T>(b, batch, index);
      auto numbers = load_matrix<double>(pivots, batch, index, 1);
      std::vector<int64_t> order;
      for (double number : numbers.values) order.push_back(static_cast<int64_t>(number));
      if (!lapack::solve_ldl(load_matrix<T>(factors, batch, index), order, right, hermitian))
        call.fail("linalg.ldl_solve: pivots out of range");
      store_matrix(out, batch, index, right);
    }
  });
}

}  // namespace kiln::runtime
