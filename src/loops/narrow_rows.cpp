#include "loops/narrow_rows.h"

namespace kiln::loops {

bool lies_along(const std::string& term, const Stmt& load, const LoopProgram& program) {
  const Buffer& buffer = program.buffers[static_cast<size_t>(load.buffer)];
  bool along = false;
  for (size_t d = 0; d < load.index.size(); ++d) {
    if (!mentions(load.index[d], term)) continue;
    const auto by_term = affine_in(load.index[d], term);
    if (along || !by_term || !by_term->coefficient.is_constant(1) || mentions(by_term->rest, term) ||
        !buffer.strides[d].is_constant(1))
      return false;
    along = true;
  }
  return along;
}

bool is_masked_whole(const Stmt& load, const Loop& sum) {
  for (const Stmt& stmt : sum.body)
    if (stmt.results.size() == 1 && stmt.results[0] == load.mask) return false;
  return sum.extent.is_constant() && sum.extent.value() <= longest_zeros;
}

const Stmt* narrow_rows(const Kernel& kernel, const LoopProgram& program) {
  const ContractionNest nest = contraction_nest(kernel);
  const Loop& sum = nest.innermost_sum();
  if (sum.reduce_dtype != DType::f32) return nullptr;
  const Stmt* rows = nullptr;
  for (const Stmt* stmt : nest.sums.back().left) {
    if (stmt->kind == StmtKind::check_index) return nullptr;  // where the row is changes with every term
    if (stmt->kind != StmtKind::load || !is_narrow(stmt->dtype)) continue;
    if (rows) return nullptr;
    rows = stmt;
  }
  if (!rows || !lies_along(sum.var, *rows, program)) return nullptr;
  return rows->mask == no_value || is_masked_whole(*rows, sum) ? rows : nullptr;
}

}  // namespace kiln::loops
