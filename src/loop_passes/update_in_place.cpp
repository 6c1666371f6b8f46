#include "loop_passes/passes.h"
#include "loop_passes/pointwise_form.h"
#include "loop_passes/rewrite.h"

namespace kiln::loops {
namespace {

bool same_layout(const Buffer& a, const Buffer& b) {
  return a.dtype == b.dtype && a.complex == b.complex && a.sizes == b.sizes && a.strides == b.strides;
}

// Every access to `b` in this kernel is at the very index (over the same loop variables) at which it stores to `to`:
// then writing `to` where `b` was is safe, element by element.
bool accessed_where_stored(const Kernel& kernel, BufferId b, BufferId to) {
  std::optional<PointwiseForm> form = pointwise_form(kernel);
  if (!form || form->store->buffer != to) return false;
  for (const Stmt& stmt : *form->body)
    if (stmt.kind == StmtKind::load && stmt.buffer == b && stmt.index != form->store->index) return false;
  return true;
}

// A kernel that copies a whole buffer to a part of another one, or back: where in the other one each of its elements
// is, by the symbols p0, p1, … for its indices.
struct PartCopy {
  BufferId part = no_buffer, whole = no_buffer;
  std::vector<Expr> places;
  bool operator==(const PartCopy&) const = default;
};

std::string index_symbol(size_t dimension) { return str("p", dimension); }

std::optional<PartCopy> part_copy(const Kernel& kernel, const LoopProgram& program, bool out_of_whole) {
  Substitution variables;
  std::map<std::string, Expr> extents;
  const Body* body = &kernel.body;
  for (; body->size() == 1 && body->front().loop; body = &body->front().loop->body) {
    const Loop& loop = *body->front().loop;
    if (loop.role != AxisRole::parallel || loop.directives.binding != Binding::none) return {};
    if (loop.extent.is_constant(1))
      variables[loop.var] = Expr(0);
    else
      extents[loop.var] = loop.extent;
  }
  if (body->size() != 2 || (*body)[0].kind != StmtKind::load || (*body)[1].kind != StmtKind::store) return {};
  const Stmt &load = (*body)[0], &store = (*body)[1];
  if (load.mask != no_value || store.mask != no_value || store.mode != StoreMode::plain ||
      store.args[0] != load.results[0] || load.buffer == store.buffer)
    return {};
  const Stmt &in_part = out_of_whole ? store : load, &in_whole = out_of_whole ? load : store;
  const Buffer &part = program.buffers[static_cast<size_t>(in_part.buffer)],
               &whole = program.buffers[static_cast<size_t>(in_whole.buffer)];
  if (part.dtype != whole.dtype) return {};
  // Every element of the part, each once.
  for (size_t d = 0; d < in_part.index.size(); ++d) {
    const Expr at = substitute(in_part.index[d], variables);
    if (at.is_constant(0) && part.sizes[d].is_constant(1)) continue;
    if (!at.is_symbol() || !extents.contains(at.name()) || !(extents[at.name()] == part.sizes[d])) return {};
    variables[at.name()] = Expr::symbol(index_symbol(d));
    extents.erase(at.name());
  }
  if (!extents.empty()) return {};
  PartCopy copy{in_part.buffer, in_whole.buffer, {}};
  for (const Expr& e : in_whole.index) copy.places.push_back(substitute(e, variables));
  return copy;
}

class InPlace {
 public:
  InPlace(LoopProgram& program, Log& log) : program_(program), log_(log) {}

  bool run(Block& block) {
    bool changed = false;
    for (const Item& item : block) accesses_.push_back(accesses(item));
    // One rename can make the next one possible (a chain of updates), from the last write-back upwards.
    for (size_t i = block.size(); i-- > 0;) {
      auto* kernel = std::get_if<Kernel>(&block[i].what);
      if (!kernel) continue;
      std::optional<PlainCopy> copy = plain_copy(*kernel);
      if (!copy || copy->from == copy->to) continue;
      if (write_back(block, i, *copy) || update(block, i, *copy)) {
        block.erase(block.begin() + static_cast<std::ptrdiff_t>(i));
        accesses_.erase(accesses_.begin() + static_cast<std::ptrdiff_t>(i));
        changed = true;
        i = block.size();  // positions moved: start again from the end
      }
    }
    for (size_t i = block.size(); i-- > 0;)
      if (update_part(block, i)) changed = true, i = block.size();
    return changed;
  }

 private:
  // A part of a buffer that is copied out, updated, and copied back to where it was (a write through two views): the
  // updates happen in the buffer itself.
  bool update_part(Block& block, size_t back) {
    const auto* kernel = std::get_if<Kernel>(&block[back].what);
    const std::optional<PartCopy> copy = kernel ? part_copy(*kernel, program_, false) : std::nullopt;
    if (!copy || buffer(copy->part).role != BufferRole::temp) return false;
    size_t out = block.size();
    for (size_t j = 0; j < block.size(); ++j) {
      const Accesses& a = accesses_[j];
      if (j == back || (j > out && j < back && a.touches(copy->whole))) {
        if (j == back) continue;
        return false;
      }
      if (!a.touches(copy->part)) continue;
      const auto* user = std::get_if<Kernel>(&block[j].what);
      if (!user || j > back) return false;
      if (out < block.size()) continue;
      if (part_copy(*user, program_, true) != copy) return false;
      out = j;
    }
    if (out >= back) return false;
    for (size_t j = out + 1; j < back; ++j) {
      if (!accesses_[j].touches(copy->part)) continue;
      for_each_stmt(std::get<Kernel>(block[j].what).body, [&](Stmt& stmt) { move_access(stmt, *copy); });
      accesses_[j] = accesses(block[j]);
    }
    log_.merged(buffer(copy->part).name, buffer(copy->whole).name);
    log_.add([&] {
      return Decision{"update",
                      buffer(copy->part).name,
                      "in",
                      buffer(copy->whole).name,
                      "it is a part that is copied back to where it was",
                      true,
                      ""};
    });
    for (const size_t gone : {back, out}) {
      block.erase(block.begin() + static_cast<std::ptrdiff_t>(gone));
      accesses_.erase(accesses_.begin() + static_cast<std::ptrdiff_t>(gone));
    }
    return true;
  }

  static void move_access(Stmt& stmt, const PartCopy& copy) {
    if ((stmt.kind != StmtKind::load && stmt.kind != StmtKind::store) || stmt.buffer != copy.part) return;
    Substitution at;
    for (size_t d = 0; d < stmt.index.size(); ++d) at[index_symbol(d)] = stmt.index[d];
    stmt.index.clear();
    for (const Expr& e : copy.places) stmt.index.push_back(substitute(e, at));
    stmt.buffer = copy.whole;
  }

  const Buffer& buffer(BufferId id) const { return program_.buffers[static_cast<size_t>(id)]; }

  // `to` is an input or constant that gets `from` at the end: let `from` live in `to` from the start.
  bool write_back(Block& block, size_t at, PlainCopy copy) {
    const Buffer& to = buffer(copy.to);
    if (buffer(copy.from).role != BufferRole::temp || !to.mutated || !same_layout(buffer(copy.from), to)) return false;
    size_t first_write = block.size();
    for (size_t j = 0; j < block.size(); ++j)
      if (accesses_[j].writes.count(copy.from)) {
        first_write = j;
        break;
      }
    if (first_write >= at) return false;
    for (size_t j = first_write; j < block.size(); ++j) {
      if (j == at) continue;
      const Accesses& a = accesses_[j];
      if (a.writes.count(copy.to)) return false;
      if (!a.reads.count(copy.to)) continue;
      auto* kernel = std::get_if<Kernel>(&block[j].what);
      if (j == first_write && kernel && accessed_where_stored(*kernel, copy.to, copy.from)) continue;
      log_.add([&] {
        return Decision{"keep", buffer(copy.from).name, "apart from", to.name, "the old value is read later", false,
                        ""};
      });
      return false;
    }
    rename(copy.from, copy.to, "its new value is written in place");
    return true;
  }

  // `to` starts as a copy of a temporary that nobody touches afterwards: let them share.
  bool update(Block& block, size_t at, PlainCopy copy) {
    if (buffer(copy.from).role != BufferRole::temp || buffer(copy.to).role != BufferRole::temp) return false;
    if (!same_layout(buffer(copy.from), buffer(copy.to))) return false;
    bool rewritten = false;
    for (size_t j = 0; j < block.size(); ++j) {
      if (j == at) continue;
      const Accesses& a = accesses_[j];
      if (j > at && a.touches(copy.from)) return false;
      if (j < at && a.touches(copy.to)) return false;
      rewritten |= j > at && a.writes.count(copy.to);
    }
    // A copy that is only read is better inlined than renamed; it disappears either way.
    if (!rewritten) return false;
    if (!defined_here(block, copy.from)) return false;
    rename(copy.to, copy.from, "it updates a value that nobody needs any more");
    return true;
  }

  bool defined_here(const Block& block, BufferId b) const {
    for (size_t j = 0; j < block.size(); ++j)
      if (!std::holds_alternative<Cond>(block[j].what) && !std::holds_alternative<While>(block[j].what) &&
          accesses_[j].writes.count(b))
        return true;
    return false;
  }

  void rename(BufferId from, BufferId to, const char* why) {
    log_.merged(buffer(from).name, buffer(to).name);
    log_.add([&] { return Decision{"merge", buffer(from).name, "with", buffer(to).name, why, true, ""}; });
    replace_buffer(program_.block, from, to);
    for (Accesses& a : accesses_) {
      if (a.reads.erase(from)) a.reads.insert(to);
      if (a.writes.erase(from)) a.writes.insert(to);
    }
  }

  LoopProgram& program_;
  Log& log_;
  std::vector<Accesses> accesses_;  // of the block's items: asked for once per pair of them
};

}  // namespace

bool update_in_place(LoopProgram& program, Log& log) {
  InPlace pass(program, log);
  bool changed = pass.run(program.block);
  // An item that copies a buffer to itself after the renaming does nothing.
  std::erase_if(program.block, [](const Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    std::optional<PlainCopy> copy = kernel ? plain_copy(*kernel) : std::nullopt;
    return copy && copy->from == copy->to;
  });
  return changed;
}

}  // namespace kiln::loops
