// A pointwise nest that writes along one axis and reads along another touches a new line of the cache with every
// element it reads: a picture whose channels come to lie apart. In blocks as wide as a vector along both axes each line
// is read once and used whole.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

bool is_independent(const Loop& loop, const std::vector<Loop*>& around) {
  return std::none_of(around.begin(), around.end(),
                      [&](const Loop* outer) { return mentions(loop.extent, outer->var); });
}

// The loops of a perfect nest around statements without loops. Empty: it is none.
std::vector<Loop*> perfect_nest(Kernel& kernel) {
  std::vector<Loop*> chain;
  for (Body* body = &kernel.body; body->size() == 1 && body->front().loop; body = &body->front().loop->body) {
    Loop& loop = *body->front().loop;
    if (loop.role != AxisRole::parallel || loop.directives != AxisDirectives{} || !is_independent(loop, chain))
      return {};
    chain.push_back(&loop);
  }
  if (chain.empty()) return {};
  for (const Stmt& stmt : chain.back()->body)
    if (stmt.kind != StmtKind::load && stmt.kind != StmtKind::op && stmt.kind != StmtKind::constant &&
        (stmt.kind != StmtKind::store || stmt.mode != StoreMode::plain))
      return {};
  return chain;
}

// From one element to the next along the loop, about, where sizes are not known; -1: not the same everywhere.
double apart(const Stmt& access, const Loop& loop, const LoopProgram& program, const RangeEnv& env) {
  const auto affine = affine_in(address_of(access, program, env), loop.var);
  if (!affine) return -1;
  if (affine->coefficient.is_constant()) return static_cast<double>(affine->coefficient.value());
  return std::max(2.0, estimate(affine->coefficient, program));
}

// The loop along which something lies that is read across; nullptr: there is none.
Loop* read_along(const std::vector<Loop*>& chain, const LoopProgram& program, const RangeEnv& env, int64_t block) {
  Loop* found = nullptr;
  for (const Stmt& stmt : chain.back()->body) {
    if (stmt.kind != StmtKind::load && stmt.kind != StmtKind::store) continue;
    const double distance = apart(stmt, *chain.back(), program, env);
    if (stmt.kind == StmtKind::store && distance != 1) return nullptr;
    if (stmt.kind != StmtKind::load || distance < static_cast<double>(block)) continue;
    for (Loop* loop : chain)
      if (loop != chain.back() && estimate(loop->extent, program) >= static_cast<double>(block) &&
          apart(stmt, *loop, program, env) == 1)
        found = loop;
  }
  return found;
}

}  // namespace

bool tile_transpose(Kernel& kernel, const LoopProgram& program, const Target& target) {
  const std::vector<Loop*> chain = perfect_nest(kernel);
  if (chain.size() < 2 || target.lanes < 2) return false;
  const int64_t block = target.lanes;
  const RangeEnv env = kernel_ranges(kernel, program);
  if (estimate(chain.back()->extent, program) < static_cast<double>(block)) return false;
  const Loop* along = read_along(chain, program, env, block);
  if (!along) return false;
  std::set<std::string> used = variables_of(kernel);
  auto fresh = [&] {
    int n = 0;
    while (used.count(str("o", n))) ++n;
    return *used.insert(str("o", n)).first;
  };
  // Both axes in blocks, these inside of all others.
  struct Axis {
    std::string var;
    Expr extent;
  };
  std::vector<Axis> outer, inner;
  Substitution map;
  for (const Loop* loop : chain) {
    if (loop != along && loop != chain.back()) {
      outer.insert(outer.begin() + static_cast<std::ptrdiff_t>(outer.size() - inner.size()), {loop->var, loop->extent});
      continue;
    }
    const std::string blocks = fresh();
    const Expr &all = loop->extent, base = Expr::symbol(blocks) * block;
    outer.push_back({blocks, simplify(ceildiv(all, Expr(block)), env)});
    inner.push_back(
        {loop->var, mod(all, Expr(block)).is_constant(0) ? Expr(block) : min_expr(Expr(block), all - base)});
    map[loop->var] = base + Expr::symbol(loop->var);
  }
  Body body = std::move(chain.back()->body);
  for (Stmt& stmt : body) {
    for (Expr& e : stmt.index) e = substitute(e, map);
    stmt.expr = substitute(stmt.expr, map);
  }
  rename_in_names(kernel, map);
  outer.insert(outer.end(), inner.begin(), inner.end());
  for (size_t i = outer.size(); i-- > 0;) {
    Stmt loop = loop_stmt(outer[i].var, outer[i].extent, AxisRole::parallel, std::move(body));
    body = Body();
    body.push_back(std::move(loop));
  }
  kernel.body = std::move(body);
  return true;
}

}  // namespace kiln::loops
