// A contraction by matrix instructions: the factors' parts of a tile come into shared memory some stages ahead, each
// warp multiplies its part of the tile, and what the loops do with the results is done row by row, neighbours together.
#include "codegen/cuda/dialect.h"
#include "codegen/cuda/tile_printer.h"

namespace kiln::codegen {
using namespace loops;
namespace {

std::vector<const Loop*> sum_loops(const std::vector<ContractionNest::Sum>& sums) {
  std::vector<const Loop*> out;
  for (const ContractionNest::Sum& sum : sums) out.push_back(sum.stmt->loop.get());
  return out;
}

}  // namespace

// Of what the matrices of a factor are.
DType CudaTilePrinter::matrix_type(bool left) const {
  const Contraction& names = *p_.kernel_.contraction;
  ValueId v = left ? names.left : names.right;
  for (bool found = true; found;) {
    found = false;
    for (const ContractionNest::Sum& sum : nest_.sums)
      for (const Stmt* stmt : left ? sum.left : sum.right) {
        if (found || stmt->results[0] != v) continue;
        if (stmt->kind == StmtKind::load) return stmt->dtype;
        if (stmt->kind != StmtKind::op || stmt->op != ScalarOp::cast) return stmt->dtype;
        if (stmt->dtype != DType::f32) return stmt->dtype;
        v = stmt->args[0];
        found = true;
      }
  }
  return DType::f32;
}

// The load that brings a factor as it is.
const Stmt* CudaTilePrinter::chunk_load(bool left) const {
  const Contraction& names = *p_.kernel_.contraction;
  ValueId v = left ? names.left : names.right;
  for (size_t i = nest_.sums.size(); i-- > 0;) {
    const Stmts& own = left ? nest_.sums[i].left : nest_.sums[i].right;
    for (size_t j = own.size(); j-- > 0;) {
      if (own[j]->results[0] != v) continue;
      if (own[j]->kind == StmtKind::load) return own[j];
      KILN_CHECK(own[j]->kind == StmtKind::op && own[j]->op == ScalarOp::cast, "a chunk of what is computed");
      v = own[j]->args[0];
    }
  }
  fail_bug("a factor in chunks that is no load");
}

void CudaTilePrinter::print_matrix() {
  const DType dtype = matrix_type(true);
  const char* element = storage_type(dtype);
  const char* kind = dtype == DType::bf16 ? "gpu_of_bf16" : dtype == DType::f16 ? "gpu_of_f16" : "gpu_of_tf32";
  const int64_t left_size = grid_.tile_rows * grid_.tile_terms, right_size = grid_.tile_columns * grid_.tile_terms;
  const int64_t warps_beside = grid_.tile_columns / grid_.thread_columns;
  p_.line("gpu_dynamic_shared(memory);");
  p_.line(str(element, "* const left_tiles = (", element, "*)memory;"));
  p_.line(str(element, "* const right_tiles = left_tiles + ", grid_.stages * left_size, ";"));
  p_.line(str("const int warp = threadIdx.x / 32, warp_row = warp / ", warps_beside, " * ", grid_.thread_rows,
              ", warp_column = warp % ", warps_beside, " * ", grid_.thread_columns, ";"));
  p_.open(p_.dialect_.items());
  p_.line("i64 tile = item;");
  auto begin = [&](const char* name, const std::string& extent, int64_t size) {
    p_.line(str("const i64 ", name, "s = gpu_quotient(", extent, " + ", size - 1, ", ", size, ");"));
    p_.line(str("const i64 ", name, "_begin = gpu_remainder(tile, ", name, "s) * ", size, "; tile = gpu_quotient(tile, ",
                name, "s);"));
  };
  begin("column", columns_, grid_.tile_columns);
  begin("row", rows_, grid_.tile_rows);
  decode(nest_.batch, "tile", "batch");
  p_.line(str("f32 sums[", grid_.thread_rows / 16, "][", grid_.thread_columns / 8, "][4] = {};"));
  p_.line(str("const int steps = (int)gpu_quotient(", terms_, " + ", grid_.tile_terms - 1, ", ", grid_.tile_terms, ");"));
  // What one stage fetches; where there is nothing left, nothing.
  p_.line(str("const auto fetch = [&](int step) {"));
  ++p_.depth_;
  p_.open("if (step < steps)");
  p_.line(str("const i64 term_begin = (i64)step * ", grid_.tile_terms, ";"));
  print_stage(true);
  print_stage(false);
  p_.close();
  p_.line("gpu_copy_commit();");
  --p_.depth_;
  p_.line("};");
  p_.line("#pragma unroll");
  p_.line(str("for (int step = 0; step < ", grid_.stages - 1, "; ++step) fetch(step);"));
  p_.open("for (int step = 0; step < steps; ++step)");
  p_.line(str("gpu_copy_wait<", grid_.stages - 2, ">();"));
  p_.line("__syncthreads();");
  p_.line(str("fetch(step + ", grid_.stages - 1, ");"));
  p_.line(str("const int stage = step % ", grid_.stages, ";"));
  p_.line(str("gpu_products<", kind, ", ", grid_.tile_rows, ", ", grid_.tile_columns, ", ", grid_.tile_terms, ", ",
              grid_.left_along_terms ? "true" : "false", ", ", grid_.right_along_terms ? "true" : "false", ", ",
              grid_.thread_rows, ", ", grid_.thread_columns, ">(left_tiles + stage * ", left_size,
              ", right_tiles + stage * ", right_size, ", warp_row, warp_column, sums);"));
  p_.close();
  p_.line("gpu_copy_wait<0>();");
  p_.line("__syncthreads();");
  print_matrix_results();
  p_.line("__syncthreads();");
  p_.close();
}

void CudaTilePrinter::print_stage(bool left) {
  if ((left ? grid_.left_chunk : grid_.right_chunk) > 1)
    print_chunks(left);
  else
    print_elements(left);
}

// Neighbours of a factor in one word each, as they lie in memory.
void CudaTilePrinter::print_chunks(bool left) {
  const char* axis = left ? "row" : "column";
  const int64_t size = left ? grid_.tile_rows : grid_.tile_columns, terms = grid_.tile_terms;
  const bool along_terms = left ? grid_.left_along_terms : grid_.right_along_terms;
  const int64_t chunk = left ? grid_.left_chunk : grid_.right_chunk, chunks = (along_terms ? terms : size) / chunk;
  const int64_t all = size * terms / chunk;
  const Stmt* load = chunk_load(left);
  p_.line("#pragma unroll");
  p_.open(str("for (int e = 0; e < ", (all + grid_.threads - 1) / grid_.threads, "; ++e)"));
  p_.line(str("const int number = e * ", grid_.threads, " + threadIdx.x, line = number / ", chunks,
              ", chunk = number % ", chunks, ";"));
  if (all % grid_.threads != 0) p_.line(str("if (number >= ", all, ") break;"));
  const std::string across = along_terms ? "line" : str("chunk * ", chunk);
  const std::string term = along_terms ? str("chunk * ", chunk) : "line";
  decode(left ? nest_.rows : nest_.columns, str("(", axis, "_begin + ", across, ")"), "rest");
  decode(sum_loops(nest_.sums), str("(term_begin + ", term, ")"), "terms");
  // Of what the factor computes only what says where it lies and whether it is there.
  std::set<ValueId> needed = {load->mask};
  Stmts kept;
  std::set<ValueId> ignored;
  const Stmts all_inside = inside(left, ignored);
  for (size_t i = all_inside.size(); i-- > 0;) {
    if (all_inside[i] == load || !needed.contains(all_inside[i]->results[0])) continue;
    needed.insert(all_inside[i]->args.begin(), all_inside[i]->args.end());
    needed.insert(all_inside[i]->mask);
    kept.insert(kept.begin(), all_inside[i]);
  }
  print_all(around(needed));
  print_all(kept);
  const std::string b = p_.buffer_name(load->buffer, Access::read);
  p_.wide_buffers_.insert(b);
  std::string there = str(axis, "_begin + ", across, " < ", left ? rows_ : columns_, " && term_begin + ", term, " < ",
                          terms_);
  if (load->mask != no_value) there += str(" && ", p_.name(load->mask));
  p_.line(str("gpu_copy_chunk<", chunk, ">(", left ? "left" : "right", "_tiles + step % ", grid_.stages, " * ",
              size * terms, " + gpu_chunk_place<", chunks, ">(line, chunk) * ", chunk, ", ", b, " + ",
              p_.expr(p_.address(*load)), ", ", there, ", wide);"));
  p_.close();
}

// A factor that is computed on its way, one element at a time.
void CudaTilePrinter::print_elements(bool left) {
  const char* axis = left ? "row" : "column";
  const DType dtype = matrix_type(left);
  const int64_t size = left ? grid_.tile_rows : grid_.tile_columns, terms = grid_.tile_terms;
  const bool along_terms = left ? grid_.left_along_terms : grid_.right_along_terms;
  const int64_t run = along_terms ? terms : size, chunk = 16 / dtype_bytes(dtype), chunks = run / chunk;
  p_.line("#pragma unroll 4");
  p_.open(str("for (int number = threadIdx.x; number < ", size * terms, "; number += ", grid_.threads, ")"));
  p_.line(str("const int line = number / ", run, ", place = number % ", run, ";"));
  const std::string across = along_terms ? "line" : "place", term = along_terms ? "place" : "line";
  p_.line(str("f32 value = 0;"));
  p_.open(str("if (", axis, "_begin + ", across, " < ", left ? rows_ : columns_, " && term_begin + ", term, " < ",
              terms_, ")"));
  decode(left ? nest_.rows : nest_.columns, str("(", axis, "_begin + ", across, ")"), "rest");
  decode(sum_loops(nest_.sums), str("(term_begin + ", term, ")"), "terms");
  const Contraction& names = *p_.kernel_.contraction;
  std::set<ValueId> wanted = {left ? names.left : names.right};
  const Stmts own = inside(left, wanted);
  print_all(around(wanted));
  print_all(own);
  p_.line(str("value = ", p_.name(left ? names.left : names.right), ";"));
  p_.close();
  p_.line(p_.dialect_.set(dtype,
                          str(left ? "left" : "right", "_tiles + step % ", grid_.stages, " * ", size * terms,
                              " + gpu_chunk_place<", chunks, ">(line, place / ", chunk, ") * ", chunk, " + place % ",
                              chunk),
                          "value"));
  p_.close();
}

// Sixteen rows of the warp's part at a time go through shared memory, so that each thread has neighbours of a row.
void CudaTilePrinter::print_matrix_results() {
  const int64_t columns = grid_.thread_columns, vector = 8;
  const Loop& column_loop = *nest_.columns.back();
  p_.line(str("f32* const spread = (f32*)memory + warp * ", 16 * (columns + 8), ";"));
  p_.line("#pragma unroll");
  p_.open(str("for (int i = 0; i < ", grid_.thread_rows / 16, "; ++i)"));
  p_.line(str("gpu_spread<", columns, ">(spread, sums[i]);"));
  p_.line("#pragma unroll");
  p_.open(str("for (int number = threadIdx.x % 32; number < ", 16 * columns / vector, "; number += 32)"));
  p_.line(str("const int spread_row = number / ", columns / vector, ", spread_column = number % ", columns / vector,
              " * ", vector, ";"));
  p_.line("const i64 row = row_begin + warp_row + i * 16 + spread_row, column = column_begin + warp_column + "
          "spread_column;");
  p_.line(str("if (row >= ", rows_, " || column >= ", columns_, ") continue;"));
  decode(nest_.rows, "row", "rest");
  std::set<ValueId> wanted;
  const Stmts after = after_sum(wanted);
  p_.shared_ = true;  // every result is one thread's
  const auto each = [&] {
    print_all(around(wanted));
    p_.define(nest_.sums.front().stmt->results[0], str("spread[spread_row * ", columns + 8, " + spread_column + e]"),
              false);
    print_all(after);
  };
  if (nest_.columns.size() == 1) {
    p_.print_neighbours(column_loop, "column", static_cast<int>(vector), each);
  } else {
    p_.open(str("for (int e = 0; e < ", vector, " && column + e < ", columns_, "; ++e)"));
    decode(nest_.columns, "(column + e)", "columns_left");
    each();
    p_.close();
  }
  p_.shared_ = false;
  p_.close();
  p_.close();
}

}  // namespace kiln::codegen
