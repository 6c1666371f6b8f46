// For a GPU, whose products want both factors narrow and in words of neighbours: what passes between kernels is stored
// as narrow as it is used, and in the order in which it is read.
//
// - A temporary of f32 of which every value was narrow before it was stored (rotary embeddings that attention widens),
//   or that every reader narrows first (attention's result, in front of the next layer), is stored narrow. No number
//   changes: a store rounds as a cast does.
// - A temporary whose readers split or join its dimensions (heads by rows, as rows by heads) gets the order of
//   dimensions with which the fewest reads need a division. Every access names logical indices, so nothing else
//   changes.
// - What is then copied element by element to the same places of another temporary (heads that are rows already) is
//   written there at once.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

struct Use {
  Kernel* kernel = nullptr;
  Body* body = nullptr;
  size_t at = 0;
  Stmt& stmt() const { return (*body)[at]; }
};

class Refit {
 public:
  Refit(LoopProgram& program, Log& log) : program_(program), log_(log) {}

  bool run() {
    bool changed = false;
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      const auto id = static_cast<BufferId>(b);
      if (program_.buffers[b].role != BufferRole::temp || observable(program_, id)) continue;
      changed |= narrow(id);
    }
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      const auto id = static_cast<BufferId>(b);
      if (program_.buffers[b].role != BufferRole::temp || observable(program_, id)) continue;
      changed |= reorder(id);
    }
    std::vector<bool> gone(program_.block.size());
    for (size_t i = 0; i < program_.block.size(); ++i) gone[i] = drop_copy(i);
    if (std::find(gone.begin(), gone.end(), true) != gone.end()) erase_items(program_.block, gone), changed = true;
    return changed;
  }

 private:
  // All accesses; false: something else than a kernel's plain loads and stores touches it.
  bool find(BufferId id) {
    loads_.clear(), stores_.clear();
    bool plain = true;
    for (Block* block : {&program_.init, &program_.block})
      for_each_item(*block, [&](Item& item) {
        auto* kernel = std::get_if<Kernel>(&item.what);
        if (!kernel) {
          const bool nested = std::holds_alternative<Cond>(item.what) || std::holds_alternative<While>(item.what);
          plain &= nested ? !is_predicate(item, id) : !accesses(item).touches(id);
          return;
        }
        visit(*kernel, kernel->body, id);
      });
    for (const Use& use : stores_) plain &= use.stmt().mode == StoreMode::plain;
    return plain && !stores_.empty() && !loads_.empty();
  }
  static bool is_predicate(const Item& item, BufferId id) {
    const auto* cond = std::get_if<Cond>(&item.what);
    const auto& predicate = cond ? cond->predicate : std::get<While>(item.what).predicate;
    return std::holds_alternative<BufferId>(predicate) && std::get<BufferId>(predicate) == id;
  }
  void visit(Kernel& kernel, Body& body, BufferId id) {
    for (size_t i = 0; i < body.size(); ++i) {
      Stmt& stmt = body[i];
      if (stmt.buffer == id && stmt.kind == StmtKind::load) loads_.push_back({&kernel, &body, i});
      if (stmt.buffer == id && stmt.kind == StmtKind::store) stores_.push_back({&kernel, &body, i});
      if (!stmt.loop) continue;
      visit(kernel, stmt.loop->body, id);
      visit(kernel, stmt.loop->after, id);
    }
  }

  static bool is_narrow(DType type) { return type == DType::bf16 || type == DType::f16; }

  // The type that all stored values had before they were widened.
  std::optional<DType> stored_type() const {
    std::optional<DType> type;
    for (const Use& use : stores_) {
      const Stmt* made = nullptr;
      for_each_stmt(use.kernel->body, [&](const Stmt& stmt) {
        if (stmt.kind == StmtKind::op && stmt.results[0] == use.stmt().args[0]) made = &stmt;
      });
      if (!made || made->op != ScalarOp::cast || made->dtype != DType::f32) return {};
      const DType from = use.kernel->value_types[static_cast<size_t>(made->args[0])];
      if (!is_narrow(from) || (type && *type != from)) return {};
      type = from;
    }
    return type;
  }
  // The type that all readers narrow to before they do anything else.
  std::optional<DType> read_type() const {
    std::optional<DType> type;
    for (const Use& use : loads_) {
      const ValueId v = use.stmt().results[0];
      bool only = use.stmt().mask == no_value;
      for_each_stmt(use.kernel->body, [&](const Stmt& stmt) {
        bool used = stmt.mask == v;
        for (ValueId a : stmt.args) used |= a == v;
        if (stmt.loop) {
          for (ValueId y : stmt.loop->yields) used |= y == v;
          used |= stmt.loop->only == v;
        }
        if (!used) return;
        const bool casts = stmt.kind == StmtKind::op && stmt.op == ScalarOp::cast && is_narrow(stmt.dtype);
        only &= casts && (!type || *type == stmt.dtype);
        if (casts) type = stmt.dtype;
      });
      if (!only) return {};
    }
    return type;
  }

  bool narrow(BufferId id) {
    if (program_.buffers[static_cast<size_t>(id)].dtype != DType::f32 || !find(id)) return false;
    const std::optional<DType> stored = stored_type();
    const std::optional<DType> type = stored ? stored : read_type();
    if (!type) return false;
    const std::string name = program_.buffers[static_cast<size_t>(id)].name;
    // What is rounded now is no longer the value that the buffer is called after.
    if (!stored) program_.buffers[static_cast<size_t>(id)].name = unused(str(name, "_", dtype_name(*type)));
    program_.buffers[static_cast<size_t>(id)].dtype = *type;
    for (const Use& use : stores_) use.stmt().dtype = *type;
    // From the back, so that places in front stay what they are.
    for (size_t i = loads_.size(); i-- > 0;) {
      const Use& use = loads_[i];
      Kernel& kernel = *use.kernel;
      use.stmt().dtype = *type;
      if (stored) {
        const ValueId wide = use.stmt().results[0], loaded = new_value(kernel, *type);
        use.stmt().results[0] = loaded;
        use.body->insert(use.body->begin() + static_cast<std::ptrdiff_t>(use.at) + 1,
                         op_stmt_to(wide, ScalarOp::cast, DType::f32, {loaded}));
        continue;
      }
      const ValueId loaded = use.stmt().results[0];
      kernel.value_types[static_cast<size_t>(loaded)] = *type;
      std::erase_if(kernel.named, [&](const NamedValue& named) { return named.value == loaded; });
      drop_casts(kernel, kernel.body, loaded);
    }
    log_.add([&] {
      return Decision{"stored as", name, dtype_name(*type), "", stored ? "its values were" : "all readers round it",
                      true,        ""};
    });
    return true;
  }
  std::string unused(const std::string& wish) const {
    std::string name = wish;
    for (size_t n = 0;; ++n) {
      if (n > 0) name = str(wish, "_", n);
      if (std::none_of(program_.buffers.begin(), program_.buffers.end(),
                       [&](const Buffer& b) { return b.name == name; }))
        return name;
    }
  }
  // Casts of the value to its own type are the value.
  static void drop_casts(Kernel& kernel, Body& body, ValueId value) {
    std::map<ValueId, ValueId> same;
    std::function<void(Body&)> visit = [&](Body& in) {
      std::erase_if(in, [&](const Stmt& stmt) {
        const bool cast = stmt.kind == StmtKind::op && stmt.op == ScalarOp::cast && stmt.args[0] == value;
        if (cast) same[stmt.results[0]] = value;
        return cast;
      });
      for (Stmt& stmt : in)
        if (stmt.loop) {
          visit(stmt.loop->body);
          visit(stmt.loop->after);
        }
    };
    visit(body);
    replace_values(kernel.body, same);
    for (NamedValue& named : kernel.named)
      if (auto found = same.find(named.value); found != same.end()) named.value = found->second;
  }

  // Reads whose address takes a division.
  int divisions() const {
    int count = 0;
    for (const Use& use : loads_)
      count += divides(address_of(use.stmt(), program_, kernel_ranges(*use.kernel, program_)));
    return count;
  }
  static bool divides(const Expr& e) {
    if (e.op() == ExprOp::floordiv || e.op() == ExprOp::mod) return true;
    if (e.op() == ExprOp::constant || e.op() == ExprOp::symbol || e.op() == ExprOp::float_constant) return false;
    return std::any_of(e.args().begin(), e.args().end(), divides);
  }
  bool reorder(BufferId id) {
    constexpr size_t most = 5;
    if (!find(id)) return false;
    const size_t rank = program_.buffers[static_cast<size_t>(id)].sizes.size();
    if (rank < 3 || rank > most) return false;
    int least = divisions();
    if (least == 0) return false;
    const std::vector<Expr> before = program_.buffers[static_cast<size_t>(id)].strides;
    if (before.back() != Expr(1)) return false;
    std::vector<Expr> best = before;
    std::vector<size_t> order(rank);  // of the dimensions in memory, the outermost first; the last one stays
    for (size_t d = 0; d < rank; ++d) order[d] = d;
    while (std::next_permutation(order.begin(), order.end() - 1)) {
      Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
      Expr stride = 1;
      for (size_t d = rank; d-- > 0;) {
        buffer.strides[order[d]] = stride;
        stride = stride * buffer.sizes[order[d]];
      }
      if (const int found = divisions(); found < least) least = found, best = buffer.strides;
    }
    Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
    buffer.strides = best;
    if (best == before) return false;
    log_.add([&] { return Decision{"laid out anew", buffer.name, "", "", "so it is read in one line", true, ""}; });
    return true;
  }

  // The place of an item's kernel in the main block; none: it stands in a branch, or in another block.
  std::optional<size_t> place_of(const Kernel* kernel) const {
    for (size_t i = 0; i < program_.block.size(); ++i)
      if (std::get_if<Kernel>(&program_.block[i].what) == kernel) return i;
    return {};
  }
  // Whether the kernel was nothing but a copy of a temporary to the same places of another one, a single line: all then
  // use that one.
  bool drop_copy(size_t at) {
    const auto* kernel = std::get_if<Kernel>(&program_.block[at].what);
    if (!kernel || kernel->schedule) return false;
    const Body* body = &kernel->body;
    while (body->size() == 1 && body->front().loop && body->front().loop->role == AxisRole::parallel)
      body = &body->front().loop->body;
    if (body->size() != 2 || (*body)[0].kind != StmtKind::load || (*body)[1].kind != StmtKind::store) return false;
    const Stmt &load = (*body)[0], &store = (*body)[1];
    const BufferId from = load.buffer, to = store.buffer;
    const Buffer &a = program_.buffers[static_cast<size_t>(from)], &b = program_.buffers[static_cast<size_t>(to)];
    for (BufferId id : {from, to})
      if (program_.buffers[static_cast<size_t>(id)].role != BufferRole::temp || observable(program_, id)) return false;
    std::optional<size_t> line;  // the dimension that `to` has
    for (size_t d = 0; d < b.sizes.size(); ++d) {
      if (b.sizes[d].is_constant(1)) continue;
      if (line || !b.strides[d].is_constant(1)) return false;
      line = d;
    }
    const RangeEnv env = kernel_ranges(*kernel, program_);
    if (from == to || !line || a.dtype != b.dtype || load.mask != no_value || store.mask != no_value ||
        store.mode != StoreMode::plain || !a.offset.is_constant(0) || !b.offset.is_constant(0) ||
        prove_eq(address_of(load, program_, env), address_of(store, program_, env), env) != Proof::yes ||
        prove_eq(buffer_bytes(a), buffer_bytes(b), program_.ranges()) != Proof::yes)
      return false;
    // Written before the copy, and read as it is behind it.
    if (!find(to) || stores_.size() != 1) return false;
    for (const Use& use : loads_)
      if (const auto place = place_of(use.kernel); !place || *place <= at) return false;
    if (!find(from)) return false;
    for (const Use& use : stores_)
      if (const auto place = place_of(use.kernel); !place || *place >= at) return false;
    for (const Use& use : loads_)
      if (!place_of(use.kernel)) return false;
    log_.add([&] { return Decision{"write", a.name, "as", b.name, "it is copied to the same places", true, ""}; });
    for (const auto* uses : {&loads_, &stores_})
      for (const Use& use : *uses) {
        if (use.kernel == kernel) continue;
        const Expr place = address_of(use.stmt(), program_, kernel_ranges(*use.kernel, program_));
        use.stmt().buffer = to;
        use.stmt().index.assign(b.sizes.size(), Expr(0));
        use.stmt().index[*line] = place;
      }
    return true;
  }

  LoopProgram& program_;
  Log& log_;
  std::vector<Use> loads_, stores_;
};

}  // namespace

bool refit_temporaries(LoopProgram& program, const Target& target, Log& log) {
  if (!target.is_gpu()) return false;
  return Refit(program, log).run();
}

}  // namespace kiln::loops
