// Sizes and strides of results as eager PyTorch makes them: broadcasting, dimension numbers, TensorIterator's rule for
// the layout of elementwise results, views. Everything works on symbolic sizes; a question about sizes that the ranges
// cannot answer is answered the way torch.export does (two unknown sizes that meet are equal, and not 1).
#pragma once
#include <optional>
#include <vector>

#include "ops/op_record.h"

namespace kiln {

using Sizes = std::vector<Expr>;

// A dimension number in [0, rank); throws K0205. A tensor without dimensions takes -1 and 0.
int64_t wrap_dim(const OpCall& call, int64_t dim, int64_t rank);
// The same for several; an empty list means all of them. Throws K0205 when one is repeated.
std::vector<bool> wrap_dims(const OpCall& call, const std::vector<int64_t>& dims, int64_t rank, bool empty_is_all);
int64_t rank_of(const Value* value);

// Throws K0206 when the sizes cannot be broadcast together.
Sizes broadcast_sizes(const OpCall& call, const std::vector<Sizes>& shapes, const RangeEnv& ranges);

bool is_one(const Expr& size);
bool is_zero_numel(const Sizes& sizes);
bool is_contiguous(const Sizes& sizes, const Sizes& strides);
bool is_dense(const Sizes& sizes, const Sizes& strides);  // every element of its range once, in any order
Sizes channels_last_strides(const Sizes& sizes);          // rank 4 and 5
bool is_channels_last(const Sizes& sizes, const Sizes& strides);

// Strides that TensorIterator gives a new result of these sizes from its inputs.
struct Layouted {
  Sizes sizes, strides;
};
Sizes elementwise_strides(const Sizes& sizes, const std::vector<Layouted>& inputs, const RangeEnv& ranges);
// The same from strides that already have the result's rank, 0 where an input is broadcast.
Sizes iteration_strides(const Sizes& sizes, const std::vector<Sizes>& strides, const RangeEnv& ranges);
// Strides of empty_like(memory_format): preserve keeps a dense layout and makes others dense in the same order.
Sizes like_strides(const Sizes& sizes, const Sizes& strides, MemoryFormat format, const RangeEnv& ranges);
MemoryFormat memory_format(const OpCall& call, std::string_view arg, MemoryFormat otherwise);

// Strides of a view with new sizes, or nothing when it needs a copy (at::detail::computeStride).
std::optional<Sizes> view_strides(const Sizes& sizes, const Sizes& strides, const Sizes& new_sizes,
                                  const RangeEnv& ranges);
// Replaces a -1 in the wanted sizes; throws K0207 when the number of elements cannot fit.
Sizes resolve_view_sizes(const OpCall& call, const Sizes& sizes, Sizes wanted, const RangeEnv& ranges);

// x, or x + size when x is negative; a question at run time when that is not known.
Expr wrap_index(const Expr& index, const Expr& size, const RangeEnv& ranges);
struct SliceBounds {
  Expr start, length, step;
};
// Of aten.slice: wrapped and clamped. `start` and `end` may be missing.
SliceBounds slice_bounds(const std::optional<Expr>& start, const std::optional<Expr>& end, const Expr& step,
                         const Expr& size, const RangeEnv& ranges);

// Between numbers and expressions, for references on concrete tensors.
Sizes to_exprs(const std::vector<int64_t>& values);
std::vector<int64_t> to_numbers(const Sizes& values);

TensorType strided_type(DType dtype, Sizes sizes, Sizes strides, Device device);

}  // namespace kiln
