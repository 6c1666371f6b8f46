#include "schedule/merge_loops.h"

#include "loop_passes/rewrite.h"
#include "schedule/new_loops.h"

namespace kiln::loops {
namespace {

bool mergeable(const Stmt& stmt) {
  return stmt.kind == StmtKind::loop && stmt.loop->role == AxisRole::parallel &&
         stmt.loop->directives.binding == Binding::none;
}

void for_each_access(const Body& body, BufferId buffer, const std::function<void(const Stmt&)>& f) {
  for_each_stmt(body, [&](const Stmt& stmt) {
    if ((stmt.kind == StmtKind::load || stmt.kind == StmtKind::store) && stmt.buffer == buffer) f(stmt);
  });
}

// Every access to the buffer in both bodies has the variable, or it and the same number, as index of the same
// dimension: then iteration v of one touches only what iteration v of the other touches.
bool aligned(const Body& a, const Body& b, BufferId buffer, const std::string& var, size_t rank) {
  for (size_t d = 0; d < rank; ++d) {
    bool all = true;
    std::optional<Expr> first;
    auto check = [&](const Stmt& stmt) {
      if (!first) first = stmt.index[d] - Expr::symbol(var);
      all &= first->is_constant() && stmt.index[d] - Expr::symbol(var) == *first;
    };
    for_each_access(a, buffer, check);
    for_each_access(b, buffer, check);
    if (all) return true;
  }
  return false;
}

void rename_variable(Body& body, const std::string& from, const std::string& to) {
  Substitution map{{from, Expr::symbol(to)}};
  for_each_stmt(body, [&](Stmt& stmt) {
    for (Expr& e : stmt.index) e = substitute(e, map);
    stmt.expr = substitute(stmt.expr, map);
    if (stmt.loop) stmt.loop->extent = substitute(stmt.loop->extent, map);
  });
}

class TreeMerger {
 public:
  TreeMerger(const LoopProgram& program, const RangeEnv& ranges) : program_(program), ranges_(ranges) {}

  // Merges loop `b` into loop `a` if that is safe. False leaves both as they were.
  bool merge(Loop& a, Loop& b, std::string& reason) {
    if (prove_eq(a.extent, b.extent, ranges_) != Proof::yes) {
      reason = str("their loops run ", a.extent.text(), " and ", b.extent.text(), " times");
      return false;
    }
    Body renamed = clone(b.body);
    rename_variable(renamed, b.var, a.var);
    Accesses x = accesses(a.body), y = accesses(renamed);
    std::set<BufferId> shared;
    for (BufferId w : x.writes)
      if (y.touches(w)) shared.insert(w);
    for (BufferId w : y.writes)
      if (x.touches(w)) shared.insert(w);
    for (BufferId id : shared)
      if (!aligned(a.body, renamed, id, a.var, program_.buffers[static_cast<size_t>(id)].sizes.size())) {
        reason = str("iterations of one need other iterations of the other (",
                     program_.buffers[static_cast<size_t>(id)].name, ")");
        return false;
      }
    merged_variables[b.var] = Expr::symbol(a.var);
    append(a.body, std::move(renamed));
    return true;
  }

  // Puts the statements of b behind those of a, merging the last loop of a with the first loop of b where possible.
  void append(Body& a, Body b) {
    size_t first_loop = 0;
    while (first_loop < b.size() && b[first_loop].kind != StmtKind::loop) ++first_loop;
    bool candidates = !a.empty() && first_loop < b.size() && mergeable(a.back()) && mergeable(b[first_loop]);
    if (candidates) {
      // What stands before b's loop moves in front of a's loop: it must not touch what a's loop writes, nor store.
      Accesses loop_accesses = accesses(a.back().loop->body);
      bool movable = true;
      for (size_t i = 0; i < first_loop; ++i) {
        movable &= b[i].kind != StmtKind::store;
        if (b[i].kind == StmtKind::load && loop_accesses.writes.count(b[i].buffer)) movable = false;
      }
      std::string reason;
      if (movable && merge(*a.back().loop, *b[first_loop].loop, reason)) {
        Stmt merged = std::move(a.back());
        a.pop_back();
        for (size_t i = 0; i < first_loop; ++i) a.push_back(std::move(b[i]));
        a.push_back(std::move(merged));
        for (size_t i = first_loop + 1; i < b.size(); ++i) a.push_back(std::move(b[i]));
        return;
      }
    }
    for (Stmt& stmt : b) a.push_back(std::move(stmt));
  }

  Substitution merged_variables;  // variables of loops that are merged into others

 private:
  const LoopProgram& program_;
  const RangeEnv& ranges_;
};

bool has_parallel_loop(const Body& body) {
  for (const Stmt& stmt : body)
    if (stmt.kind == StmtKind::loop && stmt.loop->role == AxisRole::parallel) return true;
  return false;
}

constexpr double longest_merged_row = 16384;  // elements: more are worth more than one thread, or block of threads

// Whether the first is a reduction, and the second a loop over one row that needs its result.
bool is_short_row(const Body& a, const Body& b, const LoopProgram& program) {
  bool reduces = false, short_one = true;
  for (const Stmt& stmt : a) {
    if (!stmt.loop) continue;
    reduces = true;
    short_one &= estimate(stmt.loop->extent, program) <= longest_merged_row;
    for (const Stmt& inner : stmt.loop->body) short_one &= !inner.loop;
  }
  if (!reduces || !short_one || b.size() != 1 || !mergeable(b[0]) || raises(b)) return false;
  for (const Stmt& stmt : b[0].loop->body)
    if (stmt.loop) return false;
  const Accesses x = accesses(a), y = accesses(b);
  const bool needed = std::any_of(x.writes.begin(), x.writes.end(), [&](BufferId id) { return y.reads.contains(id); });
  return needed && estimate(b[0].loop->extent, program) <= longest_merged_row;
}

std::string unused_variable(const Kernel& kernel, const Body& more) {
  std::set<std::string> used = variables_of(kernel);
  for_each_stmt(more, [&](const Stmt& stmt) {
    if (stmt.loop) used.insert(stmt.loop->var);
    if (!stmt.index_var.empty()) used.insert(stmt.index_var);
  });
  return unused_name(used, "o");
}

}  // namespace

bool merge_into(Kernel& into, const Kernel& b, const LoopProgram& program, const RangeEnv& ranges,
                std::string& reason) {
  Body copied;
  Copier copier(b, into);
  copier.copy(b.body, copied);
  copier.copy_names(copied);
  TreeMerger merger(program, ranges);
  bool scalar_a = !has_parallel_loop(into.body), scalar_b = !has_parallel_loop(copied);
  if (scalar_a && scalar_b) {
    // Two kernels that are one item each (full reductions, scalars) run one after the other.
    for (Stmt& stmt : copied) into.body.push_back(std::move(stmt));
  } else {
    if (scalar_a && is_short_row(into.body, copied, program)) {
      // A row's sum, and what is done with the row then: a norm's only row. The loop around is that of its rows.
      Stmt row = loop_stmt(unused_variable(into, copied), Expr(1));
      row.loop->body = std::move(into.body);
      for (Stmt& stmt : copied) row.loop->body.push_back(std::move(stmt));
      into.body.clear();
      into.body.push_back(std::move(row));
      into.origins.insert(into.origins.end(), b.origins.begin(), b.origins.end());
      into.op_names.insert(into.op_names.end(), b.op_names.begin(), b.op_names.end());
      return true;
    }
    if (scalar_a || scalar_b) {
      reason = "one of them has no parallel loop";
      return false;
    }
    if (into.body.size() != 1 || copied.size() != 1 || !mergeable(into.body[0]) || !mergeable(copied[0])) {
      reason = "one of them is not a single loop nest";
      return false;
    }
    if (!merger.merge(*into.body[0].loop, *copied[0].loop, reason)) return false;
  }
  rename_in_names(into, merger.merged_variables);
  into.origins.insert(into.origins.end(), b.origins.begin(), b.origins.end());
  into.op_names.insert(into.op_names.end(), b.op_names.begin(), b.op_names.end());
  return true;
}

}  // namespace kiln::loops
