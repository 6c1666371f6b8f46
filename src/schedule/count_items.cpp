// Says into how many independent parts each kernel falls, and how many of them are worth waking a thread.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {

double work_of(const Body& body, const LoopProgram& program) {
  double work = 0;
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::loop)
      work += std::max(1.0, estimate(stmt.loop->extent, program)) *
              (work_of(stmt.loop->body, program) + work_of(stmt.loop->after, program) + 0.5);
    else if (stmt.kind == StmtKind::op)
      work += scalar_op_info(stmt.op).cost;
    else if (stmt.kind != StmtKind::constant)
      work += 1;
  }
  return work;
}

namespace {

// Of multiply-adds whose sums run in registers, and of those of matrix instructions.
constexpr double products_worth_a_thread = 350000, matrix_products_worth_a_thread = 2500000;

int64_t parts(double enough, double work) { return std::max<int64_t>(1, static_cast<int64_t>(enough / work)); }

// Multiply-adds of an item whose sums run in registers: statements around them are shared by many.
double products_of(const Body& body, const LoopProgram& program) {
  double all = 0;
  for (const Stmt& stmt : body)
    if (stmt.loop) {
      const double inside = stmt.loop->role == AxisRole::reduce && any_summed_product(*stmt.loop)
                                ? 1.0
                                : products_of(stmt.loop->body, program);
      all += std::max(1.0, estimate(stmt.loop->extent, program)) * inside;
    }
  return all;
}

int64_t grain_of(const Kernel& kernel, const LoopProgram& program) {
  const Tile& tile = kernel.schedule->tile;
  // Pools take points too, but multiply nothing.
  const double products = takes_points(kernel) ? products_of(*item_loops(kernel).body, program) : 0;
  if (products > 0) return parts(products_worth_a_thread, products);
  if (tile.rows == 0) return parts(worth_a_thread, std::max(1.0, work_of(*item_loops(kernel).body, program)));
  // An item costs its rows times columns times terms; where those are dynamic each is worth a thread.
  const ContractionNest nest = contraction_nest(kernel);
  const Expr columns = tile.beside ? Expr(tile.vectors * kernel.schedule->lanes) : nest.innermost_column().extent;
  const Expr terms = nest.term_count();
  if (!columns.is_constant() || !terms.is_constant()) return 1;
  return parts(tile.matrix ? matrix_products_worth_a_thread : products_worth_a_thread,
               static_cast<double>(tile.rows * tile.high) * static_cast<double>(std::max<int64_t>(1, columns.value())) *
                   static_cast<double>(std::max<int64_t>(1, terms.value())));
}

// A product of one row reads its matrix once: each item other lines of it.
bool reads_matrix_once(const Kernel& kernel, const LoopProgram& program) {
  const bool many_rows = kernel.schedule->tile.rows > 0 && !contraction_nest(kernel).row_count().is_constant(1);
  if (kernel.schedule->lanes == 1 || many_rows || takes_points(kernel)) return false;
  const ItemLoops items = item_loops(kernel);
  const RangeEnv env = kernel_ranges(kernel, program);
  bool found = false;
  for_each_stmt(*items.body, [&](const Stmt& sum) {
    if (!sum.loop || sum.loop->role != AxisRole::reduce || !summed_product(*sum.loop)) return;
    for (const Stmt& load : sum.loop->body) {
      if (load.kind != StmtKind::load) continue;
      const Buffer& buffer = program.buffers[static_cast<size_t>(load.buffer)];
      if ((buffer.role != BufferRole::constant && buffer.role != BufferRole::derived) ||
          estimate(buffer_bytes(buffer), program) < far_matrix)
        continue;
      const Expr address = address_of(load, program, env);
      found |= std::all_of(items.loops.begin(), items.loops.end(), [&](const Loop* loop) {
        return loop->extent.is_constant(1) || mentions(address, loop->var);
      });
    }
  });
  return found;
}

}  // namespace

bool count_items(LoopProgram& program, Log&) {
  auto each = [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel) return;
    kernel->schedule->items = item_count(*kernel);
    kernel->schedule->grain = grain_of(*kernel, program);
    kernel->schedule->turns = kernel->schedule->grid.threads == 0 && reads_matrix_once(*kernel, program);
  };
  for_each_item(program.init, each);
  for_each_item(program.block, each);
  return true;
}

}  // namespace kiln::loops
