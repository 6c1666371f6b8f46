#include "schedule/schedule.h"

namespace kiln::loops {

Expr address_of(const Stmt& access, const LoopProgram& program, const RangeEnv& env) {
  const Buffer& buffer = program.buffers[static_cast<size_t>(access.buffer)];
  Expr address = 0;
  for (size_t d = 0; d < access.index.size(); ++d)
    if (!buffer.sizes[d].is_constant(1)) address = address + access.index[d] * buffer.strides[d];
  return simplify(address, env);
}

RangeEnv kernel_ranges(const Kernel& kernel, const LoopProgram& program) {
  RangeEnv env = program.ranges();
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    const Expr* extent = stmt.kind == StmtKind::loop          ? &stmt.loop->extent
                         : stmt.kind == StmtKind::check_index ? &stmt.expr
                                                              : nullptr;
    if (!extent) return;
    const std::string& name = stmt.kind == StmtKind::loop ? stmt.loop->var : stmt.index_var;
    int64_t high = range_of(*extent, env).high;
    env.ranges[name] = {0, high == INT64_MAX ? INT64_MAX : std::max<int64_t>(0, high - 1)};
    env.upper[name] = *extent - 1;
  });
  return env;
}

bool lane_reducible(const Loop& loop) {
  if (loop.role != AxisRole::reduce || !loop.after.empty()) return false;
  switch (loop.reduce) {
    case ReduceOp::sum:
    case ReduceOp::prod:
    case ReduceOp::max:
    case ReduceOp::min:
    case ReduceOp::any:
    case ReduceOp::all:
      break;
    default:
      return false;
  }
  for (const Stmt& stmt : loop.body)
    if (stmt.kind == StmtKind::loop || stmt.kind == StmtKind::store) return false;
  return true;
}

bool is_wide(const Stmt& access, const Loop& loop, int vector, const LoopProgram& program, const RangeEnv& env) {
  const bool load = access.kind == StmtKind::load;
  if (!load && (access.kind != StmtKind::store || access.mode != StoreMode::plain)) return false;
  if (access.mask != no_value || program.buffers[static_cast<size_t>(access.buffer)].role == BufferRole::scratch)
    return false;
  const auto along = affine_in(address_of(access, program, env), loop.var);
  if (!along || !along->coefficient.is_constant(1)) return false;
  bool alone = true;
  for (const Stmt& other : loop.body) {
    if (other.buffer == access.buffer && other.kind != access.kind) alone = false;
    if (other.kind == StmtKind::check_index && mentions(along->rest, other.index_var)) return false;
    if (!load && &other != &access && other.buffer == access.buffer && other.kind == StmtKind::store) alone = false;
  }
  return alone && prove_eq(mod(along->rest, Expr(vector)), Expr(0), env) == Proof::yes;
}

}  // namespace kiln::loops
