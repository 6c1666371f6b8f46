#include "ops/quantised_ranges.h"

#include <cmath>

#include "ops/elementwise.h"

namespace kiln {

namespace {

// A number of the call that must be known when it is compiled.
std::optional<double> known_number(const OpCall& call, std::string_view name) {
  if (!call.given(name)) return std::nullopt;
  const std::variant<Scalar, Expr> given = call.scalar(name);
  if (const auto* number = std::get_if<Scalar>(&given)) return number->as_double();
  fail_unsupported("K0202", str(call.schema().name, ": argument '", name, "' depends on sizes; Kiln needs a constant"),
                   call.where());
}

// Without a point where it is whole; beyond 2^53 every number is, and most do not fit an integer.
std::string text(double value) {
  constexpr double exact = 9007199254740992.0;
  return std::fabs(value) <= exact && value == std::floor(value) ? str(static_cast<int64_t>(value)) : str(value);
}

}  // namespace

void refuse_quantising(const OpCall& call, std::string_view why) {
  fail_user("K0252", str(call.schema().name, ": ", why), call.where());
}

QuantRange largest_range(const OpCall& call, DType dtype) {
  const bool torchao = starts_with(call.schema().name, "torchao.");
  switch (dtype) {
    case DType::u8:
      return {0, 255};
    case DType::i8:
      return {-128, 127};
    case DType::i16:
      return {-32768, 32767};
    case DType::i32:
      return {-2147483648.0, 2147483647.0};
    case DType::u16:
      if (!torchao) return {0, 65535};
      break;
    case DType::f8e4m3fnuz:
    case DType::f8e5m2fnuz:
      if (torchao) return {-largest_finite(dtype), largest_finite(dtype)};
      break;
    case DType::f8e4m3fn:
    case DType::f8e5m2:
      return {-largest_finite(dtype), largest_finite(dtype)};
    default:
      break;
  }
  fail_user("K0250", str(call.schema().name, ": no values are quantised to ", dtype_torch_name(dtype)), call.where());
}

QuantRange range_of(const OpCall& call, DType dtype) {
  const QuantRange most = largest_range(call, dtype);
  const QuantRange asked = {known_number(call, "quant_min").value_or(most.low),
                            known_number(call, "quant_max").value_or(most.high)};
  if (asked.low < most.low || asked.high > most.high)
    fail_user("K0251",
              str(call.schema().name, ": the range ", text(asked.low), " … ", text(asked.high), " is wider than ",
                  dtype_torch_name(dtype), " (", text(most.low), " … ", text(most.high), ")"),
              call.where());
  return asked;
}

Scalar bound(double value) { return value == std::floor(value) ? Scalar(static_cast<int64_t>(value)) : Scalar(value); }

Value* RoundedArithmetic::operator()(std::string_view op, std::vector<Argument> args) {
  Promotion promotion;
  for (const Argument& arg : args) {
    if (arg.is_value()) promotion.add_tensor(arg.as_value()->type.dtype, rank_of(arg.as_value()) > 0);
    if (arg.is_scalar()) promotion.add_number(number_kind(arg.as_scalar()));
  }
  const DType common = promotion.result(), wide = compute_dtype(common);
  if (common == wide) return b_(op, std::move(args));
  for (Argument& arg : args)
    if (arg.is_value()) arg = b_.to(b_.to(arg.as_value(), common), wide);
  return b_.to(b_(op, std::move(args)), common);
}

Value* quantised_steps(Build& b, Value* x, Value* scale, Argument zero, QuantRange range) {
  RoundedArithmetic r(b);
  Value* steps = r("round", {r.mul(x, r("reciprocal", {scale}))});
  return r("clamp", {r.add(steps, std::move(zero)), bound(range.low), bound(range.high)});
}

Value* single_number(Build& b, std::string_view name) {
  Value* value = b.call().tensor(name);
  for (const Expr& size : value->type.sizes)
    if (prove_eq(size, Expr(1), b.call().ranges()) == Proof::no)
      refuse_quantising(b.call(), str("'", name, "' must have one element"));
  return rank_of(value) == 0 ? value : b("reshape", {value, b.ints({})});
}

}  // namespace kiln
