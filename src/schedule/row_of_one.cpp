#include "loop_passes/rewrite.h"
#include "schedule/contractions.h"
#include "schedule/schedule.h"
#include "schedule/template.h"

namespace kiln::loops {
namespace {

// With fewer there is nothing to gain over sums in lanes of columns.
constexpr int64_t least_columns = 64, least_terms = 128;

std::string fresh_variable(const Kernel& kernel) {
  const std::set<std::string> used = variables_of(kernel);
  for (int n = 0;; ++n)
    // i64 is a type in generated code
    if (std::string name = str("i", n); !dtype_from_name(name) && !used.contains(name)) return name;
}

}  // namespace

bool row_of_one(LoopProgram& program, Kernel& kernel, const Target& target, bool again) {
  if (target.lanes < 8 || kernel.contraction || kernel.schedule || kernel.body.size() != 1 || !kernel.body[0].loop ||
      kernel.body[0].loop->role != AxisRole::parallel)
    return false;
  Kernel made = kernel.clone();
  Stmt row = loop_stmt(fresh_variable(made), Expr(1));
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
  if (!weights || (weights->dtype != DType::bf16 && weights->dtype != DType::f16)) return false;
  const auto taken = [&](bool pairs) { return product_template(pairs).refuses(made, program, target).empty(); };
  const auto along =
      affine_in(address_of(*weights, program, kernel_ranges(made, program)), nest.innermost_column().var);
  const bool along_columns = along && along->coefficient.is_constant(1);
  if (!(taken(true) && again) && !(along_columns && (taken(true) || taken(false)))) return false;
  kernel = std::move(made);
  return true;
}

}  // namespace kiln::loops
