// What an operator demands of sizes that are known only when it runs (a maximum needs an element, a reflection a size
// larger than the padding). A demand that never holds is refused when types are inferred (K0212); one that may fail is
// checked before the operator runs, by a kernel that stores nothing and may raise (K0630), and by the reference.
#pragma once
#include "ops/decompose_call.h"
#include "ops/layout.h"

namespace kiln {

// least <= value.
struct SizeNeed {
  Expr value, least;
  std::string message;
};

// Arguments as expressions while compiling, as numbers while the reference runs.
struct NeedArgs {
  std::function<Sizes(std::string_view tensor)> sizes;
  std::function<Sizes(std::string_view list)> numbers;
};
using SizeNeeds = std::function<std::vector<SizeNeed>(const OpCall&, const NeedArgs&)>;

// Checks the needs in every way in which the record is used.
void add_needs(OpRecord& record, SizeNeeds needs);
// The same for one need inside a decomposition.
void require(DecomposeCall& call, const SizeNeed& need);

// Each of the dimensions has an element. `name` is what eager calls the operator.
std::vector<SizeNeed> elements_along(std::string_view name, const Sizes& sizes, const std::vector<bool>& dims);
// All dimensions from `first` on have an element, as eager's layers demand it of everything but a batch.
std::vector<SizeNeed> elements_from(std::string_view name, const Sizes& sizes, size_t first);

// The largest along dimensions of what is never negative (distances, singular values): 0 where there is none.
Value* largest_or_zero(DecomposeCall& call, Value* x, const std::vector<int64_t>& dims, bool keep);

void register_size_needs(Registry& registry);

}  // namespace kiln
