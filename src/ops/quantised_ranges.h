// Shared by the operators that quantise: the numbers a quantised type holds, and checks of the range a call asks for.
#pragma once
#include "ops/composite.h"

namespace kiln {

struct QuantRange {
  double low, high;
};

// The largest range of a type that values are quantised to; K0250 for a type that PyTorch does not quantise to.
QuantRange largest_range(const OpCall& call, DType dtype);

// The range given by "quant_min" and "quant_max", or the largest where the schema lets them be None. K0251 when it
// reaches beyond what `dtype` holds.
QuantRange range_of(const OpCall& call, DType dtype);

// A bound as the number that eager gives to clamp: an integer where it is one.
Scalar bound(double value);

// Arithmetic whose every result is rounded to its type, as eager's is. A result of f16 or bf16 may otherwise go on with
// the digits of f32 where kernels are fused, and what is quantised then falls on another step.
class RoundedArithmetic {
 public:
  explicit RoundedArithmetic(Build& b) : b_(b) {}
  Value* operator()(std::string_view op, std::vector<Argument> args);
  Value* add(Argument x, Argument y) { return (*this)("add.Tensor", {std::move(x), std::move(y)}); }
  Value* sub(Argument x, Argument y) { return (*this)("sub.Tensor", {std::move(x), std::move(y)}); }
  Value* mul(Argument x, Argument y) { return (*this)("mul.Tensor", {std::move(x), std::move(y)}); }
  Value* div(Argument x, Argument y) { return (*this)("div.Tensor", {std::move(x), std::move(y)}); }

 private:
  Build& b_;
};

// round(x * (1 / scale)) + zero, cut to the range: in the types that promotion gives, as eager computes it.
Value* quantised_steps(Build& b, Value* x, Value* scale, Argument zero, QuantRange range);

// A tensor of one element without its dimensions; K0252 for another number of elements.
Value* single_number(Build& b, std::string_view name);

[[noreturn]] void refuse_quantising(const OpCall& call, std::string_view why);  // K0252

}  // namespace kiln
