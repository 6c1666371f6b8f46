// Kernels that one thread runs anyway, each of which needs what the one before it made (the pool and the two products
// of a squeeze-and-excitation), become one: its parts follow one another, and what passes between them is scratch.
#include "loop_passes/rewrite.h"
#include "loops/walk.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr size_t most_statements = 200;           // the compiler's time grows with them, and with kernels that differ
constexpr int64_t most_scratch_bytes = 64 << 10;  // of one value: it stays in a near cache

bool sizes_are_known(const Body& body) {
  bool known = true;
  for_each_stmt(body,
                [&](const Stmt& stmt) { known &= !stmt.loop || range_of(stmt.loop->extent, {}).high < INT32_MAX; });
  return known;
}

// Whether iterations of the loop write to the same scratch, each for itself.
bool shares_scratch(const Loop& loop, const LoopProgram& program) {
  bool shares = false;
  for_each_stmt(loop.body, [&](const Stmt& stmt) {
    if (stmt.kind != StmtKind::store || program.buffers[static_cast<size_t>(stmt.buffer)].role != BufferRole::scratch)
      return;
    shares |= std::none_of(stmt.index.begin(), stmt.index.end(), [&](const Expr& e) { return mentions(e, loop.var); });
  });
  return shares;
}

// A loop of items goes on as a plain one, one item after the other where they share scratch; of one item it goes away.
void drop_items(Kernel& kernel, const LoopProgram& program) {
  Body* body = &kernel.body;
  while (body->size() == 1 && body->front().loop && body->front().loop->directives.binding == Binding::item) {
    Loop& loop = *body->front().loop;
    if (!loop.extent.is_constant(1)) {
      loop.directives = AxisDirectives();
      if (shares_scratch(loop, program)) loop.directives.binding = Binding::serial;
      body = &loop.body;
      continue;
    }
    const Substitution first{{loop.var, Expr(0)}};
    Body inside = std::move(loop.body);
    for_each_stmt(inside, [&](Stmt& stmt) {
      for (Expr& e : stmt.index) e = substitute(e, first);
      stmt.expr = substitute(stmt.expr, first);
      if (stmt.loop) stmt.loop->extent = substitute(stmt.loop->extent, first);
    });
    rename_in_names(kernel, first);
    *body = std::move(inside);
  }
}

class Chainer {
 public:
  Chainer(LoopProgram& program, Log& log) : program_(program), log_(log) {
    for (const Block* block : {&program.init, &program.block})
      for_each_item(*block, [&](const Item& item) {
        if (auto* cond = std::get_if<Cond>(&item.what)) return use(cond->predicate);
        if (auto* loop = std::get_if<While>(&item.what)) return use(loop->predicate);
        const Accesses all = accesses(item);
        for (BufferId id : all.writes) ++users_[id];
        for (BufferId id : all.reads)
          if (!all.writes.contains(id)) ++users_[id];
      });
  }

  bool run(Block& block) {
    bool changed = false;
    Block chained;
    chained.reserve(block.size());
    for (Item& item : block) {
      for_each_block(item, [&](Block& nested) { changed |= run(nested); });
      auto* next = std::get_if<Kernel>(&item.what);
      auto* before = chained.empty() ? nullptr : std::get_if<Kernel>(&chained.back().what);
      if (next && before && try_chain(*before, *next))
        changed = true;
      else
        chained.push_back(std::move(item));
    }
    block = std::move(chained);
    return changed;
  }

 private:
  static bool one_thread_runs(const Kernel& kernel) {
    const Schedule& schedule = *kernel.schedule;
    if (schedule.tile.rows > 0 || schedule.turns || !schedule.items.is_constant() ||
        schedule.items.value() > schedule.grain || !sizes_are_known(kernel.body))
      return false;
    bool plain = true;  // nothing that is printed as a whole
    for_each_stmt(kernel.body, [&](const Stmt& stmt) {
      plain &= !stmt.loop ||
               (stmt.loop->directives.binding != Binding::unroll && stmt.loop->directives.binding != Binding::kept);
    });
    return plain;
  }

  void use(const std::variant<BufferId, Expr>& predicate) {
    if (auto* id = std::get_if<BufferId>(&predicate)) ++users_[*id];
  }

  bool try_chain(Kernel& a, const Kernel& b) {
    const Accesses first = accesses(a.body), second = accesses(b.body);
    std::vector<BufferId> between;
    for (BufferId id : first.writes)
      if (second.touches(id)) between.push_back(id);
    if (between.empty() || !one_thread_runs(a) || !one_thread_runs(b) || a.schedule->lanes != b.schedule->lanes)
      return false;
    if (statement_count(a.body) + statement_count(b.body) > most_statements)
      return refuse(a, b, "the kernel would be too large");
    for (BufferId id : between) {
      const Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
      if (buffer.role != BufferRole::temp || users_[id] != 2 || second.writes.contains(id))
        return refuse(a, b, str("others than the two use ", buffer.name));
      const Expr bytes = buffer_bytes(buffer);
      if (!bytes.is_constant() || bytes.value() > most_scratch_bytes)
        return refuse(a, b, str(buffer.name, " is large"));
      if (!is_written_before(a.body, b.body, id))
        return refuse(a, b, str("it is not seen that ", a.name, " writes all of ", buffer.name));
    }
    for (BufferId id : between) program_.buffers[static_cast<size_t>(id)].role = BufferRole::scratch;
    log_.add([&] {
      return Decision{"chain", b.name, "behind", a.name, "one thread runs both, one after the other", true, ""};
    });
    append(a, b);
    return true;
  }

  // As verify_scratch wants it: one store writes the buffer from end to end, where it has one element in a dimension
  // with the same index as the loads.
  bool is_written_before(const Body& a, const Body& b, BufferId id) const {
    const std::vector<Expr>& sizes = program_.buffers[static_cast<size_t>(id)].sizes;
    bool single = true;
    const auto look = [&](const Stmt& stmt) {
      if ((stmt.kind != StmtKind::load && stmt.kind != StmtKind::store) || stmt.buffer != id) return;
      single &= stmt.kind == StmtKind::load || stmt.mode == StoreMode::plain;
      for (size_t d = 0; d < sizes.size(); ++d)
        if (sizes[d].is_constant(1)) single &= stmt.index[d].is_constant(0);
    };
    for_each_stmt(a, look);
    for_each_stmt(b, look);
    return single && writes_all(a, id, sizes);
  }
  static bool writes_all(const Body& body, BufferId id, const std::vector<Expr>& sizes) {
    std::map<std::string, const Loop*> around;
    bool found = false;
    const std::function<void(const Body&)> visit = [&](const Body& inside) {
      for (const Stmt& stmt : inside) {
        if (stmt.kind == StmtKind::store && stmt.buffer == id && stmt.mask == no_value) {
          bool all = true;
          std::set<std::string> used;
          for (size_t d = 0; d < sizes.size(); ++d) {
            if (sizes[d].is_constant(1)) continue;
            const auto loop = stmt.index[d].is_symbol() ? around.find(stmt.index[d].name()) : around.end();
            all &= loop != around.end() && loop->second->role == AxisRole::parallel &&
                   loop->second->extent == sizes[d] && used.insert(loop->first).second;
          }
          for (const auto& [var, loop] : around)
            if (!used.contains(var)) all &= loop->extent.is_constant(1);
          found |= all;
        }
        if (!stmt.loop) continue;
        around[stmt.loop->var] = stmt.loop.get();
        visit(stmt.loop->body);
        around.erase(stmt.loop->var);
      }
    };
    visit(body);
    return found;
  }

  void append(Kernel& a, const Kernel& b) {
    drop_items(a, program_);
    Kernel plain = b.clone();
    drop_items(plain, program_);
    Copier copier(plain, a);
    Body copied;
    copier.copy(plain.body, copied);
    copier.copy_names(copied);
    for (Stmt& stmt : copied) a.body.push_back(std::move(stmt));
    a.origins.insert(a.origins.end(), b.origins.begin(), b.origins.end());
    a.op_names.insert(a.op_names.end(), b.op_names.begin(), b.op_names.end());
    a.schedule->items = Expr(1);
    a.schedule->grain = 1;
  }

  bool refuse(const Kernel& a, const Kernel& b, const std::string& reason) {
    log_.add([&] { return Decision{"no chain of", b.name, "behind", a.name, reason, false, ""}; });
    return false;
  }

  LoopProgram& program_;
  Log& log_;
  std::map<BufferId, int> users_;  // items that read or write it
};

}  // namespace

bool chain_kernels(LoopProgram& program, const Target& target, Log& log) {
  return !target.is_gpu() && Chainer(program, log).run(program.block);
}

}  // namespace kiln::loops
