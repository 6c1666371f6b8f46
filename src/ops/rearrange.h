// Declares operators whose result takes each element from another place of one tensor. Rule, lowering and reference are
// three views of one operator: sizes, the symbolic index map, and the map on concrete positions.
#pragma once
#include "ops/size_needs.h"
#include "ops/view_table.h"

namespace kiln {

struct RearrangeRow {
  std::string schema;
  std::function<Sizes(const ViewArgs&)> sizes;
  std::function<std::vector<Expr>(const ViewArgs&, const std::vector<Expr>&)> index;
  std::function<std::vector<int64_t>(const ReferenceCall&, const Tensor& self, const std::vector<int64_t>&)> source;
  bool keeps_layout = false;  // strides like self's, as TensorIterator gives them
  std::vector<Sample> samples = {};
  SizeNeeds needs = {};
};
void add_rearrangement(Registry& registry, RearrangeRow row);

}  // namespace kiln
