#include "schedule/attention_block.h"

#include <cmath>

#include "loop_passes/rewrite.h"
#include "schedule/factors.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr int64_t widest_head = 256;    // of a row's factor, and of what is weighed
constexpr int64_t keys_at_a_time = 64;  // their scores are a thread's registers
constexpr int64_t most_slices = 4;      // of the keys, that a block's warps have for the same few rows
constexpr double most_turns = 16;       // of a block that has few rows: then kernels that fill the GPU are faster

// Lines of a tile are powers of two, so that their words can be exchanged against bank conflicts.
int64_t line_for(int64_t width) {
  int64_t line = 16;
  while (line < width) line *= 2;
  return line;
}

}  // namespace

std::string use_attention_block(Kernel& kernel, DType weights, const LoopProgram& program, const Target& target) {
  const AttentionNest nest = attention_nest(kernel);
  const Expr &width = nest.scores.innermost_sum().extent, &columns = nest.values.innermost_column().extent;
  if (!width.is_constant() || !columns.is_constant() || width.value() > widest_head || columns.value() > widest_head)
    return str("rows of more than ", widest_head, ", or of a width that is not known");
  const FactorValue left = factor_value(nest.scores, kernel.contraction->left, true),
                    right = factor_value(nest.scores, kernel.contraction->right, false),
                    value = factor_value(nest.values, nest.value, false);
  if (left.dtype != right.dtype || left.dtype != value.dtype || (left.dtype != DType::bf16 && left.dtype != DType::f16))
    return "its factors are not all of bf16, or all of f16";
  Grid grid;
  grid.tensor_cores = true;
  // Where few rows there are, smaller blocks keep more of the GPU at work.
  double batch = 1;
  for (const Loop* loop : nest.scores.batch) batch *= std::max(1.0, estimate(loop->extent, program));
  const double rows = estimate(nest.scores.row_count(), program);
  const bool few = rows <= 16;  // a step of a decoder: the heads that share keys
  grid.tile_rows = few ? 16 : 64;
  while (grid.tile_rows > 32 && batch * std::ceil(rows / static_cast<double>(grid.tile_rows)) < target.multiprocessors)
    grid.tile_rows /= 2;
  grid.tile_terms = line_for(width.value()), grid.tile_columns = line_for(columns.value());
  grid.thread_rows = 16, grid.thread_columns = grid.tile_columns;
  // Few rows leave warps and multiprocessors idle: these share the keys.
  const double all_keys = estimate(nest.scores.innermost_column().extent, program);
  int64_t slices = 1;
  while (few && slices < most_slices && static_cast<double>(2 * slices * keys_at_a_time) <= all_keys) slices *= 2;
  grid.threads = grid.team = static_cast<int>(grid.tile_rows / grid.thread_rows * 32 * slices);
  grid.keys = keys_at_a_time * slices, grid.stages = 2;
  const double steps = std::ceil(all_keys / static_cast<double>(grid.keys));
  while (few && grid.parts < target.most_parts && 2 * grid.parts <= steps &&
         batch * 2 * grid.parts <= 2.0 * target.multiprocessors)
    grid.parts *= 2;
  if (few && steps / grid.parts > most_turns) return "few rows with so many keys that other kernels read them faster";
  grid.left_along_terms = grid.right_along_terms = true;
  const auto chunk = [&](const ContractionNest& product, const FactorValue& factor, bool is_left, bool along_terms) {
    const Chunks found = chunks_of(product, factor, is_left, 8, kernel, program);
    return found.along_terms == along_terms ? found.chunk : 1;
  };
  grid.left_chunk = chunk(nest.scores, left, true, true);
  grid.right_chunk = chunk(nest.scores, right, false, true);
  grid.value_chunk = chunk(nest.values, value, false, false);
  // Of a weight of f32 two narrow numbers have 16 bits at least, far more than the narrow factor that it is multiplied
  // with; against the greatest weight, which is 1, that is all that shows.
  grid.weight_parts = weights == value.dtype ? 1 : 2;
  grid.causal = sees_no_later_keys(kernel);
  const int64_t stage = grid.keys * (grid.tile_terms + grid.tile_columns);
  if (2 * (grid.tile_rows * grid.tile_terms + grid.stages * stage) > target.shared_memory)
    return "its keys do not fit into shared memory";
  for (const auto* part : {&nest.scores.batch, &nest.scores.rows})
    for (const Loop* loop : *part) const_cast<Loop*>(loop)->directives = {Binding::item, 0, Tail::exact};
  kernel.schedule = Schedule();
  kernel.schedule->grid = grid;
  return "";
}

}  // namespace kiln::loops
