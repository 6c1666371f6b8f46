#include "schedule/group_rows.h"

#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// Of the memory that a row brings: the distance to the next one, or its terms where rows of several parts lie mixed.
double bytes_of_row(const Kernel& kernel, const ContractionNest& nest, const LoopProgram& program) {
  const RangeEnv env = kernel_ranges(kernel, program);
  double most = 0;
  for (const ContractionNest::Sum& sum : nest.sums)
    for (const Stmt* load : sum.left) {
      if (load->kind != StmtKind::load) continue;
      const auto along = affine_in(address_of(*load, program, env), nest.innermost_row().var);
      const double apart = along ? std::abs(estimate(along->coefficient, program)) : 0,
                   terms = estimate(nest.innermost_sum().extent, program);
      const auto element = static_cast<double>(dtype_bytes(program.buffers[static_cast<size_t>(load->buffer)].dtype));
      most = std::max(most, std::max(apart, terms) * element);
    }
  return most;
}

constexpr int64_t least_tiles = 4;   // of a group, over which a panel's way into the first cache is shared
constexpr double least_panels = 4;   // for fewer, bringing the rows anew costs less than bringing the columns
constexpr double most_waste = 1.01;  // of rows that are computed for nothing at the groups' edges

}  // namespace

RowGroups row_groups(const Kernel& kernel, const LoopProgram& program, const Target& target, const Tile& tile) {
  const ContractionNest nest = contraction_nest(kernel);
  const Expr &outer = nest.rows.front()->extent, &all = nest.row_count();
  const Expr& columns = nest.innermost_column().extent;
  if (!tile.beside || !nest.batch.empty() || !all.is_constant() || !columns.is_constant()) return {};
  const double row = bytes_of_row(kernel, nest, program), rows = static_cast<double>(all.value()),
               panels =
                   std::ceil(static_cast<double>(columns.value()) / static_cast<double>(tile.vectors * target.lanes));
  if (row <= 0 || rows * row <= target.second_cache || panels < least_panels) return {};
  // Groups are equal, so that their number of rows is known.
  const int64_t inside = all.value() / outer.value();
  const auto padded = [&](int64_t count) {
    const int64_t of_group = count * inside;
    return static_cast<double>((of_group + tile.rows - 1) / tile.rows * tile.rows) / static_cast<double>(of_group);
  };
  for (int64_t count = outer.value() / 2; count >= 1 && count * inside >= least_tiles * tile.rows; --count)
    if (outer.value() % count == 0 && static_cast<double>(count * inside) * row <= target.second_cache * 0.85 &&
        padded(count) <= most_waste * padded(outer.value()))
      return {true, count};
  return {true, 0};
}

void group_rows(Kernel& kernel, int64_t rows) {
  Stmt* found = nullptr;
  for_each_stmt(kernel.body, [&](Stmt& stmt) {
    if (stmt.loop && stmt.loop->var == kernel.contraction->rows[0]) found = &stmt;
  });
  const std::set<std::string> used = variables_of(kernel);
  int n = 0;
  while (used.count(str("g", n))) ++n;
  Stmt inner = std::move(*found);
  const std::string var = inner.loop->var;
  Stmt groups = loop_stmt(str("g", n), Expr(inner.loop->extent.value() / rows));
  const Substitution map{{var, Expr::symbol(groups.loop->var) * rows + Expr::symbol(var)}};
  for_each_stmt(inner.loop->body, [&](Stmt& stmt) {
    for (Expr& e : stmt.index) e = substitute(e, map);
    stmt.expr = substitute(stmt.expr, map);
    if (stmt.loop) stmt.loop->extent = substitute(stmt.loop->extent, map);
  });
  rename_in_names(kernel, map);
  inner.loop->extent = Expr(rows);
  kernel.contraction->batch.push_back(groups.loop->var);
  groups.loop->body.push_back(std::move(inner));
  *found = std::move(groups);
}

}  // namespace kiln::loops
