// The scalar operators of loop bodies: one table, one row each. The row says how many operands, what types, how to
// evaluate it (the loop interpreter), and how it is spelled in generated C++ (scalar and vector) and CUDA.
// docs/semantics.md is the page for people; this table and scalar_ops.cpp are what it describes.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "types/dtype.h"
#include "types/scalar.h"

namespace kiln::loops {

enum class ScalarOp : uint8_t {
  // arithmetic: operands and result have the statement's dtype (f32, f64, integers; f16/bf16 are computed in f32)
  add,
  sub,
  mul,
  div /* true division of floats; integers: truncating */,
  floordiv,
  mod /* Python's sign */,
  fmod /* C's sign */,
  neg,
  abs,
  min,
  max /* both propagate NaN */,
  pow,
  fma,
  // integers and bool
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  shl,
  shr,
  // comparisons: operands share a type, the result is bool
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  // bool -> bool
  logical_and,
  logical_or,
  logical_not,
  // others
  select,   // (bool, a, b)
  cast,     // from the operand's type to the statement's dtype, as PyTorch's `to`
  bitcast,  // same width
  is_nan,
  is_inf,
  sign_bit,
  copysign,
  nextafter,
  // floats only
  exp,
  exp_or_zero /* of what is not above 0: e^x, but 0 below least_exponent */,
  exp2,
  expm1,
  log,
  log2,
  log10,
  log1p,
  sqrt,
  rsqrt,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  atan2,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  erfc,
  erfinv,
  normal_cdf /* (1 + erf(x / sqrt 2)) / 2 */,
  lgamma,
  digamma,
  sigmoid,
  floor,
  ceil,
  round /* half to even */,
  trunc,
};
inline constexpr int scalar_op_count = static_cast<int>(ScalarOp::trunc) + 1;

// Of exp_or_zero, the exponential of a softmax's scores less the highest: where e^x would be a subnormal number of f32,
// less than one part in 10^37 of the sum, it is 0. Processors take a hundred cycles for each product of such a number,
// and masks of -100 are full of them.
inline constexpr double least_exponent = -87;

enum class TypeRule : uint8_t {
  same,       // all operands and the result: the statement's dtype
  compare,    // operands share any one type; result bool
  predicate,  // one operand of any type; result bool
  boolean,    // all bool
  select,     // (bool, T, T) -> T
  convert,    // one operand of any type -> the statement's dtype
};

struct ScalarOpInfo {
  ScalarOp op;
  const char* name;  // in the text of Loops
  int arity;
  TypeRule rule;
  bool floats_only;
  const char* cpp;  // generated C++, scalar and vector alike: a prelude function or operator, "k_exp" or "+"
  const char* cuda;
  int cost;  // rough, in adds: lets fusion weigh recomputing
};

const ScalarOpInfo& scalar_op_info(ScalarOp op);
std::optional<ScalarOp> scalar_op_from_name(std::string_view name);

// One scalar while interpreting: `f` for floats of any width, `i` for integers (wrapped to their width; u64 as the same
// bits) and bool (0, 1).
union Cell {
  double f;
  int64_t i;
};

// Evaluates in the statement's type: floats of f32 and narrower are rounded to f32 after every operation, so that the
// interpreter agrees with compiled code. False: integer division by zero; the result is then 0, as in compiled code.
// The operator itself never raises: KernelBuilder puts a raise_if before an integer division.
bool evaluate_scalar(ScalarOp op, DType dtype, DType operand_dtype, const Cell* args, Cell& result);

// The same, looked up once per statement. nullptr: the operator does not take these types.
using ScalarFunction = bool (*)(const Cell* args, Cell& result);
ScalarFunction scalar_function(ScalarOp op, DType dtype, DType operand_dtype);
ScalarFunction cast_function(DType from, DType to);
ScalarFunction float_math_function(ScalarOp op, DType dtype);  // the operators that only floats have

// Between memory and cells. Writing rounds floats to the storage type.
Cell read_cell(DType dtype, const void* at);
void write_cell(DType dtype, void* at, Cell value);
// A number as a cell of a type, converted as `cast` does.
Cell cell_of(DType dtype, const Scalar& value);
Scalar scalar_of(DType dtype, Cell value);

}  // namespace kiln::loops
