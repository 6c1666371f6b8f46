// Says in which order each float sum is added up: a sum over products with fused multiply-adds, a long one in blocks.
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// Long float sums are added up in blocks of so many terms, so that the rounding error does not grow with their length.
// A fused multiply-add rounds once, and eager's matrix products have long blocks too; plain sums eager adds up in a
// tree.
constexpr int64_t block_of_products = 256, block_of_terms = 64;

void order(Loop& loop, bool inside_lanes, bool in_tile) {
  loop.order = SumOrder();
  if (loop.role != AxisRole::reduce || loop.reduce != ReduceOp::sum || !kiln::is_float(loop.reduce_dtype)) return;
  loop.order.fused = summed_product(loop) != nullptr;
  const int64_t block = loop.order.fused ? block_of_products : block_of_terms;
  loop.order.meet = loop.reduce_dtype;
  if (loop.extent.is_constant() && loop.extent.value() <= block) return;
  loop.order.block = block;
  // Blocks of f32 in lanes meet in f64: that is done once per block.
  if (inside_lanes && !in_tile) loop.order.meet = loop.reduce_dtype == DType::f32 ? DType::f64 : loop.reduce_dtype;
}

void visit(Body& body, const Kernel& kernel, bool inside_lanes) {
  for (Stmt& stmt : body) {
    if (!stmt.loop) continue;
    Loop& loop = *stmt.loop;
    const bool in_tile = kernel.schedule->tile.rows > 0 && kernel.contraction->sums.back() == loop.var;
    order(loop, inside_lanes, in_tile);
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
