// Numbers that were quantised to bytes, as the statements of a kernel make them.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

// A number made of a byte: (bytes - zero) * scale. no_value: 0, or 1.
struct Quantised {
  const Stmt* load = nullptr;  // of the byte, if it is loaded
  ValueId bytes = no_value, zero = no_value, scale = no_value;
};
std::optional<Quantised> quantised(const Kernel& kernel, ValueId v);

inline bool is_byte(DType dtype) { return dtype == DType::i8 || dtype == DType::u8; }
const Stmt* definition(const Body& body, ValueId v);  // nullptr: it is not made there
inline bool is_op(const Stmt* stmt, ScalarOp op) { return stmt && stmt->kind == StmtKind::op && stmt->op == op; }

}  // namespace kiln::loops
