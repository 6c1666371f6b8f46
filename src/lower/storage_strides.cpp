#include <algorithm>

#include "lower/lower.h"

namespace kiln {
namespace {

// Of a symbol without a value at export any value will do: what it decides is an order of dimensions.
SymbolValues export_values(const std::map<std::string, SymbolInfo>& symbols) {
  SymbolValues hints;
  for (const auto& [name, info] : symbols) hints[name] = info.hint.value_or(std::max<int64_t>(info.range.low, 2));
  return hints;
}

}  // namespace

bool follows_sizes(const Expr& stride, const std::vector<Expr>& sizes) {
  std::set<std::string> in_sizes, in_stride;
  for (const Expr& size : sizes) collect_symbols(size, in_sizes);
  collect_symbols(stride, in_stride);
  return std::includes(in_sizes.begin(), in_sizes.end(), in_stride.begin(), in_stride.end());
}

std::vector<Expr> storage_strides(const TensorType& type, const std::map<std::string, SymbolInfo>& symbols) {
  std::vector<Expr> row_major = contiguous_strides(type.sizes);
  if (type.strides == row_major) return row_major;
  bool empty = false, broadcast = false;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    empty |= type.sizes[d].is_constant(0);
    broadcast |= type.strides[d].is_constant(0) && !type.sizes[d].is_constant(1);
  }
  // No element: any strides will do, so eager's; but a kernel cannot be scheduled that stores everything to one place.
  const bool own = std::any_of(type.strides.begin(), type.strides.end(),
                               [&](const Expr& stride) { return !follows_sizes(stride, type.sizes); });
  if (empty) return broadcast || own ? row_major : type.strides;
  // Order the dimensions by the strides' values at the export's sizes and lay them out densely in that order. Where the
  // strides were dense, that gives the strides themselves.
  const SymbolValues hints = export_values(symbols);
  std::vector<int64_t> size_values, stride_values;
  try {
    for (size_t d = 0; d < type.sizes.size(); ++d) {
      size_values.push_back(evaluate(type.sizes[d], hints));
      stride_values.push_back(evaluate(type.strides[d], hints));
    }
  } catch (const Error&) {
    return row_major;
  }
  std::vector<Expr> strides = type.strides;
  Expr next = 1;
  for (size_t d : memory_order(size_values, stride_values)) {
    // The stride of a dimension of size 1 says nothing; the file's is kept where a caller's sizes say what it is.
    if (!type.sizes[d].is_constant(1) || !follows_sizes(strides[d], type.sizes)) strides[d] = next;
    next = next * type.sizes[d];
  }
  return strides;
}

}  // namespace kiln
