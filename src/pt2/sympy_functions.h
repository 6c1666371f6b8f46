// sympy's and torch's function names with their meaning as Expr; shared by the readers of srepr and of Python text.
#pragma once
#include <string_view>
#include <vector>

#include "types/expr.h"

namespace kiln {

// Throws fail_unsupported K0176 for a name that is not in the table, K0175 for a wrong number of arguments.
Expr apply_sympy_function(std::string_view name, std::vector<Expr> args);
Expr true_division(const Expr& a, const Expr& b);
Expr power(const Expr& base, const Expr& exponent);

}  // namespace kiln
