#include "schedule/single_nest.h"

namespace kiln::loops {

std::optional<SingleNest> single_nest(const Kernel& kernel) {
  SingleNest nest;
  for (const Body* body = &kernel.body;;) {
    const Stmt* inner = nullptr;
    for (const Stmt& stmt : *body) {
      if (stmt.kind == StmtKind::loop && inner) return {};
      if (stmt.kind == StmtKind::loop) inner = &stmt;
      if (stmt.kind == StmtKind::load) nest.loads.push_back(&stmt);
      if (stmt.kind == StmtKind::store && nest.store) return {};
      if (stmt.kind == StmtKind::store) nest.store = &stmt;
      if (stmt.kind == StmtKind::check_index || stmt.kind == StmtKind::random) return {};
    }
    if (!inner) break;
    const Loop& loop = *inner->loop;
    if (loop.role == AxisRole::parallel && nest.sums.empty())
      nest.parallel.push_back(&loop);
    else if (loop.role == AxisRole::reduce)
      nest.sums.push_back(&loop);
    else
      return {};
    body = &loop.body;
  }
  if (!nest.store) return {};
  return nest;
}

bool mentions_any(const Stmt& access, const std::string& var) {
  return std::any_of(access.index.begin(), access.index.end(), [&](const Expr& e) { return mentions(e, var); });
}

}  // namespace kiln::loops
