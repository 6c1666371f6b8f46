// For a CPU: a temporary of which each iteration of a kernel's outer loops has a part of its own, which nobody else
// looks at, is scratch: what passes between the stages of one line then stays in a near cache, whatever the number of
// lines.
#include "loop_passes/rewrite.h"
#include "loops/verify_scratch.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr int64_t most_bytes = 512 << 10;  // of one buffer: about a core's second cache

class ScratchUser {
 public:
  ScratchUser(LoopProgram& program, Log& log) : program_(program), log_(log) {
    for (const Block* block : {&program.init, &program.block})
      for_each_item(*block, [&](const Item& item) {
        const bool nested = std::holds_alternative<Cond>(item.what) || std::holds_alternative<While>(item.what);
        const Accesses all = accesses(item);
        for (const auto* ids : {&all.reads, &all.writes})
          for (BufferId id : *ids)
            if (auto* kernel = std::get_if<Kernel>(&item.what))
              users_[id].insert(kernel);
            else if (!nested || ids == &all.reads)
              others_.insert(id);
      });
  }

  bool run() {
    bool changed = false;
    for_each_item(program_.block, [&](Item& item) {
      auto* kernel = std::get_if<Kernel>(&item.what);
      if (!kernel || kernel->schedule->tile.rows > 0) return;
      const Accesses all = accesses(kernel->body);
      for (BufferId id : all.writes)
        if (all.reads.contains(id)) changed |= take(*kernel, id);
    });
    return changed;
  }

 private:
  struct Use {
    std::vector<Loop*> around;
    Stmt* stmt;
  };

  void find_uses(Body& body, BufferId id, std::vector<Loop*>& around, std::vector<Use>& out) {
    for (Stmt& stmt : body) {
      if ((stmt.kind == StmtKind::load || stmt.kind == StmtKind::store) && stmt.buffer == id)
        out.push_back({around, &stmt});
      if (!stmt.loop) continue;
      around.push_back(stmt.loop.get());
      find_uses(stmt.loop->body, id, around, out);
      find_uses(stmt.loop->after, id, around, out);
      around.pop_back();
    }
  }

  bool take(Kernel& kernel, BufferId id) {
    const Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
    if (buffer.role != BufferRole::temp || buffer.complex || users_[id].size() != 1 || others_.contains(id))
      return false;
    // A value of the graph is what tools look at.
    for (const NamedValue& value : kernel.named)
      if (value.name == buffer.name) return false;
    std::vector<Use> uses;
    std::vector<Loop*> around;
    find_uses(kernel.body, id, around, uses);
    // The loops around all of them.
    std::vector<Loop*> common = uses.front().around;
    for (const Use& use : uses) {
      size_t same = 0;
      while (same < common.size() && same < use.around.size() && common[same] == use.around[same]) ++same;
      common.resize(same);
      if (use.stmt->kind == StmtKind::store && use.stmt->mode != StoreMode::plain) return false;
    }
    // Dimensions that number their iterations, which have a part each.
    std::vector<bool> dropped(buffer.sizes.size());
    std::set<const Loop*> named;
    for (size_t d = 0; d < buffer.sizes.size(); ++d)
      for (const Loop* loop : common)
        if (loop->role == AxisRole::parallel && loop->directives.factor == 0 &&
            std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
              const Expr& e = use.stmt->index[d];
              return e == Expr::symbol(loop->var) || (loop->extent.is_constant(1) && e.is_constant(0));
            }))
          dropped[d] = true, named.insert(loop);
    for (const Loop* loop : item_loops(kernel).loops)
      if (!loop->extent.is_constant(1) && !named.contains(loop)) return false;
    std::vector<Expr> sizes;
    int64_t elements = 1;
    for (size_t d = 0; d < buffer.sizes.size(); ++d) {
      if (dropped[d]) continue;
      if (!buffer.sizes[d].is_constant() || buffer.sizes[d].value() < 1 || elements > most_bytes) return false;
      elements *= buffer.sizes[d].value();
      sizes.push_back(buffer.sizes[d]);
    }
    if (elements * dtype_bytes(buffer.dtype) > most_bytes || sizes.empty()) return false;
    return change(kernel, id, uses, dropped, named, sizes);
  }

  // As the verifier sees it, or not at all.
  bool change(Kernel& kernel, BufferId id, const std::vector<Use>& uses, const std::vector<bool>& dropped,
              const std::set<const Loop*>& named, const std::vector<Expr>& sizes) {
    Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
    const Buffer before = buffer;
    std::vector<std::vector<Expr>> places;
    std::vector<Loop*> plain;  // run one after the other, by whoever has the item
    for (const Use& use : uses) {
      places.push_back(use.stmt->index);
      std::vector<Expr> index;
      for (size_t d = 0; d < dropped.size(); ++d)
        if (!dropped[d]) index.push_back(use.stmt->index[d]);
      use.stmt->index = std::move(index);
      for (Loop* loop : use.around)
        if (named.contains(loop) && loop->directives.binding == Binding::none) {
          loop->directives.binding = Binding::serial;
          plain.push_back(loop);
        }
    }
    buffer.role = BufferRole::scratch;
    buffer.sizes = sizes;
    buffer.strides = contiguous_strides(sizes);
    try {
      verify_scratch(program_, kernel);
    } catch (const Error&) {
      buffer = before;
      for (size_t i = 0; i < uses.size(); ++i) uses[i].stmt->index = places[i];
      for (Loop* loop : plain) loop->directives.binding = Binding::none;
      return false;
    }
    log_.add([&] {
      return Decision{"keep", buffer.name, "in scratch of", kernel.name, "no other item looks at its part", true, ""};
    });
    return true;
  }

  LoopProgram& program_;
  Log& log_;
  std::map<BufferId, std::set<const Kernel*>> users_;
  std::set<BufferId> others_;
};

}  // namespace

bool use_scratch(LoopProgram& program, const Target& target, Log& log) {
  return !target.is_gpu() && ScratchUser(program, log).run();
}

}  // namespace kiln::loops
