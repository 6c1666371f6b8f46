// Declares pointwise operators by a table row: schema, which arguments are operands, the type rule, the formula in
// Loops and, independent of it, the formula of the reference. Everything else (promotion, broadcasting, layout of the
// result, samples, in-place variant) follows from the row.
//
//   add_pointwise(r, {.schema = "exp(Tensor self) -> Tensor", .operands = "self", .rule = ResultRule::floating,
//                     .emit = scalar_op(ScalarOp::exp), .formula = formula<1>([](auto x) { return std::exp(x); })});
#pragma once
#include <utility>

#include "ops/lower_call.h"
#include "ops/promotion.h"

namespace kiln {

using loops::ScalarOp;
using loops::ValueId;

// A formula over dense rows in each type that references compute in. Params follow the operands.
struct Formula {
  void (*f32)(int64_t count, const float* const* x, float* out) = nullptr;
  void (*f64)(int64_t count, const double* const* x, double* out) = nullptr;
  void (*i64)(int64_t count, const int64_t* const* x, int64_t* out) = nullptr;
};

template <class F, class T, size_t... I>
void apply_formula(int64_t count, const T* const* x, T* out, std::index_sequence<I...>) {
  F f;
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(f(x[I][i]...));
}
// From a lambda without captures that takes N numbers of one type (float, double or int64_t).
template <size_t N, class F>
Formula formula(F) {
  using Each = std::make_index_sequence<N>;
  Formula out;
  out.f32 = [](int64_t n, const float* const* x, float* to) { apply_formula<F, float>(n, x, to, Each{}); };
  out.f64 = [](int64_t n, const double* const* x, double* to) { apply_formula<F, double>(n, x, to, Each{}); };
  out.i64 = [](int64_t n, const int64_t* const* x, int64_t* to) { apply_formula<F, int64_t>(n, x, to, Each{}); };
  return out;
}
// The same for operators that never compute in integers (their lambda need not compile for them).
template <size_t N, class F>
Formula float_formula(F) {
  using Each = std::make_index_sequence<N>;
  Formula out;
  out.f32 = [](int64_t n, const float* const* x, float* to) { apply_formula<F, float>(n, x, to, Each{}); };
  out.f64 = [](int64_t n, const double* const* x, double* to) { apply_formula<F, double>(n, x, to, Each{}); };
  return out;
}
template <size_t N, class F>
Formula int_formula(F) {
  Formula out;
  out.i64 = [](int64_t n, const int64_t* const* x, int64_t* to) {
    apply_formula<F, int64_t>(n, x, to, std::make_index_sequence<N>{});
  };
  return out;
}

// What the Loops formula sees: operands and params in order, converted to `dtype`.
struct Emit {
  loops::KernelBuilder& k;
  const LowerCall& call;
  DType common;            // the promoted type
  DType dtype;             // what is computed in: f32 for narrow floats
  std::vector<ValueId> x;  // no_value: an optional argument that is not given
  ValueId op(ScalarOp o, ValueId a) { return k.op(o, a); }
  ValueId op(ScalarOp o, ValueId a, ValueId b) { return k.op(o, a, b); }
  ValueId number(double v) { return k.constant(dtype, is_float(dtype) ? Scalar(v) : Scalar(static_cast<int64_t>(v))); }
};
using EmitFn = std::function<ValueId(Emit&)>;
EmitFn scalar_op(ScalarOp op);

enum class ResultRule : uint8_t {
  promoted,  // computes and gives the promoted type
  floating,  // integers become floats first
  boolean,   // computes in the promoted type, gives bool
};

enum class Takes : uint8_t { all, no_bool, signed_numbers, floats, integral /* and bool */, integers };

// Types other than the rules give.
struct ComputeTypes {
  DType common;  // operands are converted to this
  DType result;
};
using TypesFn = std::function<ComputeTypes(const OpCall&, DType promoted)>;

struct Pointwise {
  std::string schema;
  // Arguments that broadcast and promote, separated by spaces; each may be a tensor or a number. "min?-": optional;
  // where missing the reference sees the lowest number ("?+": the highest). "!mask": a condition; it broadcasts but
  // does not promote, and is given as a bool. ">min", "<max": a bound of the result; a number beyond an integer type's
  // is the nearest that it has, where other numbers wrap.
  std::string operands;
  // Numbers beside them. "alpha"; "min?-" as above; "approximate:tanh" is 1 when the string argument says so, else 0.
  // "@bool" is 1 where the promoted type is bool, "@largest" is its largest number, "@integers:other" is 1 where that
  // operand has integers (for formulas that need to know).
  std::string params = {};
  ResultRule rule = ResultRule::promoted;
  Takes takes = Takes::all;
  EmitFn emit = {};
  Formula formula = {};
  bool inplace = true;
  bool rounds_numbers = false;    // numbers and 0-d tensors are rounded to the promoted type first (comparisons)
  bool row_major = false;         // the result is contiguous whatever the layout of the operands
  double low = -2.0, high = 2.0;  // range of sample values
  std::vector<Sample::SampleArg> trailing = {};  // of every sample, after the operands
  std::vector<Sample> samples = {};              // beside the generated ones
  TypesFn types = {};
  OpFacts facts = {};
};

void add_pointwise(Registry& registry, Pointwise row);

// The same record for other spellings with the same meaning ("clip" for "clamp").
void add_pointwise_alias(Registry& registry, Pointwise row, std::string schema);

// The numbers of an integer type, as far as they are ones of i64.
struct Integers {
  int64_t lowest, highest;
};
Integers integers_of(DType dtype);

// The largest finite number of a float type.
double largest_finite(DType dtype);

// A number argument in the given type; what `Scalar` converts to when PyTorch stores it in a tensor of that type.
Scalar scalar_as(const Scalar& number, DType dtype);
ValueId number_value(loops::KernelBuilder& k, const std::variant<Scalar, Expr>& number, DType dtype);
// An operand for an index into the result: loaded, broadcast, converted to the common type and widened for computing.
ValueId load_operand(const LowerCall& call, loops::KernelBuilder& k, const Operand& operand, DType common,
                     const std::vector<Expr>& index, bool rounds_numbers = false);

// Type of an elementwise result over these tensors: broadcast sizes, TensorIterator's strides.
TensorType elementwise_type(const InferCall& call, const std::vector<const Value*>& tensors, DType dtype);
// The same for a reference over concrete tensors.
Tensor elementwise_result(const ReferenceCall& call, const std::vector<Tensor>& tensors, DType dtype);

// Sample arguments.
inline Sample::TensorSpec spec(std::vector<int64_t> sizes, DType dtype = DType::f32, double low = -2.0,
                               double high = 2.0) {
  return {std::move(sizes), dtype, low, high};
}

// The parts of the family, each in its file.
void register_arithmetic(Registry& registry);
void register_binary_math(Registry& registry);
void register_unary_math(Registry& registry);
void register_activations(Registry& registry);
void register_comparisons(Registry& registry);
void register_casts(Registry& registry);

}  // namespace kiln
