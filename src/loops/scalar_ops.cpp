// What the scalar operators compute (docs/semantics.md). One function per operator and type, so that the interpreter
// looks it up once per statement. Floats narrower than f64 are computed as f32.
#include "loops/scalar_ops.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/error.h"

namespace kiln::loops {
namespace {

template <class T>
T get(Cell c) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(c.f);
  else
    return static_cast<T>(c.i);
}
template <class T>
void put(Cell& c, T v) {
  if constexpr (std::is_floating_point_v<T>)
    c.f = static_cast<double>(v);
  else
    c.i = static_cast<int64_t>(v);
}

// Integers wrap: they are computed in the unsigned type of at least 64 bits and cut to their width.
template <class T>
T wrap(uint64_t v) {
  return static_cast<T>(v);
}
template <class T>
uint64_t bits(T v) {
  return static_cast<uint64_t>(v);
}

// ---- Division ------------------------------------------------------------------------------------------------------

template <class T>
bool integer_division(ScalarOp op, T a, T b, T& out) {
  out = 0;
  if (b == 0) return false;
  bool overflows = std::is_signed_v<T> && b == static_cast<T>(-1);  // the smallest value has no negative
  T q = overflows ? wrap<T>(0 - bits(a)) : static_cast<T>(a / b);
  T r = overflows ? T{0} : static_cast<T>(a % b);
  bool adjust = r != 0 && (r < 0) != (b < 0);
  switch (op) {
    case ScalarOp::div:
      out = q;
      break;
    case ScalarOp::fmod:
      out = r;
      break;
    case ScalarOp::floordiv:
      out = adjust ? static_cast<T>(q - 1) : q;
      break;
    default:
      out = adjust ? static_cast<T>(r + b) : r;
      break;
  }
  return true;
}

// torch.remainder and torch.div(rounding_mode="floor") of floats.
template <class T>
T float_mod(T a, T b) {
  T m = std::fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
template <class T>
T float_floordiv(T a, T b) {
  if (b == 0) return a / b;
  T m = std::fmod(a, b);
  T d = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) d -= T{1};
  if (d == 0) return std::copysign(T{0}, a / b);
  T f = std::floor(d);
  return d - f > T{0.5} ? f + T{1} : f;
}

template <class T>
T integer_pow(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) return base == 1 ? T{1} : base == -1 ? (exponent % 2 == 0 ? T{1} : T{-1}) : T{0};
  }
  uint64_t out = 1, b = bits(base), e = bits(exponent);
  for (; e > 0; e >>= 1, b *= b)
    if (e & 1) out *= b;
  return wrap<T>(out);
}

template <class T>
T shifted(ScalarOp op, T a, T b) {
  constexpr int width = static_cast<int>(sizeof(T)) * 8;
  bool outside = b < 0 || bits(b) >= static_cast<uint64_t>(width);
  if (op == ScalarOp::shl) return outside ? T{0} : wrap<T>(bits(a) << b);
  if (outside) return a < 0 ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> b);
}

// ---- Functions per type
// ----------------------------------------------------------------------------------------------

template <class T, class F>
bool unary(const Cell* a, Cell& r, F f) {
  put<T>(r, static_cast<T>(f(get<T>(a[0]))));
  return true;
}
template <class T, class F>
bool binary(const Cell* a, Cell& r, F f) {
  put<T>(r, static_cast<T>(f(get<T>(a[0]), get<T>(a[1]))));
  return true;
}
template <class T, class F>
bool relation(const Cell* a, Cell& r, F f) {
  r.i = f(get<T>(a[0]), get<T>(a[1])) ? 1 : 0;
  return true;
}
template <class T, ScalarOp Op>
bool divide(const Cell* a, Cell& r) {
  T out{};
  bool fine = integer_division<T>(Op, get<T>(a[0]), get<T>(a[1]), out);
  put<T>(r, out);
  return fine;
}

#define KILN_UNARY(expression) [](const Cell* a, Cell& r) { return unary<T>(a, r, [](T x) { return expression; }); }
#define KILN_BINARY(expression) \
  [](const Cell* a, Cell& r) { return binary<T>(a, r, [](T x, T y) { return expression; }); }
#define KILN_RELATION(expression) \
  [](const Cell* a, Cell& r) { return relation<T>(a, r, [](T x, T y) { return expression; }); }

template <class T>
ScalarFunction comparison(ScalarOp op) {
  switch (op) {
    case ScalarOp::eq:
      return KILN_RELATION(x == y);
    case ScalarOp::ne:
      return KILN_RELATION(x != y);
    case ScalarOp::lt:
      return KILN_RELATION(x < y);
    case ScalarOp::le:
      return KILN_RELATION(x <= y);
    case ScalarOp::gt:
      return KILN_RELATION(x > y);
    default:
      return KILN_RELATION(x >= y);
  }
}

template <class T>
ScalarFunction integer_function(ScalarOp op) {
  switch (op) {
    case ScalarOp::add:
      return KILN_BINARY(wrap<T>(bits(x) + bits(y)));
    case ScalarOp::sub:
      return KILN_BINARY(wrap<T>(bits(x) - bits(y)));
    case ScalarOp::mul:
      return KILN_BINARY(wrap<T>(bits(x) * bits(y)));
    case ScalarOp::div:
      return divide<T, ScalarOp::div>;
    case ScalarOp::floordiv:
      return divide<T, ScalarOp::floordiv>;
    case ScalarOp::mod:
      return divide<T, ScalarOp::mod>;
    case ScalarOp::fmod:
      return divide<T, ScalarOp::fmod>;
    case ScalarOp::neg:
      return KILN_UNARY(wrap<T>(0 - bits(x)));
    case ScalarOp::abs:
      return KILN_UNARY(x < 0 ? wrap<T>(0 - bits(x)) : x);
    case ScalarOp::min:
      return KILN_BINARY(y < x ? y : x);
    case ScalarOp::max:
      return KILN_BINARY(y > x ? y : x);
    case ScalarOp::pow:
      return KILN_BINARY(integer_pow<T>(x, y));
    case ScalarOp::bit_and:
      return KILN_BINARY(x & y);
    case ScalarOp::bit_or:
      return KILN_BINARY(x | y);
    case ScalarOp::bit_xor:
      return KILN_BINARY(x ^ y);
    case ScalarOp::bit_not:
      return KILN_UNARY(static_cast<T>(~x));
    case ScalarOp::shl:
      return KILN_BINARY(shifted<T>(ScalarOp::shl, x, y));
    case ScalarOp::shr:
      return KILN_BINARY(shifted<T>(ScalarOp::shr, x, y));
    default:
      return nullptr;
  }
}

// Arithmetic on bool: the result of the integer operation is != 0.
ScalarFunction bool_function(ScalarOp op) {
  using T = int64_t;
  switch (op) {
    case ScalarOp::add:
    case ScalarOp::max:
    case ScalarOp::bit_or:
    case ScalarOp::logical_or:
      return KILN_BINARY(x | y);
    case ScalarOp::mul:
    case ScalarOp::min:
    case ScalarOp::bit_and:
    case ScalarOp::logical_and:
      return KILN_BINARY(x & y);
    case ScalarOp::sub:
    case ScalarOp::bit_xor:
      return KILN_BINARY(x ^ y);
    case ScalarOp::pow:
      return KILN_BINARY(x | (y ^ 1));  // 0 ** 0 is 1
    case ScalarOp::neg:
    case ScalarOp::abs:
      return KILN_UNARY(x);
    case ScalarOp::bit_not:
    case ScalarOp::logical_not:
      return KILN_UNARY(x ^ 1);
    default:
      return nullptr;
  }
}

template <class T>
ScalarFunction float_function(ScalarOp op) {
  switch (op) {
    case ScalarOp::add:
      return KILN_BINARY(x + y);
    case ScalarOp::sub:
      return KILN_BINARY(x - y);
    case ScalarOp::mul:
      return KILN_BINARY(x * y);
    case ScalarOp::div:
      return KILN_BINARY(x / y);
    case ScalarOp::floordiv:
      return KILN_BINARY(float_floordiv<T>(x, y));
    case ScalarOp::mod:
      return KILN_BINARY(float_mod<T>(x, y));
    case ScalarOp::fmod:
      return KILN_BINARY(std::fmod(x, y));
    case ScalarOp::neg:
      return KILN_UNARY(-x);
    case ScalarOp::abs:
      return KILN_UNARY(std::fabs(x));
    case ScalarOp::min:
      return KILN_BINARY(x != x ? x : y != y ? y : (y < x ? y : x));
    case ScalarOp::max:
      return KILN_BINARY(x != x ? x : y != y ? y : (y > x ? y : x));
    case ScalarOp::pow:
      return KILN_BINARY(std::pow(double{x}, double{y}));
    case ScalarOp::fma:
      return [](const Cell* a, Cell& r) {
        put<T>(r, std::fma(get<T>(a[0]), get<T>(a[1]), get<T>(a[2])));
        return true;
      };
    case ScalarOp::copysign:
      return KILN_BINARY(std::copysign(x, y));
    case ScalarOp::nextafter:
      return KILN_BINARY(std::nextafter(x, y));
    default:
      return nullptr;
  }
}

// ---- Predicates
// --------------------------------------------------------------------------------------------------------

ScalarFunction predicate(ScalarOp op, DType operand) {
  if (is_float(operand)) {
    if (op == ScalarOp::is_nan) return [](const Cell* a, Cell& r) { return r.i = std::isnan(a[0].f), true; };
    if (op == ScalarOp::is_inf) return [](const Cell* a, Cell& r) { return r.i = std::isinf(a[0].f), true; };
    return [](const Cell* a, Cell& r) { return r.i = std::signbit(a[0].f), true; };
  }
  if (op == ScalarOp::sign_bit && is_signed(operand))
    return [](const Cell* a, Cell& r) { return r.i = a[0].i < 0, true; };
  return [](const Cell*, Cell& r) { return r.i = 0, true; };
}

template <class F>
ScalarFunction for_integer(DType dtype, F f) {
  switch (dtype) {
    case DType::u8:
      return f(uint8_t{});
    case DType::i8:
      return f(int8_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::u16:
      return f(uint16_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::u32:
      return f(uint32_t{});
    case DType::i64:
      return f(int64_t{});
    case DType::u64:
      return f(uint64_t{});
    default:
      return nullptr;
  }
}

ScalarFunction compare_function(ScalarOp op, DType operand) {
  if (is_float(operand)) return comparison<double>(op);  // widening is exact, so one function serves all
  return operand == DType::u64 ? comparison<uint64_t>(op) : comparison<int64_t>(op);
}

ScalarFunction same_function(ScalarOp op, DType dtype) {
  if (dtype == DType::boolean) return bool_function(op);
  if (is_float(dtype)) {
    if (ScalarFunction f = dtype == DType::f64 ? float_function<double>(op) : float_function<float>(op)) return f;
    return float_math_function(op, dtype);
  }
  return for_integer(dtype, [&](auto t) { return integer_function<decltype(t)>(op); });
}

}  // namespace

ScalarFunction scalar_function(ScalarOp op, DType dtype, DType operand_dtype) {
  if (is_complex(dtype) || is_complex(operand_dtype)) return nullptr;
  switch (scalar_op_info(op).rule) {
    case TypeRule::same:
    case TypeRule::boolean:
      return same_function(op, dtype);
    case TypeRule::compare:
      return compare_function(op, operand_dtype);
    case TypeRule::predicate:
      return predicate(op, operand_dtype);
    case TypeRule::select:
      return [](const Cell* a, Cell& r) { return r = a[0].i ? a[1] : a[2], true; };
    case TypeRule::convert:
      break;
  }
  if (op == ScalarOp::cast) return cast_function(operand_dtype, dtype);
  return nullptr;  // bitcast depends on both types: evaluate_scalar
}

bool evaluate_scalar(ScalarOp op, DType dtype, DType operand_dtype, const Cell* args, Cell& result) {
  if (op == ScalarOp::bitcast) {
    KILN_CHECK(dtype_bytes(dtype) == dtype_bytes(operand_dtype), "bitcast between different widths");
    std::byte memory[8] = {};
    if (operand_dtype == DType::bf16) {  // a NaN keeps its bits
      const uint32_t wide = std::bit_cast<uint32_t>(static_cast<float>(args[0].f));
      write_cell(DType::u16, memory, Cell{.i = static_cast<int64_t>(wide >> 16)});
    } else {
      write_cell(operand_dtype, memory, args[0]);
    }
    result = read_cell(dtype, memory);
    return true;
  }
  ScalarFunction f = scalar_function(op, dtype, operand_dtype);
  KILN_CHECK(f, str(scalar_op_info(op).name, " does not take ", dtype_name(operand_dtype)));
  return f(args, result);
}

}  // namespace kiln::loops
