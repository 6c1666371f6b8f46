// kiln.poisson_quantile: for each rate the smallest k whose probability of being reached exceeds a uniform number. The
// sum starts where what lies below is smaller than any double's share of 1, and goes on by the ratio of neighbours.
#include <algorithm>
#include <cmath>

#include "runtime/element.h"
#include "runtime/library/kernels.h"

namespace kiln::runtime {
namespace {

double quantile(double rate, double u) {
  if (!(rate > 0)) return rate == 0 ? 0 : std::nan("");
  double reach = 12 * std::sqrt(rate) + 40, last = rate + reach;
  double k = std::max(0.0, std::floor(rate - reach));
  double chance = std::exp(k * std::log(rate) - rate - std::lgamma(k + 1)), below = chance;
  while (!(below > u) && k < last) {
    ++k;
    chance *= rate / k;
    below += chance;
  }
  return k;
}

}  // namespace

void run_poisson_quantile(LibraryCall& call) {
  TensorView rates = call.tensor("rates"), uniform = call.tensor("uniform"), out = call.output(0);
  int64_t count = 1;
  for (int64_t size : rates.sizes) count *= size;
  // All three are dense, of f64: the operator made them.
  const auto *rate = reinterpret_cast<const double*>(rates.data), *u = reinterpret_cast<const double*>(uniform.data);
  auto* to = reinterpret_cast<double*>(out.data);
  call.parallel(count, 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = quantile(rate[i], u[i]);
  });
}

}  // namespace kiln::runtime
