// What the reductions compute (docs/semantics.md), in iteration order.
#include <cmath>
#include <limits>

#include "loops/kernel_code.h"

namespace kiln::loops {
namespace {

int64_t integer_limit(DType dtype, bool lowest) {
  if (dtype == DType::boolean) return lowest ? 0 : 1;
  if (dtype == DType::u64) return lowest ? 0 : -1;  // the bits of the largest u64
  int bits = static_cast<int>(dtype_bytes(dtype)) * 8;
  if (!is_signed(dtype)) return lowest ? 0 : (int64_t{1} << bits) - 1;
  if (bits == 64) return lowest ? INT64_MIN : INT64_MAX;
  return lowest ? -(int64_t{1} << (bits - 1)) : (int64_t{1} << (bits - 1)) - 1;
}

Cell number(DType dtype, int value) {
  Cell c;
  if (is_float(dtype))
    c.f = value;
  else
    c.i = value;
  return c;
}

// What every element beats or equals.
Cell extreme(DType dtype, bool lowest) {
  Cell c;
  if (is_float(dtype))
    c.f = lowest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  else
    c.i = integer_limit(dtype, lowest);
  return c;
}

// -1, 0, 1 by how `a` ranks against `b` for argmax (greater first) or argmin; NaN ranks before all.
int rank(DType dtype, bool greater, Cell a, Cell b) {
  if (is_float(dtype)) {
    bool nan_a = std::isnan(a.f), nan_b = std::isnan(b.f);
    if (nan_a || nan_b) return nan_a == nan_b ? 0 : nan_a ? -1 : 1;
    if (a.f == b.f) return 0;
    return (a.f > b.f) == greater ? -1 : 1;
  }
  if (a.i == b.i) return 0;
  bool above = dtype == DType::u64 ? static_cast<uint64_t>(a.i) > static_cast<uint64_t>(b.i) : a.i > b.i;
  return above == greater ? -1 : 1;
}

// In f64 whatever the type: who asks for f32 rounds at the end, as compiled code does.
void welford(const Cell* yields, size_t count, Cell* acc) {
  double mean = acc[0].f, m2 = acc[1].f, n = acc[2].f;
  if (count == 1) {
    double x = yields[0].f;
    n += 1;
    double delta = x - mean;
    mean += delta / n;
    m2 += delta * (x - mean);
  } else {
    double other_mean = yields[0].f, other_m2 = yields[1].f, m = yields[2].f;
    if (m == 0) return;
    double total = n + m, delta = other_mean - mean, share = m / total;
    mean += delta * share;
    m2 += other_m2 + delta * delta * n * share;
    n = total;
  }
  acc[0].f = mean;
  acc[1].f = m2;
  acc[2].f = n;
}

}  // namespace

void start_accumulators(ReduceOp op, DType dtype, Cell* acc) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::any:
      acc[0] = number(dtype, 0);
      return;
    case ReduceOp::prod:
    case ReduceOp::all:
      acc[0] = number(dtype, 1);
      return;
    case ReduceOp::max:
      acc[0] = extreme(dtype, true);
      return;
    case ReduceOp::min:
      acc[0] = extreme(dtype, false);
      return;
    case ReduceOp::argmax:
    case ReduceOp::argmin:
      acc[0] = extreme(dtype, op == ReduceOp::argmax);
      acc[1].i = INT64_MAX;
      return;
    case ReduceOp::welford:
      for (int i = 0; i < 3; ++i) acc[i].f = 0;
      return;
  }
}

void update_accumulators(ReduceOp op, DType dtype, const Cell* yields, size_t count, int64_t position, Cell* acc) {
  if (op == ReduceOp::welford) return welford(yields, count, acc);
  KILN_CHECK(op == ReduceOp::argmax || op == ReduceOp::argmin, "a reduction to one value has an operator");
  int64_t index = count == 2 ? yields[1].i : position;
  int r = rank(dtype, op == ReduceOp::argmax, yields[0], acc[0]);
  if (r < 0 || (r == 0 && index < acc[1].i)) {
    acc[0] = yields[0];
    acc[1].i = index;
  }
}

}  // namespace kiln::loops
