#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {

bool hoist_constants(LoopProgram& program, Log& log) {
  std::map<BufferId, int> writers;
  for_each_item(program.block, [&](const Item& item) {
    if (std::holds_alternative<Cond>(item.what) || std::holds_alternative<While>(item.what)) return;
    for (BufferId w : accesses(item).writes) ++writers[w];
  });
  auto fixed = [&](BufferId id) {
    const Buffer& b = program.buffers[static_cast<size_t>(id)];
    return (b.role == BufferRole::constant && !b.mutated) || b.role == BufferRole::derived;
  };
  bool changed = false;
  std::vector<bool> moved(program.block.size());
  for (size_t i = 0; i < program.block.size(); ++i) {
    auto* kernel = std::get_if<Kernel>(&program.block[i].what);
    bool movable = kernel != nullptr;
    if (movable) {
      Accesses a = accesses(kernel->body);
      movable = !a.reads.empty();  // fills and ranges are cheaper to make than to keep
      for (BufferId r : a.reads) movable &= fixed(r);
      for (BufferId w : a.writes)
        movable &= program.buffers[static_cast<size_t>(w)].role == BufferRole::temp && writers[w] == 1;
      std::set<std::string> symbols;
      for_each_stmt(kernel->body, [&](const Stmt& stmt) {
        // An index of weights by weights that is out of range would be so in every call: loading says it first. What
        // the program itself asserts is said where it does.
        movable &= stmt.kind != StmtKind::random && stmt.kind != StmtKind::raise_if;
        if (stmt.loop) collect_symbols(stmt.loop->extent, symbols);
        for (const Expr& e : stmt.index) collect_symbols(e, symbols);
        collect_symbols(stmt.expr, symbols);
      });
      for (const std::string& s : symbols) movable &= !program.symbols.count(s);  // sizes known only when running
    }
    if (!movable) continue;
    for (BufferId w : accesses(kernel->body).writes) program.buffers[static_cast<size_t>(w)].role = BufferRole::derived;
    log.add([&] { return Decision{"hoist", kernel->name, "", "", "it reads weights only", true, ""}; });
    program.init.push_back(std::move(program.block[i]));
    changed = moved[i] = true;
  }
  erase_items(program.block, moved);
  return changed;
}

}  // namespace kiln::loops
