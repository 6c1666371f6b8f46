// How it is shown that what is read of scratch was written before. A store that ran earlier in the item counts, unless
// it is masked. Loops around both the store and the load are in one iteration; loops around the store alone have run to
// their end. The store covers the load if in each dimension
// - both have the same index, made of what both know, or
// - the store's index is the variable of a loop that has run to its end, or numbers the iterations of two such loops
// one
//   after the other, and they run through the dimension, or as far as the load's own loop does.
// In one dimension several stores may do it together, one for each number that an index has there.
#include "loops/verify_scratch.h"

namespace kiln::loops {
namespace {

bool is_scratch(const LoopProgram& program, BufferId id) {
  return id >= 0 && static_cast<size_t>(id) < program.buffers.size() &&
         program.buffers[static_cast<size_t>(id)].role == BufferRole::scratch;
}

class ScratchVerifier {
 public:
  ScratchVerifier(const LoopProgram& program, const Kernel& kernel) : program_(program), kernel_(kernel) {}

  void run() {
    const ItemLoops items = item_loops(kernel_);
    for (const Loop* loop : items.loops) item_variables_.insert(loop->var);
    verify_kept(items);
    size_t everywhere = 0;
    for_each_stmt(kernel_.body, [&](const Stmt& s) { everywhere += is_scratch(program_, s.buffer); });
    if (everywhere == 0) return;
    if (kernel_.schedule && kernel_.schedule->tile.rows > 0)
      fail("scratch in a kernel with a tile, whose rows run at once");
    size_t inside = 0;
    for_each_stmt(*items.body, [&](const Stmt& s) { inside += is_scratch(program_, s.buffer); });
    if (inside != everywhere) fail("scratch outside of the loops that items run");
    walk(*items.body);
  }

 private:
  using Loops = std::vector<const Loop*>;
  struct Written {
    const Stmt* store;
    Loops around;  // inside of the item
  };

  [[noreturn]] void fail(const std::string& what) const {
    fail_bug(str("kernel ", kernel_.name, ": ", what), where_of(kernel_.origins));
  }
  std::string text(const Stmt& s) const {
    return str(program_.buffers[static_cast<size_t>(s.buffer)].name, "[",
               join_map(s.index, ", ", [](const Expr& e) { return e.text(); }), "]");
  }

  // What stays for the next item would be computed again by it from the same, and nothing else overwrites it.
  void verify_kept(const ItemLoops& items) const {
    size_t all = 0, here = 0;
    const auto is_kept = [](const Stmt& s) { return s.loop && s.loop->directives.binding == Binding::kept; };
    for_each_stmt(kernel_.body, [&](const Stmt& s) { all += is_kept(s); });
    if (all == 0) return;
    for (const Stmt& s : *items.body) here += is_kept(s);
    if (here != all || items.loops.empty() || items.loops.back()->directives.factor > 1 ||
        (kernel_.schedule && kernel_.schedule->grid.threads > 0))
      fail("@kept where no plain loop of items is around it");
    std::map<BufferId, const Stmt*> kept_by;
    for (const Stmt& s : *items.body)
      if (is_kept(s)) verify_kept(s, items.loops.back()->var, kept_by);
    for (const Stmt& s : *items.body)
      for_each_within(s, [&](const Stmt& inner) {
        const auto found = inner.kind == StmtKind::store ? kept_by.find(inner.buffer) : kept_by.end();
        if (found != kept_by.end() && found->second != &s) fail(str(text(inner), " is kept, and written elsewhere"));
      });
  }
  void verify_kept(const Stmt& kept, const std::string& item, std::map<BufferId, const Stmt*>& kept_by) const {
    std::set<ValueId> own;
    if (kept.loop->role != AxisRole::parallel) fail("@kept at a reduction");
    for_each_within(kept, [&](const Stmt& s) {
      own.insert(s.results.begin(), s.results.end());
      bool varies = mentions(s.expr, item) || (s.loop && mentions(s.loop->extent, item));
      for (const Expr& e : s.index) varies |= mentions(e, item);
      if (varies) fail(str("@kept around what is another one for each ", item));
      if (s.kind == StmtKind::random || s.kind == StmtKind::raise_if || s.kind == StmtKind::check_index)
        fail("@kept around what must happen in each item");
      if (s.kind != StmtKind::store) return;
      if (!is_scratch(program_, s.buffer) || s.mode != StoreMode::plain) fail(str(text(s), " is no scratch to keep"));
      kept_by[s.buffer] = &kept;
    });
    for_each_within(kept, [&](const Stmt& s) {
      const auto known = [&](ValueId v) { return v == no_value || own.contains(v); };
      if (!known(s.mask) || !std::all_of(s.args.begin(), s.args.end(), known))
        fail("@kept around a value from outside of it");
    });
  }
  static void for_each_within(const Stmt& outer, const std::function<void(const Stmt&)>& f) {
    f(outer);
    if (!outer.loop) return;
    const Loop& loop = *outer.loop;
    for_each_stmt(loop.body, f);
    for_each_stmt(loop.after, f);
  }

  void walk(const Body& body) {
    for (const Stmt& s : body) {
      if (is_scratch(program_, s.buffer)) {
        if (s.kind == StmtKind::load || s.mode != StoreMode::plain) read(s);
        if (s.kind == StmtKind::store) write(s);
      }
      if (!s.loop) continue;
      around_.push_back(s.loop.get());
      walk(s.loop->body);
      walk(s.loop->after);
      around_.pop_back();
    }
  }

  void write(const Stmt& s) {
    for (const Loop* loop : around_) {
      const bool at_once = loop->directives.binding == Binding::lane ||
                           (loop->role == AxisRole::parallel && loop->directives.binding != Binding::serial);
      const bool named =
          std::any_of(s.index.begin(), s.index.end(), [&](const Expr& e) { return mentions(e, loop->var); });
      if (at_once && !named) fail(str("iterations of ", loop->var, " write ", text(s), " at once"));
    }
    if (s.mask == no_value) written_.push_back({&s, around_});
  }

  void read(const Stmt& s) const {
    for (const Written& w : written_)
      if (w.store->buffer == s.buffer && covers(w, s)) return;
    for (size_t d = 0; d < s.index.size(); ++d)
      if (covered_by_numbers(s, d)) return;
    fail(str("reads ", text(s), ", scratch of which it is not seen that the item has written it before"));
  }

  // Whether there is a store for each number of the dimension.
  bool covered_by_numbers(const Stmt& load, size_t dimension) const {
    const Expr& size = program_.buffers[static_cast<size_t>(load.buffer)].sizes[dimension];
    if (!size.is_constant()) return false;
    std::set<int64_t> numbers;
    for (const Written& w : written_)
      if (w.store->buffer == load.buffer && w.store->index[dimension].is_constant() && covers(w, load, dimension))
        numbers.insert(w.store->index[dimension].value());
    return static_cast<int64_t>(numbers.size()) == size.value();
  }

  // In all dimensions but this one.
  bool covers(const Written& w, const Stmt& load, size_t but = SIZE_MAX) const {
    size_t common = 0;
    while (common < w.around.size() && common < around_.size() && w.around[common] == around_[common]) ++common;
    std::set<std::string> shared = item_variables_;
    for (size_t i = 0; i < common; ++i) shared.insert(around_[i]->var);
    std::set<const Loop*> used;
    for (size_t d = 0; d < load.index.size(); ++d) {
      if (d == but) continue;
      const Expr &stored = w.store->index[d], &loaded = load.index[d];
      if (stored == loaded && knows_all(stored, shared)) continue;
      const Loops through = loops_of(stored, w.around, common);
      if (through.empty()) return false;
      Expr extent(1);
      for (const Loop* loop : through) {
        if (!used.insert(loop).second || !knows_all(loop->extent, shared)) return false;
        extent = extent * loop->extent;
      }
      const Loop* along = variable_of(loaded, around_, common);
      const bool whole = extent == program_.buffers[static_cast<size_t>(load.buffer)].sizes[d];
      const bool no_further = along && min_expr(along->extent, extent) == along->extent;
      if (!whole && !no_further && !in_pairs(load, loaded, extent, common)) return false;
    }
    return true;
  }
  // Whether the expression goes through so many numbers in steps of two (its first, or its second where a mask or an
  // even number says that there is one), or through them once for each of two.
  bool in_pairs(const Stmt& load, const Expr& loaded, const Expr& numbers, size_t first) const {
    const RangeEnv env = program_.ranges();
    const auto same = [&](const Expr& a, const Expr& b) { return a == b || prove_eq(a, b, env) == Proof::yes; };
    for (size_t i = first; i < around_.size(); ++i) {
      const Expr var = Expr::symbol(around_[i]->var), &extent = around_[i]->extent;
      if (loaded == floordiv(var, Expr(2)) && same(extent, numbers * 2)) return true;
      if (!same(extent, ceildiv(numbers, 2))) continue;
      const bool even = load.mask != no_value || same(mod(numbers, Expr(2)), Expr(0));
      if (loaded == var * 2 || (even && loaded == var * 2 + 1)) return true;
    }
    return false;
  }
  // The loop, among those from `first` on, that the expression is the plain variable of.
  static const Loop* variable_of(const Expr& e, const Loops& loops, size_t first) {
    for (size_t i = first; i < loops.size(); ++i)
      if (e.is_symbol() && e.name() == loops[i]->var) return loops[i];
    return nullptr;
  }
  // The loop, or the two loops, among those from `first` on, whose iterations the expression numbers from 0 on.
  static Loops loops_of(const Expr& e, const Loops& loops, size_t first) {
    if (const Loop* only = variable_of(e, loops, first)) return {only};
    for (size_t i = first; i < loops.size(); ++i)
      for (size_t j = first; j < loops.size(); ++j)
        if (i != j && e == Expr::symbol(loops[i]->var) * loops[j]->extent + Expr::symbol(loops[j]->var))
          return {loops[i], loops[j]};
    return {};
  }
  bool knows_all(const Expr& e, const std::set<std::string>& shared) const {
    std::set<std::string> names;
    collect_symbols(e, names);
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return shared.count(name) || program_.symbols.count(name); });
  }

  const LoopProgram& program_;
  const Kernel& kernel_;
  std::set<std::string> item_variables_;
  Loops around_;
  std::vector<Written> written_;
};

class Users {
 public:
  explicit Users(const LoopProgram& program) : program_(program) {}

  void run() {
    for (const Buffer& b : program_.buffers)
      if (b.role == BufferRole::scratch &&
          (b.position >= 0 || b.mutated || !b.constant.empty() || !b.offset.is_constant(0)))
        fail_bug(str("scratch ", b.name, " is an input, an output or a constant, or does not begin at its start"));
    for (const Block* block : {&program_.init, &program_.block})
      for_each_item(*block, [&](const Item& item) { std::visit([&](const auto& what) { user(what); }, item.what); });
    for (const LoopProgram::Input& in : program_.inputs)
      if (auto* id = std::get_if<BufferId>(&in.what)) refuse(*id, "an input");
    for (const LoopProgram::Output& out : program_.outputs)
      if (auto* id = std::get_if<BufferId>(&out.what)) refuse(*id, "an output");
  }

 private:
  void refuse(BufferId id, const std::string& who) const {
    if (is_scratch(program_, id))
      fail_bug(str(who, " uses the scratch ", program_.buffers[static_cast<size_t>(id)].name, " of a kernel"));
  }
  void user(const Kernel& kernel) {
    for_each_stmt(kernel.body, [&](const Stmt& s) {
      if (!is_scratch(program_, s.buffer)) return;
      const auto [found, first] = owner_.emplace(s.buffer, &kernel);
      if (!first && found->second != &kernel) refuse(s.buffer, str("kernel ", kernel.name));
    });
  }
  void user(const Call& call) const {
    for (const Call::Arg& arg : call.args) {
      if (auto* id = std::get_if<BufferId>(&arg.value)) refuse(*id, call.name);
      if (auto* ids = std::get_if<std::vector<BufferId>>(&arg.value))
        for (BufferId id : *ids) refuse(id, call.name);
    }
    for (const auto* list : {&call.outputs, &call.mutates})
      for (BufferId id : *list) refuse(id, call.name);
  }
  void user(const BindSymbol& bind) const { refuse(bind.buffer, bind.symbol); }
  void user(const AssertThat&) const {}
  void predicate(const std::variant<BufferId, Expr>& predicate) const {
    if (auto* id = std::get_if<BufferId>(&predicate)) refuse(*id, "a predicate");
  }
  void user(const Cond& cond) const { predicate(cond.predicate); }
  void user(const While& loop) const { predicate(loop.predicate); }

  const LoopProgram& program_;
  std::map<BufferId, const Kernel*> owner_;
};

}  // namespace

void verify_scratch(const LoopProgram& program, const Kernel& kernel) { ScratchVerifier(program, kernel).run(); }
void verify_scratch_users(const LoopProgram& program) { Users(program).run(); }

}  // namespace kiln::loops
