#include "loop_passes/contraction.h"

namespace kiln::loops {

bool is_contraction(const Loop& loop, const std::vector<const Loop*>& enclosing) {
  if (loop.role != AxisRole::reduce || loop.reduce != ReduceOp::sum) return false;
  bool products = false;
  std::vector<const Stmt*> loads;
  for (const Stmt& stmt : loop.body) {
    products |= stmt.kind == StmtKind::op && stmt.op == ScalarOp::mul;
    if (stmt.kind == StmtKind::load) loads.push_back(&stmt);
  }
  if (!products || loads.size() < 2) return false;
  for (const Loop* outer : enclosing) {
    if (outer == &loop || outer->role != AxisRole::parallel) continue;
    size_t using_it = 0;
    for (const Stmt* load : loads)
      using_it +=
          std::any_of(load->index.begin(), load->index.end(), [&](const Expr& e) { return mentions(e, outer->var); });
    if (using_it < loads.size()) return true;
  }
  return false;
}

namespace {
bool search(const Body& body, std::vector<const Loop*>& enclosing) {
  for (const Stmt& stmt : body) {
    if (!stmt.loop) continue;
    if (is_contraction(*stmt.loop, enclosing)) return true;
    enclosing.push_back(stmt.loop.get());
    bool found = search(stmt.loop->body, enclosing);
    enclosing.pop_back();
    if (found) return true;
  }
  return false;
}
}  // namespace

bool has_contraction(const Body& body) {
  std::vector<const Loop*> enclosing;
  return search(body, enclosing);
}

}  // namespace kiln::loops
