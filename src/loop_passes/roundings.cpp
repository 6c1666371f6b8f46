#include "loop_passes/roundings.h"

#include "loop_passes/contraction.h"
#include "loop_passes/rewrite.h"

namespace kiln::loops {

namespace {

// A step function: the rounding of its operand decides between results that are far apart (a code of f8, an integer).
bool steps(const Stmt& stmt) {
  if (stmt.kind == StmtKind::loop) {
    const ReduceOp reduce = stmt.loop->reduce;
    return stmt.loop->role != AxisRole::parallel && (reduce == ReduceOp::argmax || reduce == ReduceOp::argmin);
  }
  if (stmt.kind != StmtKind::op) return false;
  switch (stmt.op) {
    case ScalarOp::cast:
      return is_integral(stmt.dtype) || (is_float(stmt.dtype) && dtype_bytes(stmt.dtype) == 1);
    case ScalarOp::bitcast:
    case ScalarOp::copysign:
    case ScalarOp::nextafter:
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::round:
    case ScalarOp::trunc:
    case ScalarOp::floordiv:
    case ScalarOp::mod:
    case ScalarOp::fmod:
      return true;
    default: {
      const TypeRule rule = scalar_op_info(stmt.op).rule;
      return rule == TypeRule::compare || rule == TypeRule::predicate;
    }
  }
}

bool any_of(const std::vector<ValueId>& values, const std::set<ValueId>& set) {
  return std::any_of(values.begin(), values.end(), [&](ValueId v) { return set.count(v) != 0; });
}

bool wider(DType dtype, DType narrow) { return is_float(dtype) && dtype_bytes(dtype) > dtype_bytes(narrow); }
bool narrow_float(DType dtype) { return is_float(dtype) && dtype_bytes(dtype) < 4; }

void collect_contractions(const Body& body, std::vector<const Loop*>& enclosing, std::set<const Loop*>& out) {
  for (const Stmt& stmt : body) {
    if (!stmt.loop) continue;
    if (is_contraction(*stmt.loop, enclosing)) out.insert(stmt.loop.get());
    enclosing.push_back(stmt.loop.get());
    collect_contractions(stmt.loop->body, enclosing, out);
    enclosing.pop_back();
  }
}

}  // namespace

// Whether a step function, a stored result of a wider type or a buffer in which roundings show depends on the value.
// What is added up in the loops `ends` is not followed.
bool Roundings::shows(const Body& body, ValueId v, DType narrow, const std::set<const Loop*>& ends) const {
  std::set<ValueId> reached = {v};
  bool found = false;
  for (size_t before = 0; before != reached.size() && !found;) {
    before = reached.size();
    for_each_stmt(body, [&](const Stmt& stmt) {
      if (stmt.loop && ends.count(stmt.loop.get())) return;
      if (!any_of(stmt.args, reached) && !(stmt.loop && any_of(stmt.loop->yields, reached))) return;
      found |= steps(stmt);
      if (stmt.kind == StmtKind::store) found |= shown_.count(stmt.buffer) || wider(dtype(stmt.buffer), narrow);
      reached.insert(stmt.results.begin(), stmt.results.end());
      if (stmt.loop) reached.insert(stmt.loop->running.begin(), stmt.loop->running.end());
    });
  }
  return found;
}

bool Roundings::note_reads(const Kernel& kernel) {
  std::vector<const Loop*> enclosing;
  std::set<const Loop*> ends;
  bool collected = false, changed = false;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    if (stmt.kind != StmtKind::load || !narrow_float(dtype(stmt.buffer)) || shown_.count(stmt.buffer)) return;
    if (!collected) collect_contractions(kernel.body, enclosing, ends);
    collected = true;
    if (!shows(kernel.body, stmt.results[0], dtype(stmt.buffer), ends)) return;
    shown_.insert(stmt.buffer);
    changed = true;
  });
  return changed;
}

Roundings::Roundings(const LoopProgram& program) : program_(program) {
  std::vector<const Kernel*> kernels;
  for_each_item(program.block, [&](const Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) {
      kernels.push_back(kernel);
    } else if (!std::holds_alternative<Cond>(item.what) && !std::holds_alternative<While>(item.what)) {
      // Library kernels sort, search and count; a custom operator may do anything.
      for (BufferId read : accesses(item).reads) shown_.insert(read);
    } else {
      if (auto* cond = std::get_if<Cond>(&item.what))
        if (auto* id = std::get_if<BufferId>(&cond->predicate)) shown_.insert(*id);
      if (auto* loop = std::get_if<While>(&item.what))
        if (auto* id = std::get_if<BufferId>(&loop->predicate)) shown_.insert(*id);
    }
  });
  // Backwards, since readers come after writers; again where a loop hands values to its next iteration.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = kernels.size(); i-- > 0;) changed |= note_reads(*kernels[i]);
  }
}

// Whether the rounding of a narrow value may be skipped: it is stored or widened, and does not show.
bool Roundings::may_skip(const Body& body, ValueId v, DType narrow) const {
  bool only = true;
  for_each_stmt(body, [&](const Stmt& stmt) {
    bool harmless = stmt.kind == StmtKind::store || (stmt.kind == StmtKind::op && stmt.op == ScalarOp::cast);
    if (!harmless) only &= std::find(stmt.args.begin(), stmt.args.end(), v) == stmt.args.end();
    if (stmt.loop) only &= std::find(stmt.loop->yields.begin(), stmt.loop->yields.end(), v) == stmt.loop->yields.end();
  });
  return only && !shows(body, v, narrow, {});
}

Stmt Roundings::forwarded(const Stmt& load, ValueId stored, Kernel& kernel) const {
  const DType buffer_dtype = dtype(load.buffer);
  DType have = kernel.value_types[static_cast<size_t>(stored)];
  // All that read a value see the same one: a mean of rounded numbers is not that of numbers that are not.
  bool keep =
      have == buffer_dtype || (!shown_.count(load.buffer) && may_skip(kernel.body, load.results[0], buffer_dtype));
  const DType made = keep ? have : buffer_dtype;
  kernel.value_types[static_cast<size_t>(load.results[0])] = made;
  return op_stmt_to(load.results[0], ScalarOp::cast, made, {stored});
}

}  // namespace kiln::loops
