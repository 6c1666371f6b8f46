#include "loops/byte_quads.h"

#include "loops/narrow_rows.h"

namespace kiln::loops {
namespace {

const Stmt* made(const std::vector<const Stmt*>& stmts, ValueId v) {
  for (const Stmt* stmt : stmts)
    if (stmt->results == std::vector<ValueId>{v}) return stmt;
  return nullptr;
}

// The load of a byte that this is, widened.
const Stmt* widened_byte(const std::vector<const Stmt*>& stmts, ValueId v) {
  const Stmt* cast = made(stmts, v);
  if (!cast || cast->kind != StmtKind::op || cast->op != ScalarOp::cast || cast->dtype != DType::i32) return nullptr;
  const Stmt* load = made(stmts, cast->args[0]);
  return load && load->kind == StmtKind::load ? load : nullptr;
}

std::optional<int64_t> number(const Kernel& kernel, ValueId v) {
  std::optional<int64_t> found;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::constant && stmt.results[0] == v)
      found = static_cast<int64_t>(stmt.constant.as_double());
  });
  return found;
}

}  // namespace

std::optional<QuadFactors> quad_factors(const Kernel& kernel, const LoopProgram& program, std::string& why) {
  const ContractionNest nest = contraction_nest(kernel);
  const ContractionNest::Sum& sum = nest.sums.back();
  const Loop& terms = *sum.stmt->loop;
  const auto no = [&](const char* reason) {
    why = reason;
    return std::nullopt;
  };
  if (terms.reduce_dtype != DType::i32) return no("the sum is not of i32");
  for (size_t i = 0; i + 1 < nest.sums.size(); ++i)
    if (!nest.sums[i].right.empty() || !nest.sums[i].stmt->loop->extent.is_constant())
      return no("the sums around are not plain");
  if (!terms.extent.is_constant() || terms.extent.value() % 4 != 0) return no("its terms are no fours");
  QuadFactors found;
  found.right = widened_byte(sum.right, kernel.contraction->right);
  size_t of_left = 2;  // statements
  const Stmt* left = made(sum.left, kernel.contraction->left);
  if (left && left->kind == StmtKind::op && left->op == ScalarOp::select) {
    const auto padding = number(kernel, left->args[2]);
    found.left = widened_byte(sum.left, left->args[1]);
    if (!padding || !found.left || found.left->mask != left->args[0] || found.left->mask == no_value)
      return no("the left factor is not bytes as they lie in memory");
    found.padding = *padding;
    of_left = 3;
  } else {
    found.left = widened_byte(sum.left, kernel.contraction->left);
  }
  if (!found.left || found.left->dtype != DType::u8 || sum.left.size() != of_left || found.padding < 0 ||
      found.padding > 255)
    return no("the left factor is not bytes as they lie in memory");
  if (!found.right || found.right->dtype != DType::i8 || found.right->mask != no_value || sum.right.size() != 2)
    return no("the right factor is not bytes as they lie in memory");
  for (const Stmt* stmt : sum.shared)
    if (stmt->kind != StmtKind::constant) return no("the sum is of more than its factors");
  if (!lies_along(terms.var, *found.left, program)) return no("terms of the left factor are not neighbours in memory");
  if (found.left->mask != no_value && !is_masked_whole(*found.left, terms))
    return no("the left factor is masked term by term");
  return found;
}

}  // namespace kiln::loops
