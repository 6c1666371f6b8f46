// Recognises a kernel that is one perfect nest of parallel loops around straight-line statements with a single plain
// store, indexed by the loop variables: the form that can be computed anywhere, one element at a time.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

struct PointwiseForm {
  std::vector<const Loop*> loops;  // outermost first
  const Body* body = nullptr;      // the innermost statements
  const Stmt* store = nullptr;     // in body
};
std::optional<PointwiseForm> pointwise_form(const Kernel& kernel);

// Adds to `variables` what each loop variable becomes so that the store lands on `index`.
void bind_store_index(const PointwiseForm& form, const std::vector<Expr>& index, Substitution& variables);

// A pointwise kernel that only copies one whole buffer to another at the same indices.
struct PlainCopy {
  BufferId from = no_buffer, to = no_buffer;
};
std::optional<PlainCopy> plain_copy(const Kernel& kernel);

}  // namespace kiln::loops
