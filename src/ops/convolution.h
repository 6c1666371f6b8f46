// The geometry of a convolution over 1, 2 or 3 spatial dimensions, shared by its rule, lowering and reference.
#pragma once
#include "ops/layout.h"

namespace kiln {

struct ConvGeometry {
  std::vector<int64_t> stride, padding, dilation, output_padding;  // one per spatial dimension
  Expr groups = 1;  // as many as there are samples, say, where each has weights of its own
  bool transposed = false;
  size_t spatial() const { return stride.size(); }
};

// Output size along one spatial dimension.
Expr conv_output_size(const ConvGeometry& geometry, size_t dim, const Expr& input, const Expr& kernel);

// One value per spatial dimension from an argument that may have a single value for all.
std::vector<int64_t> spatial_argument(const OpCall& call, std::string_view name, size_t spatial);

}  // namespace kiln
