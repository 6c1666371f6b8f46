// Rows in registers: what a team of threads writes to memory of its own in one loop over a row and reads in the next
// becomes scratch of the item, and what it would read of memory in several loops it reads once. Where every thread
// reads just what it wrote, and rows are of a fixed length, that scratch is registers (Grid::hold): a norm or a softmax
// reads its row once and writes it once.
#include "schedule/hold_rows.h"

#include "loop_passes/rewrite.h"

namespace kiln::loops {
namespace {

bool is_flat(const Loop& loop) {
  return std::none_of(loop.body.begin(), loop.body.end(), [](const Stmt& stmt) { return stmt.loop != nullptr; });
}

// An access of a loop over a row: which dimension runs along the row, with the others as text.
struct RowAccess {
  size_t dimension = 0;
  std::string others;
  bool operator==(const RowAccess&) const = default;
};
std::optional<RowAccess> row_access(const Stmt& access, const Loop& loop) {
  RowAccess out;
  bool found = false;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Expr& e = access.index[d];
    if (e == Expr::symbol(loop.var) && !found) {
      out.dimension = d, found = true;
      continue;
    }
    if (mentions(e, loop.var)) return {};
    out.others += e.text() + ";";
  }
  if (!found || access.mask != no_value) return {};
  if (access.kind == StmtKind::store && access.mode != StoreMode::plain) return {};
  return out;
}

class RowHolder {
 public:
  RowHolder(LoopProgram& program, Kernel& kernel, Body& item) : program_(program), kernel_(kernel), item_(item) {}

  int run(int most) {
    hold_temporaries(most);
    hold_repeated(most);
    return held_;
  }

 private:
  struct Use {
    Stmt* access;
    const Loop* loop;
    size_t place;  // of the loop in the item
    RowAccess row;
  };

  // The accesses of a buffer, if all of them are rows of the loops of the item, of one shape and length.
  std::vector<Use> uses_of(BufferId buffer) {
    std::vector<Use> out;
    size_t everywhere = 0;
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) { everywhere += stmt.buffer == buffer; });
    for (size_t i = 0; i < item_.size(); ++i) {
      if (!item_[i].loop || !is_flat(*item_[i].loop)) continue;
      Loop& loop = *item_[i].loop;
      for (Stmt& stmt : loop.body) {
        if (stmt.buffer != buffer) continue;
        const auto row = row_access(stmt, loop);
        if (!row) return {};
        if (!out.empty() && (!(out[0].row == *row) || !(out[0].loop->extent == loop.extent))) return {};
        out.push_back({&stmt, &loop, i, *row});
      }
    }
    return out.size() == everywhere ? out : std::vector<Use>();
  }

  void hold_temporaries(int most) {
    std::vector<BufferId> stored;
    for (const Stmt& stmt : item_)
      if (stmt.loop && stmt.loop->role == AxisRole::parallel)
        for (const Stmt& inner : stmt.loop->body)
          if (inner.kind == StmtKind::store) stored.push_back(inner.buffer);
    for (BufferId b : stored) {
      if (held_ >= most) return;
      const Buffer& buffer = program_.buffers[static_cast<size_t>(b)];
      if (buffer.role != BufferRole::temp || used_elsewhere(b)) continue;
      const std::vector<Use> uses = uses_of(b);
      if (uses.size() < 2 || uses[0].access->kind != StmtKind::store) continue;
      const size_t stores = static_cast<size_t>(std::count_if(
          uses.begin(), uses.end(), [](const Use& use) { return use.access->kind == StmtKind::store; }));
      if (stores != 1) continue;
      const BufferId row = add_row(buffer.name, buffer.dtype, uses[0].loop->extent);
      for (const Use& use : uses) put_in(*use.access, row, use.loop->var);
    }
  }

  // Whole rows that several loops read, and nobody here writes.
  void hold_repeated(int most) {
    std::vector<BufferId> loaded;
    const Accesses all = accesses(kernel_.body);
    for (BufferId b : all.reads)
      if (!all.writes.contains(b) && program_.buffers[static_cast<size_t>(b)].role != BufferRole::scratch)
        loaded.push_back(b);
    for (BufferId b : loaded) {
      if (held_ >= most) return;
      std::vector<Use> uses = uses_of(b);
      std::set<const Loop*> loops;
      for (const Use& use : uses) loops.insert(use.loop);
      if (loops.size() < 2) continue;
      const size_t first = std::min_element(uses.begin(), uses.end(), [](const Use& a, const Use& c) {
                             return a.place < c.place;
                           })->place;
      const Buffer& buffer = program_.buffers[static_cast<size_t>(b)];
      const DType dtype = buffer.dtype;
      const BufferId row = add_row(buffer.name, dtype, uses[0].loop->extent);
      std::set<std::string> taken = variables_of(kernel_);
      std::string var = "h0";
      for (int n = 1; taken.contains(var); ++n) var = str("h", n);
      Stmt loop = loop_stmt(var, uses[0].loop->extent);
      std::vector<Expr> index = uses[0].access->index;
      index[uses[0].row.dimension] = Expr::symbol(var);
      const ValueId value = append(loop.loop->body, load_stmt(kernel_, dtype, b, std::move(index)));
      append(loop.loop->body, store_stmt(dtype, row, {Expr::symbol(var)}, value));
      for (const Use& use : uses) put_in(*use.access, row, use.loop->var);
      item_.insert(item_.begin() + static_cast<std::ptrdiff_t>(first), std::move(loop));
    }
  }

  bool used_elsewhere(BufferId b) const {
    size_t users = 0;
    auto count = [&](const Item& item) {
      if (const auto* cond = std::get_if<Cond>(&item.what))
        users += cond->predicate == std::variant<BufferId, Expr>(b);
      else if (const auto* loop = std::get_if<While>(&item.what))
        users += loop->predicate == std::variant<BufferId, Expr>(b);
      else
        users += accesses(item).touches(b);  // what stands in the blocks of those two is counted by itself
    };
    for_each_item(program_.init, count);
    for_each_item(program_.block, count);
    return users != 1 || observable(program_, b);
  }

  BufferId add_row(const std::string& name, DType dtype, const Expr& length) {
    Buffer row;
    row.name = name + "_row";
    row.dtype = dtype;
    row.sizes = {length}, row.strides = {Expr(1)};
    row.role = BufferRole::scratch;
    ++held_;
    return program_.add_buffer(std::move(row));
  }
  static void put_in(Stmt& access, BufferId row, const std::string& var) {
    access.buffer = row;
    access.index = {Expr::symbol(var)};
  }

  LoopProgram& program_;
  Kernel& kernel_;
  Body& item_;
  int held_ = 0;
};

}  // namespace

bool has_flat_rows(const Body& item) {
  bool any = false;
  for (const Stmt& stmt : item) {
    if (stmt.kind == StmtKind::check_index || stmt.kind == StmtKind::raise_if) return false;
    if (!stmt.loop) continue;
    const Loop& loop = *stmt.loop;
    if (!is_flat(loop) || !loop.after.empty() || loop.role == AxisRole::scan || !loop.extent.is_constant())
      return false;
    for (const Stmt& inner : loop.body)
      if (inner.kind == StmtKind::check_index || inner.kind == StmtKind::raise_if) return false;
    any = true;
  }
  return any;
}

int hold_rows(LoopProgram& program, Kernel& kernel, Body& item, int most) {
  return RowHolder(program, kernel, item).run(most);
}

}  // namespace kiln::loops
