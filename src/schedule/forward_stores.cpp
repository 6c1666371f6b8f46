#include "loop_passes/rewrite.h"
#include "loop_passes/roundings.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// Inside one kernel: what was stored where, as far as it is still so at this point of the tree.
struct Known {
  std::vector<Expr> index;
  ValueId value;
};
using Memory = std::map<BufferId, std::vector<Known>>;

class Forwarder {
 public:
  Forwarder(LoopProgram& program, const Roundings& roundings, Kernel& kernel, Log& log)
      : program_(program), roundings_(roundings), kernel_(kernel), log_(log) {}

  bool run() {
    Memory memory;
    visit(kernel_.body, memory);
    return changed_;
  }

 private:
  void visit(Body& body, Memory& memory) {
    for (Stmt& stmt : body) {
      if (stmt.kind == StmtKind::loop) {
        // Stores inside the loop make what is known of those buffers doubtful, in the loop and after it.
        Accesses inside = accesses(stmt.loop->body);
        Accesses after = accesses(stmt.loop->after);
        for (BufferId w : inside.writes) memory.erase(w);
        for (BufferId w : after.writes) memory.erase(w);
        Memory nested = memory;
        visit(stmt.loop->body, nested);
        visit(stmt.loop->after, nested);
      } else if (stmt.kind == StmtKind::store) {
        memory.erase(stmt.buffer);
        if (stmt.mode == StoreMode::plain && stmt.mask == no_value)
          memory[stmt.buffer].push_back({stmt.index, stmt.args[0]});
      } else if (stmt.kind == StmtKind::load) {
        forward(stmt, memory);
      }
    }
  }

  void forward(Stmt& load, const Memory& memory) {
    auto found = memory.find(load.buffer);
    if (found == memory.end() || load.mask != no_value) return;
    for (const Known& known : found->second) {
      if (known.index != load.index) continue;
      Stmt alias = roundings_.forwarded(load, known.value, kernel_);
      log_.add([&] {
        const std::string& name = program_.buffers[static_cast<size_t>(load.buffer)].name;
        return Decision{"forward", name, "inside", kernel_.name, "the kernel has just stored it", true, ""};
      });
      load = std::move(alias);
      changed_ = true;
      return;
    }
  }

  LoopProgram& program_;
  const Roundings& roundings_;
  Kernel& kernel_;
  Log& log_;
  bool changed_ = false;
};

void count_reads(const Block& block, std::map<BufferId, int>& reads) {
  for_each_item(block, [&](const Item& item) {
    if (std::holds_alternative<Cond>(item.what) || std::holds_alternative<While>(item.what)) {
      if (auto* cond = std::get_if<Cond>(&item.what))
        if (auto* id = std::get_if<BufferId>(&cond->predicate)) ++reads[*id];
      if (auto* loop = std::get_if<While>(&item.what))
        if (auto* id = std::get_if<BufferId>(&loop->predicate)) ++reads[*id];
      return;  // the nested items are visited themselves
    }
    for (BufferId r : accesses(item).reads) ++reads[r];
  });
}

void remove_stores(Body& body, const std::set<BufferId>& unread) {
  for (Stmt& stmt : body)
    if (stmt.loop) remove_stores(stmt.loop->body, unread), remove_stores(stmt.loop->after, unread);
  std::erase_if(body, [&](const Stmt& stmt) { return stmt.kind == StmtKind::store && unread.count(stmt.buffer); });
}

}  // namespace

bool forward_stores(LoopProgram& program, Log& log) {
  bool changed = false;
  const Roundings roundings(program);
  for_each_item(program.block, [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) changed |= Forwarder(program, roundings, *kernel, log).run();
  });
  std::map<BufferId, int> reads;
  count_reads(program.block, reads);
  std::set<BufferId> unread;
  for (size_t b = 0; b < program.buffers.size(); ++b)
    if (program.buffers[b].role == BufferRole::temp && !reads.count(static_cast<BufferId>(b)))
      unread.insert(static_cast<BufferId>(b));
  for_each_item(program.block, [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) remove_stores(kernel->body, unread);
  });
  return changed;
}

}  // namespace kiln::loops
