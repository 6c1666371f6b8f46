// Says in which order each float sum is added up: a sum over products with fused multiply-adds, a long one in blocks.
#include "loop_passes/contraction.h"
#include "loops/lane_pairs.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// Long float sums are added up in blocks of so many terms, so that the rounding error does not grow with their length.
// Eager's matrix products have long blocks too. Plain sums eager adds up in a tree, sums of squares among them: of
// terms that are alike every addition is rounded the same way, and a block's error grows with its square.
constexpr int64_t block_of_products = 256;
constexpr int64_t block_of_thread = 64;  // of a GPU's, which has a part of a sum only
// Where rows or vectors run side by side the sums of a block wait in memory: twice as many blocks would cost attention
// over few keys a quarter of its time.
constexpr int64_t block_side_by_side = 64;
// Where all that a product stores is rounded to bf16, that loses far more than such sums do.
constexpr int64_t block_of_pairs = 4096;
// Two or three rows eager multiplies as dot products, in lanes, whose sums are shorter. Such a tile waits for its
// weights, and blocks that are not all too short cost nothing beside that.
constexpr int64_t rows_of_dot_products = 3, block_of_dot_products = 64;

// Where a sum stands: how many terms it ever has; among loops that do not all go through both its factors, so that it
// is a product's; among lanes, or a thread's part on a GPU.
struct Surroundings {
  int64_t most_terms;
  bool contraction, lanes, thread, side_by_side;
};

// Who made the loop may have asked for shorter blocks.
void order(Loop& loop, const Surroundings& at, int lanes) {
  const int64_t asked = loop.order.block;
  loop.order = SumOrder();
  if (loop.role != AxisRole::reduce || loop.reduce != ReduceOp::sum || !kiln::is_float(loop.reduce_dtype)) return;
  loop.order.fused = summed_product(loop) != nullptr;
  loop.order.pairs = takes_pairs(loop, lanes) || takes_pairs_in_tile(loop);
  const bool product = loop.order.fused && (at.contraction || at.thread);
  const int64_t block = asked > 0         ? asked
                        : product         ? block_of_products
                        : at.thread       ? block_of_thread
                        : at.side_by_side ? block_side_by_side
                                          : block_of_terms;
  loop.order.meet = loop.reduce_dtype;
  // In lanes a block is so many vectors; that of a product may run in chains.
  const int64_t in_lanes = loop.directives.binding == Binding::lane && !product ? loop.directives.factor : 1;
  if ((at.most_terms - 1) / in_lanes < block) return;
  loop.order.block = block;
  // Blocks of f32 in lanes meet in f64: that is done once per block. So do those of long plain sums, of which there are
  // as many as would lose what a block keeps.
  const bool long_sum = !product && at.most_terms > block * block;
  if (at.lanes || at.thread || long_sum)
    loop.order.meet = loop.reduce_dtype == DType::f32 ? DType::f64 : loop.reduce_dtype;
}

// A product with one row streams the other factor: waiting for each addition it would read a sixth less in a second.
void order_chains(Loop& loop) {
  const bool whole = loop.directives.binding == Binding::lane && loop.extent.is_constant() &&
                     loop.extent.value() % (2 * loop.directives.factor) == 0;
  if (loop.order.fused && loop.order.block > 0 && whole) loop.order.chains = 2;
}

// A sum whose terms are sums themselves, in lanes: where there are more terms than a few, the outermost one adds up in
// f64, so that what nested sums of f32 lose does not add up.
constexpr int64_t few_terms = 16;

bool of_sums(const Loop& loop) {
  return loop.role == AxisRole::reduce && loop.reduce == ReduceOp::sum && loop.reduce_dtype == DType::f32 &&
         std::any_of(loop.body.begin(), loop.body.end(), [](const Stmt& stmt) {
           return stmt.loop && stmt.loop->role == AxisRole::reduce && stmt.loop->reduce == ReduceOp::sum;
         });
}

int64_t terms_of(const Loop& loop) {
  if (!loop.extent.is_constant()) return INT32_MAX;
  int64_t inner = 1;
  for (const Stmt& stmt : loop.body)
    if (stmt.loop) inner = std::max(inner, terms_of(*stmt.loop));
  return std::min<int64_t>(INT32_MAX, loop.extent.value() * inner);
}

// The nested sums of a tile go on adding to one accumulator, until a block is full: the outermost of them whose
// iterations are short enough restarts it with each.
void order_tile(Body& columns, const std::vector<std::string>& sums, const Tile& tile, bool rounded) {
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
  loops.back()->order.pairs = tile.pairs || tile.matrix;
  if (tile.matrix) {  // each instruction adds up its terms by itself
    loops.back()->order.block = 32;
    return;
  }
  const bool few_rows = tile.rows <= rows_of_dot_products && !tile.pairs;
  const int64_t block = tile.pairs && rounded ? block_of_pairs : few_rows ? block_of_dot_products : block_of_products;
  int64_t terms = 1;
  for (size_t l = loops.size(); l-- > 0;) {
    const Expr& extent = loops[l]->extent;
    if (extent.is_constant() && extent.value() * terms <= block) {
      terms *= std::max<int64_t>(1, extent.value());
      continue;
    }
    loops[l]->order.block = std::max<int64_t>(1, block / terms);
    return;
  }
}

// A block's tile adds its products one by one, as a matrix product of eager's does.
void order_block_tile(Body& body) {
  for_each_stmt(body, [](Stmt& stmt) {
    if (!stmt.loop) return;
    stmt.loop->order = SumOrder();
    stmt.loop->order.meet = stmt.loop->reduce_dtype;
    stmt.loop->order.fused = summed_product(*stmt.loop) != nullptr;
  });
}

// Of points that are taken together: nested sums go on adding to one accumulator, which take_points saw are few terms.
void order_points(Loop& points) {
  const auto lanes =
      std::find_if(points.body.begin(), points.body.end(), [](const Stmt& s) { return s.loop != nullptr; });
  if (lanes == points.body.end()) return;
  for_each_stmt(lanes->loop->body, [](Stmt& stmt) {
    if (!stmt.loop) return;
    stmt.loop->order = SumOrder();
    stmt.loop->order.meet = stmt.loop->reduce_dtype;
    stmt.loop->order.fused = summed_product(*stmt.loop) != nullptr;
  });
}

bool stores_bf16(const Kernel& kernel) {
  bool all = true;
  for_each_stmt(kernel.body,
                [&](const Stmt& stmt) { all &= stmt.kind != StmtKind::store || stmt.dtype == DType::bf16; });
  return all;
}

// `in_tile`: inside of rows that run side by side, where blocks wait in memory and are as many as the registers.
// `wide`: inside of lanes that are several vectors.
void visit(Body& body, const Kernel& kernel, const RangeEnv& env, std::vector<const Loop*>& around,
           bool inside_lanes = false, bool inside_sum = false, bool in_tile = false, bool wide = false) {
  if (kernel.schedule && kernel.schedule->grid.tile_rows > 0) return order_block_tile(body);
  const bool tiled = kernel.schedule && kernel.schedule->tile.rows > 0;
  for (Stmt& stmt : body) {
    if (!stmt.loop) continue;
    Loop& loop = *stmt.loop;
    if (tiled && kernel.contraction->sums.front() == loop.var) {
      if (kiln::is_float(loop.reduce_dtype))  // integers add up to the same in any order
        order_tile(body, kernel.contraction->sums, kernel.schedule->tile, stores_bf16(kernel));
      continue;
    }
    // The threads of a team add up parts of their own: one by one, as inside of lanes.
    const bool shared = kernel.schedule && kernel.schedule->grid.threads > 0;
    const int64_t known = loop.extent.is_constant() ? loop.extent.value() : INT64_MAX;
    order(loop,
          {in_tile ? range_of(loop.extent, env).high : known, is_contraction(loop, around), inside_lanes && !in_tile,
           shared, in_tile || wide},
          kernel.schedule ? kernel.schedule->lanes : 1);
    if (!shared && !loop.order.pairs) order_chains(loop);
    // Of a row in registers each thread has a few terms, which it adds up one by one.
    if (shared && kernel.schedule->grid.hold > 0 && loop.order.block > 0) {
      loop.order.block = 0;
      loop.order.meet = loop.reduce_dtype;
    }
    if (inside_lanes && !in_tile && !inside_sum && of_sums(loop) && terms_of(loop) > few_terms) {
      loop.order.block = std::max<int64_t>(1, loop.order.block);
      loop.order.meet = DType::f64;
    }
    const bool lanes = inside_lanes || loop.directives.binding == Binding::lane;
    const bool sum = inside_sum || (loop.role == AxisRole::reduce && loop.reduce == ReduceOp::sum);
    const bool unrolled = loop.role == AxisRole::parallel && loop.directives.binding == Binding::unroll;
    const bool peeled = unrolled && loop.directives.tail == Tail::peel;
    const bool side_by_side = in_tile || (unrolled && !peeled);
    const bool vectors =
        wide || (kernel.schedule && loop.role == AxisRole::parallel && loop.directives.binding == Binding::lane &&
                 loop.directives.factor > kernel.schedule->lanes);
    around.push_back(&loop);
    visit(loop.body, kernel, env, around, lanes, sum, side_by_side, vectors);
    visit(loop.after, kernel, env, around, lanes, sum, side_by_side, vectors);
    around.pop_back();
    if (peeled) order_points(loop);
  }
}

}  // namespace

bool order_sums(LoopProgram& program, Log&) {
  auto each = [&](Item& item) {
    std::vector<const Loop*> around;
    if (auto* kernel = std::get_if<Kernel>(&item.what))
      visit(kernel->body, *kernel, kernel_ranges(*kernel, program), around);
  };
  for_each_item(program.init, each);
  for_each_item(program.block, each);
  return true;
}

}  // namespace kiln::loops
