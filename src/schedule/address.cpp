#include "schedule/schedule.h"

namespace kiln::loops {

bool divides(const Expr& e, const std::string& var) {
  if ((e.op() == ExprOp::floordiv || e.op() == ExprOp::mod) && mentions(e, var)) return true;
  if (e.op() == ExprOp::constant || e.op() == ExprOp::symbol || e.op() == ExprOp::float_constant) return false;
  return std::any_of(e.args().begin(), e.args().end(), [&](const Expr& arg) { return divides(arg, var); });
}

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

std::optional<std::vector<const Stmt*>> common_mask(const Stmt& access, const Loop& loop) {
  std::set<ValueId> needed = {access.mask};
  std::vector<const Stmt*> out;
  for (size_t i = loop.body.size(); i-- > 0;) {
    const Stmt& stmt = loop.body[i];
    if (std::none_of(stmt.results.begin(), stmt.results.end(), [&](ValueId v) { return needed.contains(v); })) continue;
    const bool plain =
        stmt.kind == StmtKind::op || stmt.kind == StmtKind::constant || stmt.kind == StmtKind::index_value;
    if (!plain || mentions(stmt.expr, loop.var)) return {};
    needed.insert(stmt.args.begin(), stmt.args.end());
    out.insert(out.begin(), &stmt);
  }
  std::set<ValueId> made = {no_value};
  for (const Stmt* stmt : out) made.insert(stmt->results.begin(), stmt->results.end());
  if (!std::includes(made.begin(), made.end(), needed.begin(), needed.end())) return {};
  // Variables that a check of this body makes are not known in front of it.
  for (const Stmt& other : loop.body)
    if (other.kind == StmtKind::check_index)
      for (const Stmt* stmt : out)
        if (mentions(stmt->expr, other.index_var)) return {};
  return out;
}

bool is_wide(const Stmt& access, const Loop& loop, int vector, const LoopProgram& program, const RangeEnv& env) {
  const bool load = access.kind == StmtKind::load;
  if (!load && (access.kind != StmtKind::store || access.mode != StoreMode::plain)) return false;
  if (program.buffers[static_cast<size_t>(access.buffer)].role == BufferRole::scratch) return false;
  if (access.mask != no_value && !(load && common_mask(access, loop))) return false;
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

namespace {

// With every quotient of the lanes' variable as a symbol; its divisor. 0: there are none, or several.
Expr without_quotients(const Expr& e, const std::string& var, int64_t lanes, const RangeEnv& env, int64_t& divisor) {
  if (e.op() == ExprOp::constant || e.op() == ExprOp::symbol || e.op() == ExprOp::float_constant || !mentions(e, var))
    return e;
  if (e.op() == ExprOp::floordiv) {
    const auto affine = affine_in(e.args()[0], var);
    const Expr& by = e.args()[1];
    const bool fits = affine && affine->coefficient.is_constant(1) && by.is_constant() && by.value() > 0 &&
                      lanes % by.value() == 0 && (divisor == 0 || divisor == by.value()) &&
                      prove_eq(mod(affine->rest, by), Expr(0), env) == Proof::yes;
    if (!fits) return e;
    divisor = by.value();
    return Expr::symbol("quotient of " + var) + floordiv(affine->rest, by);
  }
  if (e.op() != ExprOp::add && e.op() != ExprOp::mul) return e;
  Expr all = without_quotients(e.args()[0], var, lanes, env, divisor);
  for (size_t i = 1; i < e.args().size(); ++i) {
    const Expr next = without_quotients(e.args()[i], var, lanes, env, divisor);
    all = e.op() == ExprOp::add ? all + next : all * next;
  }
  return all;
}

constexpr int64_t most_lines_of_lanes = 4;  // lines: each is a load of a part of a vector

// What the variable is divided by, and its rest taken of, if that is one number and the variable is nowhere else. 0: it
// is not.
int64_t turns_of(const Expr& e, const std::string& var) {
  if (e.op() == ExprOp::constant || e.op() == ExprOp::float_constant) return -1;
  if (e.op() == ExprOp::symbol) return e.name() == var ? 0 : -1;
  const bool divided = (e.op() == ExprOp::floordiv || e.op() == ExprOp::mod) && !e.is_float();
  if (divided && e.args()[0].is_symbol() && e.args()[0].name() == var)
    return e.args()[1].is_constant() ? std::max<int64_t>(0, e.args()[1].value()) : 0;
  int64_t found = -1;
  for (const Expr& arg : e.args()) {
    const int64_t here = turns_of(arg, var);
    if (here == 0 || (here > 0 && found > 0 && here != found)) return 0;
    if (here > 0) found = here;
  }
  return found;
}

}  // namespace

std::optional<LanesByTurns> lanes_by_turns(const Expr& address, const std::string& var, int64_t lanes,
                                           const RangeEnv& env) {
  const int64_t turns = turns_of(address, var);
  if (turns < 2 || turns > most_lines_of_lanes || lanes % turns != 0 || lanes / turns < 2) return {};
  // The place in a line and the line's number, as variables: var = place * turns + line.
  const std::string place = "place of " + var, line = "line of " + var;
  RangeEnv parts = env;
  parts.ranges[line] = {0, turns - 1};
  parts.ranges[place] = {0, INT64_MAX};
  const Expr plain = simplify(substitute(address, {{var, Expr::symbol(place) * turns + Expr::symbol(line)}}), parts);
  const auto along = affine_in(plain, place);
  if (!along || !along->coefficient.is_constant(1)) return {};
  const auto across = affine_in(along->rest, line);
  if (!across || across->coefficient.is_constant(0)) return {};
  return LanesByTurns{turns, across->coefficient};
}

std::optional<GroupedLanes> grouped_lanes(const Expr& address, const std::string& var, int64_t lanes,
                                          const RangeEnv& env) {
  int64_t divisor = 0;
  const Expr plain = without_quotients(address, var, lanes, env, divisor);
  if (divisor < 2 || mentions(plain, var)) return {};
  const auto affine = affine_in(plain, "quotient of " + var);
  if (!affine || !affine->coefficient.is_constant() || affine->coefficient.value() < 1) return {};
  const GroupedLanes out{divisor, affine->coefficient.value()};
  if (out.reach(lanes) > lanes) return {};
  return out;
}

}  // namespace kiln::loops
