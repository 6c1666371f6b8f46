#include "loop_passes/passes.h"
#include "loop_passes/rewrite.h"

namespace kiln::loops {
namespace {

bool contains_raise(const Item& item) {
  auto* kernel = std::get_if<Kernel>(&item.what);
  return kernel && raises(kernel->body);
}

// Walks backwards: an item lives if somebody later reads what it writes, or if it can be noticed otherwise.
bool sweep(const LoopProgram& program, Block& block, std::set<BufferId>& needed, bool looping) {
  if (looping)  // the next iteration may read what this one writes
    for (const Item& item : block)
      for (BufferId r : accesses(item).reads) needed.insert(r);
  bool removed = false;
  std::vector<bool> dead(block.size());
  for (size_t i = block.size(); i-- > 0;) {
    Item& item = block[i];
    bool alive = contains_raise(item) || std::holds_alternative<BindSymbol>(item.what) ||
                 std::holds_alternative<AssertThat>(item.what);
    if (auto* call = std::get_if<Call>(&item.what))
      alive |= call->custom || call->proves_sizes || !call->defines.empty() || !call->mutates.empty();
    Accesses a = accesses(item);
    for (BufferId w : a.writes) alive |= needed.count(w) || observable(program, w);
    if (!alive) {
      removed = dead[i] = true;
      continue;
    }
    if (auto* cond = std::get_if<Cond>(&item.what)) {
      std::set<BufferId> after = needed;
      removed |= sweep(program, *cond->then_block, needed, false);
      removed |= sweep(program, *cond->else_block, after, false);
      needed.insert(after.begin(), after.end());
    }
    if (auto* loop = std::get_if<While>(&item.what)) {
      if (auto* id = std::get_if<BufferId>(&loop->predicate)) needed.insert(*id);
      for (const Item& inner : *loop->condition_block)
        for (BufferId r : accesses(inner).reads) needed.insert(r);
      removed |= sweep(program, *loop->body_block, needed, true);
      removed |= sweep(program, *loop->condition_block, needed, true);
    }
    for (BufferId r : accesses(item).reads) needed.insert(r);
  }
  erase_items(block, dead);
  return removed;
}

}  // namespace

bool remove_dead_kernels(LoopProgram& program, Log&) {
  std::set<BufferId> needed;
  bool removed = sweep(program, program.block, needed, false);
  removed |= sweep(program, program.init, needed, false);
  return removed;
}

}  // namespace kiln::loops
