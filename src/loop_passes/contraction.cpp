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

bool is_tileable(const Body& body) {
  std::vector<const Body*> chain = {&body};
  for (;;) {
    const Body& here = *chain.back();
    const auto loop =
        std::find_if(here.begin(), here.end(), [](const Stmt& stmt) { return stmt.kind == StmtKind::loop; });
    if (loop == here.end()) return false;
    if (loop->loop->role != AxisRole::parallel) break;
    for (auto before = here.begin(); before != loop; ++before)
      if (before->kind == StmtKind::store || before->kind == StmtKind::raise_if) return false;
    // The last two are rows and columns: what follows the columns works on whole rows.
    if (chain.size() >= 2 && &*loop != &here.back()) {
      const Body& inner = loop->loop->body;
      const bool columns = std::any_of(inner.begin(), inner.end(), [](const Stmt& stmt) {
        return stmt.kind == StmtKind::loop && stmt.loop->role == AxisRole::reduce;
      });
      if (!columns) return false;
    }
    chain.push_back(&loop->loop->body);
  }
  if (chain.size() < 3 || body.size() != 1) return false;
  const auto loops = std::count_if(chain.back()->begin(), chain.back()->end(),
                                   [](const Stmt& stmt) { return stmt.kind == StmtKind::loop; });
  return loops == 1;
}

}  // namespace kiln::loops
