// What follows a transpose keeps its order of dimensions in PyTorch, however many operators follow: the rows of a whole
// network may lie across memory, and every kernel that runs along them would gather. A temporary that all its readers
// and writers run along one dimension is laid out with that one innermost.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

class RowStraightener {
 public:
  RowStraightener(LoopProgram& program, Log& log) : program_(program), log_(log) {}

  bool run() {
    const std::set<BufferId> pinned = pinned_buffers(program_);
    for (const Item& item : program_.block)
      if (const auto* kernel = std::get_if<Kernel>(&item.what)) visit(kernel->body);
    bool changed = false;
    for (const auto& [id, way] : ways_) {
      Buffer& b = program_.buffers[static_cast<size_t>(id)];
      if (b.role == BufferRole::temp && !pinned.contains(id) && way) changed |= lay_out(b, *way);
    }
    return changed;
  }

 private:
  void visit(const Body& body) {
    for (const Stmt& stmt : body) {
      if (stmt.kind == StmtKind::load || stmt.kind == StmtKind::store) note(stmt);
      if (!stmt.loop) continue;
      around_.push_back(stmt.loop->var);
      visit(stmt.loop->body);
      visit(stmt.loop->after);
      around_.pop_back();
    }
  }

  // The dimension along which the innermost loop runs that moves this access; who moves along another than those
  // before, or along several at once, leaves none.
  void note(const Stmt& access) {
    for (size_t i = around_.size(); i-- > 0;) {
      std::optional<size_t> dim;
      bool plain = true;
      for (size_t d = 0; d < access.index.size(); ++d) {
        if (!mentions(access.index[d], around_[i])) continue;
        const auto along = affine_in(access.index[d], around_[i]);
        plain &= !dim && along && along->coefficient.is_constant(1);
        dim = d;
      }
      if (!dim) continue;
      if (!plain) dim.reset();
      const auto [way, first] = ways_.emplace(access.buffer, dim);
      if (!first && way->second != dim) way->second.reset();
      return;
    }
  }

  // The dimensions around it stay in the order they have in memory.
  bool lay_out(Buffer& b, size_t inner) {
    if (b.strides[inner].is_constant(1) || b.sizes[inner].is_constant(1) || !b.offset.is_constant(0)) return false;
    std::vector<size_t> order;  // the innermost first
    Expr dense = 1;
    std::vector<bool> placed(b.sizes.size());
    for (size_t left = b.sizes.size(); left > 0; --left) {
      std::optional<size_t> next;
      for (size_t d = 0; d < b.sizes.size(); ++d)
        if (!placed[d] && (b.sizes[d].is_constant(1) || b.strides[d] == dense)) next = d;
      if (!next) return false;  // not dense: someone had reasons
      placed[*next] = true;
      order.push_back(*next);
      dense = dense * b.sizes[*next];
    }
    b.strides[inner] = 1;
    dense = b.sizes[inner];
    for (const size_t d : order)
      if (d != inner) b.strides[d] = dense, dense = dense * b.sizes[d];
    log_.add([&] {
      return Decision{"lay out", b.name, "", "", str("dimension ", inner, " innermost: all run along it"), true, ""};
    });
    return true;
  }

  LoopProgram& program_;
  Log& log_;
  std::vector<std::string> around_;                 // variables of the loops around, the outermost first
  std::map<BufferId, std::optional<size_t>> ways_;  // nothing: along several
};

}  // namespace

bool straighten_rows(LoopProgram& program, const Target& target, Log& log) {
  return !target.is_gpu() && RowStraightener(program, log).run();
}

}  // namespace kiln::loops
