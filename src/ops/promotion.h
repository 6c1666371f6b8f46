// PyTorch's type promotion (torch.result_type): tensors with dimensions decide first, then tensors without dimensions,
// then Python numbers; a lower category only counts when it has a higher kind (bool < integer < float < complex).
#pragma once
#include <optional>
#include <variant>

#include "ops/op_record.h"

namespace kiln {

// The type of torch.tensor([]) and of what an integer becomes in exp().
inline constexpr DType default_float = DType::f32;

class Promotion {
 public:
  void add_tensor(DType dtype, bool has_dimensions);
  void add_number(DType kind);  // boolean, i64, f64 or c128: the kind of the Python number
  DType result() const;         // boolean when nothing was added

 private:
  std::optional<DType> dimensioned_, scalar_tensor_, number_;
};

// The kind of a Python number as add_number takes it.
DType number_kind(const Scalar& number);
DType number_kind(const Expr& number);

// One argument that may be a tensor or a number (exported graphs pass numbers where the schema says Tensor).
struct Operand {
  const Value* tensor = nullptr;  // nullptr: a number
  std::variant<Scalar, Expr> number;
  DType dtype() const;  // of the tensor, or the number's kind
};
Operand operand(const OpCall& call, std::string_view arg);
void add_operand(Promotion& promotion, const Operand& operand);

// The type an operator computes in when integers are not in its domain: floats stay, the rest becomes default_float.
DType to_float(DType dtype);

// Throws K0203 "aten.exp.default does not take complex64".
[[noreturn]] void refuse_dtype(const OpCall& call, DType dtype);
// The same for a complex type, unless its record says what the operator makes of it.
void refuse_complex(const OpCall& call, DType dtype);

}  // namespace kiln
