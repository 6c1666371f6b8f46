// Inverses of views: what is viewed has a new value once the view's value has been replaced. A view's record names its
// inverse (OpFacts::inverse_view); functionalize calls it for a write through the view.
#pragma once
#include "ops/op_record.h"

namespace kiln {

// A write through a view: the view's call, the types on both sides, and a way to insert operators.
class ViewWrite : public OpCall {
 public:
  ViewWrite(const Node& view, const TensorType& type_of_viewed, const TensorType& type_of_view, Value* new_value)
      : OpCall(view, view.op->schema), viewed_type(type_of_viewed), view_type(type_of_view), replacement(new_value) {}
  virtual ~ViewWrite() = default;
  const TensorType& viewed_type;  // of what is viewed
  const TensorType& view_type;
  Value* replacement;  // the view's new value

  virtual Value* viewed() = 0;  // the present value of what is viewed
  // Arguments in schema order; the result gets `type`.
  virtual Value* insert(std::string_view op, std::vector<Argument> args, const TensorType& type) = 0;
};

namespace view_inverse {
Value* itself(ViewWrite& write);  // the view is the whole of what is viewed, as it is
Value* slice(ViewWrite& write);
Value* narrow(ViewWrite& write);
Value* select(ViewWrite& write);
Value* transpose(ViewWrite& write);
Value* permute(ViewWrite& write);
Value* same_view(ViewWrite& write);  // of a view that undoes itself: t, a conjugate, a negative
Value* reshape(ViewWrite& write);
// Of views that see the memory as another dtype.
Value* as_real(ViewWrite& write);
Value* as_complex(ViewWrite& write);
Value* as_dtype(ViewWrite& write);
Value* real_part(ViewWrite& write);
Value* imaginary_part(ViewWrite& write);
}  // namespace view_inverse

// For views without an inverse: the base's new value, from the strides of the view. `write` is of the base.
Value* write_through_strides(ViewWrite& write);

}  // namespace kiln
