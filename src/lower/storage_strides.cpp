#include "lower/lower.h"

namespace kiln {

std::vector<Expr> storage_strides(const TensorType& type, const std::map<std::string, SymbolInfo>& symbols) {
  std::vector<Expr> row_major = contiguous_strides(type.sizes);
  if (type.strides == row_major) return row_major;
  for (const Expr& size : type.sizes)
    if (size.is_constant(0)) return type.strides;   // no element: any strides will do, so eager's
  // Order the dimensions by the strides' values at the export's sizes, then demand that each stride is exactly the
  // product of the sizes further in: that holds for all sizes or the layout is not one we keep.
  SymbolValues hints;
  for (const auto& [name, info] : symbols) hints[name] = info.hint.value_or(std::max<int64_t>(info.range.low, 2));
  std::vector<size_t> order;
  std::vector<int64_t> stride_values;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    order.push_back(d);
    try {
      stride_values.push_back(evaluate(type.strides[d], hints));
    } catch (const Error&) {
      return row_major;
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return stride_values[a] < stride_values[b]; });
  Expr expected = 1;
  std::vector<Expr> strides = type.strides;
  for (size_t d : order) {
    if (type.sizes[d].is_constant(1)) continue;
    if (!type.strides[d].same(expected)) return row_major;
    expected = expected * type.sizes[d];
  }
  return strides;
}

}  // namespace kiln
