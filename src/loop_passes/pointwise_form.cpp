#include "loop_passes/pointwise_form.h"

namespace kiln::loops {

std::optional<PointwiseForm> pointwise_form(const Kernel& kernel) {
  PointwiseForm form;
  const Body* body = &kernel.body;
  while (body->size() == 1 && body->front().kind == StmtKind::loop) {
    const Loop& loop = *body->front().loop;
    if (loop.role != AxisRole::parallel || loop.directives.binding == Binding::serial) return std::nullopt;
    form.loops.push_back(&loop);
    body = &loop.body;
  }
  form.body = body;
  for (const Stmt& stmt : *body) {
    if (stmt.kind == StmtKind::loop) return std::nullopt;
    if (stmt.kind == StmtKind::random) return std::nullopt;  // the same number must not be drawn at another place
    if (stmt.kind != StmtKind::store) continue;
    if (form.store || stmt.mode != StoreMode::plain || stmt.mask != no_value) return std::nullopt;
    form.store = &stmt;
  }
  if (!form.store) return std::nullopt;
  // Each loop variable is the index of exactly one dimension; other dimensions have the constant index 0.
  std::set<std::string> seen;
  for (const Expr& e : form.store->index) {
    if (e.is_constant(0)) continue;
    if (!e.is_symbol() || !seen.insert(e.name()).second) return std::nullopt;
  }
  if (seen.size() != form.loops.size()) return std::nullopt;
  for (const Loop* loop : form.loops)
    if (!seen.count(loop->var)) return std::nullopt;
  return form;
}

void bind_store_index(const PointwiseForm& form, const std::vector<Expr>& index, Substitution& variables) {
  for (size_t d = 0; d < index.size(); ++d)
    if (form.store->index[d].is_symbol()) variables[form.store->index[d].name()] = index[d];
}

std::optional<PlainCopy> plain_copy(const Kernel& kernel) {
  std::optional<PointwiseForm> form = pointwise_form(kernel);
  if (!form || form->body->size() < 2 || form->body->size() > 3) return std::nullopt;
  const Stmt& load = form->body->front();
  if (load.kind != StmtKind::load || load.mask != no_value || load.index != form->store->index) return std::nullopt;
  ValueId copied = load.results[0];
  if (form->body->size() == 3) {  // a narrow float that is widened on the way, and rounded back by the store
    const Stmt& widen = (*form->body)[1];
    const bool narrow = load.dtype == DType::bf16 || load.dtype == DType::f16;
    if (!narrow || widen.kind != StmtKind::op || widen.op != ScalarOp::cast || widen.dtype != DType::f32 ||
        widen.args[0] != copied || form->store->dtype != load.dtype)
      return std::nullopt;
    copied = widen.results[0];
  }
  if (form->store->args[0] != copied) return std::nullopt;
  return PlainCopy{load.buffer, form->store->buffer};
}

}  // namespace kiln::loops
