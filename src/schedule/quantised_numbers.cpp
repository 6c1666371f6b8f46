#include "schedule/quantised_numbers.h"

namespace kiln::loops {

const Stmt* definition(const Body& body, ValueId v) {
  const Stmt* found = nullptr;
  for_each_stmt(body, [&](const Stmt& stmt) {
    if (std::find(stmt.results.begin(), stmt.results.end(), v) != stmt.results.end()) found = &stmt;
  });
  return found;
}

namespace {

// Types that hold every number that a byte, or the difference of two, is made of.
bool is_wide_integer(DType dtype) { return dtype == DType::i32 || dtype == DType::i64; }
bool is_wide_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

// The byte behind casts that keep its number.
ValueId behind_casts(const Kernel& kernel, ValueId v) {
  for (;;) {
    const DType type = kernel.value_types[static_cast<size_t>(v)];
    if (is_byte(type)) return v;
    const Stmt* made = definition(kernel.body, v);
    if (!is_op(made, ScalarOp::cast) || !(is_wide_integer(type) || is_wide_float(type) || type == DType::i16))
      return no_value;
    v = made->args[0];
  }
}

// byte - zero, in integers or in floats that are wide enough.
bool is_difference(const Kernel& kernel, ValueId number, Quantised& out) {
  for (;;) {
    if ((out.bytes = behind_casts(kernel, number)) != no_value) return true;
    const Stmt* made = definition(kernel.body, number);
    const DType type = kernel.value_types[static_cast<size_t>(number)];
    if (is_op(made, ScalarOp::cast) && is_wide_float(type)) {  // one to integers would drop digits
      number = made->args[0];
      continue;
    }
    if (!is_op(made, ScalarOp::sub) || !(is_wide_integer(type) || is_wide_float(type))) return false;
    if ((out.bytes = behind_casts(kernel, made->args[0])) == no_value) return false;
    out.zero = made->args[1];
    return true;
  }
}

}  // namespace

// (byte - zero) * scale.
std::optional<Quantised> quantised(const Kernel& kernel, ValueId v) {
  Quantised out;
  if (!is_difference(kernel, v, out)) {
    const Stmt* product = definition(kernel.body, v);
    if (!is_op(product, ScalarOp::mul) || product->dtype != DType::f32) return {};
    bool found = false;
    for (size_t i = 0; i < 2 && !found; ++i) {
      out = {};
      found = is_difference(kernel, product->args[i], out);
      out.scale = product->args[1 - i];
    }
    if (!found) return {};
  }
  const Stmt* made = definition(kernel.body, out.bytes);
  if (made && made->kind == StmtKind::load) out.load = made;
  return out;
}

}  // namespace kiln::loops
