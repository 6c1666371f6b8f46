// Pieces of Python: literals, names, expressions over symbols, the fixed parts of a runnable script.
#pragma once
#include <set>
#include <string>

#include "base/script_text.h"
#include "types/expr.h"
#include "types/scalar.h"

namespace kiln {

std::string python_scalar(const Scalar& scalar);  // 3, True, 1e-05, float('inf'), complex(1.0, 2.0)
std::string python_name(std::string_view text);   // an identifier; keywords get an underscore
// "aten.add.Tensor" as it is; a name that is not of that form (of a damaged file) as something that only says so.
std::string python_path(std::string_view text);
std::string python_expression(const Expr& expr);       // s0*2 + u1//8
const std::set<std::string>& python_reserved_names();  // taken by the script itself

// Imports and the functions that the body may call; and the part that loads values, runs and saves ($VALUES is the
// quoted name of the file with the values).
extern const char* const runnable_prologue;
extern const char* const runnable_epilogue;

}  // namespace kiln
