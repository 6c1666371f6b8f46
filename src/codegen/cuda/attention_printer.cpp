// Attention as a block of threads runs it (Grid::keys): the rows' factor comes into shared memory once, keys and what
// they weigh some at a time; scores and weights stay in registers (gpu_attend, prelude_attention.cpp).
#include "codegen/cuda/dialect.h"
#include "codegen/cuda/tile_printer.h"
#include "loops/key_slices.h"

namespace kiln::codegen {
using namespace loops;

// What the loops make of a product: the score of a row and a key.
void CudaTilePrinter::print_score(const AttentionNest& nest) {
  p_.line("const auto score = [&](f32 product, i64 row, i64 key) {");
  ++p_.depth_;
  p_.line(str("const i64 ", nest_.innermost_row().var, " = row, ", nest_.innermost_column().var, " = key;"));
  std::set<ValueId> wanted = {nest.score->args[0]};
  Stmts after = after_sum(wanted);
  after.pop_back();  // the store
  p_.shared_ = true;
  print_all(around(wanted));
  p_.define(result_->results[0], "product", false);
  print_all(after);
  p_.shared_ = false;
  p_.line(str("return ", p_.name(nest.score->args[0]), ";"));
  --p_.depth_;
  p_.line("};");
}

void CudaTilePrinter::print_attention(KernelPrinter& p) {
  const AttentionNest nest = attention_nest(p.kernel_);
  const Grid& grid = p.kernel_.schedule->grid;
  const Contraction& names = *p.kernel_.contraction;
  Product first{nest.scores, grid, names.left, names.right, "key", false};
  first.grid.tile_columns = grid.keys;
  Product second{nest.values, grid, no_value, nest.value, "value", true, nest.scaled};
  second.grid.tile_terms = grid.keys, second.grid.right_along_terms = false;
  second.grid.right_chunk = grid.value_chunk;
  CudaTilePrinter scores(p, std::move(first)), values(p, std::move(second));

  const DType type = scores.tile_type(true);
  const std::string storage = storage_type(type);
  const int64_t row_size = grid.tile_rows * grid.tile_terms, key_size = grid.keys * grid.tile_terms;
  p.line("gpu_dynamic_shared(memory);");
  p.line(str(storage, "* const left_tiles = (", storage, "*)memory;"));
  p.line(str(storage, "* const key_tiles = left_tiles + ", row_size, ";"));
  p.line(str(storage, "* const value_tiles = key_tiles + ", grid.stages * key_size, ";"));
  const int64_t slices = key_slices(grid), row_warps = grid.tile_rows / 16;
  const bool together = grid.parts > 1 || slices > 1;  // others have weighed other keys for the same rows
  p.line(str("const int warp = threadIdx.x / 32, warp_row = warp % ", row_warps, " * 16, slice = warp / ", row_warps,
             ", warp_column = 0;"));
  p.open(p.dialect_.items());
  if (grid.parts > 1)
    p.line(str("i64 tile = item / ", grid.parts, "; const int part = (int)(item % ", grid.parts, ");"));
  else
    p.line("i64 tile = item; const int part = 0;");
  p.line(
      str("const i64 row_tiles = gpu_quotient(", scores.rows_, " + ", grid.tile_rows - 1, ", ", grid.tile_rows, ");"));
  p.line(str("const i64 row_begin = gpu_remainder(tile, row_tiles) * ", grid.tile_rows,
             "; tile = gpu_quotient(tile, row_tiles);"));
  scores.decode(scores.nest_.batch, "tile", "batch");
  // Rows that are not there are computed as the last one, and not stored.
  p.line(str("const i64 last_row = ", scores.rows_, " - 1;"));
  const std::string keys = scores.columns_;
  if (grid.causal)
    p.line(str("const i64 seen = k_min((i64)(row_begin + ", grid.tile_rows, "), (i64)", keys, ");"));
  else
    p.line(str("const i64 seen = ", keys, ";"));
  p.line(str("const int steps = (int)gpu_quotient(seen + ", grid.keys - 1, ", ", grid.keys, ");"));
  p.line(str("const int turns = (steps - part + ", grid.parts - 1, ") / ", grid.parts, ";"));
  scores.print_score(nest);
  {  // The rows' factor: with the first keys.
    p.open("");
    p.line(str("const int ", scores.turn(), " = 0;"));
    p.line("const i64 term_begin = 0;");
    scores.print_stage(true);
    p.close();
  }
  p.line("const i64 column_begin = 0;");
  values.print_word_origins(false);
  p.line(str("const auto fetch = [&](int ", scores.turn(), ") {"));
  ++p.depth_;
  if (grid.parts > 1) p.line(str("const int step = turn * ", grid.parts, " + part;"));
  p.open("if (step < steps)");
  const auto fetched = [&](CudaTilePrinter& product, const std::string& place) {
    p.open("");
    p.line(place);
    product.print_stage(false);
    p.close();
  };
  fetched(scores, str("const i64 column_begin = (i64)step * ", grid.keys, ", term_begin = 0;"));
  fetched(values, str("const i64 term_begin = (i64)step * ", grid.keys, ";"));
  p.close();
  p.line("gpu_copy_commit();");
  --p.depth_;
  p.line("};");
  p.line(str("f32 sums[1][", grid.tile_columns / 8, "][4] = {}, top[2], total[2];"));
  const int64_t width = (nest.scores.innermost_sum().extent.value() + 15) / 16 * 16;
  p.line(str("gpu_attend<", type == DType::bf16 ? "gpu_of_bf16" : "gpu_of_f16", ", ", width, ", ", grid.tile_terms,
             ", ", grid.keys / slices, ", ", slices, ", ", grid.tile_columns, ", ", grid.stages, ", ",
             grid.weight_parts,
             ">(left_tiles, key_tiles, value_tiles, warp_row, slice, row_begin + warp_row, last_row, ", keys,
             ", part, ", grid.parts, ", turns, fetch, score, sums[0], top, total);"));
  // Where there are no keys the weighed sum is 0, as an empty sum is.
  const bool some = nest.scores.innermost_column().extent.is_constant();
  const std::string empty = nest.empty_rows_are_zero ? "true" : some ? "false" : str(keys, " == 0");
  if (!together) p.line(str("gpu_shares(sums[0], top, total, ", empty, ");"));
  p.line("gpu_copy_wait<0>();");
  p.line("__syncthreads();");
  if (together)
    values.print_joined_attention(empty);
  else
    values.print_spread_results();
  p.line("__syncthreads();");
  p.close();
}

// What warps and blocks have of a tile's rows comes together: each block takes some words of the results.
void CudaTilePrinter::print_joined_attention(const std::string& empty_rows_are_zero) {
  const int64_t vector = 8, line = grid_.tile_columns + 8, words = grid_.tile_columns / vector,
                slice = grid_.tile_rows * (line + 4);
  p_.line(str("f32* const joined = (f32*)memory, *const ends = joined + ", grid_.tile_rows * line, ";"));
  p_.line(str("gpu_spread_to<", grid_.thread_columns, ", ", line, ">(joined + slice * ", slice, " + warp_row * ", line,
              ", sums[0]);"));
  p_.line(str("gpu_row_ends(ends + slice * ", slice, " + warp_row * 4, top, total);"));
  const char* wait = grid_.parts > 1 ? "gpu_cluster_wait();" : "__syncthreads();";
  p_.line(wait);
  p_.open(str("for (int number = part * ", grid_.threads, " + threadIdx.x; number < ", grid_.tile_rows * words,
              "; number += ", grid_.parts * grid_.threads, ")"));
  p_.line(str("const int joined_row = number / ", words, ", joined_column = number % ", words, " * ", vector, ";"));
  p_.line("const i64 row = row_begin + joined_row, column = joined_column;");
  p_.line(str("if (row >= ", rows_, " || column >= ", columns_, ") continue;"));
  p_.line(str("f32 result[", vector, "];"));
  p_.line(str("gpu_join_shares<", grid_.parts, ", ", key_slices(grid_), ", ", slice, ">(result, joined + joined_row * ",
              line, " + joined_column, ends + joined_row * 4, ", empty_rows_are_zero, ");"));
  decode(nest_.rows, "row", "rest");
  print_after("result[e]", static_cast<int>(vector));
  p_.close();
  if (grid_.parts > 1) p_.line(wait);  // nobody writes, or is gone, while others read
}

}  // namespace kiln::codegen
