// References of complex calls, made from an operator's real reference by its complex form (ops/op_facts.h): computed in
// complex<double>, or from the real reference of the parts. They share nothing with what the graph pass split_complex
// makes of an operator: they are what it is checked against.
#pragma once
#include "ops/op_record.h"

namespace kiln {

// Arguments that hold numbers of the tensor's kind: they have a real and an imaginary part. The others (index, mask)
// are the same for both.
bool is_numeric_argument(std::string_view name);

// The argument whose numbers an operator of ComplexRule::cast converts: src of copy, self of the others.
std::string_view cast_source(const Schema& schema);

// A part of a complex tensor, over the same storage. which: 0 real, 1 imaginary.
Tensor complex_part_view(const Tensor& tensor, int which);
Tensor join_parts(const Tensor& real, const Tensor& imag, DType dtype, const std::vector<int64_t>& strides);

// The complex form of the operator that a call is read as (of an in-place variant: of the functional operator).
const ComplexForm& complex_form(const OpCall& call);

// A record's reference that also takes complex tensors, by the operator's rule.
ReferenceFn with_complex_reference(const OpRecord& record);

}  // namespace kiln
