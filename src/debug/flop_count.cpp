#include "debug/flop_count.h"

namespace kiln {
namespace {

using loops::Stmt;
using loops::StmtKind;

bool is_arithmetic(loops::ScalarOp op) {
  switch (op) {
    case loops::ScalarOp::cast:
    case loops::ScalarOp::bitcast:
    case loops::ScalarOp::select:
      return false;
    default:
      return true;
  }
}

// Extents may depend on loop variables; their upper half of the way is near enough for a count.
double count(const loops::Body& body, SymbolValues& symbols) {
  double total = 0;
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::op && is_float(stmt.dtype) && is_arithmetic(stmt.op)) total += 1;
    if (stmt.kind != StmtKind::loop) continue;
    const loops::Loop& loop = *stmt.loop;
    const auto extent = static_cast<double>(std::max<int64_t>(0, evaluate(loop.extent, symbols)));
    symbols[loop.var] = static_cast<int64_t>(extent / 2);
    double inside = count(loop.body, symbols) + count(loop.after, symbols);
    if (loop.role != loops::AxisRole::parallel && is_float(loop.reduce_dtype)) inside += 1;
    total += extent * inside;
  }
  return total;
}

}  // namespace

double count_flops(const loops::Kernel& kernel, const SymbolValues& symbols) {
  SymbolValues values = symbols;
  // Index variables that check_index makes stand in extents nowhere but in the loops' own bodies.
  loops::for_each_stmt(kernel.body, [&](const Stmt& s) {
    if (s.kind == StmtKind::check_index) values.emplace(s.index_var, 0);
  });
  return count(kernel.body, values);
}

}  // namespace kiln
