// What passes, references and autocast need to know about an operator beside how it is computed. The facts are part of
// its record (op_record.h), and nobody outside of src/ops asks for an operator by its name
// (tests/operator_names_test.cpp).
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace kiln {

class OpCall;
class ViewWrite;        // ops/view_inverse.h
struct ComplexFormula;  // ops/complex_formulas.h
struct Value;

// ---- Complex numbers: how the complex form of an operator follows from its real one -------------------------------

enum class ComplexRule : uint8_t {
  none,             // does not take complex numbers
  parts,            // acts on real and imaginary parts alike: everything that moves elements, sums
  mean,             // the same, divided by a complex number of elements
  cast,             // the same; as a bool it is "is not zero"
  fill,             // makes a tensor of numbers that are given: nothing of what self holds is looked at
  real_unit,        // makes a tensor whose imaginary parts are 0: ones, eye
  formula,          // pointwise, with a formula of its own
  conjugate_moves,  // moves elements and conjugates them: adjoint
  bilinear,         // a product of two arguments, perhaps with an addend
  magnitude,        // of the absolute values: norms
  truth,            // of "is not zero": any, all, nonzero
  squares,          // real part's plus imaginary part's: var
  root_squares,     // the square root of that: std
  product,          // prod
  running_product,  // cumprod
  bytes,            // the same memory seen as another type
  native,           // its library kernel takes complex numbers
};

// The factors of a bilinear operator, and the argument that is added to the product ("" where there is none).
struct BilinearArgs {
  std::string_view a, b, addend;
  bool conjugates = false;  // the first factor (vdot)
  bool operator==(const BilinearArgs&) const = default;
};

struct ComplexForm {
  ComplexRule rule = ComplexRule::none;
  const ComplexFormula* formula = nullptr;  // of ComplexRule::formula
  BilinearArgs factors = {};                // of ComplexRule::bilinear
  bool gives_real = false;                  // abs, var: the result of a complex argument is real
  bool operator==(const ComplexForm&) const = default;
};

// ---- Autocast: what torch.autocast does to an operator's arguments on the CPU --------------------------------------

enum class AutocastRule : uint8_t {
  none,     // takes its arguments as they are
  lower,    // floats become autocast's dtype
  single,   // floats become f32
  promote,  // floats become f32 if one of them is, autocast's dtype otherwise
};
// f64 is never cast, by any rule.

struct AutocastForm {
  AutocastRule rule = AutocastRule::none;
  AutocastRule (*by_arguments)(const OpCall& call) = nullptr;  // of an operator that hands some calls over to others
  bool operator==(const AutocastForm&) const = default;
};

// ---- Views
// -----------------------------------------------------------------------------------------------------------

// Whether a call of a view operator really shares memory with its argument.
enum class Sharing : uint8_t {
  always,
  same_layout,  // copies where dtype, device or strides change: contiguous, to
  dense,        // copies where the argument is not dense: ravel
  viewable,     // copies where strides cannot express the new sizes: reshape
  same_sizes,   // the argument itself where nothing is to be done: sum_to_size
};

// The viewed tensor's new value when the view's value has been replaced (ops/view_inverse.h); nullptr, or no function:
// the view has no inverse of its own, and the write goes through the base's strides.
using InverseViewFn = Value* (*)(ViewWrite& write);

struct OpFacts {
  ComplexForm complex = {};
  AutocastForm autocast = {};
  InverseViewFn inverse_view = nullptr;
  Sharing shares = Sharing::always;
  bool moves_data = false;      // gives its argument's elements as they are: kernels are not named after it
  bool uninitialised = false;   // its elements are what the memory held: two calls differ
  bool fills = false;           // every element is one number, which the call states
  bool sees_storage = false;    // a view of the whole storage of its argument, not only of the argument's elements
  bool conjugate_view = false;  // PyTorch's result is its argument with the conjugate bit: a write shows in both
  bool matrix_product = false;  // what a product template is made for
  bool rounds_factors = false;  // float32_matmul_precision says how many digits its factors have
  bool convolves = false;       // sums over windows of a picture, times weights
  bool rounds_weights = false;  // what it computes in f32 of narrow floats its kernel rounds before a second product
  bool of_near_matrix = false;  // its results are those of a matrix some roundings off: some matrices magnify that
  bool wraps = false;           // a call that only wraps a subgraph
  bool same_count = false;      // the result has as many elements as the argument, in other sizes
  bool takes_source = false;    // gives the elements of its argument `src`, in the sizes and the dtype of the first one
  bool keeps_gaps = false;      // its new tensor may be laid out as its argument is, with the gaps of a part
  // Of an assertion about types alone: whether it holds, which is known while compiling.
  bool (*types_hold)(const OpCall& call) = nullptr;
};

// Facts in short, for the records.
inline OpFacts complex_by(ComplexRule rule) { return {.complex = {.rule = rule}}; }
inline OpFacts complex_by(const ComplexFormula& formula, bool gives_real = false) {
  return {.complex = {.rule = ComplexRule::formula, .formula = &formula, .gives_real = gives_real}};
}
inline OpFacts complex_product(BilinearArgs factors) {
  return {.complex = {.rule = ComplexRule::bilinear, .factors = factors}};
}
inline OpFacts autocast_to(AutocastRule rule) { return {.autocast = {.rule = rule}}; }

// Adds what `more` says to `facts`. Two different answers to one question are a mistake (fail_bug, naming `op`).
void add_facts(OpFacts& facts, const OpFacts& more, std::string_view op);

}  // namespace kiln
