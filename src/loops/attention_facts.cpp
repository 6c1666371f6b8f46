// What is what in a kernel of attention (AttentionNest): read off its statements, which stand in one order.
#include "loops/later_keys.h"

namespace kiln::loops {
namespace {

const Stmt* definition(const Body& body, ValueId v) {
  for (const Stmt& stmt : body)
    for (ValueId made : stmt.results)
      if (made == v) return &stmt;
  return nullptr;
}

bool is_reduction(const Stmt* stmt, ReduceOp op) {
  return stmt && stmt->loop && stmt->loop->role == AxisRole::reduce && stmt->loop->reduce == op &&
         stmt->results.size() == 1 && stmt->loop->reduce_dtype == DType::f32;
}

bool is_op(const Stmt* stmt, ScalarOp op) { return stmt && stmt->kind == StmtKind::op && stmt->op == op; }

}  // namespace

AttentionNest attention_nest(const Kernel& kernel) {
  AttentionNest out;
  out.scores = contraction_nest(kernel);
  const auto demand = [&](bool holds, const char* what) {
    KILN_CHECK(holds, str(kernel.name, " is no attention: ", what));
  };
  demand(out.scores.rows.size() == 1 && out.scores.columns.size() == 1 && out.scores.sums.size() == 1,
         "its first product has nested loops");
  const Loop &row = out.scores.innermost_row(), &keys = out.scores.innermost_column();
  demand(keys.body.back().kind == StmtKind::store, "its scores are not stored");
  out.score = &keys.body.back();
  const BufferId scratch = out.score->buffer;
  // The loops of a row, in order: scores, greatest, weights, what is weighed.
  std::vector<const Stmt*> loops;
  for (const Stmt& stmt : row.body)
    if (stmt.loop) loops.push_back(&stmt);
  demand(loops.size() == 4 && loops[0]->loop.get() == &keys, "its rows have other loops");
  out.top = loops[1], out.total = loops[2];
  demand(is_reduction(out.top, ReduceOp::max) && is_reduction(out.total, ReduceOp::sum), "no greatest score, no sum");
  for (const Stmt* stmt : {out.top, out.total})
    demand(stmt->loop->extent == keys.extent && stmt->loop->body.front().kind == StmtKind::load &&
               stmt->loop->body.front().buffer == scratch,
           "it does not go through its scores");
  for (const Stmt& stmt : out.total->loop->body)
    out.empty_rows_are_zero |= stmt.kind == StmtKind::op && stmt.op == ScalarOp::select;
  // The second product.
  const Loop& columns = *loops[3]->loop;
  ContractionNest& values = out.values;
  values.batch = out.scores.batch, values.rows = out.scores.rows, values.columns = {&columns};
  const Stmt* sum = nullptr;
  for (const Stmt& stmt : columns.body)
    if (stmt.loop) {
      demand(!sum, "its columns have several sums");
      sum = &stmt;
    }
  demand(is_reduction(sum, ReduceOp::sum) && sum->loop->extent == keys.extent, "nothing is weighed");
  const Stmt* product = summed_product(*sum->loop);
  const Stmt* weight = product ? definition(sum->loop->body, product->args[0]) : nullptr;
  demand(weight && weight->kind == StmtKind::load && weight->buffer == scratch, "what it weighs is not weighed so");
  ContractionNest::Sum part;
  part.stmt = sum;
  for (const Stmt& stmt : sum->loop->body)
    if (&stmt != product && &stmt != weight) part.right.push_back(&stmt);
  values.sums.push_back(std::move(part));
  out.value = product->args[1];
  for (const Stmt& stmt : columns.body)
    if (is_op(&stmt, ScalarOp::mul) && stmt.args[0] == sum->results[0]) out.scaled = &stmt;
  demand(out.scaled, "its results are not divided by the sums");
  return out;
}

bool sees_no_later_keys(const Kernel& kernel) {
  const AttentionNest nest = attention_nest(kernel);
  const Loop &row = nest.scores.innermost_row(), &keys = nest.scores.innermost_column();
  std::vector<const Body*> bodies = {&kernel.body};
  for (const auto* loops : {&nest.scores.batch, &nest.scores.rows, &nest.scores.columns})
    for (const Loop* loop : *loops) bodies.push_back(&loop->body);
  const auto made = [&](ValueId v) -> const Stmt* {
    for (const Body* body : bodies)
      if (const Stmt* found = definition(*body, v)) return found;
    return nullptr;
  };
  const auto numbered = [](const Stmt& stmt) { return stmt.expr; };
  const std::optional<int64_t> seen = masked_beyond({made, numbered, row.var, keys.var}, nest.score->args[0]);
  return seen && *seen <= 0;
}

}  // namespace kiln::loops
