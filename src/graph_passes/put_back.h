// The inverse of a view (private to functionalize): the parent's new value when the view's value has been replaced.
#pragma once
#include "graph_passes/alias_tracking.h"

namespace kiln {

// A call to insert: operator and its arguments in schema order. An empty operator means that the value itself is the
// parent's new value.
struct InverseCall {
  std::string op;
  std::vector<Argument> args;
};

// Nothing when the view has no inverse of its own: then the base is written through as_strided_scatter.
std::optional<InverseCall> inverse_of_view(const Alias& alias, Value* parent_now, Value* replacement);
InverseCall inverse_by_strides(const Alias& alias, Value* base_now, Value* replacement);
Argument sizes_argument(const std::vector<Expr>& sizes);

}  // namespace kiln
