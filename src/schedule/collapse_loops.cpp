#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

bool contains_division(const Expr& e) {
  if (e.op() == ExprOp::floordiv || e.op() == ExprOp::mod) return true;
  if (e.op() == ExprOp::constant || e.op() == ExprOp::symbol || e.op() == ExprOp::float_constant) return false;
  for (const Expr& arg : e.args())
    if (contains_division(arg)) return true;
  return false;
}

// Collapses `outer` with its only statement, the loop `inner`, if afterwards no address needs a division.
bool collapse_pair(Loop& outer, Kernel& kernel, const LoopProgram& program) {
  if (outer.body.size() != 1 || outer.body[0].kind != StmtKind::loop) return false;
  Loop& inner = *outer.body[0].loop;
  if (outer.role != AxisRole::parallel || inner.role != AxisRole::parallel) return false;
  if (outer.directives.binding != Binding::none || inner.directives.binding != Binding::none) return false;
  if (mentions(inner.extent, outer.var)) return false;
  // Only innermost nests: a value computed per row (a reduction) must stay per row.
  for (const Stmt& stmt : inner.body)
    if (stmt.kind == StmtKind::loop) return false;
  RangeEnv env = kernel_ranges(kernel, program);
  Expr c = Expr::symbol(outer.var);
  Substitution map{{outer.var, floordiv(c, inner.extent)}, {inner.var, mod(c, inner.extent)}};
  Expr extent = simplify(outer.extent * inner.extent, env);
  RangeEnv after = env;
  int64_t high = range_of(extent, env).high;
  after.ranges[outer.var] = {0, high == INT64_MAX ? INT64_MAX : std::max<int64_t>(0, high - 1)};
  after.upper[outer.var] = extent - 1;
  after.ranges.erase(inner.var);
  after.upper.erase(inner.var);
  bool fine = true;
  Body body = clone(inner.body);
  for (Stmt& stmt : body) {
    for (Expr& e : stmt.index) e = simplify(substitute(e, map), after);
    stmt.expr = simplify(substitute(stmt.expr, map), after);
    if (stmt.kind == StmtKind::load || stmt.kind == StmtKind::store)
      fine &= !contains_division(address_of(stmt, program, after));
    if (stmt.kind == StmtKind::index_value || stmt.kind == StmtKind::random) fine &= !contains_division(stmt.expr);
  }
  if (!fine) return false;
  rename_in_names(kernel, map);
  outer.extent = extent;
  outer.body = std::move(body);
  return true;
}

bool visit(Body& body, Kernel& kernel, const LoopProgram& program) {
  bool changed = false;
  for (Stmt& stmt : body) {
    if (!stmt.loop) continue;
    changed |= visit(stmt.loop->body, kernel, program);
    changed |= collapse_pair(*stmt.loop, kernel, program);
  }
  return changed;
}

}  // namespace

bool collapse_loops(LoopProgram& program, Log&) {
  bool changed = false;
  auto each = [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel || kernel->schedule) return;
    kernel->contraction.reset();  // no template took it, and its loops may go
    changed |= visit(kernel->body, *kernel, program);
  };
  for_each_item(program.init, each);
  for_each_item(program.block, each);
  return changed;
}

}  // namespace kiln::loops
