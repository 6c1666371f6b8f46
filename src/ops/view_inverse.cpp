#include "ops/view_inverse.h"

#include "ops/decompose_call.h"

namespace kiln {

namespace {

Argument sizes_argument(const std::vector<Expr>& sizes) {
  Argument::List list;
  for (const Expr& size : sizes) list.push_back(number(size));
  return Argument(std::move(list));
}

// The other part stays as it is.
Value* complex_with_part(ViewWrite& write, bool real) {
  if (write.viewed_type.dtype == write.view_type.dtype) return nullptr;  // of a real tensor
  Value* viewed = write.viewed();
  Value* kept = write.insert(real ? "aten.imag.default" : "aten.real.default", {Argument(viewed)}, write.view_type);
  Value* re = real ? write.replacement : kept;
  Value* im = real ? kept : write.replacement;
  return write.insert("aten.complex.default", {Argument(re), Argument(im)}, write.viewed_type);
}

}  // namespace

namespace view_inverse {

Value* itself(ViewWrite& write) { return write.replacement; }

Value* slice(ViewWrite& write) {
  Value* viewed = write.viewed();
  return write.insert("aten.slice_scatter.default",
                      {Argument(viewed), Argument(write.replacement), write.arg("dim"), write.arg("start"),
                       write.arg("end"), write.arg("step")},
                      write.viewed_type);
}

Value* narrow(ViewWrite& write) {
  Value* viewed = write.viewed();
  Expr start = write.integer("start");
  if (start.is_constant() && start.value() < 0) {  // counted from the end; start + length may be 0 there
    int64_t dim = write.constant_integer("dim");
    const auto& sizes = write.viewed_type.sizes;
    start = start + sizes.at(static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim));
  }
  return write.insert("aten.slice_scatter.default",
                      {Argument(viewed), Argument(write.replacement), write.arg("dim"), number(start),
                       number(start + write.integer("length"))},
                      write.viewed_type);
}

Value* select(ViewWrite& write) {
  Value* viewed = write.viewed();
  return write.insert("aten.select_scatter.default",
                      {Argument(viewed), Argument(write.replacement), write.arg("dim"), write.arg("index")},
                      write.viewed_type);
}

Value* transpose(ViewWrite& write) {
  return write.insert("aten.transpose.int", {Argument(write.replacement), write.arg("dim0"), write.arg("dim1")},
                      write.viewed_type);
}

// permute(permute(x, dims), inverse) == x
Value* permute(ViewWrite& write) {
  std::vector<int64_t> dims = write.constant_integers("dims");
  auto rank = static_cast<int64_t>(dims.size());
  std::vector<Argument> inverse(dims.size());
  for (int64_t i = 0; i < rank; ++i) {
    int64_t d = dims[static_cast<size_t>(i)];
    inverse[static_cast<size_t>(d < 0 ? d + rank : d)] = Argument(Scalar(i));
  }
  return write.insert("aten.permute.default",
                      {Argument(write.replacement), Argument(Argument::List(inverse.begin(), inverse.end()))},
                      write.viewed_type);
}

Value* same_view(ViewWrite& write) {
  return write.insert(write.node().target, {Argument(write.replacement)}, write.viewed_type);
}

Value* reshape(ViewWrite& write) {
  return write.insert("aten.reshape.default", {Argument(write.replacement), sizes_argument(write.viewed_type.sizes)},
                      write.viewed_type);
}

Value* as_real(ViewWrite& write) {
  return write.insert("aten.view_as_complex.default", {Argument(write.replacement)}, write.viewed_type);
}

Value* as_complex(ViewWrite& write) {
  return write.insert("aten.view_as_real.default", {Argument(write.replacement)}, write.viewed_type);
}

Value* as_dtype(ViewWrite& write) {
  if (write.viewed_type.dtype == write.view_type.dtype) return nullptr;
  return write.insert("aten.view.dtype", {Argument(write.replacement), Argument(write.viewed_type.dtype)},
                      write.viewed_type);
}

Value* real_part(ViewWrite& write) { return complex_with_part(write, true); }
Value* imaginary_part(ViewWrite& write) { return complex_with_part(write, false); }

}  // namespace view_inverse

Value* write_through_strides(ViewWrite& write) {
  Value* base = write.viewed();
  return write.insert("aten.as_strided_scatter.default",
                      {Argument(base), Argument(write.replacement), sizes_argument(write.view_type.sizes),
                       sizes_argument(write.view_type.strides), number(write.view_type.offset)},
                      write.viewed_type);
}

}  // namespace kiln
