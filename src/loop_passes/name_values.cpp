#include "loop_passes/passes.h"

namespace kiln::loops {
namespace {

void for_each_kernel(Block& block, const std::function<void(Kernel&)>& f) {
  for_each_item(block, [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) f(*kernel);
  });
}

}  // namespace

bool name_values(LoopProgram& program, Log&) {
  // What is stored in several places, or added to, is complete only in memory: no single value has its name.
  std::map<BufferId, int> stores;
  for_each_kernel(program.block, [&](Kernel& kernel) {
    for_each_stmt(kernel.body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store) stores[stmt.buffer] += stmt.mode == StoreMode::plain ? 1 : 2;
    });
  });
  bool changed = false;
  for_each_kernel(program.block, [&](Kernel& kernel) {
    for_each_stmt(kernel.body, [&](const Stmt& stmt) {
      if (stmt.kind != StmtKind::store || stores[stmt.buffer] != 1) return;
      const std::string& name = program.buffers[static_cast<size_t>(stmt.buffer)].name;
      kernel.named.push_back({stmt.args[0], name, stmt.index, stmt.mask});
      changed = true;
    });
  });
  return changed;
}

}  // namespace kiln::loops
