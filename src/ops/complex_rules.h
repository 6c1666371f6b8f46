// What operators mean for complex numbers. One table says for each operator how its complex form follows from its real
// one; three places read it:
// - rules (infer) accept a complex argument only where the table has the operator (refuse_complex);
// - references get a complex form here, computed in complex<double> or from the real reference of the parts;
// - the graph pass split_complex rewrites each complex node into real ones, since Loops has no complex numbers.
// The references do not use what the pass makes of an operator: they are what it is checked against.
#pragma once
#include <complex>

#include "ops/op_record.h"

namespace kiln {

enum class ComplexRule : uint8_t {
  none,          // does not take complex numbers
  parts,         // acts on real and imaginary parts alike: everything that moves elements, sums
  real_unit,     // the same, but what it makes of nothing is real: ones, eye
  formula,       // pointwise, with a formula of its own
  bilinear,      // a product of two arguments, perhaps with an addend
  magnitude,     // of the absolute values: norms
  truth,         // of "is not zero": any, all, nonzero
  squares,       // real part's plus imaginary part's: var
  root_squares,  // the square root of that: std
  product,       // prod, cumprod
  native,        // its library kernel takes complex numbers
};
ComplexRule complex_rule(std::string_view op);  // "aten.add.Tensor"
bool takes_complex(std::string_view op);
// abs, angle, real, imag: the result is real.
bool complex_gives_real(std::string_view op);

// The factors of a bilinear operator, and the argument that is added to the product ("" where there is none).
struct BilinearArgs {
  std::string_view a, b, addend;
  bool conjugates = false;  // the first factor (vdot)
};
std::optional<BilinearArgs> bilinear_args(std::string_view op);

// Arguments that hold numbers of the tensor's kind: they have a real and an imaginary part. The others (index, mask)
// are the same for both.
bool is_numeric_argument(std::string_view name);

// A part of a complex tensor, over the same storage. which: 0 real, 1 imaginary.
Tensor complex_part_view(const Tensor& tensor, int which);
Tensor join_parts(const Tensor& real, const Tensor& imag, DType dtype, const std::vector<int64_t>& strides);

// A record's reference that also takes complex tensors, by the operator's rule.
ReferenceFn with_complex_reference(const OpRecord& record);

}  // namespace kiln
