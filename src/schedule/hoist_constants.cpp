#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// Which kernels can run once, when weights are loaded: those that read weights, and what is made for them alone (a
// table that is filled and then written part by part). What nobody needs together with weights stays: fills and ranges
// are cheaper to make than to keep.
class Hoist {
 public:
  explicit Hoist(const LoopProgram& program) : program_(program) {
    for (size_t i = 0; i < program.block.size(); ++i) {
      touched_.push_back(accesses(program.block[i]));
      const auto* kernel = std::get_if<Kernel>(&program.block[i].what);
      moves_.push_back(kernel && runs_once(*kernel));
      for (const BufferId w : touched_[i].writes) writers_[w].push_back(i);
    }
  }

  const std::vector<bool>& find() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < moves_.size(); ++i)
        if (moves_[i] && !may_move(i)) moves_[i] = false, changed = true;
      if (!changed) changed = keep_needed();
    }
    return moves_;
  }

 private:
  bool is_fixed(BufferId id) const {
    const Buffer& b = program_.buffers[static_cast<size_t>(id)];
    return (b.role == BufferRole::constant && !b.mutated) || b.role == BufferRole::derived;
  }

  bool runs_once(const Kernel& kernel) const {
    bool once = true;
    std::set<std::string> symbols;
    for_each_stmt(kernel.body, [&](const Stmt& stmt) {
      // An index of weights by weights that is out of range would be so in every call: loading says it first. What
      // the program itself asserts is said where it does.
      once &= stmt.kind != StmtKind::random && stmt.kind != StmtKind::raise_if;
      if (stmt.loop) collect_symbols(stmt.loop->extent, symbols);
      for (const Expr& e : stmt.index) collect_symbols(e, symbols);
      collect_symbols(stmt.expr, symbols);
    });
    for (const std::string& s : symbols) once &= !program_.symbols.count(s);  // sizes known only when running
    return once;
  }

  bool all_move(const std::vector<size_t>& items) const {
    return std::all_of(items.begin(), items.end(), [&](size_t i) { return moves_[i]; });
  }

  bool may_move(size_t i) const {
    for (const BufferId r : touched_[i].reads) {
      const auto found = writers_.find(r);
      if (!is_fixed(r) && (found == writers_.end() || !all_move(found->second))) return false;
    }
    for (const BufferId w : touched_[i].writes) {
      const std::vector<size_t>& writers = writers_.at(w);
      if (program_.buffers[static_cast<size_t>(w)].role != BufferRole::temp || !all_move(writers)) return false;
      // Who stays and reads it before its last part is written would see that part too.
      for (size_t other = 0; other < writers.back(); ++other)
        if (!moves_[other] && touched_[other].reads.count(w)) return false;
    }
    return true;
  }

  // Leaves out what is no part of something that reads weights. Whether anything was left out.
  bool keep_needed() {
    std::vector<bool> needed(moves_.size());
    std::vector<size_t> open;
    const auto need = [&](size_t i) {
      if (!needed[i]) needed[i] = true, open.push_back(i);
    };
    std::set<BufferId> from_weights;
    const auto of_weights = [&](BufferId r) { return is_fixed(r) || from_weights.contains(r); };
    for (size_t i = 0; i < moves_.size(); ++i) {
      const Accesses& touched = touched_[i];
      if (!moves_[i] || std::none_of(touched.reads.begin(), touched.reads.end(), of_weights)) continue;
      from_weights.insert(touched.writes.begin(), touched.writes.end());
      need(i);
    }
    while (!open.empty()) {
      const Accesses& touched = touched_[open.back()];
      open.pop_back();
      for (const std::set<BufferId>* buffers : {&touched.reads, &touched.writes})
        for (const BufferId b : *buffers)
          if (!is_fixed(b)) std::for_each(writers_.at(b).begin(), writers_.at(b).end(), need);
    }
    const bool fewer = needed != moves_;
    moves_ = std::move(needed);
    return fewer;
  }

  const LoopProgram& program_;
  std::vector<Accesses> touched_;
  std::vector<bool> moves_;
  std::map<BufferId, std::vector<size_t>> writers_;  // in order
};

}  // namespace

bool hoist_constants(LoopProgram& program, Log& log) {
  const std::vector<bool> moves = Hoist(program).find();
  bool changed = false;
  for (size_t i = 0; i < moves.size(); ++i) {
    if (!moves[i]) continue;
    auto& kernel = std::get<Kernel>(program.block[i].what);
    for (BufferId w : accesses(kernel.body).writes) program.buffers[static_cast<size_t>(w)].role = BufferRole::derived;
    log.add([&] { return Decision{"hoist", kernel.name, "", "", "it reads weights only", true, ""}; });
    program.init.push_back(std::move(program.block[i]));
    changed = true;
  }
  erase_items(program.block, moves);
  return changed;
}

}  // namespace kiln::loops
