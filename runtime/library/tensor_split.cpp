// aten.tensor_split with a tensor of places along a dimension, or of a number of sections.
#include <algorithm>

#include "runtime/element.h"
#include "runtime/library/kernels.h"
#include "runtime/library/rows.h"
#include "runtime/strided_copy.h"

namespace kiln::runtime {
namespace {

struct Piece {
  int64_t begin, length;
};

std::vector<int64_t> places_of(const TensorView& at) {
  std::vector<int64_t> out;
  int64_t count = at.rank() == 0 ? 1 : at.sizes[0], stride = at.rank() == 0 ? 0 : at.strides[0];
  for (int64_t i = 0; i < count; ++i) {
    int64_t value;
    std::memcpy(&value, at.data + i * stride * static_cast<int64_t>(sizeof value), sizeof value);
    out.push_back(value);
  }
  return out;
}

std::vector<Piece> pieces_of(LibraryCall& call) {
  TensorView self = call.tensor("self"), at = call.tensor("tensor_indices_or_sections");
  int64_t size = self.sizes[static_cast<size_t>(wrap_dim(call, call.integer("dim", 0), self.rank()))];
  std::vector<int64_t> places = places_of(at);
  std::vector<Piece> out;
  if (at.rank() == 0) {
    int64_t count = places[0];
    if (count != static_cast<int64_t>(call.output_count())) call.fail("another number of sections than at export");
    for (int64_t i = 0, begin = 0; i < count; ++i) {
      out.push_back({begin, size / count + (i < size % count ? 1 : 0)});
      begin += out.back().length;
    }
    return out;
  }
  int64_t begin = 0;
  for (size_t i = 0; i <= places.size(); ++i) {
    int64_t end = size;
    if (i < places.size()) end = std::clamp<int64_t>(places[i] < 0 ? places[i] + size : places[i], 0, size);
    out.push_back({begin, std::max<int64_t>(end - begin, 0)});
    begin = end;
  }
  return out;
}

}  // namespace

void size_tensor_split(LibraryCall& call) {
  std::vector<Piece> pieces = pieces_of(call);
  for (size_t i = 0; i < pieces.size(); ++i) call.define(i, pieces[i].length);
}

void run_tensor_split(LibraryCall& call) {
  TensorView self = call.tensor("self");
  auto dim = static_cast<size_t>(wrap_dim(call, call.integer("dim", 0), self.rank()));
  int64_t item = dtype_bytes(self.dtype);
  std::vector<Piece> pieces = pieces_of(call);
  for (size_t i = 0; i < pieces.size() && i < call.output_count(); ++i) {
    TensorView out = call.output(i);
    strided_copy(out.data, out.strides, self.data + pieces[i].begin * self.strides[dim] * item, self.strides, out.sizes,
                 item);
  }
}

}  // namespace kiln::runtime
