#include "codegen/cuda/tile_printer.h"

#include "codegen/cuda/dialect.h"

namespace kiln::codegen {
using namespace loops;
namespace {

Expr product_of(const std::vector<const Loop*>& loops) {
  Expr all = 1;
  for (const Loop* loop : loops) all = all * loop->extent;
  return all;
}
std::vector<const Loop*> loops_of(const std::vector<ContractionNest::Sum>& sums) {
  std::vector<const Loop*> out;
  for (const ContractionNest::Sum& sum : sums) out.push_back(sum.stmt->loop.get());
  return out;
}

}  // namespace

void CudaDialect::print_block_tile(KernelPrinter& printer) const { CudaTilePrinter(printer).print(); }

CudaTilePrinter::CudaTilePrinter(KernelPrinter& printer)
    : p_(printer),
      nest_(contraction_nest(printer.kernel_)),
      grid_(printer.kernel_.schedule->grid),
      type_(c_type(nest_.innermost_sum().reduce_dtype)),
      rows_(printer.expr(nest_.row_count())),
      columns_(printer.expr(product_of(nest_.columns))),
      terms_(printer.expr(nest_.term_count())) {}

// The loops' variables from their common number.
void CudaTilePrinter::decode(const Loops& loops, const std::string& flat, const char* rest) {
  if (loops.empty()) return;
  if (loops.size() == 1) return p_.line(str("const i64 ", loops[0]->var, " = ", flat, ";"));
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

void CudaTilePrinter::print() {
  if (grid_.tensor_cores) return print_matrix();
  p_.line(str("__shared__ ", type_, " left_tile[", grid_.tile_terms, "][", grid_.tile_rows + 1, "], right_tile[",
              grid_.tile_terms, "][", grid_.tile_columns + 1, "];"));
  p_.line(str("const int thread_row = threadIdx.x / ", grid_.tile_columns / grid_.thread_columns, " * ",
              grid_.thread_rows, ", thread_column = threadIdx.x % ", grid_.tile_columns / grid_.thread_columns, " * ",
              grid_.thread_columns, ";"));
  p_.open(p_.dialect_.items());
  p_.line("i64 tile = item;");
  auto begin = [&](const char* name, const std::string& extent, int64_t size) {
    p_.line(str("const i64 ", name, "s = (", extent, " + ", size - 1, ") / ", size, ";"));
    p_.line(str("const i64 ", name, "_begin = (tile % ", name, "s) * ", size, "; tile /= ", name, "s;"));
  };
  begin("column", columns_, grid_.tile_columns);
  begin("row", rows_, grid_.tile_rows);
  decode(nest_.batch, "tile", "batch");
  p_.line(str(type_, " sums[", grid_.thread_rows, "][", grid_.thread_columns, "] = {};"));
  p_.open(str("for (i64 term_begin = 0; term_begin < ", terms_, "; term_begin += ", grid_.tile_terms, ")"));
  print_factor(true);
  print_factor(false);
  p_.line("__syncthreads();");
  print_products();
  p_.line("__syncthreads();");
  p_.close();
  print_results();
  p_.close();
}

void CudaTilePrinter::print_factor(bool left) {
  const char* axis = left ? "row" : "column";
  const int64_t size = left ? grid_.tile_rows : grid_.tile_columns, terms = grid_.tile_terms;
  const bool along_terms = left ? grid_.left_along_terms : grid_.right_along_terms;
  p_.open(str("for (int e = threadIdx.x; e < ", size * terms, "; e += ", grid_.threads, ")"));
  if (along_terms)
    p_.line(str("const int ", axis, " = e / ", terms, ", term = e % ", terms, ";"));
  else
    p_.line(str("const int term = e / ", size, ", ", axis, " = e % ", size, ";"));
  p_.line(str(type_, " value = 0;"));
  p_.open(
      str("if (", axis, "_begin + ", axis, " < ", left ? rows_ : columns_, " && term_begin + term < ", terms_, ")"));
  decode(left ? nest_.rows : nest_.columns, str("(", axis, "_begin + ", axis, ")"), "rest");
  decode(loops_of(nest_.sums), "(term_begin + term)", "terms");
  const Contraction& names = *p_.kernel_.contraction;
  std::set<ValueId> wanted = {left ? names.left : names.right};
  const Stmts own = inside(left, wanted);
  print_all(around(wanted));
  print_all(own);
  p_.line(str("value = ", p_.name(left ? names.left : names.right), ";"));
  p_.close();
  p_.line(str(left ? "left" : "right", "_tile[term][", axis, "] = value;"));
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
  p_.line("#pragma unroll");
  p_.open(str("for (int term = 0; term < ", grid_.tile_terms, "; ++term)"));
  p_.line(str(type_, " left[", grid_.thread_rows, "], right[", grid_.thread_columns, "];"));
  p_.line("#pragma unroll");
  p_.line(str("for (int i = 0; i < ", grid_.thread_rows, "; ++i) left[i] = left_tile[term][thread_row + i];"));
  p_.line("#pragma unroll");
  p_.line(str("for (int j = 0; j < ", grid_.thread_columns, "; ++j) right[j] = right_tile[term][thread_column + j];"));
  p_.line("#pragma unroll");
  p_.line(str("for (int i = 0; i < ", grid_.thread_rows, "; ++i)"));
  p_.line("#pragma unroll");
  p_.line(str("  for (int j = 0; j < ", grid_.thread_columns,
              "; ++j) sums[i][j] = ", p_.dialect_.fused("left[i]", "right[j]", "sums[i][j]"), ";"));
  p_.close();
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
    summed |= &stmt == nest_.sums.front().stmt;
  }
  return out;
}

void CudaTilePrinter::print_results() {
  p_.line("#pragma unroll");
  p_.open(str("for (int i = 0; i < ", grid_.thread_rows, "; ++i)"));
  p_.line("#pragma unroll");
  p_.open(str("for (int j = 0; j < ", grid_.thread_columns, "; ++j)"));
  p_.line("const i64 row = row_begin + thread_row + i, column = column_begin + thread_column + j;");
  p_.line(str("if (row >= ", rows_, " || column >= ", columns_, ") continue;"));
  decode(nest_.rows, "row", "rest");
  decode(nest_.columns, "column", "columns_left");
  std::set<ValueId> wanted;
  const Stmts after = after_sum(wanted);
  print_all(around(wanted));
  p_.shared_ = true;  // every result is one thread's
  p_.define(nest_.sums.front().stmt->results[0], "sums[i][j]", false);
  print_all(after);
  p_.shared_ = false;
  p_.close();
  p_.close();
}

}  // namespace kiln::codegen
