// kiln.complex_parts, complex_join, complex_copy: between complex memory and its real and imaginary parts. Compiled
// code works on parts; these stand where a complex tensor comes in or goes out.
#include <cstring>

#include "runtime/library/kernels.h"
#include "runtime/library/rows.h"

namespace kiln::runtime {
namespace {

// A part of a complex tensor (which: 0 or 1) or a tensor as it is (-1), along its last dimension.
struct Side {
  Side(const TensorView& tensor, int which)
      : rows(tensor, tensor.rank() - 1),
        item(static_cast<size_t>(dtype_bytes(which < 0 ? tensor.dtype : complex_part(tensor.dtype)))),
        shift(which < 0 ? 0 : static_cast<size_t>(which) * item) {}
  Rows rows;
  size_t item, shift;
};

void copy_side(LibraryCall& call, const Side& from, const Side& to) {
  int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(from.rows.length(), 1));
  call.parallel(from.rows.count(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const std::byte* source = from.rows.row(r) + from.shift;
      std::byte* target = to.rows.row(r) + to.shift;
      const int64_t length = from.rows.length(), step = from.rows.step(), apart = to.rows.step();
      if (from.item == 4)  // a size that is known is a move, not a call
        for (int64_t i = 0; i < length; ++i) std::memcpy(target + i * apart, source + i * step, 4);
      else
        for (int64_t i = 0; i < length; ++i) std::memcpy(target + i * apart, source + i * step, from.item);
    }
  });
}

}  // namespace

void run_complex_parts(LibraryCall& call) {
  for (int which : {0, 1})
    copy_side(call, Side(call.tensor("self"), which), Side(call.output(static_cast<size_t>(which)), -1));
}

void run_complex_join(LibraryCall& call) {
  copy_side(call, Side(call.tensor("real"), -1), Side(call.output(0), 0));
  copy_side(call, Side(call.tensor("imag"), -1), Side(call.output(0), 1));
}

void run_complex_copy(LibraryCall& call) { copy_side(call, Side(call.tensor("self"), -1), Side(call.output(0), -1)); }

}  // namespace kiln::runtime
