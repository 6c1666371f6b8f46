#include "loop_passes/rewrite.h"
#include "schedule/new_loops.h"
#include "schedule/schedule.h"
#include "schedule/split_pieces.h"

namespace kiln::loops {
namespace {

bool contains_division(const Expr& e) {
  if (e.op() == ExprOp::floordiv || e.op() == ExprOp::mod) return true;
  if (e.op() == ExprOp::constant || e.op() == ExprOp::symbol || e.op() == ExprOp::float_constant) return false;
  for (const Expr& arg : e.args())
    if (contains_division(arg)) return true;
  return false;
}

// Two loops as one: what their variables are of its own, which has the name of the outer one.
struct Joined {
  Expr extent;
  Substitution variables;
  RangeEnv env;
};

Joined join_loops(const Loop& outer, const Loop& inner, const Kernel& kernel, const LoopProgram& program) {
  Joined out;
  out.env = kernel_ranges(kernel, program);
  out.extent = simplify(outer.extent * inner.extent, out.env);
  const Expr c = Expr::symbol(outer.var);
  out.variables = {{outer.var, floordiv(c, inner.extent)}, {inner.var, mod(c, inner.extent)}};
  const int64_t high = range_of(out.extent, out.env).high;
  out.env.ranges[outer.var] = {0, high == INT64_MAX ? INT64_MAX : std::max<int64_t>(0, high - 1)};
  out.env.upper[outer.var] = out.extent - 1;
  out.env.ranges.erase(inner.var);
  out.env.upper.erase(inner.var);
  return out;
}

// Puts the one variable for the two. False: an address would need a division.
bool substituted(Body& body, const Joined& joined, const LoopProgram& program) {
  bool fine = true;
  for (Stmt& stmt : body) {
    for (Expr& e : stmt.index) e = simplify(substitute(e, joined.variables), joined.env);
    stmt.expr = simplify(substitute(stmt.expr, joined.variables), joined.env);
    if (stmt.kind == StmtKind::load || stmt.kind == StmtKind::store)
      fine &= !contains_division(address_of(stmt, program, joined.env));
    if (stmt.kind == StmtKind::index_value || stmt.kind == StmtKind::random) fine &= !contains_division(stmt.expr);
  }
  return fine;
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
  const Joined joined = join_loops(outer, inner, kernel, program);
  Body body = clone(inner.body);
  if (!substituted(body, joined, program)) return false;
  rename_in_names(kernel, joined.variables);
  outer.extent = joined.extent;
  outer.body = std::move(body);
  return true;
}

// The loop that is all there is in this one, numbers aside, which cost nothing wherever they stand; nullptr: none is.
Loop* only_loop(Loop& loop) {
  if (loop.body.empty() || !loop.body.back().loop) return nullptr;
  const bool numbers = std::all_of(loop.body.begin(), loop.body.end() - 1, [](const Stmt& stmt) {
    return stmt.kind == StmtKind::constant || (stmt.kind == StmtKind::index_value && stmt.expr.is_constant());
  });
  return numbers ? loop.body.back().loop.get() : nullptr;
}

// A sum of sums (or a maximum of maxima) that runs through memory in one line becomes one. Any order is right.
bool collapse_reductions(Loop& outer, Kernel& kernel, const LoopProgram& program) {
  if (outer.role != AxisRole::reduce || reduce_info(outer.reduce).accumulators != 1) return false;
  const Loop* inner = only_loop(outer);
  if (!inner || inner->role != AxisRole::reduce || inner->reduce != outer.reduce ||
      inner->reduce_dtype != outer.reduce_dtype || outer.yields != outer.body.back().results ||
      outer.only != no_value || inner->only != no_value || mentions(inner->extent, outer.var))
    return false;
  const auto free = [](const Loop& loop) { return loop.directives == AxisDirectives() && loop.order == SumOrder(); };
  if (!free(outer) || !free(*inner) || statement_count(inner->body) != inner->body.size()) return false;
  const Joined joined = join_loops(outer, *inner, kernel, program);
  Body body;
  for (size_t i = 0; i + 1 < outer.body.size(); ++i) body.push_back(outer.body[i].clone());
  for (const Stmt& stmt : inner->body) body.push_back(stmt.clone());
  if (!substituted(body, joined, program)) return false;
  rename_in_names(kernel, joined.variables);
  outer.extent = joined.extent;
  outer.yields = inner->yields;
  outer.body = std::move(body);
  return true;
}

// What an expression divides a variable by, numbers only.
void divided_by(const Expr& e, const std::string& var, std::set<int64_t>& out) {
  if (e.op() == ExprOp::constant || e.op() == ExprOp::symbol || e.op() == ExprOp::float_constant) return;
  for (const Expr& arg : e.args()) divided_by(arg, var, out);
  const bool division = e.op() == ExprOp::floordiv || e.op() == ExprOp::mod;
  if (division && mentions(e.args()[0], var) && e.args()[1].is_constant()) out.insert(e.args()[1].value());
}

// The loop as parts of `width` iterations: an address that each element would need a division for (a reshape of what
// was added up over other dimensions) is then a line of memory, or one element, for all of a part.
bool split_into(Stmt& stmt, int64_t width, Kernel& kernel, const LoopProgram& program) {
  Loop& loop = *stmt.loop;
  Stmt parts = loop_stmt(unused_name(variables_of(kernel), "o"), Expr(loop.extent.value() / width));
  const Substitution map{{loop.var, Expr::symbol(parts.loop->var) * width + Expr::symbol(loop.var)}};
  RangeEnv env = kernel_ranges(kernel, program);
  env.ranges[loop.var] = {0, width - 1};
  env.upper[loop.var] = Expr(width - 1);
  env.ranges[parts.loop->var] = {0, loop.extent.value() / width - 1};
  env.upper[parts.loop->var] = parts.loop->extent - 1;
  Body body = clone(loop.body);
  for (Stmt& inner : body) {
    for (Expr& e : inner.index) e = simplify(substitute(e, map), env);
    inner.expr = simplify(substitute(inner.expr, map), env);
    if (inner.kind == StmtKind::load || inner.kind == StmtKind::store) {
      const auto along = affine_in(address_of(inner, program, env), loop.var);
      if (!along || !along->coefficient.is_constant()) return false;
    }
  }
  rename_in_names(kernel, map);
  loop.extent = Expr(width);
  loop.body = std::move(body);
  parts.loop->body.push_back(std::move(stmt));
  stmt = std::move(parts);
  return true;
}

constexpr int64_t most_lines_by_turns = 4;

// What is taken from several lines by turns (a pixel shuffle): a loop over the lines around one along each of them,
// which writes to every second or third place, or every fourth. `whole`: what these are parts of (the patches of a
// picture whose colours lie apart); the loop itself if it is all one.
bool split_turns(Stmt& stmt, int64_t turns, const Expr& whole, Kernel& kernel, const LoopProgram& program) {
  Loop& loop = *stmt.loop;
  const Expr along = floordiv(whole, Expr(turns));
  if (!(along * turns == whole)) return false;
  std::set<std::string> used = variables_of(kernel);
  Stmt lines = loop_stmt(unused_name(used, "o"), Expr(turns));
  used.insert(lines.loop->var);
  Stmt parts = loop_stmt(unused_name(used, "o"), whole == loop.extent ? Expr(1) : floordiv(loop.extent, whole));
  Expr place = Expr::symbol(loop.var) * turns + Expr::symbol(lines.loop->var);
  RangeEnv env = kernel_ranges(kernel, program);
  if (!parts.loop->extent.is_constant(1)) {
    place = place + Expr::symbol(parts.loop->var) * whole;
    env.ranges[parts.loop->var] = {0, range_of(parts.loop->extent, env).high - 1};
    env.upper[parts.loop->var] = parts.loop->extent - 1;
  }
  const Substitution map{{loop.var, place}};
  const int64_t high = range_of(along, env).high;
  env.ranges[loop.var] = {0, high == INT64_MAX ? high : std::max<int64_t>(0, high - 1)};
  env.upper[loop.var] = along - 1;
  env.ranges[lines.loop->var] = {0, turns - 1};
  Body body = clone(loop.body);
  for (Stmt& inner : body) {
    for (Expr& e : inner.index) e = simplify(substitute(e, map), env);
    inner.expr = simplify(substitute(inner.expr, map), env);
    if (inner.kind != StmtKind::load && inner.kind != StmtKind::store) continue;
    const auto step = affine_in(address_of(inner, program, env), loop.var);
    const bool fits = step && (step->coefficient.is_constant(inner.kind == StmtKind::load ? 1 : turns) ||
                               (inner.kind == StmtKind::load && step->coefficient.is_constant(0)));
    if (!fits) return false;
  }
  rename_in_names(kernel, map);
  loop.extent = along;
  loop.body = std::move(body);
  lines.loop->body.push_back(std::move(stmt));
  if (parts.loop->extent.is_constant(1)) {
    stmt = std::move(lines);
  } else {
    parts.loop->body.push_back(std::move(lines));
    stmt = std::move(parts);
  }
  return true;
}

// Splits an innermost loop whose lanes would gather, where parts of it would not. The widest parts that do.
bool split_at_divisions(Stmt& stmt, Kernel& kernel, const LoopProgram& program, const Target& target) {
  Loop& loop = *stmt.loop;
  if (loop.role != AxisRole::parallel || loop.directives.binding != Binding::none) return false;
  const RangeEnv env = kernel_ranges(kernel, program);
  std::set<int64_t> divisors, asked;  // by addresses; by values, as a window's mask
  bool by_turns = false;
  for (const Stmt& inner : loop.body) {
    if (inner.loop || inner.kind == StmtKind::check_index || inner.kind == StmtKind::random) return false;
    if (inner.kind == StmtKind::index_value) divided_by(inner.expr, loop.var, asked);
    if (inner.kind != StmtKind::load && inner.kind != StmtKind::store) continue;
    const Expr address = address_of(inner, program, env);
    divided_by(address, loop.var, divisors);
    // What several lanes have in common (lines that are made wider) is loaded once and dealt out; parts of several
    // lines are put together.
    by_turns |= divides(address, loop.var) && !grouped_lanes(address, loop.var, target.lanes, env) &&
                !lanes_by_turns(address, loop.var, target.lanes, env);
  }
  if (by_turns && divisors.size() == 1 && *divisors.begin() >= 2 && *divisors.begin() <= most_lines_by_turns &&
      split_turns(stmt, *divisors.begin(), loop.extent, kernel, program))
    return true;
  if (!loop.extent.is_constant()) return false;
  if (by_turns && divisors.size() > 1 && *divisors.begin() <= most_lines_by_turns)
    for (auto whole = divisors.rbegin(); whole != divisors.rend() && *whole >= *divisors.begin() * target.lanes / 2;
         ++whole)
      if (loop.extent.value() % *whole == 0 && *whole % *divisors.begin() == 0 &&
          split_turns(stmt, *divisors.begin(), Expr(*whole), kernel, program))
        return true;
  // Dividing vectors of whole numbers takes longer than what the quotients are for.
  divisors.insert(asked.begin(), asked.end());
  const int64_t least = by_turns ? target.lanes / 2 : target.lanes;  // a gather costs more than lanes that are off
  for (auto width = divisors.rbegin(); width != divisors.rend() && *width >= least; ++width)
    if (*width < loop.extent.value() && loop.extent.value() % *width == 0 && split_into(stmt, *width, kernel, program))
      return true;
  return false;
}

bool split_divisions(Body& body, Kernel& kernel, const LoopProgram& program, const Target& target) {
  bool changed = false;
  for (Stmt& stmt : body)
    if (stmt.loop)
      changed |= split_divisions(stmt.loop->body, kernel, program, target) ||
                 split_at_divisions(stmt, kernel, program, target);
  return changed;
}

bool visit(Body& body, Kernel& kernel, const LoopProgram& program, bool on_cpu) {
  bool changed = false;
  for (Stmt& stmt : body) {
    if (!stmt.loop) continue;
    changed |= visit(stmt.loop->body, kernel, program, on_cpu);
    changed |= collapse_pair(*stmt.loop, kernel, program);
    changed |= on_cpu && collapse_reductions(*stmt.loop, kernel, program);
  }
  return changed;
}

// The same for two loops over the rows of a contraction, around whatever is done for a row.
bool collapse_row_pair(Loop& outer, Kernel& kernel, const LoopProgram& program) {
  Loop& inner = *only_loop(outer);
  if (mentions(inner.extent, outer.var)) return false;
  const Joined joined = join_loops(outer, inner, kernel, program);
  Body body;
  for (const Stmt& stmt : outer.body)
    if (!stmt.loop) body.push_back(stmt.clone());
  for (const Stmt& stmt : inner.body) body.push_back(stmt.clone());
  bool fine = true;
  for_each_stmt(body, [&](Stmt& stmt) {
    if (stmt.loop) fine &= !mentions(stmt.loop->extent, outer.var) && !mentions(stmt.loop->extent, inner.var);
    for (Expr& e : stmt.index) e = simplify(substitute(e, joined.variables), joined.env);
    stmt.expr = simplify(substitute(stmt.expr, joined.variables), joined.env);
    const bool access = stmt.kind == StmtKind::load || stmt.kind == StmtKind::store;
    if (access) fine &= !divides(address_of(stmt, program, joined.env), outer.var);
    if (!access)
      for (const Expr& e : stmt.index) fine &= !divides(e, outer.var);
    fine &= !divides(stmt.expr, outer.var);
  });
  if (!fine) return false;
  rename_in_names(kernel, joined.variables);
  std::erase(kernel.contraction->rows, inner.var);
  outer.extent = joined.extent;
  outer.body = std::move(body);
  return true;
}

}  // namespace

bool collapse_rows(LoopProgram& program, Kernel& kernel) {
  bool changed = false;
  for (size_t row = 0; row + 1 < kernel.contraction->rows.size();) {
    const std::string outer = kernel.contraction->rows[row], inner = kernel.contraction->rows[row + 1];
    Loop* found = nullptr;
    for_each_stmt(kernel.body, [&](Stmt& stmt) {
      Loop* only = stmt.loop && stmt.loop->var == outer ? only_loop(*stmt.loop) : nullptr;
      if (only && only->var == inner) found = stmt.loop.get();
    });
    const bool joined = found && collapse_row_pair(*found, kernel, program);
    changed |= joined;
    row += !joined;
  }
  return changed;
}

bool collapse_points(Loop& outer, Kernel& kernel, const LoopProgram& program) {
  const Loop& inner = *outer.body[0].loop;
  if (mentions(inner.extent, outer.var)) return false;
  const Joined joined = join_loops(outer, inner, kernel, program);
  Body body = clone(inner.body);
  bool fine = true;
  for_each_stmt(body, [&](Stmt& stmt) {
    for (Expr& e : stmt.index) e = simplify(substitute(e, joined.variables), joined.env);
    stmt.expr = simplify(substitute(stmt.expr, joined.variables), joined.env);
    if (stmt.kind == StmtKind::store) fine &= !contains_division(address_of(stmt, program, joined.env));
  });
  if (!fine) return false;
  rename_in_names(kernel, joined.variables);
  outer.extent = joined.extent;
  outer.body = std::move(body);
  return true;
}

bool collapse_loops(LoopProgram& program, const Target& target, Log&) {
  bool changed = false;
  auto each = [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel || kernel->schedule) return;
    kernel->contraction.reset();  // no template took it, and its loops may go
    changed |= visit(kernel->body, *kernel, program, !target.is_gpu());
  };
  const auto split = [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (kernel && !kernel->schedule && !target.is_gpu() && target.lanes > 1)
      changed |= split_pieces(*kernel, program) | split_divisions(kernel->body, *kernel, program, target);
  };
  for_each_item(program.init, each);
  for_each_item(program.block, each);
  for_each_item(program.block, split);
  return changed;
}

}  // namespace kiln::loops
