// Says in which order each float sum is added up: a sum over products with fused multiply-adds, a long one in blocks.
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// Long float sums are added up in blocks of so many terms, so that the rounding error does not grow with their length.
// A fused multiply-add rounds once, and eager's matrix products have long blocks too; plain sums eager adds up in a
// tree.
constexpr int64_t block_of_products = 256, block_of_terms = 64;

void order(Loop& loop, bool inside_lanes) {
  loop.order = SumOrder();
  if (loop.role != AxisRole::reduce || loop.reduce != ReduceOp::sum || !kiln::is_float(loop.reduce_dtype)) return;
  loop.order.fused = summed_product(loop) != nullptr;
  const int64_t block = loop.order.fused ? block_of_products : block_of_terms;
  loop.order.meet = loop.reduce_dtype;
  if (loop.extent.is_constant() && loop.extent.value() <= block) return;
  loop.order.block = block;
  // Blocks of f32 in lanes meet in f64: that is done once per block.
  if (inside_lanes) loop.order.meet = loop.reduce_dtype == DType::f32 ? DType::f64 : loop.reduce_dtype;
}

// The nested sums of a tile go on adding to one accumulator, until a block is full: the outermost of them whose
// iterations are short enough restarts it with each.
void order_tile(Body& columns, const std::vector<std::string>& sums) {
  std::vector<Loop*> loops;
  for (Body* body = &columns; loops.size() < sums.size();)
    for (Stmt& stmt : *body)
      if (stmt.loop && stmt.loop->var == sums[loops.size()]) {
        loops.push_back(stmt.loop.get());
        body = &stmt.loop->body;
        break;
      }
  for (Loop* loop : loops) {
    loop->order = SumOrder();
    loop->order.meet = loop->reduce_dtype;
  }
  loops.back()->order.fused = true;
  int64_t terms = 1;
  for (size_t l = loops.size(); l-- > 0;) {
    const Expr& extent = loops[l]->extent;
    if (extent.is_constant() && extent.value() * terms <= block_of_products) {
      terms *= std::max<int64_t>(1, extent.value());
      continue;
    }
    loops[l]->order.block = std::max<int64_t>(1, block_of_products / terms);
    return;
  }
}

void visit(Body& body, const Kernel& kernel, bool inside_lanes) {
  const bool tiled = kernel.schedule && kernel.schedule->tile.rows > 0;
  for (Stmt& stmt : body) {
    if (!stmt.loop) continue;
    Loop& loop = *stmt.loop;
    if (tiled && kernel.contraction->sums.front() == loop.var) {
      order_tile(body, kernel.contraction->sums);
      continue;
    }
    order(loop, inside_lanes);
    const bool lanes = inside_lanes || loop.directives.binding == Binding::lane;
    visit(loop.body, kernel, lanes);
    visit(loop.after, kernel, lanes);
  }
}

}  // namespace

bool order_sums(LoopProgram& program, Log&) {
  auto each = [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) visit(kernel->body, *kernel, false);
  };
  for_each_item(program.init, each);
  for_each_item(program.block, each);
  return true;
}

}  // namespace kiln::loops
