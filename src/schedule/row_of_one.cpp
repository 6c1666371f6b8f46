#include "loop_passes/rewrite.h"
#include "schedule/contractions.h"
#include "schedule/new_loops.h"
#include "schedule/schedule.h"
#include "schedule/template.h"

namespace kiln::loops {
namespace {

// With fewer there is nothing to gain over sums in lanes of columns.
constexpr int64_t least_columns = 64, least_terms = 128;

// Weights of f32 that are not large lie in a cache, from which pieces of four lines come as fast.
bool is_worth_packing(const Stmt& weights, const LoopProgram& program) {
  if (weights.dtype == DType::bf16 || weights.dtype == DType::f16) return true;
  const Buffer& buffer = program.buffers[static_cast<size_t>(weights.buffer)];
  return weights.dtype == DType::f32 && estimate(buffer_bytes(buffer), program) >= far_matrix;
}

}  // namespace

bool row_of_one(LoopProgram& program, Kernel& kernel, const Target& target, bool again) {
  if (target.lanes < 4 || kernel.contraction || kernel.schedule || kernel.body.size() != 1 || !kernel.body[0].loop ||
      kernel.body[0].loop->role != AxisRole::parallel)
    return false;
  Kernel made = kernel.clone();
  Stmt row = loop_stmt(unused_name(variables_of(made), "i"), Expr(1));
  row.loop->body = std::move(made.body);
  made.body.clear();
  made.body.push_back(std::move(row));
  FoundContraction found = recognise_contraction(made, program);
  if (!found.contraction) return false;
  made.contraction = std::move(found.contraction);
  const ContractionNest nest = contraction_nest(made);
  const Expr &columns = nest.innermost_column().extent, &terms = nest.innermost_sum().extent;
  if (nest.sums.size() != 1 || !columns.is_constant() || columns.value() < least_columns || !terms.is_constant() ||
      terms.value() < least_terms)
    return false;
  const Stmt* weights = constant_right_factor(made, program);
  if (!weights) return false;
  const auto taken = [&](bool pairs) {
    return product_template(pairs ? Together::pairs : Together::single).refuses(made, program, target).empty();
  };
  const auto along =
      affine_in(address_of(*weights, program, kernel_ranges(made, program)), nest.innermost_column().var);
  const bool along_columns = along && along->coefficient.is_constant(1);
  const bool plain = weights->dtype == DType::f32 || weights->dtype == DType::f16;
  const bool in_a_loop = again && (taken(true) || (plain && taken(false)));
  if (!in_a_loop && !(along_columns && is_worth_packing(*weights, program) && (taken(true) || taken(false))))
    return false;
  kernel = std::move(made);
  return true;
}

}  // namespace kiln::loops
