#include "runtime/expression.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "package/plan_io.h"

namespace kiln::runtime {
namespace {

using format::ExprCode;

double as_float(int64_t bits) { return std::bit_cast<double>(bits); }
int64_t bits_of(double value) { return std::bit_cast<int64_t>(value); }

ExprResult floor_divide(int64_t a, int64_t b, int64_t& quotient, int64_t& remainder) {
  if (b == 0) return ExprResult::division_by_zero;
  if (a == INT64_MIN && b == -1) return ExprResult::overflow;
  quotient = a / b;
  remainder = a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) --quotient, remainder += b;
  return ExprResult::ok;
}

ExprResult power(int64_t base, int64_t exponent, int64_t& out) {
  if (exponent < 0) return ExprResult::not_a_number;
  out = 1;
  while (exponent > 0) {
    if ((exponent & 1) && __builtin_mul_overflow(out, base, &out)) return ExprResult::overflow;
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return ExprResult::overflow;
  }
  return ExprResult::ok;
}

ExprResult to_integer(double value, int64_t& out) {
  if (std::isnan(value)) return ExprResult::not_a_number;
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) return ExprResult::overflow;
  out = static_cast<int64_t>(value);
  return ExprResult::ok;
}

ExprResult integer_binary(ExprCode code, int64_t a, int64_t b, int64_t& out) {
  int64_t other = 0;
  switch (code) {
    case ExprCode::add:
      return __builtin_add_overflow(a, b, &out) ? ExprResult::overflow : ExprResult::ok;
    case ExprCode::sub:
      return __builtin_sub_overflow(a, b, &out) ? ExprResult::overflow : ExprResult::ok;
    case ExprCode::mul:
      return __builtin_mul_overflow(a, b, &out) ? ExprResult::overflow : ExprResult::ok;
    case ExprCode::floordiv:
      return floor_divide(a, b, out, other);
    case ExprCode::mod:
      return b == -1 ? (out = 0, ExprResult::ok) : floor_divide(a, b, other, out);
    case ExprCode::pow:
      return power(a, b, out);
    case ExprCode::min:
      out = std::min(a, b);
      break;
    case ExprCode::max:
      out = std::max(a, b);
      break;
    case ExprCode::eq:
      out = a == b;
      break;
    case ExprCode::ne:
      out = a != b;
      break;
    case ExprCode::lt:
      out = a < b;
      break;
    case ExprCode::le:
      out = a <= b;
      break;
    case ExprCode::logical_and:
      out = a && b;
      break;
    default:
      out = a || b;
      break;
  }
  return ExprResult::ok;
}

ExprResult float_binary(ExprCode code, double a, double b, int64_t& out) {
  switch (code) {
    case ExprCode::float_add:
      out = bits_of(a + b);
      break;
    case ExprCode::float_mul:
      out = bits_of(a * b);
      break;
    case ExprCode::float_min:
      out = bits_of(std::min(a, b));
      break;
    case ExprCode::float_max:
      out = bits_of(std::max(a, b));
      break;
    case ExprCode::float_eq:
      out = a == b;
      break;
    case ExprCode::float_ne:
      out = a != b;
      break;
    case ExprCode::float_lt:
      out = a < b;
      break;
    case ExprCode::float_le:
      out = a <= b;
      break;
    case ExprCode::float_pow:
      out = bits_of(std::pow(a, b));
      break;
    case ExprCode::float_floordiv:
      if (b == 0) return ExprResult::division_by_zero;
      out = bits_of(std::floor(a / b));
      break;
    default:
      if (b == 0) return ExprResult::division_by_zero;
      out = bits_of(a - std::floor(a / b) * b);
      break;
  }
  return ExprResult::ok;
}

ExprResult unary(ExprCode code, int64_t a, int64_t& out) {
  switch (code) {
    case ExprCode::neg:
      return __builtin_sub_overflow(int64_t{0}, a, &out) ? ExprResult::overflow : ExprResult::ok;
    case ExprCode::logical_not:
      out = a == 0;
      return ExprResult::ok;
    case ExprCode::to_float:
      out = bits_of(static_cast<double>(a));
      return ExprResult::ok;
    case ExprCode::to_int:
      return to_integer(as_float(a), out);
    case ExprCode::floor_to_int:
      return to_integer(std::floor(as_float(a)), out);
    case ExprCode::ceil_to_int:
      return to_integer(std::ceil(as_float(a)), out);
    case ExprCode::sqrt:
      if (as_float(a) < 0) return ExprResult::not_a_number;
      out = bits_of(std::sqrt(as_float(a)));
      return ExprResult::ok;
    default:
      out = bits_of(-as_float(a));
      return ExprResult::ok;
  }
}

bool is_unary(ExprCode code) {
  return code == ExprCode::neg || code == ExprCode::logical_not || code == ExprCode::float_neg ||
         code == ExprCode::to_float || (code >= ExprCode::to_int && code <= ExprCode::sqrt);
}

}  // namespace

const char* expr_result_text(ExprResult result) {
  switch (result) {
    case ExprResult::overflow:
      return "it does not fit 64 bits";
    case ExprResult::division_by_zero:
      return "it divides by zero";
    case ExprResult::not_a_number:
      return "it has no value";
    default:
      return "";
  }
}

ExprResult evaluate(const format::ExprProgram& program, std::span<const int64_t> symbols, int64_t& out) {
  int64_t stack[format::max_expr_depth];
  int64_t* top = stack;  // one past the last value
  for (const format::ExprInstruction& in : program.code) {
    ExprResult result = ExprResult::ok;
    if (in.code == ExprCode::constant || in.code == ExprCode::float_constant) {
      *top++ = in.operand;
    } else if (in.code == ExprCode::symbol) {
      *top++ = symbols[static_cast<size_t>(in.operand)];
    } else if (in.code == ExprCode::ite) {
      top -= 2;
      top[-1] = top[-1] ? top[0] : top[1];
    } else if (is_unary(in.code)) {
      result = unary(in.code, top[-1], top[-1]);
    } else {
      --top;
      int64_t value = 0;
      if (in.code == ExprCode::truediv) {
        // Both operands are floats, as to_float left them.
        if (as_float(top[0]) == 0) return ExprResult::division_by_zero;
        value = bits_of(as_float(top[-1]) / as_float(top[0]));
      } else if (in.code >= ExprCode::float_add) {
        result = float_binary(in.code, as_float(top[-1]), as_float(top[0]), value);
      } else {
        result = integer_binary(in.code, top[-1], top[0], value);
      }
      top[-1] = value;
    }
    if (result != ExprResult::ok) return result;
  }
  out = stack[0];
  return ExprResult::ok;
}

}  // namespace kiln::runtime
