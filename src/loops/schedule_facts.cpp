// What follows from the directives of a kernel: its items, and the loops that its contraction names.
#include "loops/loops.h"

namespace kiln::loops {

ItemLoops item_loops(const Kernel& kernel) {
  ItemLoops out;
  out.body = &kernel.body;
  while (out.body->size() == 1 && out.body->front().kind == StmtKind::loop &&
         out.body->front().loop->directives.binding == Binding::item) {
    out.loops.push_back(out.body->front().loop.get());
    out.body = &out.body->front().loop->body;
  }
  return out;
}

Expr item_count(const Kernel& kernel) {
  Expr items = 1;
  auto add = [&](const Loop& loop) {
    const int64_t together = loop.directives.factor;
    items = items * (together > 1 ? ceildiv(loop.extent, together) : loop.extent);
  };
  if (!kernel.schedule || kernel.schedule->tile.rows == 0) {
    for (const Loop* loop : item_loops(kernel).loops) add(*loop);
    return items;
  }
  // Pure statements may stand in front of the loops of a tiled nest.
  const ContractionNest nest = contraction_nest(kernel);
  for (const auto* loops : {&nest.batch, &nest.rows})
    for (const Loop* loop : *loops) add(*loop);
  return items;
}

const Stmt* summed_product(const Loop& loop) {
  if (loop.reduce != ReduceOp::sum || loop.role != AxisRole::reduce || !kiln::is_float(loop.reduce_dtype) ||
      loop.body.empty())
    return nullptr;
  const Stmt& last = loop.body.back();
  const bool product = last.kind == StmtKind::op && last.op == ScalarOp::mul && last.dtype == loop.reduce_dtype;
  return product && last.results[0] == loop.yields[0] ? &last : nullptr;
}

namespace {

const Stmt* loop_named(const Body& body, const std::string& var) {
  for (const Stmt& stmt : body)
    if (stmt.kind == StmtKind::loop && stmt.loop->var == var) return &stmt;
  return nullptr;
}

}  // namespace

ContractionNest contraction_nest(const Kernel& kernel) {
  KILN_CHECK(kernel.contraction, str(kernel.name, " has no contraction"));
  const Contraction& names = *kernel.contraction;
  ContractionNest nest;
  const Body* body = &kernel.body;
  auto enter = [&](const std::string& var, AxisRole role) {
    const Stmt* stmt = loop_named(*body, var);
    KILN_CHECK(stmt && stmt->loop->role == role, str("the contraction of ", kernel.name, " has no loop ", var));
    body = &stmt->loop->body;
    return stmt;
  };
  for (const std::string& var : names.batch) nest.batch.push_back(enter(var, AxisRole::parallel)->loop.get());
  for (const std::string& var : names.rows) nest.rows.push_back(enter(var, AxisRole::parallel)->loop.get());
  for (const std::string& var : names.columns) nest.columns.push_back(enter(var, AxisRole::parallel)->loop.get());
  for (const std::string& var : names.sums) nest.sums.push_back(enter(var, AxisRole::reduce));
  KILN_CHECK(!nest.rows.empty() && !nest.columns.empty() && !nest.sums.empty(),
             str("the contraction of ", kernel.name, " has no rows, columns or sums"));
  auto find = [&](const std::vector<ValueId>& values, std::vector<const Stmt*>& to) {
    for (ValueId v : values) {
      const Stmt* found = nullptr;
      for (const Stmt& stmt : *body)
        if (stmt.kind != StmtKind::loop && stmt.results == std::vector<ValueId>{v}) found = &stmt;
      KILN_CHECK(found, str("the sum of ", kernel.name, " does not compute %", v));
      to.push_back(found);
    }
  };
  find(names.left_values, nest.left);
  find(names.right_values, nest.right);
  find(names.shared_values, nest.shared);
  const Stmt* product = summed_product(nest.innermost_sum());
  KILN_CHECK(product && ((product->args[0] == names.left && product->args[1] == names.right) ||
                         (product->args[1] == names.left && product->args[0] == names.right)),
             str("the sum of ", kernel.name, " is not over the product of its factors"));
  KILN_CHECK(nest.left.size() + nest.right.size() + nest.shared.size() + 1 == body->size(),
             str("the sum of ", kernel.name, " computes more than its factors"));
  return nest;
}

}  // namespace kiln::loops
