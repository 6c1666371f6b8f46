// A concatenation copies its parts: what a kernel has written is read and written once more. Here a temporary that is
// copied whole into a part of another one is that part from the start: who writes or reads it does so there.
//
//   store a[i, j] = …                  store c[i, j + 32] = …
//   … load a[i, j] …         becomes   … load c[i, j + 32] …
//   store c[i, j + 32] = a[i, j]
//
// Only in straight lines of kernels: between the first write to the temporary and the copy nobody may see the part.
#include "loop_passes/passes.h"
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

struct Copy {
  size_t at = 0;  // of the kernel in the block
  const Stmt* store = nullptr;
  BufferId from = no_buffer, to = no_buffer;
  std::vector<Expr> offsets;  // of the part, by dimension
};

// From innermost to outermost, dimensions of one element left out.
std::vector<size_t> order_of(const Buffer& buffer) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < buffer.sizes.size(); ++d)
    if (!buffer.sizes[d].is_constant(1)) dims.push_back(d);
  std::stable_sort(dims.begin(), dims.end(), [&](size_t a, size_t b) {
    return buffer.strides[a].is_constant() && buffer.strides[b].is_constant() &&
           buffer.strides[a].value() < buffer.strides[b].value();
  });
  return dims;
}

class PartPlacer {
 public:
  explicit PartPlacer(LoopProgram& program) : program_(program) {
    for (const Item& item : program.block) accesses_.push_back(accesses(item));
  }

  bool run(Log& log) {
    bool changed = false;
    for (size_t at = 0; at < program_.block.size(); ++at)
      while (const std::optional<Copy> copy = find(at)) {
        log.add([&] {
          return Decision{"write", buffer(copy->from).name, "into", buffer(copy->to).name, "it is a part of it", true,
                          ""};
        });
        place(*copy);
        changed = true;
      }
    return changed;
  }

 private:
  Buffer& buffer(BufferId id) { return program_.buffers[static_cast<size_t>(id)]; }
  Kernel* kernel(size_t at) { return std::get_if<Kernel>(&program_.block[at].what); }

  std::optional<Copy> find(size_t at) {
    Kernel* k = kernel(at);
    if (!k) return {};
    std::optional<Copy> found;
    std::vector<const Loop*> around;
    std::map<ValueId, const Stmt*> loads;
    std::function<void(const Body&)> visit = [&](const Body& body) {
      for (const Stmt& stmt : body) {
        if (found) return;
        if (stmt.kind == StmtKind::load) loads[stmt.results[0]] = &stmt;
        if (stmt.kind == StmtKind::store && loads.count(stmt.args[0]))
          found = copy_of(at, *loads.at(stmt.args[0]), stmt, around);
        if (!stmt.loop) continue;
        around.push_back(stmt.loop.get());
        visit(stmt.loop->body);
        around.pop_back();
      }
    };
    visit(k->body);
    return found;
  }

  // Of all of one temporary into a part of another, which nobody else touches too early.
  std::optional<Copy> copy_of(size_t at, const Stmt& load, const Stmt& store, const std::vector<const Loop*>& around) {
    if (load.mask != no_value || store.mask != no_value || store.mode != StoreMode::plain) return {};
    Copy copy{at, &store, load.buffer, store.buffer, {}};
    const Buffer &from = buffer(copy.from), &to = buffer(copy.to);
    if (copy.from == copy.to || from.role != BufferRole::temp || to.role != BufferRole::temp ||
        from.dtype != to.dtype || from.sizes.size() != to.sizes.size() || order_of(from) != order_of(to))
      return {};
    std::set<const Loop*> used;
    size_t dims = 0;
    for (size_t d = 0; d < from.sizes.size(); ++d) {
      const Expr& index = load.index[d];
      const Loop* loop = nullptr;
      for (const Loop* l : around)
        if (index.is_symbol() && l->var == index.name() && l->role == AxisRole::parallel) loop = l;
      const bool whole = loop ? loop->extent == from.sizes[d] : index.is_constant(0) && from.sizes[d].is_constant(1);
      const Expr offset = simplify(store.index[d] - index, program_.ranges());
      if (!whole || !offset.is_constant() || !from.sizes[d].is_constant()) return {};
      if (loop) used.insert(loop), ++dims;
      copy.offsets.push_back(offset);
    }
    if (used.size() != dims || dims != around.size() || !alone(copy)) return {};
    return copy;
  }

  bool alone(const Copy& copy) {
    for (size_t i = 0; i < program_.block.size(); ++i) {
      const Accesses& a = accesses_[i];
      if (!a.touches(copy.from) && !a.touches(copy.to)) continue;
      if (!kernel(i)) {
        if (a.touches(copy.from) || a.writes.count(copy.to) || i < copy.at) return false;
        continue;
      }
      if (a.writes.count(copy.from) && i >= copy.at) return false;
      if (a.reads.count(copy.to) && i <= copy.at) return false;
      if (a.writes.count(copy.to) && !apart(*kernel(i), copy)) return false;
    }
    return true;
  }

  // Whether all stores of the kernel to the buffer, the copy aside, are to other parts of it.
  bool apart(const Kernel& k, const Copy& copy) {
    const RangeEnv env = kernel_ranges(k, program_);
    bool all = true;
    for_each_stmt(k.body, [&](const Stmt& stmt) {
      if (stmt.kind != StmtKind::store || stmt.buffer != copy.to || &stmt == copy.store) return;
      bool disjoint = false;
      for (size_t d = 0; d < copy.offsets.size(); ++d) {
        const Interval there = range_of(stmt.index[d], env);
        const int64_t low = copy.offsets[d].value(), high = low + buffer(copy.from).sizes[d].value() - 1;
        disjoint |= there.high < low || there.low > high;
      }
      all &= disjoint;
    });
    return all;
  }

  void place(const Copy& copy) {
    remove_store(kernel(copy.at)->body, copy.store);
    for (size_t i = 0; i < program_.block.size(); ++i) {
      Kernel* k = kernel(i);
      if (!k || !accesses_[i].touches(copy.from)) continue;
      for_each_stmt(k->body, [&](Stmt& stmt) {
        if ((stmt.kind != StmtKind::load && stmt.kind != StmtKind::store) || stmt.buffer != copy.from) return;
        stmt.buffer = copy.to;
        for (size_t d = 0; d < stmt.index.size(); ++d) stmt.index[d] = stmt.index[d] + copy.offsets[d];
      });
      if (i == copy.at) simplify_body(program_, *k);
      accesses_[i] = accesses(program_.block[i]);
    }
  }

  static bool remove_store(Body& body, const Stmt* store) {
    for (size_t i = 0; i < body.size(); ++i) {
      if (&body[i] == store) {
        body.erase(body.begin() + static_cast<ptrdiff_t>(i));
        return true;
      }
      if (body[i].loop && remove_store(body[i].loop->body, store)) return true;
    }
    return false;
  }

  LoopProgram& program_;
  std::vector<Accesses> accesses_;  // by position in the block
};

}  // namespace

bool place_parts(LoopProgram& program, const Target& target, Log& log) {
  if (target.is_gpu()) return false;
  if (!PartPlacer(program).run(log)) return false;
  remove_dead_kernels(program, log);
  return true;
}

}  // namespace kiln::loops
