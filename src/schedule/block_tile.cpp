// A contraction on a GPU: a block of threads has a tile of the results; both factors' parts of it come into memory that
// the block shares, some terms at a time, and each thread adds up a small tile of its own in registers.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr int tile_threads = 256;

bool is_pure(const Stmt& stmt) {
  return stmt.kind == StmtKind::op || stmt.kind == StmtKind::constant || stmt.kind == StmtKind::index_value ||
         stmt.kind == StmtKind::load;
}

// Whether nothing but values stands in front of the next loop, and nothing behind it.
bool leads_to(const Body& body, const Loop* next) {
  for (size_t i = 0; i + 1 < body.size(); ++i)
    if (!is_pure(body[i])) return false;
  return !body.empty() && body.back().loop.get() == next;
}

std::string block_tile_refusal(const Kernel& kernel, const ContractionNest& nest, const LoopProgram& program) {
  std::vector<const Loop*> loops;
  for (const auto* part : {&nest.batch, &nest.rows, &nest.columns})
    loops.insert(loops.end(), part->begin(), part->end());
  const Body* body = &kernel.body;
  for (const Loop* loop : loops) {
    if (!leads_to(*body, loop)) return "more than its loops stands around it";
    if (loop->directives.binding != Binding::none) return "its loops run in order";
    body = &loop->body;
  }
  bool summed = false;
  for (const Stmt& stmt : *body) {
    const bool sum = &stmt == nest.sums.front().stmt;
    if (!sum && !is_pure(stmt) && !(summed && stmt.kind == StmtKind::store && stmt.mode == StoreMode::plain))
      return "its results are used by more than values and stores";
    summed |= sum;
  }
  std::set<std::string> inner;
  for (const Loop* loop : loops) inner.insert(loop->var);
  for (const ContractionNest::Sum& sum : nest.sums) {
    inner.insert(sum.stmt->loop->var);
    for (const auto* part : {&sum.left, &sum.right, &sum.shared})
      for (const Stmt* stmt : *part)
        if (!is_pure(*stmt)) return "its factors are more than values";
  }
  for (const ContractionNest::Sum& sum : nest.sums) loops.push_back(sum.stmt->loop.get());
  for (const Loop* loop : loops)
    for (const std::string& var : inner)
      if (mentions(loop->extent, var)) return "the length of a loop depends on another loop";
  const DType type = nest.innermost_sum().reduce_dtype;
  if (type != DType::f32 && type != DType::f64) return "its sum is of no float type";
  if (estimate(nest.row_count(), program) < 16) return "fewer than 16 rows: a warp for each result reads as much";
  if (estimate(nest.term_count(), program) < 8) return "fewer than 8 terms";
  double columns = 1;
  for (const Loop* loop : nest.columns) columns *= estimate(loop->extent, program);
  if (columns < 16) return "fewer than 16 columns";
  return "";
}

// Whether a factor lies along the innermost sum.
bool lies_along_terms(const std::vector<ContractionNest::Sum>& sums, bool left, const Kernel& kernel,
                      const LoopProgram& program) {
  const RangeEnv env = kernel_ranges(kernel, program);
  for (const ContractionNest::Sum& sum : sums)
    for (const Stmt* stmt : left ? sum.left : sum.right) {
      if (stmt->kind != StmtKind::load) continue;
      const auto along = affine_in(address_of(*stmt, program, env), sums.back().stmt->loop->var);
      if (along && along->coefficient.is_constant(1)) return true;
    }
  return false;
}

}  // namespace

bool use_block_tile(LoopProgram& program, Kernel& kernel, Log& log) {
  const ContractionNest nest = contraction_nest(kernel);
  const std::string why = block_tile_refusal(kernel, nest, program);
  if (!why.empty()) {
    log.add([&] { return Decision{"no tile of a block for", kernel.name, "", "", why, false, ""}; });
    return false;
  }
  double columns = 1;
  for (const Loop* loop : nest.columns) columns *= estimate(loop->extent, program);
  const double rows = estimate(nest.row_count(), program);
  Grid grid{tile_threads, tile_threads};
  // Large tiles read less; where few of them there would be, small ones keep more of the GPU at work.
  const bool large = rows * columns >= 128.0 * 128 * 132 && nest.innermost_sum().reduce_dtype == DType::f32;
  grid.tile_rows = grid.tile_columns = large ? 128 : rows * columns >= 64.0 * 64 * 132 ? 64 : 32;
  grid.tile_terms = large ? 8 : 16;
  grid.thread_rows = grid.thread_columns = grid.tile_rows / 16;
  grid.left_along_terms = lies_along_terms(nest.sums, true, kernel, program);
  grid.right_along_terms = lies_along_terms(nest.sums, false, kernel, program);
  for (const auto* part : {&nest.batch, &nest.rows, &nest.columns})
    for (const Loop* loop : *part) const_cast<Loop*>(loop)->directives = {Binding::item, 0, Tail::exact};
  kernel.schedule = Schedule();
  kernel.schedule->grid = grid;
  log.add([&] {
    return Decision{"tile of a block for",
                    kernel.name,
                    "",
                    "",
                    str(grid.tile_rows, " rows by ", grid.tile_columns, " columns"),
                    true,
                    ""};
  });
  return true;
}

}  // namespace kiln::loops
