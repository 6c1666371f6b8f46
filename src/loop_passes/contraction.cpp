#include "loop_passes/contraction.h"

#include "loop_passes/rewrite.h"

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

namespace {
// A pool in front of a product is none: the nest around it is not the one that is looked for.
bool sums_products(const Body& body) {
  for (const Stmt& stmt : body)
    if (stmt.loop) {
      const Loop& loop = *stmt.loop;
      if (loop.role != AxisRole::reduce || loop.reduce != ReduceOp::sum) return false;
      const bool product = std::any_of(loop.body.begin(), loop.body.end(),
                                       [](const Stmt& s) { return s.kind == StmtKind::op && s.op == ScalarOp::mul; });
      return product || sums_products(loop.body);
    }
  return false;
}
}  // namespace

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
  return loops == 1 && sums_products(*chain.back());
}

namespace {
const Stmt* first_loop(const Body& body) {
  const auto loop =
      std::find_if(body.begin(), body.end(), [](const Stmt& stmt) { return stmt.kind == StmtKind::loop; });
  return loop == body.end() ? nullptr : &*loop;
}
}  // namespace

bool needs_whole_rows(const Body& body) {
  const Body* around = nullptr;  // the body that holds the innermost parallel loop, the columns
  const Stmt* columns = nullptr;
  for (const Body* at = &body;;) {
    const Stmt* loop = first_loop(*at);
    if (!loop || loop->loop->role != AxisRole::parallel) break;
    around = at, columns = loop;
    at = &loop->loop->body;
  }
  return columns && columns != &around->back();
}

bool has_groups(const Body& body) {
  constexpr int64_t least_columns = 8;  // fewer make no product of their own (split_groups)
  const Stmt *columns = nullptr, *sum = first_loop(body);
  for (; sum && sum->loop->role == AxisRole::parallel; sum = first_loop(sum->loop->body)) columns = sum;
  if (!sum || !columns) return false;
  bool found = false;
  const std::function<void(const Expr&)> visit = [&](const Expr& e) {
    found |= e.op() == ExprOp::floordiv && e.args()[0].is_symbol() && e.args()[0].name() == columns->loop->var &&
             e.args()[1].is_constant() && e.args()[1].value() >= least_columns;
    for (const Expr& arg : e.args()) visit(arg);
  };
  for_each_stmt(sum->loop->body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::load) std::for_each(stmt.index.begin(), stmt.index.end(), visit);
  });
  return found;
}

double products_of_a_row(const Body& body, const LoopProgram& program) {
  double columns = 1, terms = 1;
  for (const Stmt* loop = first_loop(body); loop; loop = first_loop(loop->loop->body)) {
    const double extent = std::max(1.0, estimate(loop->loop->extent, program));
    if (loop->loop->role == AxisRole::parallel)
      columns = extent;
    else
      terms *= extent;
  }
  return columns * terms;
}

}  // namespace kiln::loops
