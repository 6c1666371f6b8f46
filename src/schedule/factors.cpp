#include "schedule/factors.h"

#include "schedule/schedule.h"

namespace kiln::loops {

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

FactorValue factor_value(const ContractionNest& nest, ValueId factor, bool left) {
  FactorValue out;
  out.dtype = nest.innermost_sum().reduce_dtype;
  for (ValueId v = factor; v != no_value;) {
    const Stmt* made = nullptr;
    for (const ContractionNest::Sum& sum : nest.sums)
      for (const Stmt* stmt : left ? sum.left : sum.right)
        if (stmt->results[0] == v) made = stmt;
    if (!made) return out;
    if (made->kind == StmtKind::load) return out.dtype = made->dtype, out.load = made, out;
    const bool widens = made->kind == StmtKind::op && made->op == ScalarOp::cast && made->dtype == DType::f32;
    if (!widens) {
      // A value that was rounded to a narrow type on the way is of that type.
      if (made->kind == StmtKind::op && made->op == ScalarOp::cast) out.dtype = made->dtype;
      return out;
    }
    v = made->args[0];
  }
  return out;
}

namespace {

// Whether the elements first, first + 1, … of the load, along the variable, are neighbours in memory that begin at a
// multiple of `chunk` wherever `first` does, and are there or not there together.
bool comes_in_chunks(const Stmt& load, const Loop& along, int chunk, const std::vector<const Stmt*>& factor,
                     const Kernel& kernel, const LoopProgram& program) {
  const RangeEnv env = kernel_ranges(kernel, program);
  const auto affine = affine_in(address_of(load, program, env), along.var);
  if (!affine || !affine->coefficient.is_constant(1)) return false;
  if (prove_eq(mod(affine->rest, Expr(chunk)), Expr(0), env) != Proof::yes) return false;
  if (prove_eq(mod(along.extent, Expr(chunk)), Expr(0), env) != Proof::yes) return false;
  // The mask must not change along the chunk.
  std::set<ValueId> needed = {load.mask};
  for (size_t i = factor.size(); i-- > 0;) {
    if (!needed.contains(factor[i]->results[0])) continue;
    needed.insert(factor[i]->args.begin(), factor[i]->args.end());
    needed.insert(factor[i]->mask);
    for (const Expr& e : factor[i]->index)
      if (mentions(e, along.var)) return false;
    if (mentions(factor[i]->expr, along.var)) return false;
  }
  return true;
}

}  // namespace

Chunks chunks_of(const ContractionNest& nest, const FactorValue& factor, bool left, int wanted, const Kernel& kernel,
                 const LoopProgram& program, int64_t least) {
  Chunks out;
  out.along_terms = lies_along_terms(nest.sums, left, kernel, program);
  if (!factor.load) return out;
  std::vector<const Stmt*> values;
  for (const ContractionNest::Sum& sum : nest.sums)
    for (const auto* part : {&sum.shared, left ? &sum.left : &sum.right})
      values.insert(values.end(), part->begin(), part->end());
  const auto& across = left ? nest.rows : nest.columns;
  const Loop& along = out.along_terms ? nest.innermost_sum() : *across.back();
  for (int chunk = wanted; chunk > 1 && chunk >= (least > 0 ? least : wanted); chunk /= 2)
    if (comes_in_chunks(*factor.load, along, chunk, values, kernel, program)) return out.chunk = chunk, out;
  return out;
}

}  // namespace kiln::loops
