// What follows from the directives of a kernel: its items, and the loops that its contraction names.
#include "loops/line_windows.h"

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
  if (kernel.schedule && kernel.schedule->grid.tile_rows > 0) {
    const ContractionNest nest = contraction_nest(kernel);
    const Grid& grid = kernel.schedule->grid;
    Expr columns = 1;
    for (const Loop* loop : nest.batch) items = items * loop->extent;
    if (grid.keys > 0) return items * ceildiv(nest.row_count(), grid.tile_rows) * grid.parts;
    for (const Loop* loop : nest.columns) columns = columns * loop->extent;
    return items * ceildiv(nest.row_count(), grid.tile_rows) * ceildiv(columns, grid.tile_columns) * grid.parts;
  }
  if (!kernel.schedule || kernel.schedule->tile.rows == 0) {
    for (const Loop* loop : item_loops(kernel).loops) add(*loop);
    return items;
  }
  const ContractionNest nest = contraction_nest(kernel);
  const Tile& tile = kernel.schedule->tile;
  for (const Loop* loop : nest.batch) items = items * loop->extent;
  items = items * ceildiv(rows_in_tiles(nest, tile), tile.rows * tile.high);
  if (tile.beside) items = items * ceildiv(nest.innermost_column().extent, tile.vectors * kernel.schedule->lanes);
  return items;
}

int64_t edge_vectors(const Expr& columns, int64_t vectors, int64_t lanes) {
  if (!columns.is_constant()) return 1;
  return (columns.value() % (vectors * lanes) + lanes - 1) / lanes;
}

const Stmt* any_summed_product(const Loop& loop) {
  if (loop.reduce != ReduceOp::sum || loop.role != AxisRole::reduce || loop.body.empty()) return nullptr;
  const Stmt& last = loop.body.back();
  const bool product = last.kind == StmtKind::op && last.op == ScalarOp::mul && last.dtype == loop.reduce_dtype;
  return product && last.results[0] == loop.yields[0] ? &last : nullptr;
}

const Stmt* summed_product(const Loop& loop) {
  return kiln::is_float(loop.reduce_dtype) ? any_summed_product(loop) : nullptr;
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
  KILN_CHECK(!nest.rows.empty() && !nest.columns.empty() && !names.sums.empty(),
             str("the contraction of ", kernel.name, " has no rows, columns or sums"));
  auto belongs = [](const std::vector<ValueId>& list, const Stmt& stmt) {
    return std::find(list.begin(), list.end(), stmt.results.at(0)) != list.end();
  };
  for (size_t l = 0; l < names.sums.size(); ++l) {
    ContractionNest::Sum sum;
    sum.stmt = enter(names.sums[l], AxisRole::reduce);
    const Loop& loop = *sum.stmt->loop;
    const Stmt* product = l + 1 == names.sums.size() ? any_summed_product(loop) : nullptr;
    for (const Stmt& stmt : *body) {
      if (&stmt == product || stmt.kind == StmtKind::loop) continue;
      KILN_CHECK(stmt.results.size() == 1, str("the sum of ", kernel.name, " does more than compute its factors"));
      const bool left = belongs(names.left_values, stmt), right = belongs(names.right_values, stmt);
      KILN_CHECK(left + right + belongs(names.shared_values, stmt) == 1,
                 str("%", stmt.results[0], " belongs to no factor of ", kernel.name));
      (left ? sum.left : right ? sum.right : sum.shared).push_back(&stmt);
    }
    nest.sums.push_back(std::move(sum));
  }
  const Stmt* product = any_summed_product(nest.innermost_sum());
  KILN_CHECK(product && ((product->args[0] == names.left && product->args[1] == names.right) ||
                         (product->args[1] == names.left && product->args[0] == names.right)),
             str("the sum of ", kernel.name, " is not over the product of its factors"));
  return nest;
}

bool ContractionNest::whole_rows() const {
  const Stmt& last = innermost_row().body.back();
  return last.kind != StmtKind::loop || last.loop.get() != columns.back();
}

Expr ContractionNest::row_count() const {
  Expr count = 1;
  for (const Loop* loop : rows) count = count * loop->extent;
  return count;
}

Expr ContractionNest::term_count() const {
  Expr count = 1;
  for (const Sum& sum : sums) count = count * sum.stmt->loop->extent;
  return count;
}

}  // namespace kiln::loops
