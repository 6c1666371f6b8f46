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

std::vector<Expr> storage_strides(const TensorType& type, const std::map<std::string, SymbolInfo>& symbols) {
  std::vector<Expr> row_major = contiguous_strides(type.sizes);
  if (type.strides == row_major) return row_major;
  bool empty = false, broadcast = false;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    empty |= type.sizes[d].is_constant(0);
    broadcast |= type.strides[d].is_constant(0) && !type.sizes[d].is_constant(1);
  }
  // No element: any strides will do, so eager's; but a kernel cannot be scheduled that stores everything to one place.
  if (empty) return broadcast ? row_major : type.strides;
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
    // The stride of a dimension of size 1 says nothing; the file's is kept where it is a number.
    if (!type.sizes[d].is_constant(1)) strides[d] = next;
    next = next * type.sizes[d];
  }
  return strides;
}

}  // namespace kiln
