// The table of scalar operators. `cpp` names what src/codegen/c_family's prelude provides; `cuda` is CUDA's own
// overloaded name where it has the meaning of docs/semantics.md, otherwise a prelude function.
#include <array>

#include "base/error.h"
#include "loops/scalar_ops.h"

namespace kiln::loops {

using enum ScalarOp;

static constexpr std::array<ScalarOpInfo, scalar_op_count> table = {{
    // op, name, arity, rule, floats only, C++, CUDA, cost
    {add, "add", 2, TypeRule::same, false, "k_add", "+", 1},
    {sub, "sub", 2, TypeRule::same, false, "k_sub", "-", 1},
    {mul, "mul", 2, TypeRule::same, false, "k_mul", "*", 1},
    {div, "div", 2, TypeRule::same, false, "k_div", "k_div", 5},
    {floordiv, "floordiv", 2, TypeRule::same, false, "k_floordiv", "k_floordiv", 10},
    {mod, "mod", 2, TypeRule::same, false, "k_mod", "k_mod", 10},
    {fmod, "fmod", 2, TypeRule::same, false, "k_fmod", "k_fmod", 10},
    {neg, "neg", 1, TypeRule::same, false, "k_neg", "k_neg", 1},
    {abs, "abs", 1, TypeRule::same, false, "k_abs", "k_abs", 1},
    {min, "min", 2, TypeRule::same, false, "k_min", "k_min", 2},
    {max, "max", 2, TypeRule::same, false, "k_max", "k_max", 2},
    {pow, "pow", 2, TypeRule::same, false, "k_pow", "k_pow", 40},
    {fma, "fma", 3, TypeRule::same, true, "k_fma", "fma", 1},
    {bit_and, "bit_and", 2, TypeRule::same, false, "k_bit_and", "&", 1},
    {bit_or, "bit_or", 2, TypeRule::same, false, "k_bit_or", "|", 1},
    {bit_xor, "bit_xor", 2, TypeRule::same, false, "k_bit_xor", "^", 1},
    {bit_not, "bit_not", 1, TypeRule::same, false, "k_bit_not", "k_bit_not", 1},
    {shl, "shl", 2, TypeRule::same, false, "k_shl", "k_shl", 2},
    {shr, "shr", 2, TypeRule::same, false, "k_shr", "k_shr", 2},
    {eq, "eq", 2, TypeRule::compare, false, "k_eq", "==", 1},
    {ne, "ne", 2, TypeRule::compare, false, "k_ne", "!=", 1},
    {lt, "lt", 2, TypeRule::compare, false, "k_lt", "<", 1},
    {le, "le", 2, TypeRule::compare, false, "k_le", "<=", 1},
    {gt, "gt", 2, TypeRule::compare, false, "k_gt", ">", 1},
    {ge, "ge", 2, TypeRule::compare, false, "k_ge", ">=", 1},
    {logical_and, "logical_and", 2, TypeRule::boolean, false, "k_logical_and", "&&", 1},
    {logical_or, "logical_or", 2, TypeRule::boolean, false, "k_logical_or", "||", 1},
    {logical_not, "logical_not", 1, TypeRule::boolean, false, "k_logical_not", "!", 1},
    {select, "select", 3, TypeRule::select, false, "k_select", "k_select", 1},
    {cast, "cast", 1, TypeRule::convert, false, "k_cast", "k_cast", 1},
    {bitcast, "bitcast", 1, TypeRule::convert, false, "k_bitcast", "k_bitcast", 0},
    {is_nan, "is_nan", 1, TypeRule::predicate, false, "k_is_nan", "k_is_nan", 1},
    {is_inf, "is_inf", 1, TypeRule::predicate, false, "k_is_inf", "k_is_inf", 1},
    {sign_bit, "sign_bit", 1, TypeRule::predicate, false, "k_sign_bit", "k_sign_bit", 1},
    {copysign, "copysign", 2, TypeRule::same, true, "k_copysign", "copysign", 1},
    {nextafter, "nextafter", 2, TypeRule::same, true, "k_nextafter", "nextafter", 5},
    {exp, "exp", 1, TypeRule::same, true, "k_exp", "exp", 15},
    {exp_or_zero, "exp_or_zero", 1, TypeRule::same, true, "k_exp_or_zero", "k_exp_or_zero", 12},
    {exp2, "exp2", 1, TypeRule::same, true, "k_exp2", "exp2", 15},
    {expm1, "expm1", 1, TypeRule::same, true, "k_expm1", "expm1", 20},
    {log, "log", 1, TypeRule::same, true, "k_log", "log", 15},
    {log2, "log2", 1, TypeRule::same, true, "k_log2", "log2", 15},
    {log10, "log10", 1, TypeRule::same, true, "k_log10", "log10", 15},
    {log1p, "log1p", 1, TypeRule::same, true, "k_log1p", "log1p", 20},
    {sqrt, "sqrt", 1, TypeRule::same, true, "k_sqrt", "sqrt", 8},
    {rsqrt, "rsqrt", 1, TypeRule::same, true, "k_rsqrt", "k_rsqrt", 12},
    {sin, "sin", 1, TypeRule::same, true, "k_sin", "sin", 25},
    {cos, "cos", 1, TypeRule::same, true, "k_cos", "cos", 25},
    {tan, "tan", 1, TypeRule::same, true, "k_tan", "tan", 35},
    {asin, "asin", 1, TypeRule::same, true, "k_asin", "asin", 25},
    {acos, "acos", 1, TypeRule::same, true, "k_acos", "acos", 25},
    {atan, "atan", 1, TypeRule::same, true, "k_atan", "atan", 25},
    {atan2, "atan2", 2, TypeRule::same, true, "k_atan2", "atan2", 35},
    {sinh, "sinh", 1, TypeRule::same, true, "k_sinh", "sinh", 35},
    {cosh, "cosh", 1, TypeRule::same, true, "k_cosh", "cosh", 35},
    {tanh, "tanh", 1, TypeRule::same, true, "k_tanh", "tanh", 20},
    {asinh, "asinh", 1, TypeRule::same, true, "k_asinh", "asinh", 40},
    {acosh, "acosh", 1, TypeRule::same, true, "k_acosh", "acosh", 40},
    {atanh, "atanh", 1, TypeRule::same, true, "k_atanh", "atanh", 40},
    {erf, "erf", 1, TypeRule::same, true, "k_erf", "erf", 30},
    {erfc, "erfc", 1, TypeRule::same, true, "k_erfc", "erfc", 40},
    {erfinv, "erfinv", 1, TypeRule::same, true, "k_erfinv", "erfinv", 60},
    {normal_cdf, "normal_cdf", 1, TypeRule::same, true, "k_normal_cdf", "k_normal_cdf", 24},
    {lgamma, "lgamma", 1, TypeRule::same, true, "k_lgamma", "lgamma", 80},
    {digamma, "digamma", 1, TypeRule::same, true, "k_digamma", "k_digamma", 80},
    {sigmoid, "sigmoid", 1, TypeRule::same, true, "k_sigmoid", "k_sigmoid", 20},
    {floor, "floor", 1, TypeRule::same, true, "k_floor", "floor", 1},
    {ceil, "ceil", 1, TypeRule::same, true, "k_ceil", "ceil", 1},
    {round, "round", 1, TypeRule::same, true, "k_round", "rint", 1},
    {trunc, "trunc", 1, TypeRule::same, true, "k_trunc", "trunc", 1},
}};

static constexpr bool in_order() {
  for (int i = 0; i < scalar_op_count; ++i)
    if (static_cast<int>(table[static_cast<size_t>(i)].op) != i) return false;
  return true;
}
static_assert(in_order(), "the rows must stand in the order of ScalarOp");

const ScalarOpInfo& scalar_op_info(ScalarOp op) {
  auto row = static_cast<size_t>(op);
  KILN_CHECK(row < table.size(), "no such scalar operator");
  return table[row];
}

std::optional<ScalarOp> scalar_op_from_name(std::string_view name) {
  for (const ScalarOpInfo& row : table)
    if (name == row.name) return row.op;
  return {};
}

}  // namespace kiln::loops
