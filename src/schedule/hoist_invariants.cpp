#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

class Hoister {
 public:
  Hoister(const LoopProgram& program) : ranges_(program.ranges()) {}

  // Statements that leave a loop go in front of it, in the enclosing body. Nothing leaves the outermost loops: they are
  // what is spread over threads.
  bool visit(Body& body, bool outermost = true) {
    bool changed = false;
    Body out;
    for (Stmt& stmt : body) {
      if (stmt.kind == StmtKind::loop) {
        changed |= visit(stmt.loop->body, false);
        changed |= visit(stmt.loop->after, false);
        if (!outermost) changed |= hoist(*stmt.loop, out);
      }
      out.push_back(std::move(stmt));
    }
    body = std::move(out);
    return changed;
  }

 private:
  bool hoist(Loop& loop, Body& before) {
    // A loop that may not run at all must not have its loads and checks run for it.
    bool runs = range_of(loop.extent, ranges_).low >= 1;
    std::set<ValueId> inside;
    std::set<std::string> variables = {loop.var};
    for_each_stmt(loop.body, [&](const Stmt& stmt) {
      inside.insert(stmt.results.begin(), stmt.results.end());
      if (stmt.kind == StmtKind::check_index) variables.insert(stmt.index_var);
    });
    inside.insert(loop.running.begin(), loop.running.end());
    Accesses written = accesses(loop.body);
    for (BufferId w : accesses(loop.after).writes) written.writes.insert(w);
    bool changed = false;
    Body rest;
    for (Stmt& stmt : loop.body) {
      if (!invariant(stmt, inside, variables, written, runs)) {
        rest.push_back(std::move(stmt));
        continue;
      }
      for (ValueId v : stmt.results) inside.erase(v);
      if (stmt.kind == StmtKind::check_index) variables.erase(stmt.index_var);
      before.push_back(std::move(stmt));
      changed = true;
    }
    loop.body = std::move(rest);
    return changed;
  }

  static bool invariant(const Stmt& stmt, const std::set<ValueId>& inside, const std::set<std::string>& variables,
                        const Accesses& written, bool runs) {
    bool pure = stmt.kind == StmtKind::op || stmt.kind == StmtKind::constant || stmt.kind == StmtKind::index_value;
    bool touches = stmt.kind == StmtKind::load || stmt.kind == StmtKind::check_index;
    if (!pure && !(touches && runs)) return false;
    if (stmt.kind == StmtKind::load && written.writes.count(stmt.buffer)) return false;
    for (ValueId v : stmt.args)
      if (inside.count(v)) return false;
    if (stmt.mask != no_value && inside.count(stmt.mask)) return false;
    std::set<std::string> symbols;
    for (const Expr& e : stmt.index) collect_symbols(e, symbols);
    collect_symbols(stmt.expr, symbols);
    for (const std::string& s : symbols)
      if (variables.count(s)) return false;
    return true;
  }

  RangeEnv ranges_;
};

}  // namespace

bool hoist_invariants(Body& body, const LoopProgram& program) { return Hoister(program).visit(body, false); }

bool hoist_invariants(LoopProgram& program, Log&) {
  bool changed = false;
  auto visit = [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) changed |= Hoister(program).visit(kernel->body);
  };
  for_each_item(program.init, visit);
  for_each_item(program.block, visit);
  return changed;
}

}  // namespace kiln::loops
