#include "codegen/cuda/tile_printer.h"

#include "codegen/cuda/dialect.h"
#include "schedule/schedule.h"

namespace kiln::codegen {
using namespace loops;
namespace {

Expr product_of(const std::vector<const Loop*>& loops) {
  Expr all = 1;
  for (const Loop* loop : loops) all = all * loop->extent;
  return all;
}

}  // namespace

void CudaDialect::print_block_tile(KernelPrinter& printer) const {
  if (grid_.keys > 0) return CudaTilePrinter::print_attention(printer);
  CudaTilePrinter(printer).print();
}

CudaTilePrinter::CudaTilePrinter(KernelPrinter& printer)
    : CudaTilePrinter(printer, Product{contraction_nest(printer.kernel_), printer.kernel_.schedule->grid,
                                       printer.kernel_.contraction->left, printer.kernel_.contraction->right}) {}

CudaTilePrinter::CudaTilePrinter(KernelPrinter& printer, Product product)
    : p_(printer),
      nest_(std::move(product.nest)),
      grid_(product.grid),
      left_(product.left),
      right_(product.right),
      right_side_(product.right_side),
      steps_are_terms_(product.steps_are_terms),
      result_(product.result ? product.result : nest_.sums.front().stmt),
      type_(c_type(nest_.innermost_sum().reduce_dtype)),
      rows_(printer.expr(nest_.row_count())),
      columns_(printer.expr(product_of(nest_.columns))),
      terms_(printer.expr(nest_.term_count())) {}

// The loops' variables from their common number.
void CudaTilePrinter::decode(const Loops& loops, const std::string& flat, const char* rest) {
  if (loops.empty()) return;
  if (loops.size() == 1) return p_.line(str("const i64 ", loops[0]->var, " = ", flat, ";"));
  const Expr count = product_of(loops);
  if (count.is_constant() && count.value() < INT32_MAX / 2) {  // 32 bits are enough
    p_.line(str("u32 ", rest, " = (u32)", flat, ";"));
    for (size_t i = loops.size(); i-- > 1;) {
      const int64_t extent = loops[i]->extent.value();
      p_.line(str("const i64 ", loops[i]->var, " = ", rest, " % ", extent, "u; ", rest, " /= ", extent, "u;"));
    }
    return p_.line(str("const i64 ", loops[0]->var, " = ", rest, ";"));
  }
  p_.line(str("i64 ", rest, " = ", flat, ";"));
  for (size_t i = loops.size(); i-- > 1;) {
    const std::string extent = p_.expr(loops[i]->extent);
    p_.line(str("const i64 ", loops[i]->var, " = ", p_.dialect_.remainder(rest, extent), "; ",
                p_.dialect_.divide(rest, extent), ";"));
  }
  p_.line(str("const i64 ", loops[0]->var, " = ", rest, ";"));
}

// Of what stands around the sums: the statements that make these values, in order.
CudaTilePrinter::Stmts CudaTilePrinter::around(const std::set<ValueId>& wanted) const {
  Stmts all;
  auto add = [&](const Body& body) {
    for (const Stmt& stmt : body) {
      if (stmt.loop) break;
      all.push_back(&stmt);
    }
  };
  add(p_.kernel_.body);
  for (const auto* part : {&nest_.batch, &nest_.rows, &nest_.columns})
    for (const Loop* loop : *part) add(loop->body);
  std::set<ValueId> needed = wanted;
  Stmts out;
  for (size_t i = all.size(); i-- > 0;) {
    if (!needed.contains(all[i]->results.at(0))) continue;
    needed.insert(all[i]->args.begin(), all[i]->args.end());
    needed.insert(all[i]->mask);
    out.insert(out.begin(), all[i]);
  }
  return out;
}

void CudaTilePrinter::print_all(const Stmts& stmts) {
  for (const Stmt* stmt : stmts) p_.print_stmt(*stmt);
}

// Both factors' parts of a tile come into shared memory some stages ahead; then results are made of them.
void CudaTilePrinter::print() {
  const char *left_type = storage_type(tile_type(true)), *right_type = storage_type(tile_type(false));
  const int64_t left_size = line_length(true) * lines(true);
  p_.line("gpu_dynamic_shared(memory);");
  p_.line(str(left_type, "* const left_tiles = (", left_type, "*)memory;"));
  p_.line(str(right_type, "* const right_tiles = (", right_type, "*)(left_tiles + ", grid_.stages * left_size, ");"));
  const int64_t beside = grid_.tile_columns / grid_.thread_columns;
  if (grid_.warpgroups)
    p_.line(str("const int warp = threadIdx.x / 32, group_row = warp / 4 / ", beside, " * ", grid_.thread_rows,
                ", warp_row = group_row + warp % 4 * 16, warp_column = warp / 4 % ", beside, " * ",
                grid_.thread_columns, ";"));
  else if (grid_.tensor_cores)
    p_.line(str("const int warp = threadIdx.x / 32, warp_row = warp / ", beside, " * ", grid_.thread_rows,
                ", warp_column = warp % ", beside, " * ", grid_.thread_columns, ";"));
  else
    p_.line(str("const int row_part = threadIdx.x / ", beside, ", column_part = threadIdx.x % ", beside, ";"));
  p_.open(p_.dialect_.items());
  const bool together = grid_.parts > 1;  // with the other blocks of the cluster
  if (together)
    p_.line(str("i64 tile = item / ", grid_.parts, "; const int part = (int)(item % ", grid_.parts, ");"));
  else
    p_.line("i64 tile = item;");
  auto begin = [&](const char* name, const std::string& extent, int64_t size) {
    p_.line(str("const i64 ", name, "s = gpu_quotient(", extent, " + ", size - 1, ", ", size, ");"));
    p_.line(str("const i64 ", name, "_begin = gpu_remainder(tile, ", name, "s) * ", size,
                "; tile = gpu_quotient(tile, ", name, "s);"));
  };
  begin("column", columns_, grid_.tile_columns);
  begin("row", rows_, grid_.tile_rows);
  decode(nest_.batch, "tile", "batch");
  if (grid_.tensor_cores)
    p_.line(str("f32 sums[", row_groups(), "][", grid_.thread_columns / 8, "][4] = {};"));
  else
    p_.line(str(type_, " sums[", grid_.thread_rows, "][", grid_.thread_columns, "] = {};"));
  p_.line(
      str("const int steps = (int)gpu_quotient(", terms_, " + ", grid_.tile_terms - 1, ", ", grid_.tile_terms, ");"));
  if (together) p_.line(str("const int turns = (steps - part + ", grid_.parts - 1, ") / ", grid_.parts, ";"));
  for (const bool left : {true, false})
    if ((left ? grid_.left_chunk : grid_.right_chunk) > 1) print_word_origins(left);
  // What one stage fetches; where there is nothing left, nothing.
  p_.line(str("const auto fetch = [&](int ", turn(), ") {"));
  ++p_.depth_;
  if (together) p_.line(str("const int step = turn * ", grid_.parts, " + part;"));
  p_.open("if (step < steps)");
  p_.line(str("const i64 term_begin = (i64)step * ", grid_.tile_terms, ";"));
  const auto chunked = [&](bool left) { return (left ? grid_.left_chunk : grid_.right_chunk) > 1; };
  for (const bool left : {true, false})
    if (!chunked(left)) print_elements(left);
  // One look for all words: nothing stands between them.
  for (const char* wide : {"true", "false"}) {
    if (!chunked(true) && !chunked(false)) break;
    wide_ = wide;
    p_.open(wide[0] == 't' ? "if (wide)" : "else");
    for (const bool left : {true, false})
      if (chunked(left)) print_chunks(left);
    p_.close();
  }
  p_.close();
  p_.line("gpu_copy_commit();");
  --p_.depth_;
  p_.line("};");
  print_products();
  p_.line("gpu_copy_wait<0>();");
  p_.line("__syncthreads();");
  if (together) {
    print_joined_results();
    return p_.close();
  }
  if (grid_.tensor_cores)
    print_spread_results();
  else
    print_results();
  p_.line("__syncthreads();");
  p_.close();
}

// What the sums' bodies compute for a factor, in order; adds what that needs to `wanted`.
CudaTilePrinter::Stmts CudaTilePrinter::inside(bool left, std::set<ValueId>& wanted) const {
  Stmts out;
  for (const ContractionNest::Sum& sum : nest_.sums)
    for (const Stmt& stmt : sum.stmt->loop->body) {
      const Stmts& own = left ? sum.left : sum.right;
      const bool mine = std::find(own.begin(), own.end(), &stmt) != own.end() ||
                        std::find(sum.shared.begin(), sum.shared.end(), &stmt) != sum.shared.end();
      if (!mine) continue;
      out.push_back(&stmt);
      wanted.insert(stmt.args.begin(), stmt.args.end());
      wanted.insert(stmt.mask);
    }
  return out;
}

void CudaTilePrinter::print_products() {
  const std::string sizes = str(grid_.tile_rows, ", ", grid_.tile_columns, ", ", grid_.tile_terms, ", ");
  if (!grid_.tensor_cores)
    return p_.line(str("gpu_tile_sums<", sizes, line_length(true), ", ", line_length(false), ", ", grid_.stages,
                       ">(left_tiles, right_tiles, row_part, column_part, steps, fetch, sums);"));
  const DType dtype = tile_type(true), other = tile_type(false);
  const char* kind = dtype == DType::bf16 ? "gpu_of_bf16" : dtype == DType::f16 ? "gpu_of_f16" : "gpu_of_tf32";
  if (grid_.warpgroups)
    return p_.line(str("gpu_warpgroup_products<", kind, ", gpu_wgmma_", grid_.thread_columns, ", ", grid_.tile_rows,
                       ", ", grid_.tile_columns, ", ", grid_.left_along_terms ? "true" : "false", ", ",
                       grid_.right_along_terms ? "true" : "false", ", ", grid_.thread_rows, ", ", grid_.thread_columns,
                       ", ", grid_.stages, ">(left_tiles, right_tiles, group_row, warp_column, ", turn(),
                       "s, fetch, sums);"));
  const std::string function = dtype == other ? str("gpu_products<", kind, ", ") : "gpu_split_products<";
  p_.line(str(function, sizes, grid_.left_along_terms ? "true" : "false", ", ",
              grid_.right_along_terms ? "true" : "false", ", ", grid_.thread_rows, ", ", grid_.thread_columns, ", ",
              grid_.stages, ">(left_tiles, right_tiles, warp_row, warp_column, ", turn(), "s, fetch, sums);"));
}

// What is done with a result; adds what that needs to `wanted`.
CudaTilePrinter::Stmts CudaTilePrinter::after_sum(std::set<ValueId>& wanted) const {
  Stmts out;
  bool summed = false;
  for (const Stmt& stmt : nest_.columns.back()->body) {
    if (summed) {
      out.push_back(&stmt);
      wanted.insert(stmt.args.begin(), stmt.args.end());
      wanted.insert(stmt.mask);
    }
    summed |= &stmt == result_;
  }
  return out;
}

// Each thread's rows and columns lie in groups of four neighbours.
void CudaTilePrinter::print_results() {
  const int64_t group = std::min<int64_t>(4, grid_.thread_columns);
  p_.line("#pragma unroll");
  p_.open(str("for (int i = 0; i < ", grid_.thread_rows, "; ++i)"));
  p_.line(str("const i64 row = row_begin + gpu_of_part<", grid_.tile_rows, ", ", grid_.thread_rows, ">(row_part, i);"));
  p_.line(str("if (row >= ", rows_, ") continue;"));
  decode(nest_.rows, "row", "rest");
  p_.line("#pragma unroll");
  p_.open(str("for (int j = 0; j < ", grid_.thread_columns, "; j += ", group, ")"));
  p_.line(str("const i64 column = column_begin + gpu_of_part<", grid_.tile_columns, ", ", grid_.thread_columns,
              ">(column_part, j);"));
  p_.line(str("if (column >= ", columns_, ") continue;"));
  print_after("sums[i][j + e]", static_cast<int>(group));
  p_.close();
  p_.close();
}

constexpr int64_t result_vector = 8;  // results of a row that a thread has at a time

// Sixteen rows of the warp's part at a time go through shared memory, so that each thread has neighbours of a row.
void CudaTilePrinter::print_spread_results() {
  const int64_t columns = grid_.thread_columns, words = columns / result_vector;
  p_.line(str("f32* const spread = (f32*)memory + warp * ", 16 * (columns + 8), ";"));
  p_.line("#pragma unroll");
  p_.open(str("for (int i = 0; i < ", row_groups(), "; ++i)"));
  p_.line(str("gpu_spread<", columns, ">(spread, sums[i]);"));
  const auto place = [&] {
    p_.line(str("const int spread_row = number / ", words, ", spread_column = number % ", words, " * ", result_vector,
                ";"));
    p_.line(str("const i64 row = row_begin + warp_row + i * ", rows_apart(),
                " + spread_row, column = column_begin + warp_column + spread_column;"));
  };
  print_rounds("threadIdx.x % 32", 32, 16 * words, place,
               [&] { print_after(str("spread[spread_row * ", columns + 8, " + spread_column + e]"), result_vector); });
  p_.close();
}

// The parts that the blocks of a cluster have of a tile come together: each block takes some rows of all of them.
void CudaTilePrinter::print_joined_results() {
  const int64_t line = grid_.tile_columns + 8, rows = grid_.tile_rows / grid_.parts,
                words = grid_.tile_columns / result_vector;
  p_.line("f32* const joined = (f32*)memory;");
  p_.line("#pragma unroll");
  p_.line(str("for (int i = 0; i < ", row_groups(), "; ++i) gpu_spread_to<", grid_.thread_columns, ", ", line,
              ">(joined + (warp_row + i * ", rows_apart(), ") * ", line, " + warp_column, sums[i]);"));
  p_.line("gpu_cluster_wait();");
  const auto place = [&] {
    p_.line(str("const int joined_row = part * ", rows, " + number / ", words, ", joined_column = number % ", words,
                " * ", result_vector, ";"));
    p_.line("const i64 row = row_begin + joined_row, column = column_begin + joined_column;");
  };
  print_rounds("threadIdx.x", grid_.threads, rows * words, place, [&] {
    p_.line(str("f32 result[", result_vector, "];"));
    p_.line(str("gpu_join<", grid_.parts, ">(result, joined + joined_row * ", line, " + joined_column);"));
    print_after("result[e]", result_vector);
  });
  p_.line("gpu_cluster_wait();");  // nobody writes, or is gone, while others read
}

// A thread's words of results, `number` of them. What they need of memory comes for some of them at once: one after the
// other would wait for it as often. More than some would make the text too long for the multiprocessor.
void CudaTilePrinter::print_rounds(const std::string& first, int64_t stride, int64_t count,
                                   const std::function<void()>& each_place, const std::function<void()>& each_result) {
  const int64_t at_once = std::min<int64_t>(4, (count + stride - 1) / stride);
  const Loop& columns = *nest_.columns.back();
  const auto each = [&](const std::function<void()>& inside) {
    p_.line("#pragma unroll");
    p_.open(str("for (int u = 0; u < ", at_once, "; ++u)"));
    p_.line(str("const int number = first + u * ", stride, ";"));
    if (count % (stride * at_once) != 0) p_.line(str("if (number >= ", count, ") break;"));
    each_place();
    p_.line(str("if (row >= ", rows_, " || column >= ", columns_, ") continue;"));
    decode(nest_.rows, "row", "rest");
    inside();
    p_.close();
  };
  p_.line("#pragma unroll 1");
  p_.open(str("for (int first = ", first, "; first < ", count, "; first += ", stride * at_once, ")"));
  std::map<const Stmt*, std::string> early;
  if (nest_.columns.size() == 1)
    for (const Stmt& stmt : columns.body)
      if (stmt.kind == StmtKind::load && is_wide(stmt, columns, result_vector, p_.program_, p_.env_))
        early[&stmt] = str("early", early.size());
  for (const auto& [stmt, name] : early)
    p_.line(str(p_.dialect_.wide_type(stmt->dtype, result_vector), " ", name, "[", at_once, "];"));
  if (!early.empty())
    each([&] {
      const bool whole = prove_eq(mod(columns.extent, Expr(result_vector)), Expr(0), p_.env_) == Proof::yes;
      p_.line(str("const i64 ", columns.var, " = column;"));
      for (const auto& [stmt, name] : early) {
        const Buffer& buffer = p_.program_.buffers[static_cast<size_t>(stmt->buffer)];
        const std::string b = p_.buffer_name(stmt->buffer, Access::read);
        const bool fixed =
            (buffer.role == BufferRole::constant && !buffer.mutated) || buffer.role == BufferRole::derived;
        p_.wide_buffers_.insert(b);
        p_.line(str(name, "[u] = ",
                    p_.dialect_.wide_load(result_vector, str(b, " + ", p_.expr(p_.address(*stmt))),
                                          whole ? "" : str(p_.expr(columns.extent), " - column"), fixed),
                    ";"));
      }
    });
  for (auto& [stmt, name] : early) p_.early_words_[stmt] = str(name, "[u]");
  each(each_result);
  p_.early_words_.clear();
  p_.close();
}

// What the loops do with so many results of a row, from `column` on; `e` numbers them.
void CudaTilePrinter::print_after(const std::string& result, int vector) {
  std::set<ValueId> wanted;
  const Stmts after = after_sum(wanted);
  p_.shared_ = true;  // every result is one thread's
  const auto each = [&] {
    print_all(around(wanted));
    p_.define(result_->results[0], result, false);
    print_all(after);
  };
  if (nest_.columns.size() == 1) {
    p_.print_neighbours(*nest_.columns.back(), "column", vector, each);
  } else {
    p_.line("#pragma unroll");
    p_.open(str("for (int e = 0; e < ", vector, "; ++e)"));
    p_.line(str("if (column + e >= ", columns_, ") break;"));
    decode(nest_.columns, "(column + e)", "columns_left");
    each();
    p_.close();
  }
  p_.shared_ = false;
}

}  // namespace kiln::codegen
