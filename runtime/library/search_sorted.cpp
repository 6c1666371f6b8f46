// kiln.search_sorted: for each value its place in a row, found by halves exactly as eager does it, so that the result
// is eager's even where the row is not sorted. Rows and values have one dtype.
#include "runtime/element.h"
#include "runtime/library/kernels.h"
#include "runtime/library/rows.h"

namespace kiln::runtime {
namespace {

double read(DType dtype, const std::byte* at, double) { return element_value(dtype, at); }
int64_t read(DType dtype, const std::byte* at, int64_t) {
  int64_t value = 0;
  element_integer(dtype, at, value);
  return value;
}

// Elements before the place are those for which `edge >= value` (`edge > value`) is false: NaN comes after everything.
template <class T>
int64_t place_of(T value, DType dtype, const std::byte* row, int64_t step, int64_t length, bool right) {
  int64_t start = 0, end = length;
  while (start < end) {
    int64_t middle = start + (end - start) / 2;
    T edge = read(dtype, row + middle * step, T{});
    if (right ? !(edge > value) : !(edge >= value))
      start = middle + 1;
    else
      end = middle;
  }
  return start;
}

template <class T>
void search(LibraryCall& call) {
  TensorView rows = call.tensor("rows"), values = call.tensor("values"), out = call.output(0);
  bool right = call.boolean("right", false), narrow = out.dtype == DType::i32;
  Rows edges(rows, rows.rank() - 1);
  int64_t last = std::max<int64_t>(values.rank() - 1, 0);
  Rows from(values, last), to(out, last);
  if (edges.count() != 1 && edges.count() != from.count()) call.fail("boundaries and values have different rows");
  call.parallel(from.count(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const std::byte *row = edges.row(edges.count() == 1 ? 0 : r), *x = from.row(r);
      std::byte* result = to.row(r);
      for (int64_t i = 0; i < from.length(); ++i) {
        T value = read(rows.dtype, x + i * from.step(), T{});
        int64_t place = place_of(value, rows.dtype, row, edges.step(), edges.length(), right);
        if (narrow)
          *reinterpret_cast<int32_t*>(result + i * to.step()) = static_cast<int32_t>(place);
        else
          *reinterpret_cast<int64_t*>(result + i * to.step()) = place;
      }
    }
  });
}

}  // namespace

void run_search_sorted(LibraryCall& call) {
  if (is_float(call.tensor("rows").dtype))
    search<double>(call);
  else
    search<int64_t>(call);
}

}  // namespace kiln::runtime
