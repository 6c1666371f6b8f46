// Symbols that are floats. A symbol of an Expr is an integer, except zf<n> and zuf<n>: PyTorch's own names of floats
// (zuf0: read from data by .item()). Expr::symbol makes such a symbol a float expression; where values of symbols are
// kept as int64 (SymbolValues, a plan's slots), its value is the bits of a double.
#pragma once
#include <string_view>

namespace kiln {

bool is_float_symbol(std::string_view name);

}  // namespace kiln
