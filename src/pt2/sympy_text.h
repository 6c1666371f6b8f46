// Symbolic expressions as they stand in a .pt2: sympy's srepr in the graph
// ("Add(Mul(Integer(2), Symbol('s40', positive=True, integer=True)), Integer(1))") and Python in guards and in the keys
// of range constraints ("L['x'].size()[0] == 2*L['y'].size()[1]", "s33 + 2*s56 + 1").
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "types/expr.h"

namespace kiln {

// Throws K0175 (damaged text) or, for a function that Kiln does not have, fail_unsupported K0176.
Expr parse_srepr(std::string_view text);
// The same, and also the infix that files of the older layout hold ("2*s40 + 1").
Expr parse_sympy(std::string_view text);

// What `L['x'][0].size()[1]` names: the variable with its subscripts, and what is asked of it.
struct InputPath {
  std::string base;                // x
  std::vector<std::string> steps;  // each index or key, in order
  enum class Asks { value, size, stride, offset } asks = Asks::value;
  std::optional<int64_t> dim;  // size, stride
};
using ResolveInput = std::function<Expr(const InputPath&)>;

// Plain names are symbols; paths go through `resolve` (which may throw).
Expr parse_python_expr(std::string_view text, const ResolveInput& resolve);

}  // namespace kiln
